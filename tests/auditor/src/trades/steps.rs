//! The signatures and transactions of trades: each authorized, in order, exact, and once.

use super::content::{self, Content};
use crate::basics::{Id, Transaction};
use crate::decode::{Decoded, decode};
use crate::market::is_wrap;
use crate::observations::Signed;
use crate::trade_book::TradeRecord;
use crate::trade_slots::{Kind, Slot, SlotKey, body, cancels, slot_key};
use crate::trading::{Permit, Route, SignedContent};
use crate::{Auditor, ExchangeFact, Violation, violation};

/// What a new transaction is.
struct Judged {
    rec: Option<u64>,
    kind: Kind,
    /// Whether the plan had ended before the signature, so that the transaction must not be broadcast.
    void: bool,
    /// Whether the swap's time may have been over, so that its plan may have ended. It counts once it is broadcast.
    late: bool,
}

/// A step, and the trade that it belongs to.
pub(super) struct Step {
    pub(super) key: u64,
    pub(super) kind: Kind,
    decoded: Decoded,
    late: bool,
}

impl Auditor {
    /// Judges a signature if it concerns a trade. Returns whether it does.
    pub(crate) fn on_trade_signed(&mut self, s: &Signed) -> Result<bool, Violation> {
        match &s.content {
            SignedContent::Permit(permit) => {
                let signer = s.signer.to_lowercase();
                self.permit_signed(&signer, permit, s.request.as_ref())?;
            }
            SignedContent::Transaction(tx) => {
                let mine = self.trades.book.slots.get(&slot_key(tx)).is_some();
                if !mine && self.transfers.asks_for(tx) {
                    return Ok(false);
                }
                if s.signer.to_lowercase() != tx.from.to_lowercase() {
                    let what = format!("{} signed a transaction of {}", s.signer, tx.from);
                    return Err(violation("call data", what));
                }
                self.transaction_signed(tx, s.request.as_ref())?;
            }
            SignedContent::Unseen => match &s.request {
                Some(id) if self.trades.book.by_id.contains_key(id) => {
                    let key = self.trades.book.by_id.get(id).copied().unwrap_or(u64::MAX);
                    self.check_authority(key)?;
                }
                _ => return Ok(false),
            },
        }
        if let Some(rule) = self.forbids(None) {
            let what = format!("{} signed for a trade while the wallet is locked", s.signer);
            return Err(violation(rule, what));
        }
        self.count("signature: trade");
        Ok(true)
    }

    fn transaction_signed(
        &mut self,
        tx: &Transaction,
        request: Option<&Id>,
    ) -> Result<(), Violation> {
        let at = slot_key(tx);
        if self.transfers.uses(&at) {
            let what = format!("{tx:?} uses the nonce of a transfer by the operator");
            return Err(violation("transactions", what));
        }
        if cancels(tx) {
            self.recall_late(&at);
        }
        if let Some(slot) = self.trades.book.slots.get(&at) {
            let (rec, kind, same) = (slot.rec, slot.kind, slot.body == body(tx));
            let free = (slot.uncertain && slot.hashes.is_empty()) || slot.taken;
            if same || cancels(tx) {
                let unsent = kind == Kind::Revoke && slot.hashes.is_empty();
                self.replacement_signed(&at, rec, kind, same)?;
                // The next plan's revocation has the same bytes as one that was never sent.
                let next =
                    decode(&tx.data).and_then(|decoded| self.revoked_trade(tx, &decoded, request));
                if let Some(slot) = self.trades.book.slots.get_mut(&at).filter(|_| unsent && same) {
                    slot.rec = next.or(slot.rec);
                }
                return Ok(());
            }
            if !free && !slot.is_unsent() {
                let before = slot.body.clone();
                // The nonce of a plan that ended before its signature was free again.
                let judged = self.judge_step(tx, request)?;
                if judged.void || judged.late {
                    self.trades.void.insert((at, body(tx)));
                    return Ok(());
                }
                let what = format!("nonce {} was signed for {before:?}, and now for {tx:?}", at.2);
                return Err(violation("I-b", what));
            }
        }
        let judged = self.judge_step(tx, request)?;
        if judged.void {
            self.trades.void.insert((at, body(tx)));
            return Ok(());
        }
        let mut slot = Slot::new(judged.rec, judged.kind, tx, self.seq);
        slot.request = request.cloned();
        if judged.late {
            // The void signature of an earlier plan may have had the same bytes.
            self.trades.void.remove(&(at.clone(), body(tx)));
            self.trades.late.insert((at, body(tx)), slot);
            return Ok(());
        }
        // A slow signer may answer for a plan that has ended. Nothing is done with that signature once another acts.
        let others = self.trades.book.slots.unsent_of_others(tx, judged.rec);
        self.trades.void.extend(others);
        // Another plan may use the nonce of a late swap for the same bytes.
        self.trades.late.remove(&(at.clone(), body(tx)));
        self.trades.book.slots.insert(at, slot);
        Ok(())
    }

