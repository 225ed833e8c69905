//! The routes that a trade is compared with: the usual v3 pools of the pair, its usual v4 pools without hooks, and two
//! v3 pools through the wrapped native coin or the network's stablecoin.

use std::cmp::Reverse;

use alloy_primitives::{Address, U256};
use bursar_chain::multicall;
use bursar_chain::ports::Chain;
use bursar_core::money::Atoms;
use bursar_core::networks::Exchange;
use bursar_domain::Refusal;
use bursar_domain::trades::{PathHop, RouteQuote, Venue};
use bursar_uniswap::pool::FEE_TIERS;
use bursar_uniswap::{Currency, PoolKey, V3Pool};

use super::eth_price::FeedPrice;
use super::pools::{add_quote, decode_quote};
use super::reads::Batch;
use super::spec::Spec;
use super::stocks::{StockPrices, StockReads};

/// The routes of a trade that are to be quoted, in groups. Each group is one call: a pool with little liquidity and a
/// tick spacing of one can use up the gas of a whole call, and must not hide the other routes.
pub(super) struct Comparison([Batch; 3], Vec<(Venue, QuoteSlot)>);

/// The group of a quote, and its index in the group.
type QuoteSlot = (usize, usize);

/// A route that can trade the whole input.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) quote: RouteQuote,
    /// Gas of the pools, as the quoter estimates it.
    pub(super) gas: u64,
}

/// Returns the routes from one currency to another. Some of their pools may not exist.
pub(super) fn candidates(
    exchange: &Exchange,
    stablecoin: Address,
    input: Currency,
    output: Currency,
) -> Vec<Venue> {
    let wrapped = exchange.wrapped_native;
    let (from, to) = (input.or_wrapped(wrapped), output.or_wrapped(wrapped));
    if from == to {
        return Vec::new();
    }
    let hop = |from: Address, output: Address, fee: u32| {
        let pool = V3Pool::new(from, output, fee).ok()?.address(&exchange.v3);
        Some(PathHop { fee, pool, output })
    };
    let single = FEE_TIERS.iter().filter_map(|tier| {
        let PathHop { fee, pool, .. } = hop(from, to, tier.fee)?;
        Some(Venue::V3 { fee, pool })
    });
    let v4 = FEE_TIERS.iter().filter_map(|tier| {
        let (fee, tick_spacing, hooks) = (tier.fee, tier.tick_spacing, Address::ZERO);
        let pool = PoolKey::new(input, output, fee, tick_spacing, hooks).ok()?.id();
        Some(Venue::V4 { fee, tick_spacing, hooks, pool })
    });
    let mut venues: Vec<Venue> = single.chain(v4).collect();
    for middle in [wrapped, stablecoin].into_iter().filter(|one| ![from, to].contains(one)) {
        for first in &FEE_TIERS {
            let pairs = FEE_TIERS.iter().filter_map(|second| {
                let hops = vec![hop(from, middle, first.fee)?, hop(middle, to, second.fee)?];
                Some(Venue::V3Path { hops })
            });
            venues.extend(pairs);
        }
    }
    venues
}

impl Comparison {
    /// Prepares the quotes of all routes of a trade except its own.
    pub(super) fn of_other_routes(spec: &Spec<'_>) -> Self {
        Self::of(spec, |venue| venue != spec.venue)
    }

    /// Prepares the quotes of all routes of a trade.
    pub(super) fn of_all_routes(spec: &Spec<'_>) -> Self {
        Self::of(spec, |_any| true)
    }

    fn of(spec: &Spec<'_>, is_wanted: impl Fn(&Venue) -> bool) -> Self {
        let (input, output) = (Spec::currency(spec.token_in), Spec::currency(spec.token_out));
        let all = match spec.venue {
            Venue::Wrap | Venue::Unwrap => Vec::new(),
            Venue::V3 { .. } | Venue::V3Path { .. } | Venue::V4 { .. } => {
                candidates(spec.exchange, spec.network.stablecoin.address, input, output)
            }
        };
        let mut groups = <[Batch; 3]>::default();
        let mut reads = Vec::new();
        for venue in all.into_iter().filter(is_wanted) {
            let group = group_of(&venue);
            let Some(batch) = groups.get_mut(group) else { continue };
            // The v4 quoter takes no amount of more than 127 bits.
            let spec = Spec { venue: &venue, ..*spec };
            if let Ok(at) = add_quote(batch, &spec, spec.amount_in.0) {
                reads.push((venue, (group, at)));
            }
        }
        Self(groups, reads)
    }

    /// Quotes the routes at the newest block. A route without a quote is left out.
    pub(super) async fn run(self, chain: &dyn Chain, spec: &Spec<'_>) -> Vec<Route> {
        let Self(groups, reads) = self;
        let answers = futures::future::join_all(groups.iter().map(|group| group.run(chain))).await;
        let quoted = |(venue, (group, at)): (Venue, QuoteSlot)| {
            let answers = answers.get(group)?.as_ref().ok()?;
            let quote = decode_quote(&Spec { venue: &venue, ..*spec }, answers, at).ok()?;
            let gas = u64::try_from(quote.gas).unwrap_or(u64::MAX);
            let route = Route { quote: RouteQuote { venue, out: Atoms(quote.amount) }, gas };
            Some(route).filter(|route| !route.quote.out.0.is_zero())
        };
        reads.into_iter().filter_map(quoted).collect()
    }
}

