//! The reported end of a trade: it needs evidence on the chain, and the reported fill must be true.

use super::TradeRecord;
use crate::market::is_wrap;
use crate::plans::slots::{Kind, Slot};
use crate::trading::{Included, NATIVE, OpenAllowance, Trade, TradeState};
use crate::{Auditor, ExchangeFact, Violation};

impl Auditor {
    /// Checks a newly reported end of a trade.
    pub(super) fn check_trade_end(&self, key: u64, state: &TradeState) -> Result<(), Violation> {
        if let TradeState::Executed { tx_hash, amount_out, .. } = state {
            return self.check_executed(key, tx_hash, *amount_out);
        }
        self.check_no_effect(key, state)?;
        match state {
            TradeState::Rejected { code, .. } => self.check_rejected(key, code.as_deref()),
            _ => self.check_executing::<Trade>(key),
        }
    }

    /// Checks an executed trade: its swap is final, and the reported fill is the amount that arrived.
    fn check_executed(
        &self,
        key: u64,
        tx_hash: &str,
        amount_out: Option<u128>,
    ) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.records.get(&key) else { return Ok(()) };
        let Some((at, slot)) = self.trades.book.main_of(key) else {
            let what = "it is executed, but no swap was signed";
            return Err(self.trade_violation(key, "executed", what));
        };
        if !slot.hashes.contains(tx_hash) {
            let what = format!("it is executed by {tx_hash}; its swap is {:?}", slot.hashes);
            return Err(self.trade_violation(key, "executed", &what));
        }
        if !self.is_final::<Trade>(at, slot) || !slot.succeeded() {
            let what =
                "it is executed, but its swap has not succeeded with the network's confirmations";
            return Err(self.trade_violation(key, "executed", what));
        }
        let (Some(told), Some(included), Some(ex)) =
            (amount_out, slot.included.as_ref(), self.trades.exchanges.get(&rec.terms.chain))
        else {
            return Ok(());
        };
        let right = arrived(&rec.terms, included, ex, &at.1);
        if !right.contains(&told) {
            let what = format!("the fill is reported as {told}; what arrived is {right:?}");
            return Err(self.trade_violation(key, "fill", &what));
        }
        Ok(())
    }

    /// Checks that the swap of a trade that ends without a fill cannot have an effect, now or later.
    fn check_no_effect(&self, key: u64, state: &TradeState) -> Result<(), Violation> {
        let Some((at, slot)) = self.trades.book.main_of(key) else { return Ok(()) };
        if !self.may_have_effect::<Trade>(at, slot) {
            return Ok(());
        }
        let what = format!("it ended as {state:?}, but its swap may have an effect: {slot:?}");
        Err(self.trade_violation(key, "volume", &what))
    }

    /// Checks that something explains the rejection of a trade that was accepted.
    fn check_rejected(&self, key: u64, code: Option<&str>) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.records.get(&key) else { return Ok(()) };
        self.check_explained(key, rec)?;
        let approvals = rec.authorizations.iter().filter(|auth| !auth.by_call);
        let Some(since) = approvals.map(|auth| auth.seq).min() else { return Ok(()) };
        let Some((least, most)) = self.committed_floor(rec) else { return Ok(()) };
        // An approval at a better quote raises the minimum.
        let raised = self.best_since(rec, rec.from).map_or(0, |best| self.floor_of(rec, best));
        let most = most.max(raised);
        let (best, worst) = (self.best_since(rec, since), self.worst_since(rec, since));
        // A trade without an approval also ends with this code if it needs the operator at a fresh quote.
        let automatic = rec.authorizations.iter().any(|auth| auth.by_call);
        let stayed = worst.is_none_or(|worst| worst >= most);
        if code == Some("PRICE_MOVED") && stayed && !automatic {
            let what = format!(
                "it was rejected as PRICE_MOVED; the fresh quotes are {worst:?} or more, and its minimum is {most} or less"
            );
            return Err(self.trade_violation(key, "price moved", &what));
        }
        // If nothing else explains the end, a fresh quote below the minimum requires its own code.
        let other = rec.was_disturbed
            || !rec.denials.is_empty()
            || self.may_be_late(rec)
            || rec.maybe_closed;
        let moved = best.is_some_and(|best| best < least);
        let begun = self.trades.book.has_begun(key);
        if moved && code.is_none() && !other && !begun {
            let what = "its price had moved, and it was rejected without the code PRICE_MOVED";
            return Err(self.trade_violation(key, "price moved", what));
        }
        Ok(())
    }

    /// Returns an allowance that a trade gave and did not revoke.
    pub(super) fn left_by_trade(&self, key: u64, rec: &TradeRecord) -> Option<&OpenAllowance> {
        let slots = || self.trades.book.slots.of_record(key);
        let ((chain, from, _), _) = slots().next()?;
        self.new_allowance(rec, (*chain, from), |open| {
            // An allowance that another plan of the address gave is judged with that plan.
            let gave = |slot: &Slot| slot.kind == Kind::Approve && slot.succeeded();
            let own = || slots().map(|(_, slot)| slot).filter(|slot| slot.sets_allowance(open));
            let reverted = own().last().is_some_and(Slot::is_reverted_revocation);
            own().any(gave) && !reverted
        })
    }
}

/// Returns the amounts that may be reported as the fill of a swap.
pub(crate) fn arrived(
    trade: &Trade,
    included: &Included,
    ex: &ExchangeFact,
    own: &str,
) -> Vec<u128> {
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