    /// Takes up a late swap whose nonce is cancelled: only what was signed in time needs that.
    fn recall_late(&mut self, at: &SlotKey) {
        let late = self.trades.late.iter().filter(|((there, _), _)| there == at);
        let newest = late.max_by_key(|(_, slot)| slot.signed).map(|(_, slot)| slot.clone());
        if let (Some(slot), None) = (newest, self.trades.book.slots.get(at)) {
            self.trades.book.slots.insert(at.clone(), slot);
        }
    }

    /// Judges a late swap that is broadcast: it counts now, and its plan must not have ended.
    fn late_broadcast(
        &mut self,
        at: &SlotKey,
        slot: Slot,
        tx: &Transaction,
    ) -> Result<(), Violation> {
        let key = slot.rec.unwrap_or(u64::MAX);
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        if rec.end.is_some() && !rec.soft_end {
            let what = "its swap was broadcast after its end";
            return Err(self.trade_violation(key, "T-53", what));
        }
        self.check_volume(key, rec)?;
        let there = self.trades.book.slots.get(at);
        // A late swap that was cancelled has its slot already.
        let free = |there: &Slot| there.is_unsent() || there.taken;
        if there.is_none_or(|there| free(there) && there.body != slot.body) {
            self.check_plan(key, slot.kind, tx)?;
            self.trades.book.slots.insert(at.clone(), slot);
        }
        Ok(())
    }

    /// Judges the same transaction with another fee, or the cancellation of one.
    fn replacement_signed(
        &mut self,
        at: &SlotKey,
        rec: Option<u64>,
        kind: Kind,
        same: bool,
    ) -> Result<(), Violation> {
        if let Some(key) = rec.filter(|_| same && kind != Kind::Revoke) {
            let agent = self.trades.book.recs.get(&key).map(|r| r.agent.clone());
            if let Some(rule) = agent.and_then(|agent| self.forbids(Some(&agent))) {
                let what = "a transaction was signed again, but nothing may be signed for it";
                return Err(self.trade_violation(key, rule, what));
            }
        }
        if let Some(slot) = self.trades.book.slots.get_mut(at) {
            slot.cancelling |= !same;
        }
        Ok(())
    }

    /// Judges a new transaction. Returns its trade, and what it does.
    fn judge_step(&mut self, tx: &Transaction, request: Option<&Id>) -> Result<Judged, Violation> {
        let Some(ex) = self.trades.exchanges.get(&tx.chain).cloned() else {
            let what = format!("{tx:?}: nothing can be traded on this network");
            return Err(violation("call data", what));
        };
        let Some(decoded) = decode(&tx.data) else {
            return Err(violation("call data", format!("{tx:?} cannot be decoded")));
        };
        if self.revokes(tx, &decoded, &ex) {
            let rec = self.revoked_trade(tx, &decoded, request);
            return Ok(Judged { rec, kind: Kind::Revoke, void: false, late: false });
        }
        let mut step = self.attribute(tx, decoded, request, &ex)?;
        step.key = self.signed_repeat(step.key, request);
        step.late = step.kind == Kind::Swap && self.may_be_late(step.key);
        let (rec, kind, late) = (Some(step.key), step.kind, step.late);
        if self.check_authority(step.key)? {
            return Ok(Judged { rec, kind, void: true, late });
        }
        if !late {
            self.check_plan(step.key, kind, tx)?;
        }
        self.check_step(&step, tx, &ex)?;
        self.decided_by_step(step.key);
        let first = self.trades.book.slots.of(step.key).next().is_none();
        if first {
            let there = (tx.chain, tx.from.to_lowercase());
            let open = self.trades.book.allowances.get(&there).cloned().unwrap_or_default();
            if let Some(rec) = self.trades.book.recs.get_mut(&step.key) {
                rec.baseline = Some(open);
            }
        }
        Ok(Judged { rec, kind, void: false, late })
    }

