//! The limits of a payment's gas: the signers' coin, the payment's value, and the daily budgets of its caller and of
//! all callers. Pure.

use alloy_primitives::U256;

use crate::book::gas::GasUsage;
use crate::book::reservation::GasReservation;
use crate::config::NetworkConfig;
use crate::job::Job;
use crate::reason::{Reason, Rejection};
use crate::settle::price::{Price, SignerNeed};

const WEI_PER_COIN: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// Checks whether a payment may be accepted, given the gas that it needs and the usage that already counts.
///
/// # Errors
/// [`Reason::OutOfGas`], [`Reason::GasTooHigh`], [`Reason::GasBudget`].
pub(super) fn check_affordable(
    config: &NetworkConfig,
    price: &Price,
    job: &Job,
    need: &SignerNeed,
    usage: &GasUsage,
) -> Result<(), Rejection> {
    let reject = |reason: Reason| Rejection::from(reason).for_payer(job.work().payer());
    if !price.can_pay(need, usage.network_reserved) {
        return Err(reject(Reason::OutOfGas));
    }
    if !is_worth_its_gas(config, price, job, need.reservation) {
        return Err(reject(Reason::GasTooHigh));
    }
    if is_within_budgets(config, price, need.reservation, usage) {
        Ok(())
    } else {
        Err(reject(Reason::GasBudget))
    }
}

/// Whether this gas still fits into today's budgets, both the caller's and the total.
pub(super) fn is_within_budgets(
    config: &NetworkConfig,
    price: &Price,
    reservation: GasReservation,
    usage: &GasUsage,
) -> bool {
    let is_within = |percent: u8, held: GasReservation, spent: U256| {
        // The signers' coin at the start of the day plus later deposits, computed as their balances plus what they
        // spent today.
        let coin = price.total_balance().saturating_add(usage.spent_total);
        let budget = percent_of(coin, percent);
        let held_cost = price.cost(held);
        let cost = held_cost.and_then(|held| held.checked_add(price.cost(reservation)?));
        cost.is_some_and(|cost| cost.is_zero() || spent.saturating_add(cost) <= budget)
    };
    is_within(config.gas_budget_caller_percent, usage.caller_reserved, usage.spent_caller)
        && is_within(config.gas_budget_percent, usage.total_reserved, usage.spent_total)
}

/// Whether a payment's gas costs no more than the permitted share of its value. Only the network's dollar token has a
/// known value. If a share is set, payments in other tokens count as worth nothing.
fn is_worth_its_gas(
    config: &NetworkConfig,
    price: &Price,
    job: &Job,
    reservation: GasReservation,
) -> bool {
    let (Some(share), Some(native_usd)) = (config.max_gas_share_percent, config.native_micro_usd)
    else {
        return true;
    };
    let coin = &config.network.stablecoin;
    let worth = job.work().value();
    let value = if worth.token == coin.address {
        micro_usd(worth.amount, coin.decimals)
    } else {
        U256::ZERO
    };
    let cost =
        price.next_block_cost(reservation).and_then(|wei| wei.checked_mul(U256::from(native_usd)));
    let Some(cost) = cost.map(|cost| cost.div_ceil(WEI_PER_COIN)) else { return false };
    cost <= percent_of(value, share)
}

/// Returns the share of a value, rounded down.
fn percent_of(value: U256, percent: impl Into<u64>) -> U256 {
    let times = value.saturating_mul(U256::from(percent.into()));
    times.checked_div(U256::from(100)).unwrap_or_default()
}

