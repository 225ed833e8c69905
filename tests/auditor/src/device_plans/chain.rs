//! The transactions of a device's address on the chain: each carries a press, and a request swaps at most once.

use super::{Purpose, Step};
use crate::basics::{Address, Transaction};
use crate::decode::{Decoded, decode};
use crate::plans::slots::body;
use crate::trading::{Allowances, Included};
use crate::{Auditor, Violation, violation};

impl Step {
    /// Returns the allowance that the step sets: chain, token and spender.
    pub(super) fn allowance(&self) -> Option<(u64, Address, Address)> {
        let tx = self.tx.as_ref()?;
        let Some(Decoded::Approve { spender, .. }) = decode(&tx.data) else { return None };
        Some((tx.chain, tx.to.to_lowercase(), spender))
    }
}

impl Auditor {
    /// Checks that the signature of a transaction is the one that a person pressed for, and is in the journal.
    pub(super) fn on_device_transaction(
        &mut self,
        hash: &str,
        digest: &str,
        signature: &str,
    ) -> Result<(), Violation> {
        let step = self.device_plans.steps.get(digest);
        if step.is_none_or(|step| step.signed_at.is_none()) {
            let what = format!("{hash} reaches a node without a recorded signature: {step:?}");
            return Err(violation("I-l", what));
        }
        if !self.devices.has_pressed(digest, signature) {
            let what = format!("{hash} carries a signature that no person pressed for: {step:?}");
            return Err(violation("I-l", what));
        }
        self.device_plans.digests_by_hash.insert(hash.to_owned(), digest.to_owned());
        Ok(())
    }

    /// Judges a transaction that reaches a node, if it is from a hardware address. Returns whether it is.
    pub(crate) fn on_device_broadcast(&mut self, tx: &Transaction) -> Result<bool, Violation> {
        if !self.devices.has(&tx.from) {
            return Ok(false);
        }
        let plans = &self.device_plans;
        let step = plans.digests_by_hash.get(&tx.hash).and_then(|digest| plans.steps.get(digest));
        let Some(step) = step else {
            return Err(violation("I-l", format!("no person pressed for {tx:?}")));
        };
        let same = step.tx.as_ref().is_some_and(|recorded| {
            body(recorded) == body(tx) && (recorded.chain, recorded.nonce) == (tx.chain, tx.nonce)
        });
        if !same {
            return Err(violation("call data", format!("{tx:?} was recorded as {step:?}")));
        }
        let plan = plans.requests.get(&step.request);
        let rejected =
            plan.is_some_and(|plan| plan.answer.as_ref().is_some_and(|(rank, _)| *rank == 2));
        // An approval may be sent again: the plan then revokes it.
        if rejected && step.purpose == Purpose::Swap {
            let what = format!("{tx:?} was sent after the end of its request: {plan:?}");
            return Err(violation("T-53", what));
        }
        self.count("device trade: sent");
        Ok(true)
    }

    /// Judges a transaction in a block, if it is from a hardware address.
    pub(crate) fn on_device_included(&mut self, included: &Included) -> Result<(), Violation> {
        let plans = &mut self.device_plans;
        let Some(digest) = plans.digests_by_hash.get(&included.hash).cloned() else {
            return Ok(());
        };
        let Some(step) = plans.steps.get_mut(&digest) else { return Ok(()) };
        step.included = Some(included.succeeded);
        step.effects = Some(Box::new(included.clone()));
        let (request, purpose, signer) = (step.request.clone(), step.purpose, step.signer.clone());
        match (purpose, included.succeeded, step.allowance()) {
            (Purpose::Approve, true, Some(given)) => {
                plans.kept_allowances.remove(&given);
            }
            (Purpose::Revoke, false, Some(kept)) => {
                plans.kept_allowances.insert(kept);
            }
            _other => {}
        }
        self.count("device trade: included");
        if purpose != Purpose::Swap || !included.succeeded {
            return Ok(());
        }
        let plans = &self.device_plans;
        let swaps = plans.steps_of(&request, Purpose::Swap);
        if swaps.filter(|(_digest, step)| step.included == Some(true)).count() > 1 {
            return Err(violation("I-b", format!("{request} has swapped twice: {included:?}")));
        }
        let plan = plans.requests.get(&request);
        if plan.is_some_and(|plan| plan.answer.as_ref().is_some_and(|(rank, _)| *rank == 2)) {
            let what = format!("{request} has swapped after the answer that it ended: {plan:?}");
            return Err(violation("executed", what));
        }
        let Some(call) = plans.call_of(&request) else { return Ok(()) };
        let token = &call.trade.token_in;
        let logs =
            included.transfers.iter().filter(|log| log.token == *token && log.from == signer);
        let spent = logs.fold(0u128, |sum, log| sum.saturating_add(log.amount));
        if spent > call.trade.amount_in {
            let what = format!("{request} may move {}: {included:?}", call.trade.amount_in);
            return Err(violation("I-q", what));
        }
        self.count("device trade: swapped");
        Ok(())
    }

    /// Notes a final transaction, if it is from a hardware address. Returns whether it is.
    pub(crate) fn on_device_mined(&mut self, hash: &str, succeeded: bool) -> bool {
        let plans = &mut self.device_plans;
        let digest = plans.digests_by_hash.get(hash);
        let Some(step) = digest.and_then(|digest| plans.steps.get_mut(digest)) else {
            return false;
        };
        (step.included, step.is_final) = (Some(succeeded), true);
        self.count("device trade: final");
        true
    }

    /// Notes that the block of a transaction was removed, if it is from a hardware address. Returns whether it is.
    pub(crate) fn on_device_unmined(&mut self, hash: &str) -> bool {
        let plans = &mut self.device_plans;
        let digest = plans.digests_by_hash.get(hash);
        let Some(step) = digest.and_then(|digest| plans.steps.get_mut(digest)) else {
            return false;
        };
        (step.included, step.is_final) = (None, false);
        self.count("device trade: unmined");
        true
    }

    /// Notes that another transaction took a nonce of a hardware address.
    pub(crate) fn on_device_nonce_taken(&mut self, chain: u64, from: &str, nonce: u64) {
        if self.devices.has(from) {
            self.device_plans.taken_nonces.insert((chain, from.to_lowercase(), nonce));
            self.count("device trade: displaced");
        }
    }

    /// Notes the allowances of an address. Those that it has before any trade may stay.
    pub(crate) fn note_device_allowances(&mut self, allowances: &Allowances) {
        let at = (allowances.chain, allowances.owner.to_lowercase());
        if self.device_plans.steps.is_empty() {
            self.device_plans.first_allowances.insert(at.clone(), allowances.open.clone());
        }
        self.device_plans.open_allowances.insert(at, allowances.open.clone());
    }
}