    /// Notes that a trade was decided: the only authorization behind its first step is not open any longer.
    fn decided_by_step(&mut self, key: u64) {
        let now = self.time.instant();
        let Some(rec) = self.trades.book.recs.get_mut(&key) else { return };
        let approved = rec.authorizations.iter().any(|auth| !auth.killed && !auth.by_call);
        rec.automatic |= !approved;
        let mut living = rec.authorizations.iter_mut().filter(|auth| !auth.killed);
        if let (Some(only), None) = (living.next(), living.next()) {
            only.closed.get_or_insert(now);
        }
    }

    /// Returns whether a transaction only removes allowances.
    fn revokes(&self, tx: &Transaction, decoded: &Decoded, ex: &ExchangeFact) -> bool {
        let permit2 = tx.to.to_lowercase() == ex.permit2;
        tx.value == 0
            && match decoded {
                Decoded::Approve { amount, .. } => *amount == 0,
                Decoded::Permit2Approve { amount, .. } => permit2 && *amount == 0,
                Decoded::Lockdown => permit2,
                _ => false,
            }
    }

    /// Returns the trade whose allowance is revoked: the one it is signed for, or else the newest that fits.
    fn revoked_trade(
        &self,
        tx: &Transaction,
        decoded: &Decoded,
        request: Option<&Id>,
    ) -> Option<u64> {
        let token = match decoded {
            Decoded::Approve { .. } => Some(tx.to.to_lowercase()),
            Decoded::Permit2Approve { token, .. } => Some(token.clone()),
            _ => None,
        };
        let from = tx.from.to_lowercase();
        let approved = |key: u64| {
            self.trades.book.slots.of(key).any(|((chain, f, _), slot)| {
                *chain == tx.chain && *f == from && slot.kind == Kind::Approve
            })
        };
        let recs = self.trades.book.recs.iter().rev();
        let fits = recs.filter(|(key, r)| {
            token.as_ref().is_none_or(|token| r.trade.token_in == *token) && approved(**key)
        });
        let fits: Vec<u64> = fits.map(|(key, _)| *key).collect();
        let named = request.and_then(|id| self.trades.book.named(id));
        named.filter(|key| fits.contains(key)).or(fits.first().copied())
    }

