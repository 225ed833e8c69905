//! The signatures and transactions of trades: each is authorized, in order, exact, and made once.

use super::TradeRecord;
use super::content::{self, Content};
use crate::basics::{Id, Transaction};
use crate::decode::{Decoded, decode};
use crate::market::is_wrap;
use crate::observations::Signed;
use crate::plans::JudgedStep;
use crate::plans::slots::{Kind, body, is_cancellation, slot_key};
use crate::trading::{Permit, Route, SignedContent, Trade};
use crate::{Auditor, ExchangeFact, Violation, violation};

/// A step, and the trade to which it belongs.
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
            SignedContent::Undecodable => match &s.request {
                Some(id) if self.trades.book.by_id.contains_key(id) => {
                    let key = self.trades.book.by_id.get(id).copied().unwrap_or(u64::MAX);
                    self.check_authority::<Trade>(key)?;
                }
                _ => return Ok(false),
            },
        }
        if let Some(rule) = self.forbidding_rule(None) {
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
        if self.transfers.owns_nonce(&at) {
            let what = format!("{tx:?} uses the nonce of a transfer by the operator");
            return Err(violation("transactions", what));
        }
        if is_cancellation(tx) {
            self.restore_late_swap(&at);
        }
        if let Some(slot) = self.trades.book.slots.get(&at) {
            let same = slot.body == body(tx);
            let free = (slot.may_be_unrecorded && slot.hashes.is_empty()) || slot.is_nonce_taken;
            if same || is_cancellation(tx) {
                let unsent = slot.kind == Kind::Revoke && slot.hashes.is_empty();
                self.replacement_signed::<Trade>(tx)?;
                // The revocation of the next plan may have the same bytes as an earlier one that was never sent.
                let next =
                    decode(&tx.data).and_then(|decoded| self.revoked_trade(tx, &decoded, request));
                if let Some(slot) = self.trades.book.slots.get_mut(&at).filter(|_| unsent && same) {
                    slot.rec = next.or(slot.rec);
                }
                return Ok(());
            }
            if !free && !slot.is_unsent() {
                let before = slot.body.clone();
                let judged = self.judge_step(tx, request)?;
                return self.nonce_signed_again::<Trade>(tx, &judged, &before);
            }
        }
        let judged = self.judge_step(tx, request)?;
        self.note_step::<Trade>(&judged, tx, request);
        Ok(())
    }

    /// Judges a new transaction. Returns its trade and the kind of its step.
    fn judge_step(
        &mut self,
        tx: &Transaction,
        request: Option<&Id>,
    ) -> Result<JudgedStep, Violation> {
        let Some(ex) = self.trades.exchanges.get(&tx.chain).cloned() else {
            let what = format!("{tx:?}: nothing can be traded on this network");
            return Err(violation("call data", what));
        };
        let Some(decoded) = decode(&tx.data) else {
            return Err(violation("call data", format!("{tx:?} cannot be decoded")));
        };
        if self.is_revocation(tx, &decoded, &ex) {
            let rec = self.revoked_trade(tx, &decoded, request);
            return Ok(JudgedStep::in_time(rec, Kind::Revoke));
        }
        let mut step = self.attribute(tx, decoded, request, &ex)?;
        step.key = self.trade_of_signature(step.key, request);
        step.late = step.kind == Kind::Swap && self.swap_may_be_late(step.key);
        let (rec, kind, late) = (Some(step.key), step.kind, step.late);
        if self.check_authority::<Trade>(step.key)? {
            return Ok(JudgedStep { rec, kind, is_void: true, is_late: late });
        }
        if !late {
            self.check_plan::<Trade>(step.key, kind, tx)?;
        }
        self.check_step(&step, tx, &ex)?;
        self.decided_by_step::<Trade>(step.key, tx);
        Ok(JudgedStep { rec, kind, is_void: false, is_late: late })
    }

    /// Returns whether a transaction only removes allowances.
    fn is_revocation(&self, tx: &Transaction, decoded: &Decoded, ex: &ExchangeFact) -> bool {
        let permit2 = tx.to.to_lowercase() == ex.permit2;
        tx.value == 0
            && match decoded {
                Decoded::Approve { amount, .. } => *amount == 0,
                Decoded::Permit2Approve { amount, .. } => permit2 && *amount == 0,
                Decoded::Lockdown => permit2,
                _ => false,
            }
    }

    /// Returns the trade whose allowance is revoked: the one named by the signature, or else the newest that fits.
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
            self.trades.book.slots.of_record(key).any(|((chain, f, _), slot)| {
                *chain == tx.chain && *f == from && slot.kind == Kind::Approve
            })
        };
        let recs = self.trades.book.records.iter().rev();
        let fits = recs.filter(|(key, r)| {
            token.as_ref().is_none_or(|token| r.terms.token_in == *token) && approved(**key)
        });
        let fits: Vec<u64> = fits.map(|(key, _)| *key).collect();
        let named = request.and_then(|id| self.trades.book.record_of_id(id));
        named.filter(|key| fits.contains(key)).or(fits.first().copied())
    }

    /// Finds the trade to which a step belongs.
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
            Decoded::Approve { .. } => r.terms.token_in == to,
            Decoded::Permit2Approve { token, .. } => r.terms.token_in == *token,
            _ => {
                let content =
                    Content { trade: &r.terms, tx, exchange: ex, newest_s, by_person: false };
                match content.check(&decoded) {
                    Err((rule, _)) => rule != "call data",
                    Ok(_) => true,
                }
            }
        };
        let from = tx.from.to_lowercase();
        let of = |r: &TradeRecord| r.terms.chain == tx.chain && r.is_paid_by(&from).1;
        let named = request.and_then(|id| self.trades.book.record_of_id(id));
        let all: Vec<(&u64, &TradeRecord)> =
            self.trades.book.records.iter().filter(|(_, r)| of(r)).collect();
        let rank = |key: u64, r: &TradeRecord| {
            let unused = !self.trades.book.slots.of_record(key).any(|(_, slot)| slot.kind == kind);
            let begun = self.trades.book.has_begun(key);
            let alive = r.authorizations.iter().any(|auth| !auth.is_killed);
            let exact = match &decoded {
                Decoded::Approve { amount, .. } | Decoded::Permit2Approve { amount, .. } => {
                    *amount == r.terms.amount_in
                }
                _ => true,
            };
            // If the signature names a request, a trade with another id does not match.
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
        // No trade asks for this transaction. Report how it differs from the trade for which it was probably made.
        let meant = named.or_else(|| {
            let alive = |r: &TradeRecord| r.authorizations.iter().any(|auth| !auth.is_killed);
            all.iter().filter(|(_, r)| r.may_live() && alive(r)).map(|(key, _)| **key).next_back()
        });
        let Some(rec) = meant.and_then(|key| self.trades.book.records.get(&key)) else {
            return Err(violation("call data", format!("{tx:?} belongs to no trade")));
        };
        let content = Content { trade: &rec.terms, tx, exchange: ex, newest_s, by_person: false };
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
        let Some(rec) = self.trades.book.records.get(&key) else { return Ok(()) };
        let newest_s = self.trades.market.newest_time_s(tx.chain).unwrap_or(0);
        let allowance = |amount: u128, spender: &str, right: &[&String]| {
            if amount == rec.terms.amount_in && right.iter().any(|r| *r == spender) && tx.value == 0
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
                let by_kind = match &rec.terms.pool {
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
                let content =
                    Content { trade: &rec.terms, tx, exchange: ex, newest_s, by_person: false };
                let minimum = content
                    .check(decoded)
                    .map_err(|(rule, what)| self.trade_violation(key, rule, &what))?;
                if !step.late {
                    self.check_volume(key, rec)?;
                }
                if is_wrap(&rec.terms, &ex.wrapped) {
                    return Ok(());
                }
                let auths = rec.authorizations.iter().filter(|auth| !auth.is_killed);
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
        let latest_s = newest_s.saturating_add(ex.deadline_s);
        let named = request.and_then(|id| self.trades.book.record_of_id(id));
        // A slow signer may sign after the plan has run out of time.
        let of = |r: &TradeRecord| {
            r.terms.chain == permit.chain
                && (r.may_live() || named.is_some())
                && r.is_paid_by(signer).1
        };
        let mut why = ("permit", "no trade asks for it".to_owned());
        let mut found = None;
        for (key, rec) in self.trades.book.records.iter().filter(|(_, r)| of(r)) {
            if named.is_some_and(|named| named != *key) {
                continue;
            }
            match content::check_permit(&rec.terms, &ex, latest_s, permit) {
                Ok(()) => found = found.or(Some(*key)),
                Err(broken) => why = broken,
            }
        }
        let Some(key) = found else {
            return Err(violation(why.0, format!("{signer} signed {permit:?}: {}", why.1)));
        };
        self.check_authority::<Trade>(key).map(|_void| ())
    }

    /// Notes a broadcast transaction if it is a step of a trade. Returns whether it is.
    pub(crate) fn on_trade_broadcast(&mut self, tx: &Transaction) -> Result<bool, Violation> {
        let at = slot_key(tx);
        self.check_not_void::<Trade>(tx)?;
        if let Some(slot) = self.trades.book.late_swaps.remove(&(at.clone(), body(tx))) {
            self.late_broadcast(&at, slot, tx)?;
        }
        self.check_not_rejected::<Trade>(tx)?;
        if self.trades.book.slots.get(&at).is_none() {
            let transfer = self.transfers.owns_nonce(&at) || self.transfers.asks_for(tx);
            if transfer || self.trades.book.records.is_empty() {
                return Ok(false);
            }
            // The signature of this transaction was shown without its content, so the transaction is judged now.
            let judged = self.judge_step(tx, None)?;
            let slot = judged.slot(tx, None, self.seq);
            if judged.is_late {
                self.late_broadcast(&at, slot, tx)?;
            } else {
                self.trades.book.slots.insert(at, slot);
            }
        }
        self.step_sent::<Trade>(tx)
    }
}
