//! Measures a trade: one batched read at one block, with the pool, the quote, small quotes, balances, allowances and
//! the price feed.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::multicall::{self, Read, ReadFault, call_many};
use bursar_chain::ports::{BlockTag, Chain};
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::networks::{Exchange, Network};
use bursar_domain::Refusal;
use bursar_domain::trades::{TradeToken, Venue};
use bursar_uniswap::price::{Dust, HopPrice, Measurement};
use bursar_uniswap::{
    Currency, Impact, PoolKey, Quote, V3Path, V3Pool, V4Path, price, quote, read,
};

use super::eth_price::FeedPrice;

/// The parts of the input that small quotes are made for: a hundredth, a thousandth and a ten-thousandth.
const DUST_PARTS: [u64; 3] = [100, 1_000, 10_000];

/// A trade as it is measured and executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec<'a> {
    pub(super) network: &'static Network,
    pub(super) exchange: &'static Exchange,
    /// The paying address.
    pub(super) owner: Address,
    pub(super) token_in: &'a TradeToken,
    pub(super) token_out: &'a TradeToken,
    pub(super) amount_in: Atoms,
    pub(super) venue: &'a Venue,
}

/// What one batched read showed.
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
    /// What the venue's contract may take of the input token already.
    pub(super) allowance: U256,
    pub(super) feed: FeedPrice,
}

impl Spec<'_> {
    pub(super) fn currency(token: &TradeToken) -> Currency {
        token.address.map_or(Currency::Native, Currency::Token)
    }

    /// Returns the contract that must be allowed to take the input token; `None` if none must.
    pub(super) fn spender(&self) -> Option<Address> {
        self.token_in.address?;
        match self.venue {
            Venue::V3 { .. } => Some(self.exchange.v3.router),
            Venue::V4 { .. } => Some(self.exchange.permit2),
            Venue::Wrap | Venue::Unwrap => None,
        }
    }

    /// Returns the path through the v3 pool; `None` at another venue.
    pub(super) fn v3_path(&self) -> Option<(V3Pool, V3Path)> {
        let Venue::V3 { fee, .. } = self.venue else { return None };
        let wrapped = self.exchange.wrapped_native;
        let (input, output) = (Self::currency(self.token_in), Self::currency(self.token_out));
        let (input, output) = (input.or_wrapped(wrapped), output.or_wrapped(wrapped));
        let pool = V3Pool::new(input, output, *fee).ok()?;
        let path = V3Path::new(input, &[pool]).ok()?;
        Some((pool, path))
    }

    /// Returns the path through the v4 pool; `None` at another venue.
    pub(super) fn v4_path(&self) -> Option<(PoolKey, V4Path)> {
        let Venue::V4 { fee, tick_spacing, hooks, .. } = self.venue else { return None };
        let (input, output) = (Self::currency(self.token_in), Self::currency(self.token_out));
        let pool = PoolKey::new(input, output, *fee, *tick_spacing, *hooks).ok()?;
        let path = V4Path::new(input, &[pool]).ok()?;
        Some((pool, path))
    }
}

/// Returns the pool of a v3 request.
///
/// # Errors
/// The tokens and the fee name no possible pool.
pub(super) fn v3_pool(
    exchange: &Exchange,
    token_in: Currency,
    token_out: Currency,
    fee: u32,
) -> Result<Address, Refusal> {
    let wrapped = exchange.wrapped_native;
    let pool = V3Pool::new(token_in.or_wrapped(wrapped), token_out.or_wrapped(wrapped), fee);
    pool.map(|pool| pool.address(&exchange.v3)).map_err(|_same| Refusal::new(Code::NoPool))
}

/// Returns the id of the pool of a v4 request.
///
/// # Errors
/// The fields name no possible pool.
pub(super) fn v4_pool(
    token_in: Currency,
    token_out: Currency,
    fee: u32,
    tick_spacing: i32,
    hooks: Address,
) -> Result<B256, Refusal> {
    let pool = PoolKey::new(token_in, token_out, fee, tick_spacing, hooks);
    pool.map(|pool| pool.id()).map_err(|_invalid| Refusal::new(Code::NoPool))
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
        .map(|(token, spender)| batch.add(token, token::allowance(spec.owner, spender)));
    let feed = spec.exchange.native_feed.map(|feed| batch.add(feed.address, read::feed_call()));
    let pool = PoolReads::add(&mut batch, spec)?;
    let answers = Answers(batch.run(chain).await?);

    let block_time = answers.number(time)?;
    let block_time = u64::try_from(block_time).map_err(|_absurd| unavailable())?;
    let feed = match (spec.exchange.native_feed, feed) {
        (Some(feed), Some(at)) => answers.feed(at, feed.decimals, block_time, feed.stale_seconds),
        _no_feed => FeedPrice::Missing,
    };
    let quoted = match &pool {
        Some(pool) => pool.quoted(spec, &answers)?,
        None => Quoted { out: spec.amount_in.0, gas: 50_000, impact: Some(Bps(0)) },
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
        feed,
    })
}

