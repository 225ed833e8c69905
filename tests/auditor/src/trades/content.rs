//! Compares the call data of a trade's transactions with the request.

use crate::ExchangeFact;
use crate::basics::Transaction;
use crate::decode::{Decoded, PermitCall, Recipient, SwapCall};
use crate::market::{is_v4, same_token};
use crate::trading::{NATIVE, Permit, Route, Trade};
use crate::wide::Wide;

/// 10^36, the unit of a price per hop.
const PRICE_UNIT: u128 = 1_000_000_000_000_000_000_000_000_000_000_000_000;
/// How long a swap that a person signs on a device may be valid, in seconds of chain time.
const PERSON_SWAP_S: u64 = 180;
/// How long a permit that a person signs on a device may be valid, in seconds of chain time: as long as its plan.
pub(crate) const PERSON_PERMIT_S: u64 = 300;

/// The rule that call data breaks, and a description of how.
pub(crate) type Broken = (&'static str, String);

fn broken<T>(what: impl Into<String>) -> Result<T, Broken> {
    Err(("call data", what.into()))
}

/// A transaction of a trade, with the facts that its content must match.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    pub(crate) trade: &'a Trade,
    pub(crate) tx: &'a Transaction,
    pub(crate) exchange: &'a ExchangeFact,
    /// The newest block time that the wallet may know, in Unix seconds.
    pub(crate) newest_s: u64,
    /// Whether a person signs on a device. The person needs more time, and signs permit and swap one after the other.
    pub(crate) by_person: bool,
}

