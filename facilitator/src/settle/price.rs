//! The cached price of gas on a network and the cached balances of its signers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_chain::ports::ChainFault;

use crate::book::reservation::GasReservation;
use crate::transaction::GAS_MIN;

/// The resources that a payment needs from the signer that sends it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignerNeed {
    /// Gas and data that are reserved for the payment.
    pub reservation: GasReservation,
    /// The only signers that may send the payment; `None` if every signer may.
    pub senders: Option<Vec<Address>>,
}

impl SignerNeed {
    /// The minimum that any payment needs.
    pub const MIN: Self =
        Self { reservation: GasReservation { gas: GAS_MIN, data_kilobytes: 1 }, senders: None };
}

/// The price of gas on a network and the balances of its signers. All sums are in wei.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Whether the price is within `max_gas_price_gwei`.
    pub is_within_gas_price_max: bool,
    /// The price of a unit of gas that the next block requires.
    pub next_block_price: u128,
    /// The highest price per unit of gas that a transaction offers now.
    ///
    /// Nodes require that the signer can pay it.
    pub offered_max: u128,
    /// Upper bound of the fee for 1,000 bytes of data, on networks that charge it separately.
    pub data_fee: U256,
    /// Upper bound of the gas for 1,000 bytes of data, on networks that charge data as gas.
    pub data_gas: u64,
    /// The gas limit of a block.
    pub block_gas: Option<u64>,
    /// The newest block at the time of the lookup.
    pub block: u64,
    /// The balance of each signer.
    pub balances: BTreeMap<Address, U256>,
    /// The signers that send only jobs that are bound to them.
    pub retired_signers: BTreeSet<Address>,
    pub(super) looked_up_ms: u64,
    pub(super) data_looked_up_ms: u64,
}

impl Price {
    #[cfg(test)]
    pub(super) fn for_test(offered_max: u128, balances: &[u64]) -> Self {
        let signer = |(n, wei): (u8, &u64)| (Address::repeat_byte(n), U256::from(*wei));
        Self {
            is_within_gas_price_max: true,
            next_block_price: offered_max,
            offered_max,
            data_fee: U256::ZERO,
            data_gas: 0,
            block_gas: None,
            block: 1,
            balances: (1..).zip(balances).map(signer).collect(),
            retired_signers: BTreeSet::new(),
            looked_up_ms: 0,
            data_looked_up_ms: 0,
        }
    }

    /// The highest cost of reserved gas and data, in wei. `None` on overflow.
    pub fn cost(&self, reservation: GasReservation) -> Option<U256> {
        let gas = U256::from(reservation.gas).checked_mul(U256::from(self.offered_max))?;
        gas.checked_add(self.data_cost(reservation.data_kilobytes)?)
    }

    /// The cost of reserved gas and data at the prices of the next block, in wei; `None` on overflow.
    pub fn next_block_cost(&self, reservation: GasReservation) -> Option<U256> {
        let gas = U256::from(reservation.gas).checked_mul(U256::from(self.next_block_price))?;
        gas.checked_add(self.data_cost(reservation.data_kilobytes)?)
    }

    fn data_cost(&self, kilobytes: u64) -> Option<U256> {
        self.data_fee.checked_mul(U256::from(kilobytes))
    }

    /// Returns a reservation of `gas` and data, including the gas that is charged for the data.
    pub fn with_data(&self, gas: u64, kilobytes: u64) -> GasReservation {
        let data_gas = self.data_gas.saturating_mul(kilobytes);
        GasReservation { gas: gas.saturating_add(data_gas), data_kilobytes: kilobytes }
    }

    fn debit(&mut self, signer: Address, wei: U256) {
        if let Some(balance) = self.balances.get_mut(&signer) {
            *balance = balance.saturating_sub(wei);
        }
    }

    /// The sum of all signers' balances.
    pub fn total_balance(&self) -> U256 {
        self.balances.values().fold(U256::ZERO, |sum, wei| sum.saturating_add(*wei))
    }