/// Reads of one request.
#[derive(Default)]
struct Batch(Vec<Read>);

impl Batch {
    /// Adds a call and returns its place.
    fn add(&mut self, to: Address, data: Bytes) -> usize {
        self.push(Read::Call { to, data })
    }

    fn push(&mut self, read: Read) -> usize {
        self.0.push(read);
        self.0.len().saturating_sub(1)
    }

    async fn run(&self, chain: &dyn Chain) -> Result<Vec<Result<Bytes, ReadFault>>, Refusal> {
        call_many(chain, &self.0, BlockTag::Latest).await.map_err(|_fault| unavailable())
    }
}

fn unavailable() -> Refusal {
    Refusal::new(Code::ChainUnavailable)
}

struct Answers(Vec<Result<Bytes, ReadFault>>);

impl Answers {
    fn get(&self, at: usize) -> Option<&Result<Bytes, ReadFault>> {
        self.0.get(at)
    }

    fn bytes(&self, at: usize) -> Result<&Bytes, Refusal> {
        self.get(at).and_then(|answer| answer.as_ref().ok()).ok_or_else(unavailable)
    }

    fn number(&self, at: usize) -> Result<U256, Refusal> {
        let word = self.bytes(at)?;
        if word.len() == 32 { Ok(U256::from_be_slice(word)) } else { Err(unavailable()) }
    }

    fn feed(&self, at: usize, decimals: u8, now: u64, stale_seconds: u64) -> FeedPrice {
        match self.get(at) {
            // An address without code is no feed.
            Some(Ok(answer)) if answer.is_empty() => FeedPrice::Missing,
            Some(Ok(answer)) => match read::decode_feed(answer) {
                Ok(feed) if now.saturating_sub(feed.updated_at) < stale_seconds => {
                    let usd = super::eth_price::feed_usd(feed.price, decimals);
                    usd.map_or(FeedPrice::Unknown, FeedPrice::Price)
                }
                Ok(_stale) => FeedPrice::Unknown,
                Err(_invalid) => FeedPrice::Unknown,
            },
            Some(Err(_)) | None => FeedPrice::Unknown,
        }
    }
}

/// Where the answers about the pool are.
struct PoolReads {
    /// The factory's own answer; v4 has none.
    confirmed: Option<usize>,
    slot0: usize,
    liquidity: usize,
    full: usize,
    /// Small quotes with their input.
    dust: Vec<(U256, usize)>,
}

struct Quoted {
    out: U256,
    gas: u64,
    impact: Option<Bps>,
}

impl PoolReads {
    /// Adds the reads of the venue's pool; `None` if it has no pool.
    fn add(batch: &mut Batch, spec: &Spec<'_>) -> Result<Option<Self>, Refusal> {
        let amount = spec.amount_in.0;
        let parts = DUST_PARTS.iter().filter_map(|part| amount.checked_div(U256::from(*part)));
        let parts: Vec<U256> = parts.filter(|part| !part.is_zero()).collect();
        match spec.venue {
            Venue::Wrap | Venue::Unwrap => Ok(None),
            Venue::V3 { pool, .. } => {
                let (known, path) = spec.v3_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
                let v3 = &spec.exchange.v3;
                let confirmed = Some(batch.add(v3.factory, read::pool_call(&known)));
                let slot0 = batch.add(*pool, read::v3_slot0_call());
                let liquidity = batch.add(*pool, read::v3_liquidity_call());
                let mut ask =
                    |amount| batch.add(v3.quoter, quote::v3_exact_input_call(&path, amount));
                let full = ask(amount);
                let dust = parts.into_iter().map(|part| (part, ask(part))).collect();
                Ok(Some(Self { confirmed, slot0, liquidity, full, dust }))
            }
            Venue::V4 { pool, .. } => {
                let (_key, path) = spec.v4_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
                let v4 = &spec.exchange.v4;
                let slot0 = batch.add(v4.state_view, read::v4_slot0_call(*pool));
                let liquidity = batch.add(v4.state_view, read::v4_liquidity_call(*pool));
                let mut ask = |amount| {
                    let data = quote::v4_exact_input_call(&path, amount);
                    data.map(|data| batch.add(v4.quoter, data)).map_err(|fault| refused(&fault))
                };
                let full = ask(amount)?;
                let dust = parts.into_iter().map(|part| Ok((part, ask(part)?)));
                let dust = dust.collect::<Result<_, Refusal>>()?;
                Ok(Some(Self { confirmed: None, slot0, liquidity, full, dust }))
            }
        }
    }

