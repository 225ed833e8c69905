//! The routes from a network's stablecoin to a token that an agent pays with: its v3 pools, and two pools through the
//! wrapped native coin.
//!
//! Each quote is a separate call with its own gas. If the quotes shared one call, a pool with many ticks could use up
//! its gas and so hide the routes with a higher price.

use alloy_primitives::{Address, Bytes, U256};
use bursar_chain::ports::{Chain, ChainFault, Question};
use bursar_core::money::{Atoms, Bps, Round};
use bursar_core::networks::{Exchange, Network};
use bursar_core::time::Utc;
use bursar_domain::assets::AssetQuote;
use bursar_domain::trades::{PathHop, Venue};
use bursar_uniswap::pool::FEE_TIERS;
use bursar_uniswap::{QuoteFault, V3Path, V3Pool, quote, read, tick};

use super::reads::{Answers, Batch};

/// Gas limit of one `Question`: about as much as one transaction may use on these networks.
const CALL_GAS: u64 = 16_000_000;

/// The period of the average price, in seconds.
const AVERAGE_SECONDS: u32 = 600;

/// A payment in a token outside our table, on a network with an exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    pub(super) network: &'static Network,
    pub(super) exchange: &'static Exchange,
    pub(super) token: Address,
    pub(super) amount: U256,
}

/// The batch index of each answer of the factory, and the pool that the answer must name.
pub(super) struct PoolReads(Vec<(usize, Address)>);

impl PoolReads {
    /// Adds the reads that show which pools exist.
    pub(super) fn add(batch: &mut Batch, subject: &Subject) -> Self {
        let factory = subject.exchange.v3.factory;
        let pools = all_pools(subject).into_iter();
        let reads = pools.map(|pool| {
            (batch.add(factory, read::pool_call(&pool)), pool.address(&subject.exchange.v3))
        });
        Self(reads.collect())
    }

    /// Returns the pools that exist; `None` if an answer of the factory is not usable.
    pub(super) fn existing(&self, answers: &Answers) -> Option<Vec<Address>> {
        let mut existing = Vec::with_capacity(self.0.len());
        for (at, expected) in &self.0 {
            match read::decode_pool(answers.bytes(*at).ok()?).ok()? {
                Some(pool) if pool == *expected => existing.push(pool),
                Some(_other) => return None,
                None => {}
            }
        }
        Some(existing)
    }
}

/// The routes whose pools all exist.
pub(super) struct Routes(Vec<Route>);

/// One route, in both directions.
struct Route {
    buy: V3Path,
    sell: V3Path,
}

impl Routes {
    /// Returns the routes through pools that exist.
    pub(super) fn through(subject: &Subject, existing: &[Address]) -> Self {
        let v3 = &subject.exchange.v3;
        let exists = |pool: &V3Pool| existing.contains(&pool.address(v3));
        let all = all_routes(subject).into_iter();
        Self(
            all.filter(|pools| pools.iter().all(exists))
                .filter_map(|pools| {
                    let reversed: Vec<V3Pool> = pools.iter().rev().copied().collect();
                    Some(Route {
                        buy: V3Path::new(subject.network.stablecoin.address, &pools).ok()?,
                        sell: V3Path::new(subject.token, &reversed).ok()?,
                    })
                })
                .collect(),
        )
    }

    /// Quotes the amount on all routes and checks the highest price.
    ///
    /// `None` if no route delivers the amount, or if the quote of a route or a check is missing: the route without a
    /// quote could have the highest price.
    pub(super) async fn quote(
        &self,
        chain: &dyn Chain,
        subject: &Subject,
        at: Utc,
    ) -> Option<AssetQuote> {
        let Subject { exchange, amount, .. } = *subject;
        let quoter = |data| question(exchange.v3.quoter, data);
        let buys =
            self.0.iter().map(|route| quoter(quote::v3_exact_output_call(&route.buy, amount)));
        let answers = ask(chain, buys.collect()).await?;
        let mut dearest: Option<(&Route, U256)> = None;
        for (route, answer) in self.0.iter().zip(answers) {
            let cost =
                route_output(answer, |answer| quote::decode_v3_exact_output(&route.buy, answer))?;
            if let RouteOutput::Amount(cost) = cost
                && dearest.is_none_or(|(_route, most)| cost > most)
            {
                dearest = Some((route, cost));
            }
        }
        let (route, cost) = dearest.filter(|(_route, cost)| !cost.is_zero())?;
        let coin = &subject.network.stablecoin;
        let usd = Atoms(cost).to_usd(coin.decimals, Round::Up).ok()?;
        let checks = self.check(chain, subject, route).await?;
        Some(AssetQuote {
            at,
            cost: Atoms(cost),
            usd,
            route: route.venue(subject),
            sale_proceeds: checks.sale_proceeds.map(Atoms),
            tenfold_cost: checks.tenfold_cost.map(Atoms),
            average_deviation: checks.average_deviation,
        })
    }