impl Content<'_> {
    fn is_own(&self, to: &Recipient) -> bool {
        match to {
            Recipient::Caller => true,
            Recipient::Router => false,
            Recipient::Address(address) => *address == self.tx.from.to_lowercase(),
        }
    }

    /// Checks a wrap, an unwrap or a swap. Returns the least output that it accepts.
    pub(crate) fn check(&self, decoded: &Decoded) -> Result<u128, Broken> {
        let (trade, tx, ex) = (self.trade, self.tx, self.exchange);
        let to = tx.to.to_lowercase();
        match decoded {
            Decoded::Wrap => {
                let right = trade.token_in == NATIVE && trade.token_out == ex.wrapped;
                if !right || to != ex.wrapped || tx.value != trade.amount_in {
                    return broken("it wraps something else");
                }
                Ok(trade.amount_in)
            }
            Decoded::Unwrap { amount } => {
                let right = trade.token_in == ex.wrapped && trade.token_out == NATIVE;
                if !right || to != ex.wrapped || tx.value != 0 || *amount != trade.amount_in {
                    return broken("it unwraps something else");
                }
                Ok(trade.amount_in)
            }
            Decoded::Swap(swap) => {
                self.check_terms(swap)?;
                self.check_ways(swap)?;
                self.check_deadline(swap)?;
                for permit in &swap.permits {
                    self.check_inner_permit(swap, permit)?;
                }
                let unwrapped = swap.unwraps.iter().map(|(_, least)| *least);
                Ok(swap.minimums.iter().copied().chain(unwrapped).max().unwrap_or(0))
            }
            _ => broken("it is not a swap"),
        }
    }

    /// Checks the router, tokens, amount, pool and attached coins of a swap.
    fn check_terms(&self, swap: &SwapCall) -> Result<(), Broken> {
        let (trade, tx, ex) = (self.trade, self.tx, self.exchange);
        let router = if swap.is_universal_router { &ex.universal_router } else { &ex.v3_router };
        if tx.to.to_lowercase() != *router {
            return broken(format!("it calls {}, which is not the router {router}", tx.to));
        }
        if swap.swap_count != 1 {
            return broken(format!("it holds {} swaps", swap.swap_count));
        }
        let v4 = swap.is_v4;
        let same = |a: &str, b: &str| same_token(a, b, v4, &ex.wrapped);
        let out = swap.hops.last().map(|hop| hop.token_out.as_str()).unwrap_or_default();
        if !same(&swap.token_in, &trade.token_in) || !same(out, &trade.token_out) {
            return broken(format!("it swaps {} for {out}", swap.token_in));
        }
        if swap.amount_in != trade.amount_in {
            return broken(format!("it swaps the amount {}", swap.amount_in));
        }
        if swap.hops.iter().any(|hop| is_v4(&hop.pool) != v4) {
            return broken("it mixes kinds of pools");
        }
        if let Route::Pool(pool) = &trade.pool
            && swap.hops.iter().map(|hop| &hop.pool).ne([pool])
        {
            return broken(format!("it uses the route {:?}", swap.hops));
        }
        let value = if trade.token_in == NATIVE { trade.amount_in } else { 0 };
        if tx.value != value {
            return broken(format!("it attaches {} native coins", tx.value));
        }
        Ok(())
    }

    /// Checks from where a swap takes the money, and to where it sends the output.
    fn check_ways(&self, swap: &SwapCall) -> Result<(), Broken> {
        let trade = self.trade;
        let native_out = trade.token_out == NATIVE && !swap.is_v4;
        let to_router = matches!(swap.recipient, Some(Recipient::Router))
            || matches!(&swap.recipient, Some(Recipient::Address(a)) if *a == self.tx.to.to_lowercase());
        let to_owner = swap.recipient.as_ref().is_some_and(|to| self.is_own(to));
        let unwraps = swap.unwraps.iter().filter(|(to, _)| self.is_own(to)).count();
        if native_out && !(to_router && unwraps == 1 && swap.unwraps.len() == 1) {
            return broken("the native coins do not reach our address");
        }
        if !native_out && (!to_owner || !swap.unwraps.is_empty()) {
            return broken(format!("the output goes to {:?}", swap.recipient));
        }
        if swap.sweeps.iter().any(|(_, to)| !self.is_own(to)) {
            return broken("a remainder goes to another address");
        }
        let wraps = swap.wraps.iter().all(|(to, amount)| {
            *to == Recipient::Router && *amount == trade.amount_in && trade.token_in == NATIVE
        });
        if !wraps {
            return broken("it wraps other coins");
        }
        if swap.is_v4 {
            if swap.max_inputs != [(trade.token_in.clone(), trade.amount_in)] {
                return broken(format!("it pays in {:?}", swap.max_inputs));
            }
            if swap.taken_tokens != [trade.token_out.clone()] {
                return broken(format!("it takes {:?}", swap.taken_tokens));
            }
            let swept = swap.sweeps.iter().any(|(token, _)| token == NATIVE);
            if trade.token_in == NATIVE && !swept {
                return broken("unused native coins stay in the router");
            }
        }
        let least = swap.minimums.first().copied().unwrap_or(0);
        let price = Wide::product(least, PRICE_UNIT).divide(trade.amount_in).0.to_word();
        let single = swap.hops.len() == 1 && !swap.hop_prices.is_empty();
        if single && swap.hop_prices != [price] {
            return broken("the least price of the hop is not the minimum by the amount");
        }
        Ok(())
    }

    /// Checks that the deadline is soon by the chain's time, and not after the agent's own deadline.
    fn check_deadline(&self, swap: &SwapCall) -> Result<(), Broken> {
        let Some(at) = swap.deadline_s else {
            return Err(("deadline", "the swap has no deadline".to_owned()));
        };
        let lasts_s = if self.by_person { PERSON_SWAP_S } else { self.exchange.deadline_s };
        let most = self.newest_s.saturating_add(lasts_s);
        if at > most {
            let what = format!("the deadline is {at}; by the chain's time it is {most} at most");
            return Err(("deadline", what));
        }
        match self.trade.deadline_s {
            Some(own) if at > own => {
                Err(("deadline", format!("the deadline is {at}; the agent's own is {own}")))
            }
            _ => Ok(()),
        }
    }

    fn check_inner_permit(&self, swap: &SwapCall, permit: &PermitCall) -> Result<(), Broken> {
        let end = if self.by_person {
            self.newest_s.saturating_add(PERSON_PERMIT_S)
        } else {
            swap.deadline_s.unwrap_or(0)
        };
        if !permit.may_revert {
            let what = "the swap fails if another account sends the permit first";
            return Err(("permit", what.to_owned()));
        }
        if permit.expiration_s > end || permit.deadline_s > end {
            let what = format!("{permit:?} lasts longer than the swap, which ends at {end}");
            return Err(("permit", what));
        }
        let terms = (&permit.token, permit.amount, &permit.spender);
        permit_terms(self.trade, self.exchange, terms)
    }
}

/// Checks the token, amount and spender of a permit.
fn permit_terms(
    trade: &Trade,
    ex: &ExchangeFact,
    (token, amount, spender): (&String, u128, &String),
) -> Result<(), Broken> {
    let right = token.to_lowercase() == trade.token_in
        && amount == trade.amount_in
        && spender.to_lowercase() == ex.universal_router;
    let what = || format!("a permit of {amount} of {token} for {spender} is not exact");
    if right { Ok(()) } else { Err(("permit", what())) }
}

/// Checks a signed permit: it is exact, names the router, and expires at the latest at `latest_s` and at the agent's
/// own deadline.
pub(crate) fn check_permit(
    trade: &Trade,
    ex: &ExchangeFact,
    latest_s: u64,
    permit: &Permit,
) -> Result<(), Broken> {
    permit_terms(trade, ex, (&permit.token, permit.amount, &permit.spender))?;
    let most = latest_s.min(trade.deadline_s.unwrap_or(u64::MAX));
    if permit.expiration_s > most || permit.deadline_s > most {
        let what = format!("{permit:?} lasts longer than a swap may, which ends at {most}");
        return Err(("permit", what));
    }
    Ok(())
}