    fn quoted(&self, spec: &Spec<'_>, answers: &Answers) -> Result<Quoted, Refusal> {
        self.confirm(spec, answers)?;
        let full = self.decode(spec, answers, self.full).map_err(|fault| refused(&fault))?;
        let (ideal, fee) = self.by_price(spec, answers);
        let wanted = price::dust_amount(spec.amount_in.0, full.amount);
        // The smallest quote that rounding does not falsify.
        let dust = self.dust.iter().rev().find(|(part, _at)| wanted.is_some_and(|w| *part >= w));
        let dust = dust.and_then(|(part, at)| {
            let quote = self.decode(spec, answers, *at).ok()?;
            Some(Dust { amount_in: *part, amount_out: quote.amount })
        });
        let impact = price::impact(&Measurement {
            amount_in: spec.amount_in.0,
            amount_out: full.amount,
            ideal,
            dust,
            fee,
        });
        let impact = match impact {
            Impact::Known { cost, .. } => Some(cost),
            Impact::Unknown => None,
        };
        let gas = u64::try_from(full.gas).unwrap_or(u64::MAX);
        Ok(Quoted { out: full.amount, gas, impact })
    }

    /// Refuses a pool that does not exist.
    fn confirm(&self, spec: &Spec<'_>, answers: &Answers) -> Result<(), Refusal> {
        let no_pool = || Refusal::new(Code::NoPool);
        match (spec.venue, self.confirmed) {
            (Venue::V3 { pool, .. }, Some(at)) => {
                let found = read::decode_pool(answers.bytes(at)?).map_err(|_odd| unavailable())?;
                if found == Some(*pool) { Ok(()) } else { Err(no_pool()) }
            }
            _v4 => {
                let state = read::decode_v4_state(
                    answers.bytes(self.slot0)?,
                    answers.bytes(self.liquidity)?,
                );
                let state = state.map_err(|_odd| unavailable())?;
                if state.sqrt_price_x96.is_zero() { Err(no_pool()) } else { Ok(()) }
            }
        }
    }

    fn decode(
        &self,
        spec: &Spec<'_>,
        answers: &Answers,
        at: usize,
    ) -> Result<Quote, quote::QuoteFault> {
        let answer = match answers.get(at) {
            Some(Ok(answer)) => answer,
            Some(Err(ReadFault::Reverted { data })) => return Err(quote::decode_revert(data)),
            _missing => return Err(quote::decode_revert(&[])),
        };
        match spec.v3_path() {
            Some((_pool, path)) => quote::decode_v3_exact_input(&path, answer),
            None => quote::decode_v4(answer),
        }
    }

    /// Returns the output at the pool's current price, and the pool's fee.
    fn by_price(&self, spec: &Spec<'_>, answers: &Answers) -> (Option<U256>, Option<u32>) {
        let pair = answers.bytes(self.slot0).ok().zip(answers.bytes(self.liquidity).ok());
        let Some((slot0, liquidity)) = pair else { return (None, None) };
        let ideal = |sqrt_price_x96, zero_for_one| {
            let hop = HopPrice { sqrt_price_x96, zero_for_one };
            price::ideal_out_of_path(&[hop], spec.amount_in.0)
        };
        if let Some((pool, path)) = spec.v3_path() {
            let state = read::decode_v3_state(slot0, liquidity).ok();
            let zero_for_one = pool.zero_for_one(path.input());
            let ideal = state.zip(zero_for_one).and_then(|(s, z)| ideal(s.sqrt_price_x96, z));
            return (ideal, Some(pool.fee()));
        }
        let Some((pool, path)) = spec.v4_path() else { return (None, None) };
        let Ok(state) = read::decode_v4_state(slot0, liquidity) else { return (None, None) };
        let Some(zero_for_one) = pool.zero_for_one(path.input()) else { return (None, None) };
        (ideal(state.sqrt_price_x96, zero_for_one), pool.swap_fee(&state, zero_for_one))
    }
}

fn refused(fault: &quote::QuoteFault) -> Refusal {
    match fault {
        quote::QuoteFault::InsufficientLiquidity => Refusal::new(Code::PoolTooSmall),
        quote::QuoteFault::Reverted(reason) => Refusal::because(
            Code::QuoteFailed,
            format!("The pool gives no quote for this trade: {reason}."),
        ),
        quote::QuoteFault::Odd | quote::QuoteFault::TooLarge => {
            Refusal::because(Code::QuoteFailed, format!("No quote: {fault}."))
        }
    }
}

/// Returns the value of an amount of a token in dollars; `None` if no price outside the pool is known.
pub(super) fn value(
    spec: &Spec<'_>,
    token: &TradeToken,
    atoms: Atoms,
    eth: Option<Usd>,
) -> Option<Usd> {
    let is_dollar = |address: Address| {
        address == spec.network.stablecoin.address
            || spec.exchange.dollar_tokens.iter().any(|known| known.address == address)
    };
    match token.address {
        Some(address) if is_dollar(address) => {
            atoms.to_usd(token.decimals, bursar_core::money::Round::Up).ok()
        }
        Some(address) if address != spec.exchange.wrapped_native => None,
        _native_or_wrapped => super::eth_price::value_of(atoms.0, eth?),
    }
}