    /// Quotes the sale of the amount on every route. For the dearest route, it also quotes ten times the amount and
    /// compares the current price with the average price.
    async fn check(
        &self,
        chain: &dyn Chain,
        subject: &Subject,
        dearest: &Route,
    ) -> Option<PriceChecks> {
        let Subject { exchange, amount, .. } = *subject;
        let quoter = |data| question(exchange.v3.quoter, data);
        let tenfold = amount.checked_mul(U256::from(10));
        let large = tenfold.map(|tenfold| quote::v3_exact_output_call(&dearest.buy, tenfold));
        let sales = self.0.iter().map(|route| quote::v3_exact_input_call(&route.sell, amount));
        let hops = dearest.buy.hops().iter().flat_map(|hop| {
            let pool = hop.pool.address(&exchange.v3);
            [read::v3_slot0_call(), read::observe_call(AVERAGE_SECONDS)]
                .map(|data| question(pool, data))
        });
        let questions = large.clone().into_iter().chain(sales).map(quoter).chain(hops).collect();
        let mut answers = ask(chain, questions).await?.into_iter();
        let tenfold = match large {
            Some(_asked) => route_output(answers.next()?, |answer| {
                quote::decode_v3_exact_output(&dearest.buy, answer)
            })?
            .amount(),
            None => None,
        };
        let mut sold: Option<U256> = None;
        for route in &self.0 {
            let out = route_output(answers.next()?, |answer| {
                quote::decode_v3_exact_input(&route.sell, answer)
            })?;
            sold = out.amount().map(|out| sold.map_or(out, |least| least.min(out))).or(sold);
        }
        let mut apart = None;
        for hop in dearest.buy.hops() {
            let now = read::decode_v3_tick(&answers.next()?.ok()?).ok()?;
            let mean = match answers.next()? {
                Ok(answer) => read::decode_mean_tick(&answer, AVERAGE_SECONDS).ok()?,
                // The pool stores too few observations for an average.
                Err(ChainFault::Reverted { .. }) => continue,
                Err(_failed) => return None,
            };
            // A higher tick makes token 0 dearer. The route becomes dearer if it buys token 0, and cheaper if it pays
            // with token 0.
            let moved = now.checked_sub(mean)?;
            let moved = if hop.zero_for_one { moved.checked_neg()? } else { moved };
            apart = Some(apart.unwrap_or(0_i32).checked_add(moved)?);
        }
        Some(PriceChecks {
            tenfold_cost: tenfold,
            sale_proceeds: sold,
            average_deviation: apart.map(tick::price_deviation),
        })
    }
}

impl Route {
    fn venue(&self, subject: &Subject) -> Venue {
        let hop = |hop: &bursar_uniswap::route::Hop<V3Pool, Address>| PathHop {
            fee: hop.pool.fee(),
            pool: hop.pool.address(&subject.exchange.v3),
            output: hop.output,
        };
        let hops: Vec<PathHop> = self.buy.hops().iter().map(hop).collect();
        match hops.as_slice() {
            [PathHop { fee, pool, .. }] => Venue::V3 { fee: *fee, pool: *pool },
            _several => Venue::V3Path { hops },
        }
    }
}

/// The measurements that may cast doubt on a price.
struct PriceChecks {
    tenfold_cost: Option<U256>,
    sale_proceeds: Option<U256>,
    average_deviation: Option<Bps>,
}

/// Returns the pools of a pair, one for each fee tier; none if both tokens are the same.
fn pools_of_pair(a: Address, b: Address) -> Vec<V3Pool> {
    FEE_TIERS.iter().filter_map(|tier| V3Pool::new(a, b, tier.fee).ok()).collect()
}

/// Returns the pools of all routes.
fn all_pools(subject: &Subject) -> Vec<V3Pool> {
    let (coin, wrapped) = (subject.network.stablecoin.address, subject.exchange.wrapped_native);
    let mut pools = pools_of_pair(coin, subject.token);
    if subject.token != wrapped {
        pools.extend(pools_of_pair(coin, wrapped));
        pools.extend(pools_of_pair(wrapped, subject.token));
    }
    pools
}

/// Returns the routes from the stablecoin to the token. Some of their pools may not exist.
fn all_routes(subject: &Subject) -> Vec<Vec<V3Pool>> {
    let (coin, wrapped) = (subject.network.stablecoin.address, subject.exchange.wrapped_native);
    let mut routes: Vec<Vec<V3Pool>> =
        pools_of_pair(coin, subject.token).into_iter().map(|pool| vec![pool]).collect();
    for first in pools_of_pair(coin, wrapped) {
        routes.extend(
            pools_of_pair(wrapped, subject.token).into_iter().map(|second| vec![first, second]),
        );
    }
    routes
}

fn question(to: Address, data: Bytes) -> Question {
    Question::Call { from: Address::ZERO, to, data, gas: CALL_GAS }
}

/// Returns the answers, one for each question; `None` if no node answers.
async fn ask(
    chain: &dyn Chain,
    questions: Vec<Question>,
) -> Option<Vec<Result<Bytes, ChainFault>>> {
    if questions.is_empty() {
        return Some(Vec::new());
    }
    let count = questions.len();
    chain.answers(questions).await.ok().filter(|answers| answers.len() == count)
}

/// The outcome of a route's quote.
enum RouteOutput {
    Amount(U256),
    /// The route's pools cannot trade the amount.
    TooLarge,
}

impl RouteOutput {
    fn amount(self) -> Option<U256> {
        match self {
            Self::Amount(amount) => Some(amount),
            Self::TooLarge => None,
        }
    }
}

/// Reads the quote of a route. `None` if the answer does not show whether the route's pools can trade the amount.
fn route_output(
    answer: Result<Bytes, ChainFault>,
    decode: impl Fn(&[u8]) -> Result<bursar_uniswap::Quote, QuoteFault>,
) -> Option<RouteOutput> {
    match answer {
        Ok(answer) => match decode(&answer) {
            Ok(quote) => Some(RouteOutput::Amount(quote.amount)),
            Err(QuoteFault::InsufficientLiquidity) => Some(RouteOutput::TooLarge),
            Err(QuoteFault::Reverted(_) | QuoteFault::MalformedAnswer | QuoteFault::TooLarge) => {
                None
            }
        },
        Err(ChainFault::Reverted { .. }) => Some(RouteOutput::TooLarge),
        Err(_failed) => None,
    }
}

#[cfg(test)]
mod tests;