    /// Whether a signer can pay for a payment in addition to `reserved`, in whatever way the signers share `reserved`.
    ///
    /// It is always true if gas is free.
    pub fn can_pay(&self, need: &SignerNeed, reserved: GasReservation) -> bool {
        let Some(cost) = self.cost(need.reservation) else { return false };
        if cost.is_zero() {
            return true;
        }
        // Suppose that no signer had `cost` left after paying its share of `reserved`. Then `reserved` would exceed the
        // sum of `room`.
        let is_allowed = |signer: &Address| match &need.senders {
            Some(bound) => bound.contains(signer),
            None => !self.retired_signers.contains(signer),
        };
        let allowed = self.balances.iter().filter(|(signer, _wei)| is_allowed(signer));
        let room: Vec<U256> = allowed.filter_map(|(_signer, wei)| wei.checked_sub(cost)).collect();
        let sum = room.iter().fold(U256::ZERO, |sum, wei| sum.saturating_add(*wei));
        !room.is_empty() && self.cost(reserved).is_some_and(|reserved| reserved <= sum)
    }
}

#[derive(Debug, Default)]
struct CachedPrice {
    price: Option<Arc<Price>>,
    /// The costs of transactions since the last lookup began. The balances of that lookup may not include these costs.
    debits: Vec<(Address, U256)>,
}

/// The last price, and whether a background task refreshes it.
#[derive(Debug, Default)]
pub(super) struct PriceCache {
    // The lock is held only to copy or replace the price.
    last: Mutex<CachedPrice>,
    pub(super) refreshing: AtomicBool,
    /// Allows one lookup at a time. A request that has waited uses the result of a lookup that began after the request.
    /// If the last lookup failed, the mutex contains its start time and its fault.
    pub(super) lookup: tokio::sync::Mutex<Option<(u64, ChainFault)>>,
}

impl PriceCache {
    pub(super) fn last(&self) -> Option<Arc<Price>> {
        self.lock().price.clone()
    }

