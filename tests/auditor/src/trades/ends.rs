//! The reported states of a trade: forward only, final only on the chain's evidence, and with the true fill.

use super::answers::phase;
use super::authority::UNSIGNED_MS;
use crate::expect::OpenCall;
use crate::market::is_wrap;
use crate::trade_book::{Authorization, TradeRecord};
use crate::trade_slots::{Body, Kind, Slot, SlotKey};
use crate::trading::{Included, NATIVE, OpenAllowance, TradeState};
use crate::{Auditor, ExchangeFact, Violation};

/// In the calm phase, every trade must end within this time (30 minutes).
const ENDS_WITHIN_MS: i64 = 1_800_000;

/// In the calm phase, the allowance of an ended trade must be revoked within this time (10 minutes).
const REVOKED_WITHIN_MS: i64 = 600_000;

impl Auditor {
    /// Checks a reported state against everything reported and seen before.
    pub(crate) fn check_state(
        &mut self,
        key: u64,
        open: &OpenCall,
        since: u64,
        state: &TradeState,
    ) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        if let Some(first) = &rec.refused {
            if first != state {
                let what = format!("it was refused as {first:?}, and is {state:?} now");
                return Err(self.trade_violation(key, "I-p", &what));
            }
            return Ok(());
        }
        let shown = rec.phase_at(since);
        if let Some(end) = rec.end.as_ref().filter(|_| !rec.soft_end && shown == 2) {
            if end != state {
                let what = format!("it had ended as {end:?}, and is {state:?} now");
                return Err(self.trade_violation(key, "I-p", &what));
            }
            return Ok(());
        }
        if phase(state) < shown {
            let what = format!("its status went back to {state:?}");
            return Err(self.trade_violation(key, "I-p", &what));
        }
        match state {
            TradeState::Pending => self.check_pending(key, open)?,
            TradeState::Executing => self.check_executing(key)?,
            TradeState::Executed { tx_hash, amount_out, .. } => {
                self.check_executed(key, tx_hash, *amount_out)?;
            }
            TradeState::Rejected { code, .. } => {
                self.check_no_effect(key, state)?;
                self.check_rejected(key, code.as_deref())?;
            }
            TradeState::Failed { .. } => {
                self.check_no_effect(key, state)?;
                self.check_executing(key)?;
            }
        }
        let (seq, now) = (self.seq, self.time.instant());
        let soft = self.disk_failed.is_some() && matches!(state, TradeState::Rejected { .. });
        if let Some(rec) = self.trades.book.recs.get_mut(&key) {
            rec.accepted = true;
            rec.history.push((seq, phase(state)));
            if phase(state) == 2 {
                rec.end = Some(state.clone());
                rec.soft_end = soft;
                rec.ended = Some(now);
                rec.last_poll = None;
            }
        }
        self.count(match state {
            TradeState::Pending => "trade: pending",
            TradeState::Executing => "trade: executing",
            TradeState::Executed { .. } => "trade: executed",
            TradeState::Rejected { .. } => "trade: rejected",
            TradeState::Failed { .. } => "trade: failed",
        });
        Ok(())
    }

    fn check_pending(&self, key: u64, open: &OpenCall) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let now = self.time.instant();
        if open.isolated && rec.accepted && rec.until.is_some() && rec.expired(&now).0 {
            let what = "it is pending after 15 minutes";
            return Err(self.trade_violation(key, "I-e", what));
        }
        if self.trades.book.slots.of(key).next().is_some() {
            let what = "it is pending, but a step of it was signed";
            return Err(self.trade_violation(key, "I-p", what));
        }
        Ok(())
    }

    /// Checks that something authorizes the execution of the trade.
    fn check_executing(&self, key: u64) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        if rec.accepted && rec.authorizations.is_empty() && !rec.lost {
            let what = "it is executed, but the operator did not approve it";
            return Err(self.trade_violation(key, "approvals", what));
        }
        Ok(())
    }

    /// Checks an executed trade: its swap is final, and the fill is what arrived.
    fn check_executed(
        &self,
        key: u64,
        tx_hash: &str,
        amount_out: Option<u128>,
    ) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let Some((at, slot)) = self.trades.book.swap_of(key) else {
            let what = "it is executed, but no swap was signed";
            return Err(self.trade_violation(key, "executed", what));
        };
        if !slot.hashes.contains(tx_hash) {
            let what = format!("it is executed by {tx_hash}; its swap is {:?}", slot.hashes);
            return Err(self.trade_violation(key, "executed", &what));
        }
        if !self.is_final(at, slot) || !slot.succeeded() {
            let what =
                "it is executed, but its swap has not succeeded with the network's confirmations";
            return Err(self.trade_violation(key, "executed", what));
        }
        let (Some(told), Some(included), Some(ex)) =
            (amount_out, slot.included.as_ref(), self.trades.exchanges.get(&rec.trade.chain))
        else {
            return Ok(());
        };
        let right = arrived(rec, included, ex, &at.1);
        if !right.contains(&told) {
            let what = format!("the fill is reported as {told}; what arrived is {right:?}");
            return Err(self.trade_violation(key, "fill", &what));
        }
        Ok(())
    }

    /// Returns whether a transaction has the network's confirmations.
    fn is_final(&self, at: &SlotKey, slot: &Slot) -> bool {
        if slot.mined.is_some() || slot.taken || slot.cancelled {
            return true;
        }
        let deep = self.trades.exchanges.get(&at.0).map_or(1, |ex| ex.confirmations);
        let newest = self.trades.market.newest_block(at.0);
        slot.included.as_ref().zip(newest).is_some_and(|(included, newest)| {
            newest.saturating_add(1) >= included.block.saturating_add(deep)
        })
    }

    /// Checks that a trade that ends without a fill has no swap that may have, or still get, an effect.
    fn check_no_effect(&self, key: u64, state: &TradeState) -> Result<(), Violation> {
        let Some((at, slot)) = self.trades.book.swap_of(key) else { return Ok(()) };
        let unsent = slot.hashes.is_empty() && slot.cancel_hashes.is_empty();
        if unsent || slot.taken {
            return Ok(());
        }
        let reverted = slot.mined == Some(false) || (slot.included.is_some() && !slot.succeeded());
        let dead = slot.cancelled || reverted;
        if dead && self.is_final(at, slot) {
            return Ok(());
        }
        let what = format!("it ended as {state:?}, but its swap may have an effect: {slot:?}");
        Err(self.trade_violation(key, "volume", &what))
    }

    /// Checks that something explains the rejection of a trade that was accepted.
    fn check_rejected(&self, key: u64, code: Option<&str>) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let now = self.time.instant();
        let newest_s = self.trades.market.newest_time_s(rec.trade.chain).unwrap_or(0);
        let late = rec.trade.deadline_s.is_some_and(|at| at <= newest_s);
        let decided = !rec.authorizations.is_empty() || !rec.denials.is_empty();
        let over = rec.expired(&now).1 || late;
        if rec.accepted && rec.until.is_some() && !decided && !over && !rec.maybe_closed {
            let what = "it was rejected without expiry, denial or approval";
            return Err(self.trade_violation(key, "I-p", what));
        }
        let approvals = rec.authorizations.iter().filter(|auth| !auth.by_call);
        let Some(since) = approvals.map(|auth| auth.seq).min() else { return Ok(()) };
        let Some((least, most)) = self.committed_floor(rec) else { return Ok(()) };
        // An approval by a better quote raises the minimum.
        let raised = self.best_since(rec, rec.from).map_or(0, |best| self.floor_of(rec, best));
        let most = most.max(raised);
        let (best, worst) = (self.best_since(rec, since), self.worst_since(rec, since));
        // A trade that runs without an operator has this code too if it now needs one.
        let automatic = rec.authorizations.iter().any(|auth| auth.by_call);
        let stayed = worst.is_none_or(|worst| worst >= most);
        if code == Some("PRICE_MOVED") && stayed && !automatic {
            let what = format!(
                "it was rejected as PRICE_MOVED; the fresh quotes are {worst:?} or more, and its minimum is {most} or less"
            );
            return Err(self.trade_violation(key, "price moved", &what));
        }
        // With no other cause, a fresh quote below the minimum has its own code.
        let other = rec.disturbed || !rec.denials.is_empty() || over || rec.maybe_closed;
        let moved = best.is_some_and(|best| best < least);
        let begun = self.trades.book.slots.of(key).next().is_some();
        if moved && code.is_none() && !other && !begun {
            let what = "its price had moved, and it was rejected without the code PRICE_MOVED";
            return Err(self.trade_violation(key, "price moved", what));
        }
        Ok(())
    }

    /// At the end: every trade has ended, and every allowance is as it was.
    pub(crate) fn check_trades_over(&self) -> Result<(), Violation> {
        let Some(calm) = self.calm else { return Ok(()) };
        // While the wallet is locked, it answers that trades are executing.
        let open = self.running && self.possible_configs.iter().all(|w| w.config.open);
        for (key, rec) in &self.trades.book.recs {
            let polled = rec.last_poll.and_then(|at| calm.elapsed(&at).1);
            if open && polled.is_some_and(|ms| ms >= ENDS_WITHIN_MS) {
                let what = "it has no end 30 minutes after the last fault";
                return Err(self.trade_violation(*key, "I-n", what));
            }
            self.check_allowances(*key, rec)?;
        }
        Ok(())
    }

    /// Checks that a plan left no allowance behind.
    fn check_allowances(&self, key: u64, rec: &TradeRecord) -> Result<(), Violation> {
        let Some(baseline) = &rec.baseline else { return Ok(()) };
        let slots = || self.trades.book.slots.of(key);
        // What a freeze, lock, suspension or the five minutes interrupted may be kept, and shown.
        let swapped = self.trades.book.swap_of(key).is_some();
        let late = |auth: &Authorization| {
            let times = auth.closed.zip(rec.ended);
            let took = times.and_then(|(closed, ended)| closed.elapsed(&ended).1);
            !swapped && took.is_none_or(|ms| ms >= UNSIGNED_MS)
        };
        let interrupted = rec.authorizations.iter().all(|auth| auth.killed || late(auth));
        let approved = slots().any(|(_, s)| s.kind == Kind::Approve && s.succeeded());
        // The revocation is the last step of the plan, and may follow the reported end.
        let now = self.time.instant();
        let since_end = rec.ended.and_then(|at| at.elapsed(&now).1);
        let over = since_end.is_some_and(|ms| ms >= REVOKED_WITHIN_MS);
        // Nothing is signed for a stopped agent, so its revocation waits for the operator.
        let stopped = self.forbids(Some(&rec.agent)).is_some();
        if interrupted || stopped || !approved || !over {
            return Ok(());
        }
        let Some(((chain, from, _), _)) = slots().next() else { return Ok(()) };
        if self.is_followed(key) {
            return Ok(());
        }
        let open = self.trades.book.allowances.get(&(*chain, from.clone()));
        let left = open.into_iter().flatten().find(|open| {
            let before = baseline.iter().any(|b| {
                (&b.token, &b.spender, b.permit2) == (&open.token, &open.spender, open.permit2)
                    && b.amount >= open.amount
            });
            // What another plan of the address gave is judged with that plan.
            let gave = |slot: &Slot| slot.kind == Kind::Approve && slot.succeeded();
            let own = || slots().map(|(_, slot)| slot).filter(|slot| sets(&slot.body, open));
            let reverted = own().last().is_some_and(Slot::is_reverted_revocation);
            own().any(gave) && !before && !reverted
        });
        match left {
            Some(open) => {
                let what = format!("its plan left the allowance {open:?}");
                Err(self.trade_violation(key, "I-s", &what))
            }
            None => Ok(()),
        }
    }

    /// Returns whether another plan of the same address has set the same allowance since.
    fn is_followed(&self, key: u64) -> bool {
        let approvals = |key: u64| {
            let slots = self.trades.book.slots.of(key);
            let all = slots.filter(|(_, slot)| slot.kind == Kind::Approve && slot.succeeded());
            all.map(|((chain, from, nonce), slot)| {
                // The token, and the function with its spender.
                let spender = slot.body.2.get(..72).unwrap_or_default();
                (*chain, from, (&slot.body.0, spender), *nonce)
            })
        };
        let Some(last) = approvals(key).max_by_key(|one| one.3) else { return false };
        let others = self.trades.book.recs.keys().filter(|other| **other != key);
        others.flat_map(|other| approvals(*other)).any(|other| {
            (other.0, other.1, other.2) == (last.0, last.1, last.2) && other.3 > last.3
        })
    }
}

