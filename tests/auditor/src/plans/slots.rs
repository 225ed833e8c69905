//! The transactions of trades or loans, by their nonces.

use crate::basics::{Address, Id, Transaction};
use crate::clocks::Instant;
use crate::trading::{Included, OpenAllowance};
use std::collections::{BTreeMap, BTreeSet};

/// How long the wallet may rely on a receipt that a reorganization has undone (15 seconds).
const RECEIPT_MS: i64 = 15_000;

/// Chain, sender and nonce.
pub(crate) type SlotKey = (u64, Address, u64);

/// Target, value and call data of a transaction.
pub(crate) type Body = (Address, u128, String);

/// What a step of a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Approve,
    Permit2Approve,
    Swap,
    Revoke,
    /// The step of a loan that moves its money.
    Loan,
}

/// One nonce, and the step that uses it.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// The record of its plan; `None` for a revocation outside any plan.
    pub(crate) rec: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) body: Body,
    /// The request that the signature was shown for.
    pub(crate) request: Option<Id>,
    /// The observation of the first signature.
    pub(crate) signed_at: u64,
    pub(crate) hashes: BTreeSet<String>,
    /// Whether a cancelling transaction was signed for this nonce.
    pub(crate) is_cancelling: bool,
    pub(crate) cancel_hashes: BTreeSet<String>,
    pub(crate) included: Option<Included>,
    /// The instant at which a reorganization removed the block in which the transaction had succeeded.
    pub(crate) unmined_at: Option<Instant>,
    /// Whether the permanently included transaction succeeded.
    pub(crate) mined: Option<bool>,
    /// Whether a cancelling transaction is in a block.
    pub(crate) is_cancelled: bool,
    /// Whether another transaction took the nonce.
    pub(crate) is_nonce_taken: bool,
    /// Whether the process died before the transaction reached a node, so that the wallet may have lost its record.
    pub(crate) may_be_unrecorded: bool,
}

impl Slot {
    pub(crate) fn new(rec: Option<u64>, kind: Kind, tx: &Transaction, signed: u64) -> Self {
        Self {
            rec,
            kind,
            body: body(tx),
            request: None,
            signed_at: signed,
            hashes: BTreeSet::new(),
            is_cancelling: false,
            cancel_hashes: BTreeSet::new(),
            included: None,
            unmined_at: None,
            mined: None,
            is_cancelled: false,
            is_nonce_taken: false,
            may_be_unrecorded: false,
        }
    }

    /// Returns whether the step gives an allowance.
    pub(crate) fn gives_allowance(&self) -> bool {
        matches!(self.kind, Kind::Approve | Kind::Permit2Approve)
    }

    /// Returns whether the transaction may have no effect: it reverted, was cancelled, or may be lost with the process.
    pub(crate) fn may_return(&self) -> bool {
        let reverted = self.included.as_ref().is_some_and(|i| !i.succeeded);
        reverted || self.mined == Some(false) || self.is_cancelled || self.may_be_unrecorded
    }

    /// Returns whether the step's value may return to the daily volume: it may have no effect, or was not broadcast.
    pub(crate) fn is_value_returned(&self) -> bool {
        self.may_return() || (self.hashes.is_empty() && !self.is_nonce_taken)
    }

    /// Returns whether the nonce is used up, or will never be used.
    pub(crate) fn is_done(&self) -> bool {
        let unsent = self.hashes.is_empty() && self.may_be_unrecorded;
        self.included.is_some()
            || self.mined.is_some()
            || self.is_cancelled
            || self.is_nonce_taken
            || unsent
    }

    /// Returns whether the transaction was signed but not broadcast.
    pub(crate) fn is_unsent(&self) -> bool {
        self.hashes.is_empty() && self.cancel_hashes.is_empty()
    }

    /// Returns whether the wallet may have a receipt that shows success.
    pub(crate) fn may_have_receipt(&self, now: &Instant) -> bool {
        let recent = |at: &Instant| at.elapsed(now).1.is_some_and(|ms| ms <= RECEIPT_MS);
        self.succeeded() || self.unmined_at.as_ref().is_some_and(recent)
    }

    /// Returns whether this is a revocation that reverted in a block, because the token is paused.
    ///
    /// Then the plan is over, and the operator may repeat the revocation.
    pub(crate) fn is_reverted_revocation(&self) -> bool {
        self.kind == Kind::Revoke && self.included.as_ref().is_some_and(|one| !one.succeeded)
    }

    /// Returns whether the transaction calls the token of this allowance to set the allowance of its spender.
    pub(crate) fn sets_allowance(&self, open: &OpenAllowance) -> bool {
        let (token, _value, data) = &self.body;
        // The selector, and the padding of its first argument, precede the spender.
        let spender = data.get(32..72).unwrap_or_default();
        token.eq_ignore_ascii_case(&open.token)
            && spender.eq_ignore_ascii_case(open.spender.trim_start_matches("0x"))
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.mined == Some(true)
            || (self.mined.is_none() && self.included.as_ref().is_some_and(|i| i.succeeded))
    }
}

