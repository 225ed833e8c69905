//! Gas by network and caller: reserved for payments in flight, and paid today. Pure.

use std::collections::HashMap;

use alloy_primitives::{B256, U256};
use bursar_core::networks::ChainId;
use bursar_submit::SubmissionId;

use crate::book::reservation::GasReservation;
use crate::book::store::GasSpent;
use crate::job_key::JobKey;

/// Account key for the sum over all callers of a network. No caller's digest is zero.
const ALL_CALLERS: B256 = B256::ZERO;

/// The gas and the spending that count against a new payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GasUsage {
    /// The gas reserved for payments of the network that may still cost a signer coin.
    pub network_reserved: GasReservation,
    /// The gas reserved for the caller, including transactions that are mined but not closed.
    pub caller_reserved: GasReservation,
    /// The gas reserved for all callers, including transactions that are mined but not closed.
    pub total_reserved: GasReservation,
    /// Wei paid today for the caller.
    pub spent_caller: U256,
    /// Wei paid today for all callers.
    pub spent_total: U256,
}

#[derive(Debug, Clone, Copy)]
struct GasHold {
    chain: ChainId,
    caller: B256,
    reservation: GasReservation,
    /// Whether the money moved. If it did, the hold no longer counts as open.
    is_settled: bool,
    batch: Option<SubmissionId>,
}

/// The gas accounts of one facilitator.
#[derive(Debug, Default)]
pub(super) struct GasBook {
    /// Holds of payments that have not ended.
    holds: HashMap<JobKey, GasHold>,
    /// Holds of ended payments, by their transaction, as long as that transaction is not closed.
    ended_holds: HashMap<SubmissionId, Vec<GasHold>>,
    reserved_by_network: HashMap<ChainId, GasReservation>,
    reserved_by_account: HashMap<(ChainId, B256), GasReservation>,
    day: i64,
    spent: HashMap<(ChainId, B256), U256>,
}

impl GasBook {
    /// Reserves gas for a payment. Does nothing if the payment already has a hold.
    pub(super) fn reserve(
        &mut self,
        key: JobKey,
        chain: ChainId,
        caller: B256,
        reservation: GasReservation,
    ) {
        if self.holds.contains_key(&key) {
            return;
        }
        let hold = GasHold { chain, caller, reservation, is_settled: false, batch: None };
        self.holds.insert(key, hold);
        self.reserved_by_network.entry(chain).or_default().add(hold.reservation);
        for account in [caller, ALL_CALLERS] {
            self.reserved_by_account.entry((chain, account)).or_default().add(hold.reservation);
        }
    }

    /// Records that a payment is part of a transaction; `None` means that it is queued again.
    pub(super) fn assign(&mut self, key: JobKey, batch: Option<SubmissionId>) {
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.batch = batch;
        }
    }

    /// Records that a payment has ended. The cost of its transaction is known only when the transaction is closed.
    /// Until then a withdrawn payment counts as open, because the no-op transaction that uses its nonce costs gas.
    pub(super) fn end(&mut self, key: &JobKey, settled: bool) {
        let Some(mut hold) = self.holds.remove(key) else { return };
        let Some(batch) = hold.batch else { return self.release_hold(&hold) };
        if settled {
            hold.is_settled = true;
            subtract(&mut self.reserved_by_network, hold.chain, hold.reservation);
        }
        self.ended_holds.entry(batch).or_default().push(hold);
    }

    /// Closes a transaction: releases its holds and counts its cost.
    pub(super) fn close(&mut self, batch: SubmissionId, spent: &[GasSpent]) {
        for hold in self.ended_holds.remove(&batch).unwrap_or_default() {
            self.release_hold(&hold);
        }
        for one in spent {
            self.add_spent(one);
        }
    }

    /// Counts gas that was paid. Keeps only the newest day.
    pub(super) fn add_spent(&mut self, one: &GasSpent) {
        self.roll_day(one.day);
        if one.day == self.day {
            for account in [one.caller, ALL_CALLERS] {
                let sum = self.spent.entry((one.chain, account)).or_default();
                *sum = sum.saturating_add(one.wei);
            }
        }
    }

    /// The gas and the spending that count against a new payment of a caller.
    pub(super) fn usage(&mut self, chain: ChainId, caller: B256, day: i64) -> GasUsage {
        self.roll_day(day);
        let held =
            |account| self.reserved_by_account.get(&(chain, account)).copied().unwrap_or_default();
        let spent = |account| self.spent.get(&(chain, account)).copied().unwrap_or_default();
        GasUsage {
            network_reserved: self.reserved_by_network.get(&chain).copied().unwrap_or_default(),
            caller_reserved: held(caller),
            total_reserved: held(ALL_CALLERS),
            spent_caller: spent(caller),
            spent_total: spent(ALL_CALLERS),
        }
    }

    /// The usage without the hold of this payment, which another request for the same payment may have created.
    pub(super) fn usage_except(
        &mut self,
        key: &JobKey,
        chain: ChainId,
        caller: B256,
        day: i64,
    ) -> GasUsage {
        let mut usage = self.usage(chain, caller, day);
        if let Some(hold) = self.holds.get(key) {
            usage.network_reserved.sub(hold.reservation);
            usage.total_reserved.sub(hold.reservation);
            if hold.caller == caller {
                usage.caller_reserved.sub(hold.reservation);
            }
        }
        usage
    }

    /// Releases the hold of a payment that was not accepted.
    pub(super) fn release(&mut self, key: &JobKey) {
        if let Some(hold) = self.holds.remove(key) {
            self.release_hold(&hold);
        }
    }

    fn release_hold(&mut self, hold: &GasHold) {
        if !hold.is_settled {
            subtract(&mut self.reserved_by_network, hold.chain, hold.reservation);
        }
        for account in [hold.caller, ALL_CALLERS] {
            subtract(&mut self.reserved_by_account, (hold.chain, account), hold.reservation);
        }
    }

    /// Starts a new day. A clock that is set back does not reopen an old day.
    fn roll_day(&mut self, day: i64) {
        if day > self.day {
            self.day = day;
            self.spent.clear();
        }
    }
}

