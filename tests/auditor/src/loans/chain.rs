//! What the chains did with the transactions of loans.

use crate::trading::Included;
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn on_loan_included(&mut self, included: &Included) -> Result<(), Violation> {
        let Some(slot) = self.loans.book.slots.with_hash(included.chain, &included.hash) else {
            return Ok(());
        };
        let mined = slot.included.as_ref().filter(|i| i.hash != included.hash);
        if let Some(other) = mined.filter(|_| slot.mined.is_some()) {
            let what = format!("{} and {} have one nonce", other.hash, included.hash);
            return Err(violation("I-b", what));
        }
        if slot.cancel_hashes.contains(&included.hash) {
            slot.cancelled = true;
        } else {
            slot.included = Some(included.clone());
        }
        self.count("included: loan");
        Ok(())
    }

    pub(crate) fn on_loan_unmined(&mut self, chain: u64, hash: &str) {
        let now = self.time.instant();
        let Some(slot) = self.loans.book.slots.with_hash(chain, hash) else { return };
        if slot.cancel_hashes.contains(hash) {
            slot.cancelled = false;
        } else {
            slot.unmined = slot.succeeded().then_some(now).or(slot.unmined);
            slot.included = None;
            slot.mined = None;
        }
        self.count("unmined: loan");
    }

    /// Notes a permanent transaction. Returns whether it is a step of a loan.
    pub(crate) fn on_loan_mined(
        &mut self,
        chain: u64,
        hash: &str,
        succeeded: bool,
    ) -> Result<bool, Violation> {
        let Some(slot) = self.loans.book.slots.with_hash(chain, hash) else { return Ok(false) };
        if slot.cancel_hashes.contains(hash) {
            slot.cancelled = true;
            return Ok(true);
        }
        if slot.included.as_ref().is_some_and(|i| i.succeeded != succeeded) {
            let what = format!("{hash} succeeded in one of its blocks and reverted in the other");
            return Err(violation("simulator", what));
        }
        slot.mined = Some(succeeded);
        self.count("mined: loan");
        Ok(true)
    }

    pub(crate) fn on_loan_nonce_taken(&mut self, chain: u64, from: &str, nonce: u64) {
        let at = (chain, from.to_lowercase(), nonce);
        if let Some(slot) = self.loans.book.slots.get_mut(&at) {
            slot.taken = true;
            self.count("loan: displaced");
        }
    }
}