/// Returns what a transaction does: target, value, call data.
pub(crate) fn body(tx: &Transaction) -> Body {
    let data = tx.data.to_lowercase();
    let data = data.strip_prefix("0x").unwrap_or(&data).to_owned();
    (tx.to.to_lowercase(), tx.value, data)
}

/// Returns whether a transaction only uses up its nonce.
pub(crate) fn is_cancellation(tx: &Transaction) -> bool {
    let (to, value, data) = body(tx);
    to == tx.from.to_lowercase() && value == 0 && data.is_empty()
}

pub(crate) fn slot_key(tx: &Transaction) -> SlotKey {
    (tx.chain, tx.from.to_lowercase(), tx.nonce)
}

/// All transactions of trades, or of loans.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    by_nonce: BTreeMap<SlotKey, Slot>,
}

impl Slots {
    pub(crate) fn get(&self, key: &SlotKey) -> Option<&Slot> {
        self.by_nonce.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &SlotKey) -> Option<&mut Slot> {
        self.by_nonce.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: SlotKey, slot: Slot) {
        self.by_nonce.insert(key, slot);
    }

    /// Returns the record whose steps were signed for this request.
    pub(crate) fn signed_for(&self, id: &str) -> Option<u64> {
        self.by_nonce
            .values()
            .find(|slot| slot.request.as_deref() == Some(id))
            .and_then(|slot| slot.rec)
    }

    /// Moves the steps that were signed for other requests than `own` from one record to another.
    pub(crate) fn reassign_steps(&mut self, from: u64, to: u64, own: &str) {
        for slot in self.by_nonce.values_mut().filter(|slot| slot.rec == Some(from)) {
            if slot.request.as_deref().is_some_and(|request| request != own) {
                slot.rec = Some(to);
            }
        }
    }

    /// Moves the steps that were signed for a request to the request's record.
    ///
    /// Other steps of that record move to the record that had these steps before. Returns that earlier record; `None`
    /// if nothing moves.
    pub(crate) fn assign_to_record(&mut self, id: &str, rec: u64) -> Option<u64> {
        let before = self.signed_for(id).filter(|before| *before != rec)?;
        for slot in self.by_nonce.values_mut() {
            if slot.request.as_deref() == Some(id) {
                slot.rec = Some(rec);
            } else if slot.rec == Some(rec) && slot.request.is_some() {
                slot.rec = Some(before);
            }
        }
        Some(before)
    }

    /// Returns the transactions of one record.
    pub(crate) fn of_record(&self, rec: u64) -> impl Iterator<Item = (&SlotKey, &Slot)> {
        self.by_nonce.iter().filter(move |(_, slot)| slot.rec == Some(rec))
    }

    /// Returns whether a plan that has ended may have an open transaction.
    ///
    /// A plan that gave an allowance also revokes it, and the wallet learns later than the chain that the revocation
    /// was mined.
    pub(crate) fn may_be_open_after(&self, rec: u64) -> bool {
        let gave = |slot: &Slot| slot.gives_allowance() || slot.kind == Kind::Revoke;
        self.of_record(rec).any(|(_, slot)| !slot.is_done() || gave(slot))
    }

    pub(crate) fn in_flight(&self, from: &str) -> bool {
        self.by_nonce.iter().any(|((_, f, _), slot)| f == from && !slot.is_done())
    }

    /// Returns the unsent transactions of the same sender that were signed for other records.
    pub(crate) fn unsent_of_others(
        &self,
        tx: &Transaction,
        rec: Option<u64>,
    ) -> Vec<(SlotKey, Body)> {
        let (chain, from, _) = slot_key(tx);
        let others = self.by_nonce.iter().filter(|((c, f, _), slot)| {
            (*c, f) == (chain, &from) && slot.rec != rec && slot.is_unsent() && !slot.is_nonce_taken
        });
        others.map(|(at, slot)| (at.clone(), slot.body.clone())).collect()
    }

    /// Returns the transaction with this hash.
    pub(crate) fn with_hash(&mut self, chain: u64, hash: &str) -> Option<&mut Slot> {
        let mine = |slot: &Slot| slot.hashes.contains(hash) || slot.cancel_hashes.contains(hash);
        let mut on_chain = self.by_nonce.iter_mut().filter(|((c, _, _), _)| *c == chain);
        on_chain.find(|(_, slot)| mine(slot)).map(|(_, slot)| slot)
    }

    pub(crate) fn process_ended(&mut self) {
        for slot in self.by_nonce.values_mut() {
            slot.may_be_unrecorded |= slot.hashes.is_empty() && slot.cancel_hashes.is_empty();
        }
    }
}