/// Subtracts a reservation from a sum, and removes the sum at zero.
fn subtract<K: Eq + std::hash::Hash>(
    sums: &mut HashMap<K, GasReservation>,
    key: K,
    reservation: GasReservation,
) {
    if let Some(sum) = sums.get_mut(&key) {
        sum.sub(reservation);
        if *sum == GasReservation::default() {
            sums.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: ChainId = ChainId(8453);

    fn key(n: u8) -> JobKey {
        JobKey(B256::repeat_byte(n))
    }

    fn caller(n: u8) -> B256 {
        B256::repeat_byte(n)
    }

    fn reservation(gas: u64) -> GasReservation {
        GasReservation { gas, data_kilobytes: 1 }
    }

    fn gas_spent(day: i64, of: u8, wei: u64) -> GasSpent {
        GasSpent { chain: CHAIN, day, caller: caller(of), wei: U256::from(wei) }
    }

    #[test]
    fn gas_is_held_until_the_payment_ends_and_its_transaction_is_accounted_for() {
        let mut book = GasBook::default();
        let batch = SubmissionId([1; 16]);
        book.reserve(key(1), CHAIN, caller(7), reservation(100));
        book.reserve(key(1), CHAIN, caller(7), reservation(100));
        book.reserve(key(2), CHAIN, caller(8), reservation(50));
        let reservation = |book: &mut GasBook| {
            let usage = book.usage(CHAIN, caller(7), 5);
            assert_eq!(
                usage.network_reserved.data_kilobytes,
                usage.network_reserved.gas.div_ceil(100)
            );
            (usage.network_reserved.gas, usage.caller_reserved.gas, usage.total_reserved.gas)
        };
        let both = book.usage(CHAIN, caller(7), 5);
        assert_eq!(
            (
                both.network_reserved.data_kilobytes,
                both.caller_reserved.data_kilobytes,
                both.total_reserved.data_kilobytes
            ),
            (2, 1, 2)
        );
        assert_eq!(
            (both.network_reserved.gas, both.caller_reserved.gas, both.total_reserved.gas),
            (150, 100, 150)
        );
        book.assign(key(1), Some(batch));
        book.end(&key(1), true);
        book.end(&key(1), true);
        assert_eq!(reservation(&mut book), (50, 100, 150), "not accounted for yet");
        book.close(batch, &[gas_spent(5, 7, 9)]);
        assert_eq!(reservation(&mut book), (50, 0, 50));
        let usage = book.usage(CHAIN, caller(7), 5);
        assert_eq!((usage.spent_caller, usage.spent_total), (U256::from(9), U256::from(9)));
        // A payment that was never in a transaction releases its gas at once.
        book.end(&key(2), false);
        assert_eq!(book.usage(CHAIN, caller(8), 5).total_reserved, GasReservation::default());
        assert!(
            book.holds.is_empty()
                && book.reserved_by_network.is_empty()
                && book.reserved_by_account.is_empty()
        );
    }

    #[test]
    fn gas_of_a_withdrawn_payment_stays_reserved_until_its_nonce_is_used() {
        let mut book = GasBook::default();
        let batch = SubmissionId([1; 16]);
        book.reserve(key(1), CHAIN, caller(7), reservation(100));
        book.assign(key(1), Some(batch));
        book.end(&key(1), false);
        let usage = book.usage(CHAIN, caller(7), 5);
        assert_eq!((usage.network_reserved.gas, usage.total_reserved.gas), (100, 100));
        book.close(batch, &[]);
        assert_eq!(book.usage(CHAIN, caller(7), 5), GasUsage::default());
    }

    #[test]
    fn reaccepted_payment_reserves_gas_once_in_addition_to_its_old_transaction() {
        let mut book = GasBook::default();
        let (old, new) = (SubmissionId([1; 16]), SubmissionId([2; 16]));
        book.reserve(key(1), CHAIN, caller(7), reservation(100));
        book.assign(key(1), Some(old));
        // A second hold changes nothing, in particular not the transaction.
        book.reserve(key(1), CHAIN, caller(8), reservation(50));
        book.end(&key(1), false);
        assert_eq!(book.usage(CHAIN, caller(7), 5).caller_reserved.gas, 100);
        book.reserve(key(1), CHAIN, caller(8), reservation(50));
        let usage = book.usage(CHAIN, caller(8), 5);
        assert_eq!(
            (usage.caller_reserved.gas, usage.total_reserved.gas),
            (50, 150),
            "both may cost gas"
        );
        // The payment is not accepted after all: its earlier transaction still counts.
        book.release(&key(1));
        assert_eq!(book.usage(CHAIN, caller(7), 5).total_reserved.gas, 100);
        book.reserve(key(1), CHAIN, caller(8), reservation(50));
        book.close(old, &[]);
        assert_eq!(
            book.usage(CHAIN, caller(8), 5).network_reserved.gas,
            50,
            "closing the old transaction does not release it"
        );
        book.assign(key(1), Some(new));
        book.end(&key(1), true);
        book.close(new, &[]);
        assert_eq!(book.usage(CHAIN, caller(8), 5), GasUsage::default());
    }

    #[test]
    fn own_gas_reservation_does_not_count_against_a_payment() {
        let mut book = GasBook::default();
        book.reserve(key(1), CHAIN, caller(7), reservation(100));
        book.reserve(key(2), CHAIN, caller(8), reservation(50));
        let own = book.usage_except(&key(1), CHAIN, caller(7), 5);
        assert_eq!(
            (own.network_reserved.gas, own.caller_reserved.gas, own.total_reserved.gas),
            (50, 0, 50)
        );
        let others = book.usage_except(&key(1), CHAIN, caller(8), 5);
        assert_eq!(
            (others.network_reserved.gas, others.caller_reserved.gas, others.total_reserved.gas),
            (50, 50, 50)
        );
        let all = book.usage_except(&key(3), CHAIN, caller(8), 5);
        assert_eq!(
            (all.network_reserved.gas, all.caller_reserved.gas, all.total_reserved.gas),
            (150, 50, 150)
        );
        book.assign(key(1), Some(SubmissionId([1; 16])));
        book.end(&key(1), true);
        let again = book.usage_except(&key(1), CHAIN, caller(7), 5);
        assert_eq!(
            again.caller_reserved.gas, 100,
            "what was spent for it counts until it is accounted for"
        );
    }

    #[test]
    fn requeued_payment_keeps_its_gas_when_its_old_transaction_is_closed() {
        let mut book = GasBook::default();
        let (old, new) = (SubmissionId([1; 16]), SubmissionId([2; 16]));
        book.reserve(key(1), CHAIN, caller(7), reservation(100));
        book.assign(key(1), Some(old));
        book.assign(key(1), None);
        book.close(old, &[]);
        assert_eq!(book.usage(CHAIN, caller(7), 5).network_reserved.gas, 100);
        book.assign(key(1), Some(new));
        book.end(&key(1), false);
        book.close(old, &[]);
        assert_eq!(
            book.usage(CHAIN, caller(7), 5).network_reserved.gas,
            100,
            "closing the old transaction does not release it"
        );
        book.close(new, &[]);
        assert_eq!(book.usage(CHAIN, caller(7), 5), GasUsage::default());
    }

    #[test]
    fn each_day_starts_with_no_gas_spent_and_starts_only_once() {
        let mut book = GasBook::default();
        book.add_spent(&gas_spent(5, 7, 9));
        book.add_spent(&gas_spent(4, 7, 100));
        assert_eq!(book.usage(CHAIN, caller(7), 5).spent_total, U256::from(9));
        assert_eq!(book.usage(CHAIN, caller(7), 4).spent_total, U256::from(9), "set back");
        assert_eq!(book.usage(CHAIN, caller(7), 6).spent_total, U256::ZERO);
        assert_eq!(book.usage(ChainId(1), caller(7), 6).spent_total, U256::ZERO);
    }
}
