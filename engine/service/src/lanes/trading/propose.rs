//! Turns a request into the immutable ask that is checked, recorded and shown, and measures it again later.

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{Chain, ChainFault};
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Bps, Usd, parse_decimal};
use bursar_core::networks::{self, Exchange, Network};
use bursar_core::policy::TradingPolicy;
use bursar_domain::Refusal;
use bursar_domain::assess::trading::counted_value;
use bursar_domain::trades::{RouteQuote, TradeAsk, TradeQuote, TradeToken, Venue};
use bursar_uniswap::Currency;

use super::eth_price;
use super::input::{PoolInput, TradeInput};
use super::lane::Trading;
use super::market::{self, Market};
use super::measured::{Measured, PriorCommitments};
use super::permit::{self, SwapTerms, Times};
use super::plan;
use super::routes::{self, Comparison, Route};
use super::spec::{self, DECIMALS_MAX, Spec};
use crate::lanes::rehearsal::Sender;

/// The slippage of a request that names no slippage, unless the policy's maximum is lower.
const DEFAULT_SLIPPAGE: Bps = Bps(50);

/// Returns the slippage of a trade that names no slippage.
pub fn default_slippage(policy: &TradingPolicy) -> Bps {
    DEFAULT_SLIPPAGE.min(policy.max_slippage)
}

/// A request as it is checked and recorded.
#[derive(Debug)]
pub struct Proposal {
    pub ask: TradeAsk,
    /// The measurement, or why the trade cannot be made now.
    ///
    /// Without a measurement the ask has no quote.
    pub measured: Result<Measured, Refusal>,
}

impl Trading {
    /// Reads the market for a request and rehearses the trade.
    ///
    /// # Errors
    /// The request does not describe a possible trade, or no node answers.
    pub async fn propose(
        &self,
        input: &TradeInput,
        owner: Address,
        by_device: bool,
        policy: &TradingPolicy,
    ) -> Result<Proposal, Refusal> {
        let chain = self.chain(input.network)?;
        let (token_in, token_out) = futures::future::try_join(
            describe(&*chain, input, input.token_in),
            describe(&*chain, input, input.token_out),
        )
        .await?;
        let amount_in = parse_decimal(&input.amount_in, token_in.decimals).map(Atoms);
        let amount_in = amount_in.map_err(|error| {
            let message = format!("amount_in is not an amount of this token: {error}.");
            Refusal::because(Code::InvalidRequest, message)
        })?;
        if amount_in.0.is_zero() {
            let message = "amount_in must be above zero.";
            return Err(Refusal::because(Code::InvalidRequest, message));
        }
        let mut ask = TradeAsk {
            chain: input.network.chain,
            venue: venue(input)?,
            token_in,
            token_out,
            amount_in,
            slippage: input.slippage.unwrap_or_else(|| default_slippage(policy)),
            deadline: input.deadline,
            quote: TradeQuote::default(),
            counted_value: Usd::ZERO,
        };
        let measured = match self.choose_venue(&*chain, &mut ask, owner, input).await {
            Ok(()) => {
                let committed = PriorCommitments { by_device, ..PriorCommitments::default() };
                self.measure(&ask, owner, committed).await
            }
            Err(refusal) => Err(refusal),
        };
        match &measured {
            Ok(measured) => {
                ask.counted_value = counted_value(&measured.quote, policy);
                ask.quote = measured.quote.clone();
            }
            // A later try may succeed.
            Err(refusal) if refusal.code == Code::ChainUnavailable => return Err(refusal.clone()),
            Err(_final) => {}
        }
        Ok(Proposal { ask, measured })
    }

    /// Sets the ask's venue to the best route, if the request asks for that.
    async fn choose_venue(
        &self,
        chain: &dyn Chain,
        ask: &mut TradeAsk,
        owner: Address,
        input: &TradeInput,
    ) -> Result<(), Refusal> {
        if input.pool == PoolInput::Best && input.wraps().is_none() {
            ask.venue = self.best_venue(chain, ask, owner, input).await?;
        }
        Ok(())
    }