/// Returns whether an approval sets this allowance of its sender.
fn sets((token, _value, data): &Body, open: &OpenAllowance) -> bool {
    // The function, and the padding of its first argument, precede the spender.
    let spender = data.get(32..72).unwrap_or_default();
    !open.permit2
        && token.eq_ignore_ascii_case(&open.token)
        && spender.eq_ignore_ascii_case(open.spender.trim_start_matches("0x"))
}

/// Returns the amounts that may be reported as the fill of a swap.
fn arrived(rec: &TradeRecord, included: &Included, ex: &ExchangeFact, own: &str) -> Vec<u128> {
    let trade = &rec.trade;
    if is_wrap(trade, &ex.wrapped) {
        return vec![trade.amount_in];
    }
    if trade.token_out == NATIVE {
        let routers = [&ex.v3_router, &ex.universal_router];
        let from_router = included.unwrapped.iter().filter(|(by, _)| routers.contains(&by));
        let unwrapped = from_router.map(|(_, amount)| *amount).fold(0u128, u128::saturating_add);
        let mut all = vec![included.native_received];
        all.extend((unwrapped > 0).then_some(unwrapped));
        all.extend(included.pool_out);
        return all;
    }
    let logs = || included.transfers.iter().filter(|log| log.token == trade.token_out);
    let sum = |amounts: Vec<u128>| amounts.into_iter().fold(0u128, u128::saturating_add);
    let received = sum(logs().filter(|log| log.to == own).map(|log| log.amount).collect());
    let sent = sum(logs().filter(|log| log.from == own).map(|log| log.amount).collect());
    vec![received, received.saturating_sub(sent)]
}
