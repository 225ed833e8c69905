//! Signatures that show that a trade may have ended: one of a swap that may be late, or one for a repeat with its own
//! id.

use super::TradeRecord;
use crate::basics::{Id, Ticket, Transaction};
use crate::clocks::Time;
use crate::plans::Authorization;
use crate::plans::slots::{Slot, SlotKey};
use crate::trading::Trade;
use crate::{Auditor, Violation};

/// Returns whether the time in which a swap may be signed may be over.
///
/// The wallet may have ordered the swap as soon as this authorization began. It measures by the wall clock, which may
/// have been set since.
fn swap_may_be_over(auth: &Authorization, swap_s: u64, time: &Time) -> bool {
    let ms = i64::try_from(swap_s.saturating_mul(1000)).unwrap_or(i64::MAX);
    let by_wall = time.latest_ms.saturating_sub(auth.opened.wall_ms);
    by_wall >= ms || auth.opened.elapsed(&time.instant()).1.is_none_or(|boot| boot >= ms)
}

impl Auditor {
    /// Returns whether the plan of a trade may have ended because its swap was not signed in time.
    ///
    /// The wallet may also have ordered the swap later, so that the signature is still in time.
    pub(super) fn swap_may_be_late(&self, key: u64) -> bool {
        let Some(rec) = self.trades.book.records.get(&key) else { return false };
        let swap_s = self.trades.exchanges.get(&rec.terms.chain).map_or(0, |ex| ex.deadline_s);
        rec.authorizations.iter().any(|auth| swap_may_be_over(auth, swap_s, &self.time))
    }

    /// Makes a late swap a step of its plan when its nonce is cancelled.
    ///
    /// Only a swap that was signed in time needs a cancellation.
    pub(super) fn restore_late_swap(&mut self, at: &SlotKey) {
        let book = &mut self.trades.book;
        let late = book.late_swaps.iter().filter(|((there, _), _)| there == at);
        let newest = late.max_by_key(|(_, slot)| slot.signed_at).map(|(_, slot)| slot.clone());
        if let (Some(slot), None) = (newest, book.slots.get(at)) {
            book.slots.insert(at.clone(), slot);
        }
    }

    /// Judges a late swap that is broadcast: it counts from now on, and its plan must not have ended.
    pub(super) fn late_broadcast(
        &mut self,
        at: &SlotKey,
        slot: Slot,
        tx: &Transaction,
    ) -> Result<(), Violation> {
        let key = slot.rec.unwrap_or(u64::MAX);
        let Some(rec) = self.trades.book.records.get(&key) else { return Ok(()) };
        if rec.end.is_some() && !rec.may_lose_end {
            let what = "its swap was broadcast after its end";
            return Err(self.trade_violation(key, "T-53", what));
        }
        self.check_volume(key, rec)?;
        let there = self.trades.book.slots.get(at);
        // A late swap whose nonce was cancelled has its slot already.
        let free = |there: &Slot| there.is_unsent() || there.is_nonce_taken;
        if there.is_none_or(|there| free(there) && there.body != slot.body) {
            self.check_plan::<Trade>(key, slot.kind, tx)?;
            self.trades.book.slots.insert(at.clone(), slot);
        }
        Ok(())
    }

    /// Returns the trade that a step is signed for. This is a new trade if the id of the request shows that an open
    /// repeat of the given trade became a separate request.
    pub(super) fn trade_of_signature(&mut self, key: u64, request: Option<&Id>) -> u64 {
        let Some(rec) = self.trades.book.records.get(&key) else { return key };
        let (Some(own), Some(request)) = (&rec.id, request) else { return key };
        let tickets: Vec<Ticket> = rec.open.iter().copied().collect();
        // The id may also belong to another trade of the same tokens whose answer is still open.
        let terms = |r: &TradeRecord| {
            let Trade { chain, token_in, token_out, amount_in, .. } = r.terms.clone();
            (chain, token_in, token_out, amount_in)
        };
        let alike = |r: &TradeRecord| r.id.is_none() && r.may_live() && terms(r) == terms(rec);
        let is_other = own != request && !self.trades.book.records.values().any(alike);
        if !is_other || tickets.is_empty() || !self.plan_is_rejected::<Trade>(key) {
            return key;
        }
        if let Some(rec) = self.trades.book.records.get_mut(&key) {
            rec.reject();
        }
        self.set_apart::<Trade>(key, &tickets)
    }
}