    /// Finds the trade that a step belongs to.
    fn attribute(
        &self,
        tx: &Transaction,
        decoded: Decoded,
        request: Option<&Id>,
        ex: &ExchangeFact,
    ) -> Result<Step, Violation> {
        let to = tx.to.to_lowercase();
        let kind = match &decoded {
            Decoded::Approve { .. } => Kind::Approve,
            Decoded::Permit2Approve { .. } => Kind::Permit2Approve,
            _ => Kind::Swap,
        };
        let newest_s = self.trades.market.newest_time_s(tx.chain).unwrap_or(0);
        let fits = |r: &TradeRecord| match &decoded {
            Decoded::Approve { .. } => r.trade.token_in == to,
            Decoded::Permit2Approve { token, .. } => r.trade.token_in == *token,
            _ => {
                let content = Content { trade: &r.trade, tx, exchange: ex, newest_s };
                match content.check(&decoded) {
                    Err((rule, _)) => rule != "call data",
                    Ok(_) => true,
                }
            }
        };
        let from = tx.from.to_lowercase();
        let of = |r: &TradeRecord| {
            r.trade.chain == tx.chain && (r.payers.is_empty() || r.payers.contains(&from))
        };
        let named = request.and_then(|id| self.trades.book.named(id));
        let all: Vec<(&u64, &TradeRecord)> =
            self.trades.book.recs.iter().filter(|(_, r)| of(r)).collect();
        let rank = |key: u64, r: &TradeRecord| {
            let unused = !self.trades.book.slots.of(key).any(|(_, slot)| slot.kind == kind);
            let begun = self.trades.book.slots.of(key).next().is_some();
            let alive = r.authorizations.iter().any(|auth| !auth.killed);
            let exact = match &decoded {
                Decoded::Approve { amount, .. } | Decoded::Permit2Approve { amount, .. } => {
                    *amount == r.trade.amount_in
                }
                _ => true,
            };
            // A trade with another id is not the one that is signed for.
            let own = request.zip(r.id.as_ref()).is_none_or(|(request, id)| request == id);
            (Some(key) == named, r.may_live() && unused, exact, own, alive, begun)
        };
        let best = all
            .iter()
            .filter(|(_, r)| fits(r))
            .max_by_key(|(key, r)| rank(**key, r))
            .map(|(key, _)| **key);
        if let Some(key) = best.filter(|key| named.is_none_or(|named| named == *key)) {
            return Ok(Step { key, kind, decoded, late: false });
        }
        // No trade asks for this transaction: describe how it differs from the trade for which it was made.
        let meant = named.or_else(|| {
            let alive = |r: &TradeRecord| r.authorizations.iter().any(|auth| !auth.killed);
            all.iter().filter(|(_, r)| r.may_live() && alive(r)).map(|(key, _)| **key).next_back()
        });
        let Some(rec) = meant.and_then(|key| self.trades.book.recs.get(&key)) else {
            return Err(violation("call data", format!("{tx:?} belongs to no trade")));
        };
        let content = Content { trade: &rec.trade, tx, exchange: ex, newest_s };
        let (rule, what) = content
            .check(&decoded)
            .err()
            .unwrap_or(("call data", format!("the transaction {tx:?} is not one of its steps")));
        Err(self.trade_violation(meant.unwrap_or(u64::MAX), rule, &what))
    }

    /// Checks the content of a step.
    fn check_step(
        &self,
        step: &Step,
        tx: &Transaction,
        ex: &ExchangeFact,
    ) -> Result<(), Violation> {
        let key = step.key;
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let newest_s = self.trades.market.newest_time_s(tx.chain).unwrap_or(0);
        let allowance = |amount: u128, spender: &str, right: &[&String]| {
            if amount == rec.trade.amount_in && right.iter().any(|r| *r == spender) && tx.value == 0
            {
                return Ok(());
            }
            let what = format!(
                "an allowance of {amount} for {spender} was signed; it must be exact and for the router"
            );
            Err(self.trade_violation(key, "allowance", &what))
        };
        match &step.decoded {
            Decoded::Approve { spender, amount } => {
                let by_kind = match &rec.trade.pool {
                    Route::Pool(pool) if crate::market::is_v4(pool) => vec![&ex.permit2],
                    Route::Pool(_) | Route::Best => vec![&ex.v3_router, &ex.permit2],
                };
                allowance(*amount, spender, &by_kind)
            }
            Decoded::Permit2Approve { spender, amount, expiration_s, .. } => {
                allowance(*amount, spender, &[&ex.universal_router])?;
                if tx.to.to_lowercase() != ex.permit2
                    || *expiration_s > newest_s.saturating_add(ex.deadline_s)
                {
                    let what = format!("an allowance of Permit2 until {expiration_s} was signed");
                    return Err(self.trade_violation(key, "allowance", &what));
                }
                Ok(())
            }
            decoded => {
                let content = Content { trade: &rec.trade, tx, exchange: ex, newest_s };
                let minimum = content
                    .check(decoded)
                    .map_err(|(rule, what)| self.trade_violation(key, rule, &what))?;
                if !step.late {
                    self.check_volume(key, rec)?;
                }
                if is_wrap(&rec.trade, &ex.wrapped) {
                    return Ok(());
                }
                let auths = rec.authorizations.iter().filter(|auth| !auth.killed);
                let since = auths.map(|auth| auth.seq).max().unwrap_or(rec.from);
                let hops = match decoded {
                    Decoded::Swap(swap) => swap.hops.as_slice(),
                    _ => &[],
                };
                self.check_floor(key, minimum, since, hops)
            }
        }
    }

