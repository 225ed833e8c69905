//! The transactions of plans, for trades and loans alike: signed, broadcast, included and undone.

use super::Plan;
use super::slots::{Body, Kind, Slot, SlotKey, body, is_cancellation, slot_key};
use crate::basics::{Id, Transaction};
use crate::clocks::Instant;
use crate::trading::Included;
use crate::{Auditor, Violation, violation};

/// The classification of a new transaction.
pub(crate) struct JudgedStep {
    pub(crate) rec: Option<u64>,
    pub(crate) kind: Kind,
    /// Whether the plan had ended before the signature, so that the transaction must not be broadcast.
    pub(crate) is_void: bool,
    /// Whether a swap may have been signed too late, after its plan had ended. It counts once it is broadcast.
    pub(crate) is_late: bool,
}

impl JudgedStep {
    pub(crate) fn in_time(rec: Option<u64>, kind: Kind) -> Self {
        Self { rec, kind, is_void: false, is_late: false }
    }

    /// Returns a new slot for a transaction.
    ///
    /// The transaction was signed, or it was broadcast after a signature without visible content.
    pub(crate) fn slot(&self, tx: &Transaction, request: Option<&Id>, seq: u64) -> Slot {
        Slot { request: request.cloned(), ..Slot::new(self.rec, self.kind, tx, seq) }
    }
}

impl Auditor {
    /// Notes a new transaction that was signed.
    pub(crate) fn note_step<P: Plan>(
        &mut self,
        judged: &JudgedStep,
        tx: &Transaction,
        request: Option<&Id>,
    ) {
        let (at, seq) = (slot_key(tx), self.seq);
        let here = (at.clone(), body(tx));
        let book = P::book_mut(self);
        if judged.is_void {
            book.void_transactions.insert(here);
            return;
        }
        let slot = judged.slot(tx, request, seq);
        if judged.is_late {
            // The void signature of an earlier plan may have had the same bytes.
            book.void_transactions.remove(&here);
            book.late_swaps.insert(here, slot);
            return;
        }
        // A slow signer may still sign for a plan that has ended. That signature is void once another plan signs.
        let others: Vec<(SlotKey, Body)> = book.slots.unsent_of_others(tx, judged.rec);
        book.void_transactions.extend(others);
        // Another plan may use the nonce of a late swap for the same bytes.
        book.late_swaps.remove(&here);
        book.slots.insert(at, slot);
    }

    /// Judges a replacement: the same transaction with another fee, or its cancellation.
    pub(crate) fn replacement_signed<P: Plan>(
        &mut self,
        tx: &Transaction,
    ) -> Result<(), Violation> {
        let at = slot_key(tx);
        let Some(slot) = P::book(self).slots.get(&at) else { return Ok(()) };
        let same = slot.body == body(tx);
        if let Some(key) = slot.rec.filter(|_| same && slot.kind != Kind::Revoke) {
            let rec = P::book(self).records.get(&key);
            if let Some(rule) = rec.and_then(|rec| self.forbidding_rule(rec.actor())) {
                let what = "a transaction was signed again, but nothing may be signed for it";
                return Err(self.plan_violation::<P>(key, rule, what));
            }
        }
        if let Some(slot) = P::book_mut(self).slots.get_mut(&at) {
            slot.is_cancelling |= !same;
        }
        Ok(())
    }

    /// Judges a different transaction for a nonce that was already used.
    pub(crate) fn nonce_signed_again<P: Plan>(
        &mut self,
        tx: &Transaction,
        judged: &JudgedStep,
        before: &Body,
    ) -> Result<(), Violation> {
        // Either transaction may use the nonce: the plan of this one may have ended before the signature.
        if judged.is_void || judged.is_late {
            P::book_mut(self).void_transactions.insert((slot_key(tx), body(tx)));
            return Ok(());
        }
        let what = format!("nonce {} was signed for {before:?}, and now for {tx:?}", tx.nonce);
        Err(violation("I-b", what))
    }

    /// Notes that the first step decides its plan.
    ///
    /// If only one authorization can be behind the step, that authorization is closed.
    pub(crate) fn decided_by_step<P: Plan>(&mut self, key: u64, tx: &Transaction) {
        let now = self.time.instant();
        let there = (tx.chain, tx.from.to_lowercase());
        let allowances = self.trades.allowances.get(&there).cloned().unwrap_or_default();
        let first = !P::book(self).has_begun(key);
        let Some(rec) = P::book_mut(self).records.get_mut(&key) else { return };
        if first {
            rec.baseline = Some(allowances);
        }
        let approved = rec.authorizations.iter().any(|auth| !auth.is_killed && !auth.by_call);
        rec.may_be_automatic |= !approved;
        let mut living = rec.authorizations.iter_mut().filter(|auth| !auth.is_killed);
        if let (Some(only), None) = (living.next(), living.next()) {
            only.closed.get_or_insert(now);
        }
    }

