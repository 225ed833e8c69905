//! The reported end of a loan: it needs evidence on the chain, and the reported amount must have moved.

use super::LoanRecord;
use super::amounts::moved_coins;
use crate::lending::{Loan, LoanState};
use crate::plans::slots::Kind;
use crate::plans::{PlanState, Status};
use crate::trading::OpenAllowance;
use crate::{Auditor, Violation};

impl Auditor {
    /// Checks a newly reported end of a loan.
    pub(super) fn check_loan_end(&self, key: u64, state: &LoanState) -> Result<(), Violation> {
        if let LoanState::Executed { tx_hash, assets_moved, position_after } = state {
            self.check_loan_executed(key, tx_hash, *assets_moved)?;
            return self.check_position(key, *position_after);
        }
        self.check_loan_effect(key, state)?;
        match self.loans.book.records.get(&key) {
            Some(rec) if state.status() == Status::Rejected => self.check_explained(key, rec)?,
            _ => self.check_executing::<Loan>(key)?,
        }
        self.check_money_refusal(key, &state.codes())?;
        self.check_retryable(key, state)
    }

    /// Checks an executed loan: its transaction is final, and the reported amount is the one that the chain moved.
    fn check_loan_executed(
        &self,
        key: u64,
        tx_hash: &str,
        assets_moved: Option<u128>,
    ) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.records.get(&key) else { return Ok(()) };
        let mains =
            self.loans.book.slots.of_record(key).filter(|(_, slot)| slot.kind == Kind::Loan);
        let Some((at, slot)) = mains.max_by_key(|(_, slot)| slot.hashes.contains(tx_hash)) else {
            let what = "it is executed, but nothing that moves its money was signed";
            return Err(self.loan_violation(key, "executed", what));
        };
        if !slot.hashes.contains(tx_hash) {
            let what = format!("it is executed by {tx_hash}; its own is {:?}", slot.hashes);
            return Err(self.loan_violation(key, "executed", &what));
        }
        if !self.is_final::<Loan>(at, slot) || !slot.succeeded() {
            let what = "it is executed, but its transaction has not succeeded with the network's confirmations";
            return Err(self.loan_violation(key, "executed", what));
        }
        let coins = self.possible_configs.first().map(|w| &w.config.networks);
        let coin = coins.and_then(|all| all.get(&at.0)).map(|network| &network.stablecoin);
        let (Some(told), Some(included), Some(coin)) = (assets_moved, &slot.included, coin) else {
            return Ok(());
        };
        let right = moved_coins(rec, included, coin, &at.1);
        if told != right {
            let what = format!("it reports that {told} moved; by the chain {right} moved");
            return Err(self.loan_violation(key, "fill", &what));
        }
        Ok(())
    }

    /// Checks a reported position: a node or the chain must have shown this value after the signature.
    fn check_position(&self, key: u64, position_after: Option<u128>) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.records.get(&key) else { return Ok(()) };
        let (Some(told), Some((at, slot))) = (position_after, self.loans.book.main_of(key)) else {
            return Ok(());
        };
        let place = (rec.terms.chain, rec.terms.venue.as_str());
        let read = self.loans.readings.positions_since(place, &at.1, slot.signed_at);
        let mut shown: Vec<u128> = read.filter_map(|(_, one)| one.value).collect();
        for truth in self.loans.readings.truths_since(place.0, &at.1, slot.signed_at) {
            let value = truth.positions.iter().find(|(venue, _, _)| *venue == rec.terms.venue);
            shown.push(value.map_or(0, |(_, value, _)| *value));
        }
        if !shown.contains(&told) {
            let what =
                format!("it reports the position {told}; since its signature {shown:?} were shown");
            return Err(self.loan_violation(key, "position", &what));
        }
        Ok(())
    }

    /// Checks that no transaction of a loan that ends without effect can have an effect, now or later.
    ///
    /// Otherwise its amount would count twice: returned to the ceiling, and spent on the chain.
    fn check_loan_effect(&self, key: u64, state: &LoanState) -> Result<(), Violation> {
        for (at, slot) in self.loans.book.slots.of_record(key).filter(|(_, s)| s.kind == Kind::Loan)
        {
            if !self.may_have_effect::<Loan>(at, slot) {
                continue;
            }
            let what =
                format!("it ended as {state:?}, but its transaction may have an effect: {slot:?}");
            return Err(self.loan_violation(key, "I-d", &what));
        }
        Ok(())
    }

    /// Returns an allowance that a loan gave and did not revoke.
    pub(super) fn left_by_loan(&self, key: u64, rec: &LoanRecord) -> Option<&OpenAllowance> {
        let slots = || self.loans.book.slots.of_record(key);
        let (at, approval) = slots().find(|(_, s)| s.kind == Kind::Approve && s.succeeded())?;
        if slots().any(|(_, slot)| slot.is_reverted_revocation()) {
            return None;
        }
        self.new_allowance(rec, (at.0, &at.1), |open| approval.sets_allowance(open))
    }
}