/// Returns the group of a route: 0 without a pool of the lowest fee tier, 1 for a single pool of that tier, 2 for a
/// path with a pool of that tier. The tick spacing of that tier is one.
fn group_of(venue: &Venue) -> usize {
    let lowest = FEE_TIERS.first().map(|tier| tier.fee);
    let is_lowest = |fee: u32| Some(fee) == lowest;
    match venue {
        Venue::V3 { fee, .. } | Venue::V4 { fee, .. } if is_lowest(*fee) => 1,
        Venue::V3Path { hops } if hops.iter().any(|hop| is_lowest(hop.fee)) => 2,
        Venue::V3 { .. }
        | Venue::V3Path { .. }
        | Venue::V4 { .. }
        | Venue::Wrap
        | Venue::Unwrap => 0,
    }
}

/// Reads the prices of the native coin and of stock tokens from the network's feeds.
///
/// # Errors
/// `CHAIN_UNAVAILABLE`
pub(super) async fn feeds(
    chain: &dyn Chain,
    spec: &Spec<'_>,
) -> Result<(FeedPrice, StockPrices), Refusal> {
    let mut batch = Batch::default();
    let time = batch.push(multicall::block_time());
    let feed = batch.add_feed(spec.exchange);
    let stocks = StockReads::add(&mut batch, spec);
    let answers = batch.run(chain).await?;
    let time = answers.time(time)?;
    Ok((answers.feed_of(spec.exchange, feed, time), stocks.prices(&answers, time)))
}

/// Returns the venue of the route whose output is highest after its gas costs. `input_wei` is the value of the input in
/// wei; without it, gas does not count.
pub(super) fn best_after_gas(
    routes: Vec<Route>,
    gas_price: u128,
    input_wei: Option<U256>,
) -> Option<Venue> {
    let kept = |route: &Route| {
        let cost = U256::from(route.gas).saturating_mul(U256::from(gas_price));
        let out = route.quote.out.0;
        let paid = input_wei.and_then(|wei| out.saturating_mul(cost).checked_div(wei));
        out.saturating_sub(paid.unwrap_or(U256::ZERO))
    };
    // Of equal routes the first one wins, because it has the fewest pools.
    routes.into_iter().min_by_key(|route| Reverse(kept(route))).map(|route| route.quote.venue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::by_id_name_or_title;

    fn route(fee: u32, out: u64, gas: u64) -> Route {
        let venue = Venue::V3 { fee, pool: Address::ZERO };
        Route { quote: RouteQuote { venue, out: Atoms(U256::from(out)) }, gas }
    }

    fn fee_of(venue: Option<Venue>) -> Option<u32> {
        match venue {
            Some(Venue::V3 { fee, .. }) => Some(fee),
            _other => None,
        }
    }

    #[test]
    fn a_pair_has_its_tiers_and_two_pools_through_each_other_token() {
        let base = by_id_name_or_title("base").unwrap();
        let (exchange, dollar) = (base.exchange.unwrap(), base.stablecoin.address);
        let token = Currency::Token(Address::repeat_byte(0x77));
        let count = |input, output| {
            let all = candidates(exchange, dollar, input, output);
            let paths = all.iter().filter(|one| matches!(one, Venue::V3Path { .. })).count();
            (all.len() - paths, paths)
        };
        assert_eq!(count(token, Currency::Token(Address::repeat_byte(0x78))), (8, 32));
        assert_eq!(count(token, Currency::Native), (8, 16));
        assert_eq!(count(Currency::Native, Currency::Token(dollar)), (8, 0));
        assert_eq!(count(Currency::Native, Currency::Token(exchange.wrapped_native)), (0, 0));
    }

    #[test]
    fn gas_decides_between_close_routes() {
        let routes = || vec![route(500, 1_000_000, 100_000), route(3_000, 1_000_900, 300_000)];
        // The input is worth 10^9 wei. At a gas price of 10 wei, 100,000 gas cost a thousandth of it, or 1,000 units of
        // output.
        let input = Some(U256::from(1_000_000_000u64));
        assert_eq!(fee_of(best_after_gas(routes(), 10, input)), Some(500));
        assert_eq!(fee_of(best_after_gas(routes(), 1, input)), Some(3_000));
        assert_eq!(fee_of(best_after_gas(routes(), 10, None)), Some(3_000));
        let equal = vec![route(100, 5, 1), route(500, 5, 1)];
        assert_eq!(fee_of(best_after_gas(equal, 0, None)), Some(100));
        assert_eq!(best_after_gas(Vec::new(), 1, None), None);
    }
}