    /// Checks that a transaction which is broadcast was not signed after the end of its plan.
    pub(crate) fn check_not_void<P: Plan>(&self, tx: &Transaction) -> Result<(), Violation> {
        let (at, book) = (slot_key(tx), P::book(self));
        let same = book.slots.get(&at).is_some_and(|slot| slot.body == body(tx));
        if !same && book.void_transactions.contains(&(at, body(tx))) {
            let what = format!("{tx:?} was broadcast, but it was signed after the end of its plan");
            return Err(violation("T-53", what));
        }
        Ok(())
    }

    /// Checks that a broadcast transaction is not a step of a plan that was rejected before any broadcast.
    pub(crate) fn check_not_rejected<P: Plan>(&self, tx: &Transaction) -> Result<(), Violation> {
        let book = P::book(self);
        let owner = book.slots.get(&slot_key(tx)).filter(|slot| slot.body == body(tx));
        let owner = owner.filter(|slot| slot.kind != Kind::Revoke).and_then(|slot| slot.rec);
        if let Some(key) = owner
            && book.records.get(&key).is_some_and(|rec| rec.rejected)
        {
            let what = "a step was broadcast, but a new request of the same content was accepted";
            return Err(self.plan_violation::<P>(key, "T-53", what));
        }
        Ok(())
    }

    /// Notes that a known step was broadcast. Returns whether it is known.
    pub(crate) fn step_sent<P: Plan>(&mut self, tx: &Transaction) -> Result<bool, Violation> {
        let at = slot_key(tx);
        let Some(slot) = P::book_mut(self).slots.get_mut(&at) else { return Ok(false) };
        if slot.body == body(tx) {
            slot.hashes.insert(tx.hash.clone());
        } else if is_cancellation(tx) {
            slot.is_cancelling = true;
            slot.cancel_hashes.insert(tx.hash.clone());
        } else {
            let what = format!("nonce {} was used for {:?}, and now for {tx:?}", at.2, slot.body);
            return Err(violation("I-b", what));
        }
        slot.may_be_unrecorded = false;
        self.count(P::either("broadcast: trade", "broadcast: loan"));
        Ok(true)
    }

    pub(crate) fn on_included<P: Plan>(&mut self, included: &Included) -> Result<(), Violation> {
        let slots = &mut P::book_mut(self).slots;
        let Some(slot) = slots.with_hash(included.chain, &included.hash) else { return Ok(()) };
        let mined = slot.included.as_ref().filter(|i| i.hash != included.hash);
        if let Some(other) = mined.filter(|_| slot.mined.is_some()) {
            let what = format!("{} and {} have one nonce", other.hash, included.hash);
            return Err(violation("I-b", what));
        }
        if slot.cancel_hashes.contains(&included.hash) {
            slot.is_cancelled = true;
        } else {
            slot.included = Some(included.clone());
        }
        self.count(P::either("included: trade", "included: loan"));
        Ok(())
    }

    pub(crate) fn on_unmined<P: Plan>(&mut self, chain: u64, hash: &str) {
        let now: Instant = self.time.instant();
        let Some(slot) = P::book_mut(self).slots.with_hash(chain, hash) else { return };
        if slot.cancel_hashes.contains(hash) {
            slot.is_cancelled = false;
        } else {
            slot.unmined_at = slot.succeeded().then_some(now).or(slot.unmined_at);
            slot.included = None;
            slot.mined = None;
        }
        self.count(P::either("unmined: trade", "unmined: loan"));
    }

    /// Notes a transaction that is permanently in the chain. Returns whether it is a step.
    pub(crate) fn on_mined<P: Plan>(
        &mut self,
        chain: u64,
        hash: &str,
        succeeded: bool,
    ) -> Result<bool, Violation> {
        let Some(slot) = P::book_mut(self).slots.with_hash(chain, hash) else { return Ok(false) };
        if slot.cancel_hashes.contains(hash) {
            slot.is_cancelled = true;
            return Ok(true);
        }
        if slot.included.as_ref().is_some_and(|i| i.succeeded != succeeded) {
            let what = format!("{hash} succeeded in one of its blocks and reverted in the other");
            return Err(violation("simulator", what));
        }
        slot.mined = Some(succeeded);
        self.count(P::either("mined: trade", "mined: loan"));
        Ok(true)
    }

    pub(crate) fn on_nonce_taken<P: Plan>(&mut self, chain: u64, from: &str, nonce: u64) {
        let at = (chain, from.to_lowercase(), nonce);
        if let Some(slot) = P::book_mut(self).slots.get_mut(&at) {
            slot.is_nonce_taken = true;
            self.count(P::either("trade: displaced", "loan: displaced"));
        }
    }
}
