//! What gas costs on a network and what its signers have, as far as a node said so a moment ago. While there are
//! requests it is looked up next to them, not by them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_chain::data_fee;
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_submit::fees;

use crate::book::gas::Aside;
use crate::exact::Method;
use crate::settle::dispatch::Settler;
use crate::transaction::LEAST_GAS;

/// From how old on it is looked up again.
const REFRESH_MS: u64 = 2_000;
/// Older than this it is not used.
const STALE_MS: u64 = 10_000;
/// How long the fee for the data is believed: it counts twice, so it may double meanwhile.
const DATA_FEE_MS: u64 = 60_000;
/// Bytes of a transaction with one payment, rounded up: what the fee for the data is asked for.
const PAYMENT_BYTES: usize = 1_000;

/// What is known of a network's gas and of those who pay it. All sums are in wei.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Within what the operator pays for a unit of gas.
    pub affordable: bool,
    /// What the next block takes for a unit of gas.
    pub needed: u128,
    /// What a transaction offers for a unit of gas now, at most: nodes want the signer to have that much.
    pub most: u128,
    /// The fee for the data of one payment, at most, where a network takes it apart.
    pub data_fee: U256,
    /// Gas for the data of one payment, at most, on networks that charge data as gas.
    pub data_gas: u64,
    /// The gas of all transactions of a block together.
    pub block_gas: Option<u64>,
    /// The newest block then.
    pub block: u64,
    /// What each signer has.
    pub balances: BTreeMap<Address, U256>,
    /// The signer of payments that only a registered sender may send.
    pub first: Option<Address>,
    at_ms: u64,
    data_at_ms: u64,
}

impl Price {
    #[cfg(test)]
    pub(super) fn of_test(most: u128, balances: &[u64]) -> Self {
        let signer = |(n, wei): (u8, &u64)| (Address::repeat_byte(n), U256::from(*wei));
        Self {
            affordable: true,
            needed: most,
            most,
            data_fee: U256::ZERO,
            data_gas: 0,
            block_gas: None,
            block: 1,
            balances: (1..).zip(balances).map(signer).collect(),
            first: (!balances.is_empty()).then(|| Address::repeat_byte(1)),
            at_ms: 0,
            data_at_ms: 0,
        }
    }

    /// Cost in wei of all that is set aside. `None` on overflow.
    pub fn cost(&self, aside: Aside) -> Option<U256> {
        let gas = U256::from(aside.gas).checked_mul(U256::from(self.most))?;
        gas.checked_add(self.data_fee.checked_mul(U256::from(aside.payments))?)
    }

    /// Cost in wei of one payment that uses `gas`. `None` on overflow.
    pub fn cost_of_one(&self, gas: u64) -> Option<U256> {
        self.cost(Aside { gas, payments: 1 })
    }

    /// The only signer that may send payments of a method. `None`: every signer may.
    pub fn sender_of(&self, method: &dyn Method) -> Option<Address> {
        if method.takes_any_caller() { None } else { self.first }
    }

    /// What the transaction of one payment would really cost now, at most.
    pub fn real_cost(&self, gas: u64) -> Option<U256> {
        U256::from(gas).checked_mul(U256::from(self.needed))?.checked_add(self.data_fee)
    }

    /// What all signers have together.
    pub fn coin(&self) -> U256 {
        self.balances.values().fold(U256::ZERO, |sum, wei| sum.saturating_add(*wei))
    }

    /// Whether a signer can pay for a payment that uses `gas`, in addition to `aside`, however the signers share
    /// `aside`. Always true where gas is free. `bound`: the only signer that may send the payment.
    pub fn can_pay(&self, gas: u64, aside: Aside, bound: Option<Address>) -> bool {
        let Some(cost) = self.cost_of_one(gas) else { return false };
        if cost.is_zero() {
            return true;
        }
        // If the payment fits no signer, each has less than `cost` left, so `aside` exceeds the sum of the rest.
        let allowed =
            self.balances.iter().filter(|(signer, _wei)| bound.is_none_or(|one| one == **signer));
        let room: Vec<U256> = allowed.filter_map(|(_signer, wei)| wei.checked_sub(cost)).collect();
        let sum = room.iter().fold(U256::ZERO, |sum, wei| sum.saturating_add(*wei));
        !room.is_empty() && self.cost(aside).is_some_and(|others| others <= sum)
    }
}