/// Converts smallest units of a dollar token to millionths of a dollar, rounded down.
fn micro_usd(amount: U256, decimals: u8) -> U256 {
    let ten = U256::from(10);
    match decimals.checked_sub(6) {
        Some(surplus) => {
            amount.checked_div(ten.saturating_pow(U256::from(surplus))).unwrap_or_default()
        }
        None => {
            let missing = 6_u8.saturating_sub(decimals);
            amount.saturating_mul(ten.saturating_pow(U256::from(missing)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payment::{MethodId, Payment, Terms};
    use alloy_primitives::{Address, B256, Bytes};
    use bursar_core::networks::{ChainId, by_chain};
    use proptest::prelude::*;

    fn config() -> NetworkConfig {
        NetworkConfig::of(by_chain(ChainId(8453)).unwrap())
    }

    fn payment(token: Address, amount: u64) -> Job {
        Job::Payment(Payment {
            chain: ChainId(8453),
            method: MethodId::Eip3009,
            terms: Terms {
                token,
                payer: Address::repeat_byte(2),
                payee: Address::repeat_byte(3),
                authorized_amount: U256::from(amount),
                nonce: B256::ZERO,
                valid_after: U256::ZERO,
                valid_before: U256::MAX,
                facilitator: None,
            },
            amount: U256::from(amount),
            digest: B256::ZERO,
            signature: Bytes::new(),
            deployment: None,
            is_contract_payer: false,
            sponsoring: None,
        })
    }

    fn reservation(gas: u64) -> GasReservation {
        GasReservation { gas, data_kilobytes: 1 }
    }

    fn need_of_100_gas() -> SignerNeed {
        SignerNeed { reservation: reservation(100), senders: None }
    }

    fn reason(
        config: &NetworkConfig,
        price: &Price,
        usage: &GasUsage,
        amount: u64,
    ) -> Option<Reason> {
        let dollar = config.network.stablecoin.address;
        let result =
            check_affordable(config, price, &payment(dollar, amount), &need_of_100_gas(), usage);
        result.err().map(|rejection| rejection.reason)
    }

    #[test]
    fn gas_share_of_the_value_is_enforced_to_the_wei() {
        // 100 gas at 10^12 wei cost 10^14 wei, which is one cent at 100 dollars per coin.
        let price = Price::for_test(1_000_000_000_000, &[u64::MAX]);
        let set = NetworkConfig {
            max_gas_share_percent: Some(20),
            native_micro_usd: Some(100_000_000),
            ..config()
        };
        let none = GasUsage::default();
        assert_eq!(reason(&set, &price, &none, 50_000), None, "a fifth of five cents");
        assert_eq!(reason(&set, &price, &none, 49_999), Some(Reason::GasTooHigh));
        let other = payment(Address::repeat_byte(9), u64::MAX);
        let result = check_affordable(&set, &price, &other, &need_of_100_gas(), &none).unwrap_err();
        assert_eq!(result.reason, Reason::GasTooHigh, "its value is not known");
        assert_eq!(reason(&config(), &price, &none, 1), None, "off by default");
    }

    #[test]
    fn spent_and_reserved_gas_count_against_both_budgets() {
        let price = Price::for_test(10, &[1_000_000]);
        let caller = GasUsage {
            caller_reserved: reservation(9_900),
            total_reserved: reservation(9_900),
            ..GasUsage::default()
        };
        assert_eq!(reason(&config(), &price, &caller, 1), None, "ten percent are 100,000 wei");
        let more = GasUsage { caller_reserved: reservation(9_901), ..caller };
        assert_eq!(reason(&config(), &price, &more, 1), Some(Reason::GasBudget));
        let spent = GasUsage {
            caller_reserved: reservation(9_800),
            spent_caller: U256::from(1_001),
            ..caller
        };
        assert_eq!(reason(&config(), &price, &spent, 1), Some(Reason::GasBudget));
        let total = GasUsage { total_reserved: reservation(49_901), ..GasUsage::default() };
        assert_eq!(reason(&config(), &price, &total, 1), Some(Reason::GasBudget));
        let total = GasUsage { total_reserved: reservation(49_900), ..GasUsage::default() };
        assert_eq!(reason(&config(), &price, &total, 1), None);
    }

    #[test]
    fn free_gas_uses_no_budget() {
        let free = Price::for_test(0, &[0]);
        let zero =
            NetworkConfig { gas_budget_caller_percent: 0, gas_budget_percent: 0, ..config() };
        assert_eq!(reason(&zero, &free, &GasUsage::default(), 1), None);
        assert_eq!(
            reason(&zero, &Price::for_test(1, &[u64::MAX]), &GasUsage::default(), 1),
            Some(Reason::GasBudget)
        );
    }

    proptest! {
        /// The sum of payments that are accepted one after the other stays within the budget.
        #[test]
        fn no_sequence_of_payments_exceeds_a_budget(
            gas in proptest::collection::vec(1_u64..5_000, 1..60),
            coin in 1_u64..50_000_000,
            most in 0_u128..2_000,
        ) {
            let price = Price::for_test(most, &[coin]);
            let mut usage = GasUsage::default();
            for one in gas {
                if is_within_budgets(&config(), &price, reservation(one), &usage) {
                    usage.caller_reserved.add(reservation(one));
                    usage.total_reserved.add(reservation(one));
                }
            }
            prop_assert!(U256::from(usage.caller_reserved.gas) * U256::from(most) <= U256::from(coin / 10));
        }
    }
}