    fn lock(&self) -> MutexGuard<'_, CachedPrice> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_lookup(&self) {
        self.lock().debits.clear();
    }

    /// Stores a looked-up price. Deducts the debits since the start of the lookup. The looked-up balances may already
    /// include them, so they may count twice until the next lookup.
    pub(super) fn store(&self, mut price: Price) -> Arc<Price> {
        let mut last = self.lock();
        for (signer, wei) in &last.debits {
            price.debit(*signer, *wei);
        }
        let price = Arc::new(price);
        last.price = Some(Arc::clone(&price));
        price
    }

    /// Deducts the cost of a transaction from the cached balance of its signer, until the next lookup.
    pub(super) fn debit(&self, signer: Address, wei: U256) {
        let mut last = self.lock();
        last.debits.push((signer, wei));
        if let Some(price) = last.price.as_mut() {
            Arc::make_mut(price).debit(signer, wei);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(offered_max: u128, balances: &[u64]) -> Price {
        Price::for_test(offered_max, balances)
    }

    fn reservation(gas: u64) -> GasReservation {
        GasReservation { gas, data_kilobytes: 0 }
    }

    fn can_pay(price: &Price, gas: u64, reserved: GasReservation) -> bool {
        can_pay_from(price, gas, reserved, None)
    }

    fn can_pay_from(
        price: &Price,
        gas: u64,
        reserved: GasReservation,
        sender: Option<Address>,
    ) -> bool {
        let senders = sender.map(|only| vec![only]);
        let reservation = GasReservation { gas, data_kilobytes: 1 };
        price.can_pay(&SignerNeed { reservation, senders }, reserved)
    }

    #[test]
    fn one_signer_covers_the_cost_and_all_signers_cover_the_reserved_gas() {
        let two = price(10, &[1_000, 600]);
        assert!(can_pay(&two, 100, reservation(0)));
        assert!(!can_pay(&two, 101, reservation(0)), "two halves are not one signer");
        let one = price(10, &[1_600]);
        assert!(can_pay(&one, 100, reservation(60)));
        assert!(!can_pay(&one, 100, reservation(61)));
        assert!(!can_pay(&price(10, &[0]), 1, reservation(0)));
        assert!(!can_pay(&price(10, &[]), 1, reservation(0)));
        assert!(!can_pay(&price(u128::MAX, &[u64::MAX]), u64::MAX, reservation(0)));
        assert!(!can_pay(&price(1, &[u64::MAX]), 1, reservation(u64::MAX)));
    }

    #[test]
    fn reserved_gas_may_fall_on_any_signer() {
        let two = price(10, &[1_500, 1_500]);
        // The 100 gas of other payments may be split as 51 and 49 between the signers. In every split, one signer has
        // enough left.
        assert!(can_pay(&two, 100, reservation(100)));
        assert!(!can_pay(&two, 100, reservation(101)), "51 and 50 leave no signer enough");
        // A small payment needs little, so it leaves more room for reserved gas.
        assert!(can_pay(&two, 10, reservation(280)));
        assert!(!can_pay(&two, 10, reservation(281)));
    }

    #[test]
    fn payment_with_a_fixed_signer_needs_that_signers_balance() {
        let two = price(10, &[500, 5_000]);
        let (first, second) = (Address::repeat_byte(1), Address::repeat_byte(2));
        assert!(!can_pay_from(&two, 100, reservation(0), Some(first)));
        assert!(can_pay_from(&two, 50, reservation(0), Some(first)));
        assert!(can_pay_from(&two, 100, reservation(0), Some(second)));
        assert!(
            !can_pay_from(&two, 1, reservation(0), Some(Address::repeat_byte(3))),
            "no signer of ours"
        );
        // All reserved gas may count against the only permitted signer.
        assert!(can_pay_from(&two, 40, reservation(10), Some(first)));
        assert!(!can_pay_from(&two, 40, reservation(11), Some(first)));
    }

    #[test]
    fn debits_during_a_balance_lookup_are_kept() {
        let prices = PriceCache::default();
        let signer = Address::repeat_byte(1);
        let left = |prices: &PriceCache| prices.last().map(|price| price.balances[&signer]);
        prices.debit(signer, U256::from(7));
        prices.begin_lookup();
        let read = price(1, &[1_000]);
        prices.debit(signer, U256::from(100));
        let kept = prices.store(read);
        assert_eq!(kept.balances[&signer], U256::from(900));
        assert_eq!(left(&prices), Some(U256::from(900)));
        prices.debit(signer, U256::from(50));
        assert_eq!(left(&prices), Some(U256::from(850)));
        // The balances of the next lookup already contain both debits.
        prices.begin_lookup();
        assert_eq!(prices.store(price(1, &[850])).balances[&signer], U256::from(850));
    }

    #[test]
    fn a_payment_with_more_data_costs_more() {
        let both = Price { data_fee: U256::from(5), data_gas: 20, ..price(10, &[1_050]) };
        assert_eq!(both.with_data(100, 3), GasReservation { gas: 160, data_kilobytes: 3 });
        let need =
            |kilobytes| SignerNeed { reservation: both.with_data(80, kilobytes), senders: None };
        assert!(both.can_pay(&need(1), reservation(0)));
        assert!(!both.can_pay(&need(2), reservation(0)));
        let half = Price { next_block_price: 5, ..both };
        assert_eq!(half.next_block_cost(half.with_data(80, 2)), Some(U256::from(610)));
    }

    #[test]
    fn data_fee_counts_and_free_networks_need_no_coin() {
        let fee = Price { data_fee: U256::from(5), ..price(10, &[1_000]) };
        assert!(can_pay(&fee, 99, reservation(0)));
        assert!(!can_pay(&fee, 100, reservation(0)));
        // The other payments pay for their data too: 50 gas and 3 fees of 5 cost 515; 48 gas and one fee cost 485.
        let three = GasReservation { gas: 50, data_kilobytes: 3 };
        assert!(can_pay(&fee, 48, three));
        assert!(!can_pay(&fee, 49, three));
        assert!(can_pay(&price(0, &[0]), 1_000_000, reservation(u64::MAX)));
        let only_data = Price { data_fee: U256::from(5), ..price(0, &[4]) };
        assert!(!can_pay(&only_data, 1, reservation(0)));
    }
}
