//! What a payment may cost in gas: by what signers have, by its value, by the caller's day and by everybody's.
//! Pure.

use alloy_primitives::U256;

use crate::book::gas::GasOwed;
use crate::config::NetworkConfig;
use crate::payment::Payment;
use crate::reason::{Reason, Refused};
use crate::settle::price::Price;

/// Wei of a whole coin.
const COIN: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// Whether a payment may be taken on, of so much gas and next to what is owed already.
///
/// # Errors
/// [`Reason::OutOfGas`], [`Reason::GasTooHigh`], [`Reason::GasBudget`].
pub(super) fn afford(
    config: &NetworkConfig,
    price: &Price,
    payment: &Payment,
    gas: u64,
    owed: &GasOwed,
) -> Result<(), Refused> {
    let of = |reason: Reason| Refused::from(reason).of(payment.terms.payer);
    if !price.can_pay(gas, owed.open) {
        return Err(of(Reason::OutOfGas));
    }
    if !is_worth_its_gas(config, price, payment, gas) {
        return Err(of(Reason::GasTooHigh));
    }
    let within = |percent: u8, held: u64, spent: U256| {
        // The coin of the signers at the beginning of the day: what they have, and what they have spent.
        let coin = price.coin().saturating_add(owed.spent_total);
        let budget = coin.saturating_mul(U256::from(percent)) / U256::from(100);
        let cost = price.cost(held, 0).and_then(|held| held.checked_add(price.cost(gas, 1)?));
        cost.is_some_and(|cost| cost.is_zero() || spent.saturating_add(cost) <= budget)
    };
    let caller = within(config.gas_budget_caller_percent, owed.caller, owed.spent_caller);
    let total = within(config.gas_budget_percent, owed.total, owed.spent_total);
    if caller && total { Ok(()) } else { Err(of(Reason::GasBudget)) }
}

/// Whether a payment's gas costs no more than its share of the value. Only the network's dollar token has a value
/// that is known here; where a share is set, payments in other tokens are worth nothing.
fn is_worth_its_gas(config: &NetworkConfig, price: &Price, payment: &Payment, gas: u64) -> bool {
    let (Some(share), Some(native_usd)) = (config.max_gas_share_percent, config.native_micro_usd)
    else {
        return true;
    };
    let coin = &config.network.stablecoin;
    let value = if payment.terms.token == coin.address {
        micro_usd(payment.terms.amount, coin.decimals)
    } else {
        U256::ZERO
    };
    let cost = price.real_cost(gas).and_then(|wei| wei.checked_mul(U256::from(native_usd)));
    let Some(cost) = cost.map(|cost| cost.div_ceil(COIN)) else { return false };
    let most = value.saturating_mul(U256::from(share)) / U256::from(100);
    cost <= most
}

/// Smallest units of a dollar token in millionths of a dollar, rounded down.
fn micro_usd(amount: U256, decimals: u8) -> U256 {
    let ten = U256::from(10);
    match decimals.checked_sub(6) {
        Some(more) => amount / ten.saturating_pow(U256::from(more)),
        None => {
            let less = 6_u8.saturating_sub(decimals);
            amount.saturating_mul(ten.saturating_pow(U256::from(less)))
        }
    }
}
