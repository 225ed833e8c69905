//! The pools of one venue: their prices, the quote for the whole input, and small quotes that show the price impact.

use alloy_primitives::{Address, U256};
use bursar_chain::multicall::ReadFault;
use bursar_chain::ports::{Chain, ChainFault};
use bursar_core::codes::Code;
use bursar_core::money::Bps;
use bursar_domain::Refusal;
use bursar_domain::trades::Venue;
use bursar_submit::Call;
use bursar_uniswap::price::{HopPrice, PriceProbe, TradeMeasurement};
use bursar_uniswap::route::Hop;
use bursar_uniswap::{Impact, Quote, QuoteFault, V3Pool, price, quote, read};

use super::reads::{Answers, Batch, chain_unavailable};
use super::spec::Spec;

/// The input divided by each of these numbers is the input of a small quote.
const SMALL_QUOTE_DIVISORS: [u64; 3] = [100, 1_000, 10_000];

/// The batch indexes of the answers about a venue's pools.
pub(super) struct PoolReads {
    /// One for each pool, in the order of the swap.
    hops: Vec<HopReads>,
    full_quote: usize,
    /// The input of each small quote, and the index of its answer.
    small_quotes: Vec<(U256, usize)>,
}

struct HopReads {
    /// The index of the factory's answer, and the pool that the answer must name; `None` for v4, which has no factory.
    factory_answer: Option<(usize, Address)>,
    slot0: usize,
    liquidity: usize,
}

/// The quote of a venue's pools.
pub(super) struct PoolQuote {
    pub(super) out: U256,
    pub(super) gas: u64,
    /// `None` if it is unknown.
    pub(super) impact: Option<Bps>,
}

impl PoolReads {
    /// Adds the reads of the venue's pools; `None` if the venue has no pools.
    pub(super) fn add(batch: &mut Batch, spec: &Spec<'_>) -> Result<Option<Self>, Refusal> {
        let amount = spec.amount_in.0;
        let parts =
            SMALL_QUOTE_DIVISORS.iter().filter_map(|part| amount.checked_div(U256::from(*part)));
        let parts: Vec<U256> = parts.filter(|part| !part.is_zero()).collect();
        let hops = match spec.venue {
            Venue::Wrap | Venue::Unwrap => return Ok(None),
            Venue::V3 { .. } | Venue::V3Path { .. } => {
                let path = spec.v3_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
                let v3 = &spec.exchange.v3;
                let reads = |hop: &Hop<V3Pool, Address>| {
                    let pool = hop.pool.address(v3);
                    HopReads {
                        factory_answer: Some((
                            batch.add(v3.factory, read::pool_call(&hop.pool)),
                            pool,
                        )),
                        slot0: batch.add(pool, read::v3_slot0_call()),
                        liquidity: batch.add(pool, read::v3_liquidity_call()),
                    }
                };
                path.hops().iter().map(reads).collect()
            }
            Venue::V4 { pool, .. } => {
                let view = spec.exchange.v4.state_view;
                vec![HopReads {
                    factory_answer: None,
                    slot0: batch.add(view, read::v4_slot0_call(*pool)),
                    liquidity: batch.add(view, read::v4_liquidity_call(*pool)),
                }]
            }
        };
        let full = add_quote(batch, spec, amount)?;
        let dust = parts.into_iter().map(|part| Ok((part, add_quote(batch, spec, part)?)));
        let dust = dust.collect::<Result<_, Refusal>>()?;
        Ok(Some(Self { hops, full_quote: full, small_quotes: dust }))
    }

    /// Reads the answers. `own` is the result of [`own_quote`]; a quote in it replaces the batch's quote for the whole
    /// input.
    ///
    /// # Errors
    /// `NO_POOL`, `POOL_TOO_SMALL`, `QUOTE_FAILED`, or `CHAIN_UNAVAILABLE` for an invalid answer.
    pub(super) fn read_quote(
        &self,
        spec: &Spec<'_>,
        answers: &Answers,
        own: OwnQuote,
    ) -> Result<PoolQuote, Refusal> {
        self.confirm(answers)?;
        let full = match own {
            OwnQuote::NotNeeded => decode_quote(spec, answers, self.full_quote),
            OwnQuote::Quoted(quote) => quote,
        };
        let full = full.map_err(|fault| quote_refusal(&fault))?;
        let (ideal, fee) = self.output_at_price(spec, answers);
        let wanted = price::probe_amount(spec.amount_in.0, full.amount);
        // Take the smallest quote that rounding does not distort.
        let dust =
            self.small_quotes.iter().rev().find(|(part, _at)| wanted.is_some_and(|w| *part >= w));
        let dust = dust.and_then(|(part, at)| {
            let quote = decode_quote(spec, answers, *at).ok()?;
            Some(PriceProbe { amount_in: *part, amount_out: quote.amount })
        });
        let impact = price::impact(&TradeMeasurement {
            amount_in: spec.amount_in.0,
            amount_out: full.amount,
            ideal,
            probe: dust,
            fee,
        });
        let impact = match impact {
            Impact::Known { cost, .. } => Some(cost),
            Impact::Unknown => None,
        };
        let gas = u64::try_from(full.gas).unwrap_or(u64::MAX);
        Ok(PoolQuote { out: full.amount, gas, impact })
    }