/// The last price, and whether a task looks it up.
#[derive(Debug, Default)]
pub(super) struct Prices {
    // Held for one look-up.
    last: Mutex<Option<Arc<Price>>>,
    looking: AtomicBool,
    /// One look-up at a time; a waiting request uses the result of the one before it. Holds the start time and the
    /// fault of the last look-up if it failed.
    turn: tokio::sync::Mutex<Option<(u64, ChainFault)>>,
}

impl Prices {
    pub(super) fn last(&self) -> Option<Arc<Price>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes what a transaction cost from what its signer is known to have, until that is looked up again.
    pub(super) fn debit(&self, signer: Address, wei: U256) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(price) = last.as_mut()
            && let Some(balance) = Arc::make_mut(price).balances.get_mut(&signer)
        {
            *balance = balance.saturating_sub(wei);
        }
    }
}

impl Settler {
    /// An upper bound in wei for a transaction whose receipt cannot be read.
    pub(super) fn most_spent(&self, aside: Aside) -> Option<U256> {
        self.prices.last()?.cost(aside)
    }

    /// What gas costs and what signers have, now or a moment ago.
    ///
    /// # Errors
    /// No node answers.
    pub async fn price(self: &Arc<Self>) -> Result<Arc<Price>, ChainFault> {
        let now = self.served.clock.mono_ms();
        let age = |price: &Price| now.saturating_sub(price.at_ms);
        let Some(price) = self.prices.last().filter(|price| age(price) < STALE_MS) else {
            return self.look_up_price().await;
        };
        if age(&price) < REFRESH_MS {
            return Ok(price);
        }
        // A top-up is seen by the first request after it: it is not refused by what was known before.
        if !price.can_pay(LEAST_GAS, Aside::default(), None) {
            return self.look_up_price().await;
        }
        if !self.prices.looking.swap(true, Ordering::AcqRel) {
            let settler = Arc::clone(self);
            self.tasks.spawn(async move {
                if let Err(fault) = settler.look_up_price().await {
                    tracing::debug!(%fault, "the price of gas is not known");
                }
                settler.prices.looking.store(false, Ordering::Release);
            });
        }
        Ok(price)
    }

    /// Looks everything up that [`Price`] holds.
    ///
    /// # Errors
    /// No node answers, or what it says makes no price.
    pub async fn look_up_price(&self) -> Result<Arc<Price>, ChainFault> {
        let asked_ms = self.served.clock.mono_ms();
        let (mut turn, waited) = match self.prices.turn.try_lock() {
            Ok(turn) => (turn, false),
            Err(_taken) => (self.prices.turn.lock().await, true),
        };
        if let Some(price) = self.prices.last().filter(|price| price.at_ms >= asked_ms) {
            return Ok(price);
        }
        // A request that waited for a failed look-up fails with it instead of waiting for another.
        let failed = turn.as_ref().filter(|(began, _fault)| waited && *began >= asked_ms);
        if let Some((_began, fault)) = failed {
            return Err(fault.clone());
        }
        let began_ms = self.served.clock.mono_ms();
        let looked = self.look_up_price_at(began_ms).await;
        *turn = looked.as_ref().err().map(|fault| (began_ms, fault.clone()));
        looked
    }