    /// Measures a trade and rehearses its remaining transactions.
    ///
    /// # Errors
    /// Those of [`Trading::propose`].
    pub(super) async fn measure(
        &self,
        ask: &TradeAsk,
        owner: Address,
        committed: PriorCommitments<'_>,
    ) -> Result<Measured, Refusal> {
        let at_ms = self.ports.clock.now().age_clock_ms();
        let network = networks::by_chain(ask.chain).ok_or_else(|| Refusal::new(Code::NoPool))?;
        let exchange = network.exchange.ok_or_else(|| Refusal::new(Code::NoPool))?;
        let chain = self.chain(network)?;
        let spec = spec_of(ask, owner, network, exchange);
        let wiring = self.wiring(&*chain, network, exchange).await?;
        wiring.require(spec.venue)?;
        let read =
            futures::future::join(market::measure(&*chain, &spec), self.eth_price.api_price());
        let (market, eth_price) = read.await;
        let mut market = market?;
        market.drop_unexpected(&wiring);
        check_early(ask, &spec, &market)?;
        let eth = eth_price.with_feed(market.feed);
        let mut quote = quote_of(&spec, &market, eth, self.ports.clock.utc());
        let floor = ask.floor(&quote).max(committed.floor);
        if quote.out.0 < floor.0 {
            return Err(Refusal::new(Code::PriceMoved));
        }
        let person_s = committed.person_time_s(&self.ports.clock.now());
        let times = Times::of(&market, ask, exchange, person_s);
        let (right, deadline) = permit::router_right(&spec, &market, committed.execution, &times);
        let terms = SwapTerms { floor, deadline, right };
        let simulator = self.simulator(ask.chain);
        let plan = plan::rehearse(&*chain, &simulator, &spec, &market, &terms).await?;
        quote.block = plan.block;
        quote.plan_cost = plan.cost;
        quote.effects = plan.effects;
        quote.received = plan.received;
        quote.calls.clone_from(&plan.calls);
        Ok(Measured { at_ms, quote, floor, deadline, plan })
    }

    /// Returns the venue of the route that pays most after gas.
    async fn best_venue(
        &self,
        chain: &dyn Chain,
        ask: &TradeAsk,
        owner: Address,
        input: &TradeInput,
    ) -> Result<Venue, Refusal> {
        let spec = spec_of(ask, owner, input.network, input.exchange);
        let wiring = self.wiring(chain, input.network, input.exchange).await?;
        let (mut found, feeds, facts, eth_price) = futures::future::join4(
            Comparison::of_all_routes(&spec).run(chain, &spec),
            routes::feeds(chain, &spec),
            chain.fee_facts(),
            self.eth_price.api_price(),
        )
        .await;
        found.retain(|route| wiring.allows(&route.quote.venue));
        let (feed, stocks) = feeds?;
        let eth = eth_price.with_feed(feed);
        let value = market::value(&spec, spec.token_in, spec.amount_in, eth, &stocks);
        let input_wei = value.zip(eth).and_then(|(value, eth)| eth_price::wei_of(value, eth));
        let facts = facts.map_err(|_fault| Refusal::new(Code::ChainUnavailable))?;
        // The price of gas depends on neither the block's time nor the balance.
        let (gas, block_time, native) = (&input.network.gas, 0, U256::ZERO);
        let gas_price = Sender { owner, gas, facts: &facts, block_time, native }.gas_price()?;
        let best = routes::best_after_gas(found, gas_price, input_wei);
        best.ok_or_else(|| Refusal::new(Code::NoPool))
    }

    /// Quotes the usual routes of a trade, sorted by output before gas, the highest first.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`, or `NO_POOL` if the network has no exchange.
    pub async fn compare(
        &self,
        ask: &TradeAsk,
        owner: Address,
    ) -> Result<Vec<RouteQuote>, Refusal> {
        let network = networks::by_chain(ask.chain).ok_or_else(|| Refusal::new(Code::NoPool))?;
        let exchange = network.exchange.ok_or_else(|| Refusal::new(Code::NoPool))?;
        let chain = self.chain(network)?;
        let spec = spec_of(ask, owner, network, exchange);
        let wiring = self.wiring(&*chain, network, exchange).await?;
        let found = Comparison::of_all_routes(&spec).run(&*chain, &spec).await;
        let mut routes: Vec<RouteQuote> = found.into_iter().map(|route| route.quote).collect();
        routes.retain(|route| wiring.allows(&route.venue));
        routes.sort_by_key(|route| std::cmp::Reverse(route.out));
        Ok(routes)
    }

    /// Measures a held trade for its approval.
    ///
    /// # Errors
    /// Those of [`Trading::propose`].
    pub async fn requote(
        &self,
        ask: &TradeAsk,
        owner: Address,
        by_device: bool,
    ) -> Result<Measured, Refusal> {
        let committed =
            PriorCommitments { floor: ask.floor(&ask.quote), execution: None, by_device };
        self.measure(ask, owner, committed).await
    }

    pub(super) fn chain(&self, network: &Network) -> Result<std::sync::Arc<dyn Chain>, Refusal> {
        let chain = self.ports.chains.get(&network.chain);
        chain.ok_or_else(|| Refusal::new(Code::ChainUnavailable))
    }
}