    /// Refuses a pool that does not exist.
    fn confirm(&self, answers: &Answers) -> Result<(), Refusal> {
        let no_pool = || Refusal::new(Code::NoPool);
        for hop in &self.hops {
            let exists = match hop.factory_answer {
                Some((at, pool)) => {
                    let found = read::decode_pool(answers.bytes(at)?);
                    found.map_err(|_odd| chain_unavailable())? == Some(pool)
                }
                None => {
                    let (slot0, liquidity) =
                        (answers.bytes(hop.slot0)?, answers.bytes(hop.liquidity)?);
                    match read::decode_v4_state(slot0, liquidity) {
                        Ok(_state) => true,
                        Err(read::ReadFault::NotInitialized) => false,
                        Err(read::ReadFault::MalformedAnswer(_)) => return Err(chain_unavailable()),
                    }
                }
            };
            if !exists {
                return Err(no_pool());
            }
        }
        Ok(())
    }

    /// Returns the output at the pools' current prices, and the sum of the pools' fees.
    fn output_at_price(&self, spec: &Spec<'_>, answers: &Answers) -> (Option<U256>, Option<u32>) {
        let of =
            |hop: &HopReads| answers.bytes(hop.slot0).ok().zip(answers.bytes(hop.liquidity).ok());
        let ideal = |prices: &[HopPrice]| price::ideal_out_of_path(prices, spec.amount_in.0);
        if let Some(path) = spec.v3_path() {
            // The input of each hop is the output of the hop before it.
            let inputs = path.hops().iter().map(|hop| hop.output);
            let inputs = std::iter::once(path.input()).chain(inputs);
            let prices = self.hops.iter().zip(path.hops()).zip(inputs).map(|((at, hop), input)| {
                let (slot0, liquidity) = of(at)?;
                let sqrt_price_x96 = read::decode_v3_state(slot0, liquidity).ok()?.sqrt_price_x96;
                let zero_for_one = hop.pool.zero_for_one(input)?;
                Some(HopPrice { sqrt_price_x96, zero_for_one })
            });
            let prices: Option<Vec<HopPrice>> = prices.collect();
            let fees = path.hops().iter().map(|hop| hop.pool.fee());
            let fee = fees.fold(0_u32, u32::saturating_add);
            return (prices.and_then(|prices| ideal(&prices)), Some(fee));
        }
        let state = self
            .hops
            .first()
            .and_then(of)
            .and_then(|(slot0, liquidity)| read::decode_v4_state(slot0, liquidity).ok());
        let Some((state, (pool, path))) = state.zip(spec.v4_path()) else { return (None, None) };
        let Some(zero_for_one) = pool.zero_for_one(path.input()) else { return (None, None) };
        let price = HopPrice { sqrt_price_x96: state.sqrt_price_x96, zero_for_one };
        (ideal(&[price]), pool.swap_fee(&state, zero_for_one))
    }
}

/// The quote of a pool with a hook, requested with the paying address as the caller.
///
/// A hook can see the caller, and in a batch the caller is another contract.
pub(super) enum OwnQuote {
    /// The pool has no hook, so the quote of the batch holds.
    NotNeeded,
    Quoted(Result<Quote, QuoteFault>),
}

/// Asks a pool with a hook for the quote of the whole input.
///
/// # Errors
/// `CHAIN_UNAVAILABLE`, or `QUOTE_FAILED` if the quoter does not accept this amount.
pub(super) async fn own_quote(chain: &dyn Chain, spec: &Spec<'_>) -> Result<OwnQuote, Refusal> {
    let Venue::V4 { hooks, .. } = spec.venue else { return Ok(OwnQuote::NotNeeded) };
    let Some((_pool, path)) = spec.v4_path().filter(|_any| *hooks != Address::ZERO) else {
        return Ok(OwnQuote::NotNeeded);
    };
    let data =
        quote::v4_exact_input_call(&path, spec.amount_in.0).map_err(|fault| quote_refusal(&fault));
    let call = Call { to: spec.exchange.v4.quoter, value: U256::ZERO, data: data?, gas_limit: 0 };
    match chain.call_as(spec.owner, call, None).await {
        Ok(answer) => Ok(OwnQuote::Quoted(quote::decode_v4(&answer))),
        Err(ChainFault::Reverted { data }) => {
            Ok(OwnQuote::Quoted(Err(quote::decode_revert(&data))))
        }
        Err(_fault) => Err(chain_unavailable()),
    }
}

