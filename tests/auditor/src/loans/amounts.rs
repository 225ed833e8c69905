//! The amounts that loans of an address moved on the chain, and that its unfinished supplies reserve.

use super::LoanRecord;
use crate::basics::{Address, Ticket};
use crate::clocks::Instant;
use crate::lending::{Loan, LoanAmount, LoanState};
use crate::plans::PlanBook;
use crate::plans::slots::Slot;
use crate::trading::Included;
use std::collections::BTreeMap;

/// Chain and venue.
pub(crate) type Place = (u64, Address);

/// The amount supplied less the amount withdrawn at each venue: (least, most).
pub(crate) type Principal = BTreeMap<Place, (u128, u128)>;

/// Returns the stablecoins that an address received and sent in a transaction: (received, sent).
fn received_and_sent(included: &Included, coin: &str, own: &str) -> (u128, u128) {
    let logs = || included.transfers.iter().filter(|log| log.token.eq_ignore_ascii_case(coin));
    let sum = |to_own: bool| {
        let mine = logs().filter(|log| {
            let end = if to_own { &log.to } else { &log.from };
            end.eq_ignore_ascii_case(own)
        });
        mine.map(|log| log.amount).fold(0u128, u128::saturating_add)
    };
    (sum(true), sum(false))
}

/// Returns the stablecoins that a loan's transaction moved, by its `Transfer` logs.
pub(crate) fn moved_coins(rec: &LoanRecord, included: &Included, coin: &str, own: &str) -> u128 {
    let (received, sent) = received_and_sent(included, coin, own);
    if rec.is_supply() { sent.saturating_sub(received) } else { received.saturating_sub(sent) }
}

impl PlanBook<Loan> {
    /// Returns the amount that an unfinished supply reserves: (least, most).
    fn reserved_by_supply(&self, key: u64, rec: &LoanRecord, now: &Instant) -> (u128, u128) {
        let Some(amount) = rec.supplied_assets() else { return (0, 0) };
        if rec.refused.is_some() || rec.is_denied() {
            return (0, 0);
        }
        let main = self.main_of(key).map(|(_, slot)| slot);
        let returned = main.is_none_or(Slot::is_value_returned);
        // A foreign transaction took the nonce. The loan's transaction could still be mined, so its amount stays
        // counted.
        let displaced = main.is_some_and(|slot| slot.is_nonce_taken);
        match &rec.end {
            _ if displaced => return (amount, amount),
            Some(LoanState::Executed { .. }) if !rec.may_lose_end => return (0, 0),
            Some(LoanState::Rejected { .. } | LoanState::Failed { .. }) if !rec.may_lose_end => {
                return if returned { (0, 0) } else { (0, amount) };
            }
            _ => {}
        }
        // The amount that a lost call reserved is free again after a restart, or at the latest when the call expires.
        let forgotten = !rec.accepted && rec.open.is_empty() && rec.expired(now).0;
        if forgotten && main.is_none() {
            return (0, 0);
        }
        // Once the transaction is in a block, either the reservation or the chain's value counts its amount.
        let in_flight = main.is_some_and(|slot| {
            let sent = !slot.hashes.is_empty() && !slot.may_return();
            sent && slot.included.is_none() && slot.unmined_at.is_none() && slot.mined.is_none()
        });
        let sure = rec.is_surely_held(now) || in_flight;
        (if sure { amount } else { 0 }, amount)
    }

    /// Returns the amount that the other supplies of an address reserve on these chains: (least, most).
    ///
    /// `counts`: whether a chain counts toward the ceiling, surely and possibly.
    pub(crate) fn reserved_by_others(
        &self,
        payer: &str,
        except: u64,
        counts: &dyn Fn(u64) -> (bool, bool),
        now: &Instant,
    ) -> (u128, u128) {
        let mut sum = (0u128, 0u128);
        for (key, rec) in self.records.iter().filter(|(key, _)| **key != except) {
            let ((paid, may), (on, maybe)) = (rec.is_paid_by(payer), counts(rec.terms.chain));
            let (least, most) = self.reserved_by_supply(*key, rec, now);
            let least = if paid && on { least } else { 0 };
            let most = if may && maybe { most } else { 0 };
            sum = (sum.0.saturating_add(least), sum.1.saturating_add(most));
        }
        sum
    }

    /// Returns the principal of an address at each venue, by the amounts that its transactions moved.
    ///
    /// A withdrawal of everything, or a booked loss, sets the lowest possible principal to zero. A finished withdrawal
    /// reduces the highest possible principal by the amount that the chain shows.
    pub(crate) fn principal(
        &self,
        payer: &str,
        coins: &BTreeMap<u64, Address>,
        written_off: &[(Ticket, u64, u64, Address)],
    ) -> Principal {
        let mut moves: Vec<(u64, &LoanRecord, &Slot)> = Vec::new();
        for (key, rec) in &self.records {
            let Some((_, slot)) = self.main_of(*key).filter(|_| rec.is_paid_by(payer).1) else {
                continue;
            };
            if slot.succeeded() || slot.unmined_at.is_some() {
                moves.push((slot.signed_at, rec, slot));
            }
        }
        moves.sort_by_key(|(signed, _, _)| *signed);
        let mut all = Principal::new();
        for (signed, rec, slot) in moves {
            let place = (rec.terms.chain, rec.terms.venue.clone());
            let sure = rec.is_paid_by(payer).0 && slot.succeeded();
            let coin = coins.get(&place.0).map(String::as_str).unwrap_or_default();
            let out = slot
                .included
                .as_ref()
                .map_or(0, |included| moved_coins(rec, included, coin, payer));
            let lost = written_off.iter().any(|(_, at, chain, venue)| {
                *at >= signed && (*chain, venue) == (place.0, &place.1)
            });
            let (least, most) = all.entry(place).or_default();
            if let Some(amount) = rec.supplied_assets() {
                // A supply that buys shares may move less than its amount.
                let took = slot.included.as_ref().map_or(amount, |_| out.min(amount));
                *least = if sure && !lost { least.saturating_add(took) } else { *least };
                *most = most.saturating_add(amount);
                continue;
            }
            let exit = rec.terms.amount == LoanAmount::All;
            *least = if exit { 0 } else { least.saturating_sub(out) };
            let finished = matches!(rec.end, Some(LoanState::Executed { .. })) && !rec.may_lose_end;
            if sure && finished {
                *most = most.saturating_sub(out);
            }
        }
        all
    }

    /// Returns the amount of an address's successful supplies to a venue, of those signed between two observations.
    pub(super) fn supplied_between(
        &self,
        payer: &str,
        place: &Place,
        signed: std::ops::RangeInclusive<u64>,
    ) -> u128 {
        let all = self.records.iter().filter_map(|(key, rec)| {
            let (_, slot) = self.main_of(*key)?;
            let here = (rec.terms.chain, &rec.terms.venue) == (place.0, &place.1);
            let mine = rec.is_paid_by(payer).1 && here && slot.succeeded();
            if mine && signed.contains(&slot.signed_at) { rec.supplied_assets() } else { None }
        });
        all.fold(0u128, u128::saturating_add)
    }
}