    fn permit_signed(
        &mut self,
        signer: &str,
        permit: &Permit,
        request: Option<&Id>,
    ) -> Result<(), Violation> {
        let Some(ex) = self.trades.exchanges.get(&permit.chain).cloned() else {
            let what = format!("{signer} signed {permit:?} on a network without exchange");
            return Err(violation("permit", what));
        };
        let newest_s = self.trades.market.newest_time_s(permit.chain).unwrap_or(0);
        let named = request.and_then(|id| self.trades.book.named(id));
        // A slow signer may answer after the plan has ended by its time.
        let of = |r: &TradeRecord| {
            r.trade.chain == permit.chain
                && (r.may_live() || named.is_some())
                && (r.payers.is_empty() || r.payers.contains(signer))
        };
        let mut why = ("permit", "no trade asks for it".to_owned());
        let mut found = None;
        for (key, rec) in self.trades.book.recs.iter().filter(|(_, r)| of(r)) {
            if named.is_some_and(|named| named != *key) {
                continue;
            }
            match content::check_permit(&rec.trade, &ex, newest_s, permit) {
                Ok(()) => found = found.or(Some(*key)),
                Err(broken) => why = broken,
            }
        }
        let Some(key) = found else {
            return Err(violation(why.0, format!("{signer} signed {permit:?}: {}", why.1)));
        };
        self.check_authority(key).map(|_void| ())
    }

    /// Notes a broadcast transaction if it is a step of a trade. Returns whether it is.
    pub(crate) fn on_trade_broadcast(&mut self, tx: &Transaction) -> Result<bool, Violation> {
        let at = slot_key(tx);
        let same = self.trades.book.slots.get(&at).is_some_and(|slot| slot.body == body(tx));
        if !same && self.trades.void.contains(&(at.clone(), body(tx))) {
            let what = format!("{tx:?} was broadcast, but it was signed after the end of its plan");
            return Err(violation("T-53", what));
        }
        if let Some(slot) = self.trades.late.remove(&(at.clone(), body(tx))) {
            self.late_broadcast(&at, slot, tx)?;
        }
        let owner = self.trades.book.slots.get(&at).filter(|slot| slot.body == body(tx));
        let owner = owner.filter(|slot| slot.kind != Kind::Revoke).and_then(|slot| slot.rec);
        if let Some(key) = owner
            && self.trades.book.recs.get(&key).is_some_and(|rec| rec.rejected)
        {
            let what = "a step was broadcast, but a new request of the same content was accepted";
            return Err(self.trade_violation(key, "T-53", what));
        }
        if self.trades.book.slots.get(&at).is_none() {
            if self.transfers.uses(&at) || self.transfers.asks_for(tx) {
                return Ok(false);
            }
            if self.trades.book.recs.is_empty() {
                return Ok(false);
            }
            // The signature of this transaction was shown without its content, so the transaction is judged now.
            let judged = self.judge_step(tx, None)?;
            let slot = Slot::new(judged.rec, judged.kind, tx, self.seq);
            if judged.late {
                self.late_broadcast(&at, slot, tx)?;
            } else {
                self.trades.book.slots.insert(at.clone(), slot);
            }
        }
        let Some(slot) = self.trades.book.slots.get_mut(&at) else { return Ok(false) };
        if slot.body == body(tx) {
            slot.hashes.insert(tx.hash.clone());
        } else if cancels(tx) {
            slot.cancelling = true;
            slot.cancel_hashes.insert(tx.hash.clone());
        } else {
            let what = format!("nonce {} was used for {:?}, and now for {tx:?}", at.2, slot.body);
            return Err(violation("I-b", what));
        }
        slot.uncertain = false;
        self.count("broadcast: trade");
        Ok(true)
    }
}