/// Adds the quote of a venue for an exact input, and returns its index in the batch.
///
/// # Errors
/// `NO_POOL`, or `QUOTE_FAILED` if the quoter does not accept this amount.
pub(super) fn add_quote(
    batch: &mut Batch,
    spec: &Spec<'_>,
    amount: U256,
) -> Result<usize, Refusal> {
    if let Some(path) = spec.v3_path() {
        let quoter = spec.exchange.v3.quoter;
        return Ok(batch.add(quoter, quote::v3_exact_input_call(&path, amount)));
    }
    let (_pool, path) = spec.v4_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
    let data = quote::v4_exact_input_call(&path, amount).map_err(|fault| quote_refusal(&fault))?;
    Ok(batch.add(spec.exchange.v4.quoter, data))
}

/// Reads the answer of [`add_quote`].
pub(super) fn decode_quote(
    spec: &Spec<'_>,
    answers: &Answers,
    at: usize,
) -> Result<Quote, QuoteFault> {
    let answer = match answers.get(at) {
        Some(Ok(answer)) => answer,
        Some(Err(ReadFault::Reverted { data })) => return Err(quote::decode_revert(data)),
        _missing => return Err(quote::decode_revert(&[])),
    };
    match spec.v3_path() {
        Some(path) => quote::decode_v3_exact_input(&path, answer),
        None => quote::decode_v4(answer),
    }
}

fn quote_refusal(fault: &QuoteFault) -> Refusal {
    match fault {
        QuoteFault::InsufficientLiquidity => Refusal::new(Code::PoolTooSmall),
        QuoteFault::Reverted(reason) => Refusal::because(
            Code::QuoteFailed,
            format!("The pool gives no quote for this trade: {reason}."),
        ),
        QuoteFault::MalformedAnswer | QuoteFault::TooLarge => {
            Refusal::because(Code::QuoteFailed, format!("The pool gives no quote: {fault}."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, Bytes};
    use bursar_core::money::Atoms;
    use bursar_core::networks::by_id_name_or_title;
    use bursar_domain::trades::TradeToken;

    /// Returns why a v4 pool whose slot0 has these words gives no quote. Its liquidity is zero, and all other reads
    /// revert.
    fn refusal(slot0: [U256; 4]) -> Code {
        let network = by_id_name_or_title("base").unwrap();
        let token = |byte: u8| TradeToken {
            address: Some(Address::repeat_byte(byte)),
            symbol: String::new(),
            decimals: 6,
        };
        let (hooks, pool) = (Address::ZERO, B256::repeat_byte(3));
        let spec = Spec {
            network,
            exchange: network.exchange.unwrap(),
            owner: Address::repeat_byte(9),
            token_in: &token(1),
            token_out: &token(2),
            amount_in: Atoms(U256::from(1_000_000)),
            venue: &Venue::V4 { fee: 3_000, tick_spacing: 60, hooks, pool },
        };
        let mut batch = Batch::default();
        let reads = PoolReads::add(&mut batch, &spec).unwrap().unwrap();
        let words = |words: &[U256]| -> Bytes {
            words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect::<Vec<u8>>().into()
        };
        let reverted = Err(ReadFault::Reverted { data: Bytes::new() });
        let mut answers = vec![reverted; batch.len()];
        answers[reads.hops[0].slot0] = Ok(words(&slot0));
        answers[reads.hops[0].liquidity] = Ok(words(&[U256::ZERO]));
        let quoted = reads.read_quote(&spec, &Answers(answers), OwnQuote::NotNeeded);
        let Err(refusal) = quoted else { panic!("a quote") };
        refusal.code
    }

    #[test]
    fn a_v4_pool_without_a_price_does_not_exist() {
        assert_eq!(refusal([U256::ZERO; 4]), Code::NoPool);
        let mut exists = [U256::ZERO; 4];
        exists[0] = U256::from(1) << 96;
        assert_eq!(refusal(exists), Code::QuoteFailed, "the quoter reverts");
        let mut odd = [U256::ZERO; 4];
        odd[0] = U256::from(1);
        assert_eq!(refusal(odd), Code::ChainUnavailable);
    }
}