/// Refuses a passed deadline or a missing balance early, because the rehearsal would only report that the trade fails.
fn check_early(ask: &TradeAsk, spec: &Spec<'_>, market: &Market) -> Result<(), Refusal> {
    if ask.deadline.is_some_and(|deadline| deadline <= market.block_time) {
        return Err(Refusal::new(Code::DeadlinePassed));
    }
    if market.balance_in < spec.amount_in.0 {
        return Err(Refusal::new(Code::InsufficientFunds));
    }
    Ok(())
}

/// Returns the trade as it is measured and executed.
pub(super) fn spec_of<'a>(
    ask: &'a TradeAsk,
    owner: Address,
    network: &'static Network,
    exchange: &'static Exchange,
) -> Spec<'a> {
    Spec {
        network,
        exchange,
        owner,
        token_in: &ask.token_in,
        token_out: &ask.token_out,
        amount_in: ask.amount_in,
        venue: &ask.venue,
    }
}

fn quote_of(
    spec: &Spec<'_>,
    market: &Market,
    eth: Option<Usd>,
    at: bursar_core::time::Utc,
) -> TradeQuote {
    TradeQuote {
        block_time: market.block_time,
        at,
        out: market.out,
        gas: market.gas,
        impact: market.impact,
        value_in: market::value(spec, spec.token_in, spec.amount_in, eth, &market.stocks),
        value_out: market::value(spec, spec.token_out, market.out, eth, &market.stocks),
        native_price: eth,
        native_balance: market.native_balance,
        balance_in: market.balance_in,
        best_route: best_of(spec, market),
        ..TradeQuote::default()
    }
}

/// Returns the route that pays most before gas; the trade's own route wins a tie.
fn best_of(spec: &Spec<'_>, market: &Market) -> Option<Box<RouteQuote>> {
    if matches!(spec.venue, Venue::Wrap | Venue::Unwrap) {
        return None;
    }
    let own = RouteQuote { venue: spec.venue.clone(), out: market.out };
    let better = |best: RouteQuote, route: &Route| {
        if route.quote.out > best.out { route.quote.clone() } else { best }
    };
    Some(Box::new(market.routes.iter().fold(own, better)))
}

/// Returns the venue that a request names; if the wallet is to choose the route, the first candidate.
fn venue(input: &TradeInput) -> Result<Venue, Refusal> {
    let (token_in, token_out) = (input.token_in, input.token_out);
    match (input.wraps(), &input.pool) {
        (Some(true), _) => Ok(Venue::Wrap),
        (Some(false), _) => Ok(Venue::Unwrap),
        (None, PoolInput::Best) => {
            let stablecoin = input.network.stablecoin.address;
            let all = routes::candidates(input.exchange, stablecoin, token_in, token_out);
            all.into_iter().next().ok_or_else(|| Refusal::new(Code::NoPool))
        }
        (None, PoolInput::V3 { fee: 0 }) => {
            let message = "fee_tier 0 is only for wrapping and unwrapping.";
            Err(Refusal::because(Code::NoPool, message))
        }
        (None, PoolInput::V3 { fee }) => Ok(Venue::V3 {
            fee: *fee,
            pool: spec::v3_pool(input.exchange, token_in, token_out, *fee)?,
        }),
        (None, PoolInput::V4 { fee, tick_spacing, hooks }) => Ok(Venue::V4 {
            fee: *fee,
            tick_spacing: *tick_spacing,
            hooks: *hooks,
            pool: spec::v4_pool(token_in, token_out, *fee, *tick_spacing, *hooks)?,
        }),
    }
}

/// Returns a token's description: from our table, or from its contract.
async fn describe(
    chain: &dyn Chain,
    input: &TradeInput,
    currency: Currency,
) -> Result<TradeToken, Refusal> {
    let address = Some(currency.address()).filter(|_token| !currency.is_native());
    let described =
        |symbol: &str, decimals| TradeToken { address, symbol: symbol.to_owned(), decimals };
    if let Some(known) = input.network.known_tokens().find(|known| known.address == address) {
        return Ok(described(known.symbol, known.decimals));
    }
    let address = currency.address();
    let unknown = || Refusal::new(Code::UnknownToken);
    let own = token::describe(chain, address).await.map_err(|fault| match fault {
        ChainFault::Rejected { .. } | ChainFault::Malformed { .. } => unknown(),
        ChainFault::Unavailable { .. }
        | ChainFault::WrongChain { .. }
        | ChainFault::Reverted { .. } => Refusal::new(Code::ChainUnavailable),
    })?;
    let own = own.filter(|token| token.decimals <= DECIMALS_MAX).ok_or_else(unknown)?;
    Ok(described(&own.symbol, own.decimals))
}
