//! Measures a trade: one batched read at one block, with the pool, the quote, small quotes, balances, allowances and
//! the price feed. The other routes are quoted at the same time.

use alloy_primitives::U256;
use bursar_chain::multicall::{self, Read};
use bursar_chain::ports::Chain;
use bursar_chain::token;
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_domain::Refusal;
use bursar_domain::trades::TradeToken;
use bursar_submit::fees::FeeFacts;
use bursar_uniswap::read::Permit2Allowance;

use super::eth_price::FeedPrice;
use super::pools::{PoolQuote, PoolReads, own_quote};
use super::reads::{Batch, chain_unavailable};
use super::routes::{Comparison, Route};
use super::spec::Spec;
use super::stocks::{StockPrices, StockReads};
use super::wiring::Wiring;

/// The market of a trade, as it was measured.
#[derive(Debug, Clone)]
pub(super) struct Market {
    pub(super) block_time: u64,
    pub(super) out: Atoms,
    pub(super) gas: u64,
    /// `None` if it is unknown.
    pub(super) impact: Option<Bps>,
    pub(super) native_balance: U256,
    pub(super) balance_in: U256,
    pub(super) balance_out: U256,
    /// The input token's allowance for the venue's contract.
    pub(super) allowance: U256,
    /// The router's allowance within Permit2; `None` at a venue that does not use Permit2.
    pub(super) permit2: Option<Permit2Allowance>,
    pub(super) feed: FeedPrice,
    pub(super) fees: FeeFacts,
    pub(super) stocks: StockPrices,
    /// The other routes that can make the trade.
    pub(super) routes: Vec<Route>,
}

impl Market {
    /// Drops the routes and the feed price that came from contracts that are not as expected.
    pub(super) fn drop_unexpected(&mut self, wiring: &Wiring) {
        self.routes.retain(|route| wiring.allows(&route.quote.venue));
        if wiring.feed.is_err() {
            self.feed = FeedPrice::Unknown;
        }
    }
}

/// Measures a trade at the newest block.
///
/// # Errors
/// `CHAIN_UNAVAILABLE`, `NO_POOL`, `POOL_TOO_SMALL` or `QUOTE_FAILED`.
pub(super) async fn measure(chain: &dyn Chain, spec: &Spec<'_>) -> Result<Market, Refusal> {
    let mut batch = Batch::default();
    let time = batch.push(multicall::block_time());
    let native = batch.push(Read::Native(spec.owner));
    let balance = |token: &TradeToken, batch: &mut Batch| match token.address {
        None => native,
        Some(address) => batch.add(address, token::balance_call(spec.owner)),
    };
    let (balance_in, balance_out) =
        (balance(spec.token_in, &mut batch), balance(spec.token_out, &mut batch));
    let allowance = spec
        .token_in
        .address
        .zip(spec.spender())
        .map(|(token, spender)| batch.add(token, token::allowance_call(spec.owner, spender)));
    let permit2 = spec.router_allowance().map(|data| batch.add(spec.exchange.permit2, data));
    let feed = batch.add_feed(spec.exchange);
    let stocks = StockReads::add(&mut batch, spec);
    let pool = PoolReads::add(&mut batch, spec)?;
    let routes = Comparison::of_other_routes(spec).run(chain, spec);
    let (answers, own, routes, fees) =
        futures::future::join4(batch.run(chain), own_quote(chain, spec), routes, chain.fee_facts())
            .await;
    let (answers, own, fees) = (answers?, own?, fees.map_err(|_fault| chain_unavailable())?);

    let block_time = answers.time(time)?;
    let feed = answers.feed_of(spec.exchange, feed, block_time);
    let quoted = match &pool {
        Some(pool) => pool.read_quote(spec, &answers, own)?,
        None => PoolQuote { out: spec.amount_in.0, gas: 50_000, impact: Some(Bps(0)) },
    };
    Ok(Market {
        block_time,
        out: Atoms(quoted.out),
        gas: quoted.gas,
        impact: quoted.impact,
        native_balance: answers.number(native)?,
        balance_in: answers.number(balance_in)?,
        balance_out: answers.number(balance_out)?,
        allowance: allowance.map_or(Ok(U256::ZERO), |at| answers.number(at))?,
        permit2: permit2.map(|at| answers.permit2(at)).transpose()?,
        feed,
        fees,
        stocks: stocks.prices(&answers, block_time),
        routes,
    })
}

/// Returns the value of an amount of a token in dollars; `None` if no price outside the pool is known.
pub(super) fn value(
    spec: &Spec<'_>,
    token: &TradeToken,
    atoms: Atoms,
    eth: Option<Usd>,
    stocks: &StockPrices,
) -> Option<Usd> {
    match token.address {
        Some(address) if spec.network.is_dollar(address) => {
            atoms.to_usd(token.decimals, bursar_core::money::Round::Up).ok()
        }
        Some(address) if address != spec.exchange.wrapped_native => stocks.value(address, atoms),
        _native_or_wrapped => super::eth_price::value_of(atoms.0, eth?),
    }
}