    async fn look_up_price_at(&self, at_ms: u64) -> Result<Arc<Price>, ChainFault> {
        let (gas, chain) = (self.served.config.gas(), &self.served.chain);
        let balance = |signer: &Address| {
            let signer = *signer;
            async move { Ok::<_, ChainFault>((signer, chain.balance(signer, BlockTag::Latest).await?)) }
        };
        let balances = futures::future::try_join_all(self.served.signers.iter().map(balance));
        let known = self.prices.last();
        let known = known.map(|last| (last.data_fee, last.data_gas, last.data_at_ms));
        let known = known.filter(|(_fee, _gas, at)| at_ms.saturating_sub(*at) < DATA_FEE_MS);
        let data = async {
            if let Some(known) = known {
                return Ok(known);
            }
            let fee = data_fee::most(&**chain, &gas, PAYMENT_BYTES).await?;
            Ok((fee, self.data_gas_of_payment(PAYMENT_BYTES).await?, at_ms))
        };
        let all = futures::future::try_join3(chain.fee_facts(), balances, data);
        let (facts, balances, (data_fee, data_gas, data_at_ms)) = all.await?;
        let unusable = |message: String| ChainFault::Rejected { code: 0, message };
        let quote = fees::quote(&gas, &facts).map_err(|fault| unusable(fault.to_string()))?;
        // Start block of the search for an earlier settlement; without it the search would scan the whole chain.
        let no_number = || unusable("the node did not say which block is the newest".to_owned());
        let within = fees::within(&quote, gas.ceiling);
        let price = Arc::new(Price {
            affordable: within.is_some(),
            needed: quote.needed,
            most: within.map_or(gas.ceiling, |fees| fees.most()),
            data_fee,
            data_gas,
            block_gas: facts.block_gas,
            block: facts.block.ok_or_else(no_number)?,
            balances: balances.into_iter().collect(),
            first: self.served.signers.first().copied(),
            at_ms,
            data_at_ms,
        });
        *self.prices.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&price));
        Ok(price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact;
    use crate::payment::MethodId;

    fn price(most: u128, balances: &[u64]) -> Price {
        Price::of_test(most, balances)
    }

    fn aside(gas: u64) -> Aside {
        Aside { gas, payments: 0 }
    }

    #[test]
    fn a_signer_must_have_the_whole_cost_and_all_signers_what_is_set_aside_too() {
        let two = price(10, &[1_000, 600]);
        assert!(two.can_pay(100, aside(0), None));
        assert!(!two.can_pay(101, aside(0), None), "two halves are not one signer");
        let one = price(10, &[1_600]);
        assert!(one.can_pay(100, aside(60), None));
        assert!(!one.can_pay(100, aside(61), None));
        assert!(!price(10, &[0]).can_pay(1, aside(0), None));
        assert!(!price(10, &[]).can_pay(1, aside(0), None));
        assert!(!price(u128::MAX, &[u64::MAX]).can_pay(u64::MAX, aside(0), None));
        assert!(!price(1, &[u64::MAX]).can_pay(1, aside(u64::MAX), None));
    }

    #[test]
    fn what_is_set_aside_may_be_with_any_signer() {
        let two = price(10, &[1_500, 1_500]);
        // Of others' 100 gas each signer may have to send 51 and 49: what is left fits either way.
        assert!(two.can_pay(100, aside(100), None));
        assert!(!two.can_pay(100, aside(101), None), "51 and 50 leave no signer enough");
        // What is small can be anywhere, and leaves more.
        assert!(two.can_pay(10, aside(280), None));
        assert!(!two.can_pay(10, aside(281), None));
    }

    #[test]
    fn a_payment_that_one_signer_must_send_is_paid_for_by_that_one() {
        let two = price(10, &[500, 5_000]);
        let (first, second) = (Address::repeat_byte(1), Address::repeat_byte(2));
        assert!(!two.can_pay(100, aside(0), Some(first)));
        assert!(two.can_pay(50, aside(0), Some(first)));
        assert!(two.can_pay(100, aside(0), Some(second)));
        assert!(!two.can_pay(1, aside(0), Some(Address::repeat_byte(3))), "no signer of ours");
        // What is set aside may all be with that one.
        assert!(two.can_pay(40, aside(10), Some(first)));
        assert!(!two.can_pay(40, aside(11), Some(first)));
        assert_eq!(two.sender_of(exact::method(MethodId::Prism)), Some(first));
        assert_eq!(two.sender_of(exact::method(MethodId::Eip3009)), None);
        assert_eq!(two.sender_of(exact::method(MethodId::Permit2)), None);
    }

    #[test]
    fn the_fee_for_data_counts_and_where_nothing_costs_anything_everyone_can_pay() {
        let fee = Price { data_fee: U256::from(5), ..price(10, &[1_000]) };
        assert!(fee.can_pay(99, aside(0), None));
        assert!(!fee.can_pay(100, aside(0), None));
        // Each of the others pays for its data, too: 50 gas and 3 fees of 5 are 515, and 48 gas and one are 485.
        let three = Aside { gas: 50, payments: 3 };
        assert!(fee.can_pay(48, three, None));
        assert!(!fee.can_pay(49, three, None));
        assert!(price(0, &[0]).can_pay(1_000_000, aside(u64::MAX), None));
        let only_data = Price { data_fee: U256::from(5), ..price(0, &[4]) };
        assert!(!only_data.can_pay(1, aside(0), None));
    }
}
