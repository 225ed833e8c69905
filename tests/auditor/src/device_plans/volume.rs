//! The limits of an agent that trades from a hardware address.

use super::{DevicePlans, Purpose, Step};
use crate::basics::Micros;
use crate::trading::{NATIVE, Trade};
use crate::{Auditor, Violation, violation, wide};

/// One native coin in wei.
const WEI_PER_COIN: u128 = 1_000_000_000_000_000_000;

impl DevicePlans {
    /// Returns whether a signed swap takes its value from the daily volume: it has moved the money, or still may.
    fn takes_volume(&self, swap: &Step) -> bool {
        let slot =
            |step: &Step| step.tx.as_ref().map(|tx| (tx.chain, tx.from.to_lowercase(), tx.nonce));
        let plan = self.requests.get(&swap.request);
        let over =
            plan.is_some_and(|plan| plan.answer.as_ref().is_some_and(|(rank, _)| *rank == 2));
        let mut others = self.steps.values().filter(|other| other.purpose == Purpose::Empty);
        let cancelled = others.any(|other| other.included.is_some() && slot(other) == slot(swap));
        swap.included == Some(true) || swap.included.is_none() && !cancelled && !over
    }
}

impl Auditor {
    /// Returns the least value of a trade's input at any price that the wallet read, in micro-dollars; zero if the
    /// token has no price outside the pools.
    fn least_value(&self, trade: &Trade) -> Micros {
        let Some(ex) = self.trades.exchanges.get(&trade.chain) else { return 0 };
        let micros = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        if let Some((_token, decimals)) =
            ex.dollars.iter().find(|(coin, _)| *coin == trade.token_in)
        {
            let unit = 10u128.saturating_pow(u32::from(*decimals));
            return micros(wide::floor(trade.amount_in, 1_000_000, unit));
        }
        if trade.token_in != NATIVE && trade.token_in != ex.wrapped {
            return 0;
        }
        let least = self.trades.prices.map_or(0, |(least, _most)| least);
        micros(wide::floor(trade.amount_in, u128::from(least), WEI_PER_COIN))
    }

    /// Checks that an allowed trade is within the limit of one trade, and below the automatic limit unless an operator
    /// approved it.
    pub(super) fn check_device_trade_limits(&self, request: &str) -> Result<(), Violation> {
        let plans = &self.device_plans;
        let Some((trader, call)) = plans.trader_of(request).zip(plans.call_of(request)) else {
            return Ok(());
        };
        let value = self.least_value(&call.trade);
        if value > trader.limits.per_trade {
            let what = format!("{request} is worth {value} or more: {:?}", trader.limits);
            return Err(violation("volume", what));
        }
        let approved = plans.requests.get(request).is_some_and(|plan| plan.approved);
        if value >= trader.limits.auto_below && !approved {
            let what = format!("{request} is worth {value} or more, and no operator approved it");
            return Err(violation("I-j", what));
        }
        Ok(())
    }

    /// Checks that the swaps that were signed in this allowance stay within the daily volume.
    pub(super) fn check_device_volume(&self, request: &str) -> Result<(), Violation> {
        let plans = &self.device_plans;
        let Some((trader, call)) = plans.trader_of(request).zip(plans.call_of(request)) else {
            return Ok(());
        };
        let mut sum: Micros = 0;
        for step in plans.steps.values().filter(|step| step.purpose == Purpose::Swap) {
            let Some(other) = plans.call_of(&step.request) else { continue };
            let counts = other.agent == call.agent
                && step.signed_at.is_some_and(|seq| seq > trader.renewed_at)
                && plans.takes_volume(step);
            if counts {
                sum = sum.saturating_add(self.least_value(&other.trade));
            }
        }
        if sum > trader.limits.daily {
            let what = format!("{} signed swaps of {sum} or more: {:?}", call.agent, trader.limits);
            return Err(violation("volume", what));
        }
        Ok(())
    }
}
