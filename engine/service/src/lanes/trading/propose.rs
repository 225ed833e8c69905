//! Turns a request into the immutable ask that is checked, recorded and shown, and measures it again later.

use alloy_primitives::Address;
use bursar_chain::ports::{Chain, ChainFault};
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Bps, Usd, parse_decimal};
use bursar_core::networks::{self, Exchange, NATIVE_DECIMALS, Network};
use bursar_core::policy::TradingPolicy;
use bursar_domain::Refusal;
use bursar_domain::assess::trading::counted;
use bursar_domain::trades::{TradeAsk, TradeQuote, TradeToken, Venue};
use bursar_uniswap::Currency;

use super::input::{PoolInput, TradeInput};
use super::lane::Trading;
use super::market::{self, Market, Spec};
use super::plan::{self, Plan};

/// The slippage of a request that names none, unless the policy's is lower.
const DEFAULT_SLIPPAGE: Bps = Bps(50);

/// Most decimals of a token; with more, no amount of 256 bits would reach one whole token.
const DECIMALS_MAX: u8 = 77;

impl Trading {
    /// Reads the market for a request and rehearses the trade.
    ///
    /// # Errors
    /// Why the wallet cannot make this trade.
    pub async fn propose(
        &self,
        input: &TradeInput,
        owner: Address,
        policy: &TradingPolicy,
    ) -> Result<TradeAsk, Refusal> {
        let chain = self.chain(input.network)?;
        let token_in = describe(&*chain, input, input.token_in).await?;
        let token_out = describe(&*chain, input, input.token_out).await?;
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
            slippage: input.slippage.unwrap_or(DEFAULT_SLIPPAGE.min(policy.max_slippage)),
            deadline: input.deadline,
            quote: TradeQuote::default(),
            counted: Usd::ZERO,
        };
        let (quote, _plan) = self.measure(&ask, owner, None).await?;
        ask.counted = counted(&quote, policy);
        ask.quote = quote;
        Ok(ask)
    }

    /// Measures a recorded trade again and makes its next transactions. `committed` is the least output so far.
    ///
    /// # Errors
    /// As of [`Trading::propose`].
    pub(super) async fn measure(
        &self,
        ask: &TradeAsk,
        owner: Address,
        committed: Option<Atoms>,
    ) -> Result<(TradeQuote, Plan), Refusal> {
        let network = networks::by_chain(ask.chain).ok_or_else(|| Refusal::new(Code::NoPool))?;
        let exchange = network.exchange.ok_or_else(|| Refusal::new(Code::NoPool))?;
        let chain = self.chain(network)?;
        let spec = spec(ask, owner, network, exchange);
        let measured = market::measure(&*chain, &spec).await?;
        check_early(ask, &spec, &measured)?;
        let eth = self.eth_price.read(measured.feed).await;
        let mut quote = quote_of(&spec, &measured, eth, self.ports.clock.utc());
        let floor = ask.floor(&quote).max(committed.unwrap_or_default());
        if quote.out.0 < floor.0 {
            return Err(Refusal::new(Code::PriceMoved));
        }
        let own = measured.block_time.saturating_add(exchange.deadline_seconds);
        let deadline = ask.deadline.map_or(own, |deadline| deadline.min(own));
        let simulator = self.simulator(ask.chain);
        let plan = plan::rehearse(&*chain, &simulator, &spec, &measured, floor, deadline).await?;
        quote.block = plan.block;
        quote.plan_cost = plan.cost;
        quote.effects = plan.effects;
        Ok((quote, plan))
    }

    /// Measures a held trade for its approval.
    ///
    /// # Errors
    /// As of [`Trading::propose`].
    pub async fn requote(&self, ask: &TradeAsk, owner: Address) -> Result<TradeQuote, Refusal> {
        self.measure(ask, owner, None).await.map(|(quote, _plan)| quote)
    }

    pub(super) fn chain(&self, network: &Network) -> Result<std::sync::Arc<dyn Chain>, Refusal> {
        let chain = self.ports.chains.get(&network.chain);
        chain.ok_or_else(|| Refusal::new(Code::ChainUnavailable))
    }
}

/// Refuses what the rules would refuse too, before the rehearsal can only report that it fails.
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
pub(super) fn spec<'a>(
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
        value_in: market::value(spec, spec.token_in, spec.amount_in, eth),
        value_out: market::value(spec, spec.token_out, market.out, eth),
        native_balance: market.native_balance,
        balance_in: market.balance_in,
        ..TradeQuote::default()
    }
}

fn venue(input: &TradeInput) -> Result<Venue, Refusal> {
    let (token_in, token_out) = (input.token_in, input.token_out);
    match (input.wraps(), &input.pool) {
        (Some(true), _) => Ok(Venue::Wrap),
        (Some(false), _) => Ok(Venue::Unwrap),
        (None, PoolInput::V3 { fee: 0 }) => {
            let message = "fee_tier 0 is only for wrapping and unwrapping.";
            Err(Refusal::because(Code::NoPool, message))
        }
        (None, PoolInput::V3 { fee }) => Ok(Venue::V3 {
            fee: *fee,
            pool: market::v3_pool(input.exchange, token_in, token_out, *fee)?,
        }),
        (None, PoolInput::V4 { fee, tick_spacing, hooks }) => Ok(Venue::V4 {
            fee: *fee,
            tick_spacing: *tick_spacing,
            hooks: *hooks,
            pool: market::v4_pool(token_in, token_out, *fee, *tick_spacing, *hooks)?,
        }),
    }
}

/// Returns a token's description: from our table, or from its contract.
async fn describe(
    chain: &dyn Chain,
    input: &TradeInput,
    currency: Currency,
) -> Result<TradeToken, Refusal> {
    let known = |symbol: &str, decimals| TradeToken {
        address: Some(currency.address()),
        symbol: symbol.to_owned(),
        decimals,
    };
    let address = match currency {
        Currency::Native => {
            let symbol = input.network.native.to_owned();
            return Ok(TradeToken { address: None, symbol, decimals: NATIVE_DECIMALS });
        }
        Currency::Token(address) => address,
    };
    let coin = &input.network.stablecoin;
    if address == coin.address {
        return Ok(known(coin.symbol, coin.decimals));
    }
    if address == input.exchange.wrapped_native {
        return Ok(known("WETH", NATIVE_DECIMALS));
    }
    if let Some(token) = input.exchange.dollar_tokens.iter().find(|one| one.address == address) {
        return Ok(known(token.symbol, token.decimals));
    }
    let unknown = || Refusal::new(Code::UnknownToken);
    let described = token::describe(chain, address).await.map_err(|fault| match fault {
        ChainFault::Rejected { .. } | ChainFault::Malformed { .. } => unknown(),
        ChainFault::Unavailable { .. }
        | ChainFault::WrongChain { .. }
        | ChainFault::Reverted { .. } => Refusal::new(Code::ChainUnavailable),
    })?;
    let described = described.filter(|token| token.decimals <= DECIMALS_MAX).ok_or_else(unknown)?;
    Ok(known(&described.symbol, described.decimals))
}
