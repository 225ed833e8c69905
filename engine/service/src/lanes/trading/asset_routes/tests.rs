use std::fmt;

use alloy_primitives::aliases::{I24, I56, U160};
use alloy_sol_types::SolCall;
use bursar_chain::ports::ChainReply;
use bursar_core::networks::by_id_name_or_title;
use bursar_uniswap::abi::v3::{IQuoterV2, IV3Pool};

use super::*;

/// Token addresses below and above the stablecoin's, so that the token is token 0 or token 1 of their pool.
const LOW_TOKEN: Address = Address::repeat_byte(0x77);
const HIGH_TOKEN: Address = Address::repeat_byte(0x99);

const AMOUNT: u64 = 1_000_000;

fn subject(token: Address) -> Subject {
    let network = by_id_name_or_title("base").unwrap();
    let exchange = network.exchange.unwrap();
    Subject { network, exchange, token, amount: U256::from(AMOUNT) }
}

/// A valid `sqrtPriceX96`, between the minimum and the maximum that a pool allows.
const SQRT_PRICE: U160 = U160::from_limbs([0, 1 << 32, 0]);

fn buy_reply(cost: u64) -> Result<Bytes, ChainFault> {
    let back = IQuoterV2::quoteExactOutputSingleReturn {
        amountIn: U256::from(cost),
        sqrtPriceX96After: SQRT_PRICE,
        initializedTicksCrossed: 1,
        gasEstimate: U256::from(90_000),
    };
    Ok(IQuoterV2::quoteExactOutputSingleCall::abi_encode_returns(&back).into())
}

/// The quoter's reply with the cost through two pools.
fn two_pool_buy_reply(cost: u64) -> Result<Bytes, ChainFault> {
    let back = IQuoterV2::quoteExactOutputReturn {
        amountIn: U256::from(cost),
        sqrtPriceX96AfterList: vec![SQRT_PRICE; 2],
        initializedTicksCrossedList: vec![1; 2],
        gasEstimate: U256::from(180_000),
    };
    Ok(IQuoterV2::quoteExactOutputCall::abi_encode_returns(&back).into())
}

fn sale_reply(out: u64) -> Result<Bytes, ChainFault> {
    let back = IQuoterV2::quoteExactInputSingleReturn {
        amountOut: U256::from(out),
        sqrtPriceX96After: SQRT_PRICE,
        initializedTicksCrossed: 1,
        gasEstimate: U256::from(90_000),
    };
    Ok(IQuoterV2::quoteExactInputSingleCall::abi_encode_returns(&back).into())
}

fn revert_reply() -> Result<Bytes, ChainFault> {
    Err(ChainFault::Reverted { data: Bytes::new() })
}

fn failure_reply() -> Result<Bytes, ChainFault> {
    Err(ChainFault::Rejected { code: -32_000, message: "out of gas".into() })
}

fn slot0_reply(tick: i32) -> Result<Bytes, ChainFault> {
    let back = IV3Pool::slot0Return {
        sqrtPriceX96: SQRT_PRICE,
        tick: I24::try_from(tick).unwrap(),
        observationIndex: 0,
        observationCardinality: 1,
        observationCardinalityNext: 1,
        feeProtocol: 0,
        unlocked: true,
    };
    Ok(IV3Pool::slot0Call::abi_encode_returns(&back).into())
}

/// The reply of a pool whose average over ten minutes is `tick`.
fn average_reply(tick: i64) -> Result<Bytes, ChainFault> {
    let back = IV3Pool::observeReturn {
        tickCumulatives: vec![I56::ZERO, I56::try_from(tick * 600).unwrap()],
        secondsPerLiquidityCumulativeX128s: vec![U160::ZERO; 2],
    };
    Ok(IV3Pool::observeCall::abi_encode_returns(&back).into())
}

/// The replies of all pools. The quotes of the cost, of ten times the amount and of the sale depend on the fee tier.
struct Market {
    cost: fn(u32) -> Result<Bytes, ChainFault>,
    tenfold: fn(u32) -> Result<Bytes, ChainFault>,
    sale: fn(u32) -> Result<Bytes, ChainFault>,
    tick: Result<Bytes, ChainFault>,
    average: Result<Bytes, ChainFault>,
    /// The pool whose tick differs from `tick`, and its tick.
    other: Option<(Address, i32)>,
}

impl Default for Market {
    fn default() -> Self {
        Self {
            cost: |fee| buy_reply(100_000 + u64::from(fee)),
            tenfold: |fee| buy_reply(1_000_000 + u64::from(fee)),
            sale: |fee| sale_reply(99_000 - u64::from(fee)),
            tick: slot0_reply(0),
            average: revert_reply(),
            other: None,
        }
    }
}

impl fmt::Debug for Market {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Market")
    }
}

impl Market {
    fn answer(&self, to: Address, data: &[u8]) -> Result<Bytes, ChainFault> {
        if let Ok(call) = IQuoterV2::quoteExactOutputSingleCall::abi_decode(data) {
            let fee = call.params.fee.to();
            let large = call.params.amount == U256::from(10 * AMOUNT);
            return if large { (self.tenfold)(fee) } else { (self.cost)(fee) };
        }
        if let Ok(call) = IQuoterV2::quoteExactInputSingleCall::abi_decode(data) {
            return (self.sale)(call.params.fee.to());
        }
        if IQuoterV2::quoteExactOutputCall::abi_decode(data).is_ok() {
            return two_pool_buy_reply(200_000);
        }
        if IQuoterV2::quoteExactInputCall::abi_decode(data).is_ok() {
            return revert_reply();
        }
        if IV3Pool::observeCall::abi_decode(data).is_ok() {
            return self.average.clone();
        }
        match self.other {
            Some((pool, tick)) if pool == to => slot0_reply(tick),
            _usual => self.tick.clone(),
        }
    }
}

impl Chain for Market {
    fn answers(&self, questions: Vec<Question>) -> ChainReply<'_, Vec<Result<Bytes, ChainFault>>> {
        let answer = |question| match question {
            Question::Call { to, data, gas, .. } => {
                assert_eq!(gas, CALL_GAS, "each question has its own gas");
                self.answer(to, &data)
            }
            Question::Code(_) => failure_reply(),
        };
        let answers: Vec<_> = questions.into_iter().map(answer).collect();
        Box::pin(async { Ok(answers) })
    }
}

/// Quotes a token whose pools with the stablecoin have these fees.
async fn quote_of(token: Address, fees: &[u32], market: &Market) -> Option<AssetQuote> {
    let subject = subject(token);
    let coin = subject.network.stablecoin.address;
    let pool = |fee: &u32| V3Pool::new(coin, token, *fee).unwrap().address(&subject.exchange.v3);
    let existing: Vec<Address> = fees.iter().map(pool).collect();
    Routes::through(&subject, &existing).quote(market, &subject, Utc::from_seconds(7)).await
}

fn atoms(value: u64) -> Atoms {
    Atoms(U256::from(value))
}

#[tokio::test]
async fn the_highest_cost_and_the_lowest_sale_of_all_tiers_count() {
    let found = quote_of(LOW_TOKEN, &[500, 3_000], &Market::default()).await.unwrap();
    assert_eq!((found.cost, found.usd.0), (atoms(103_000), 103_000));
    assert!(matches!(found.route, Venue::V3 { fee: 3_000, .. }), "{:?}", found.route);
    assert_eq!(
        (found.sale_proceeds, found.tenfold_cost),
        (Some(atoms(96_000)), Some(atoms(1_003_000)))
    );
    assert_eq!((found.average_deviation, found.at), (None, Utc::from_seconds(7)));
    let found = quote_of(LOW_TOKEN, &[500], &Market::default()).await.unwrap();
    assert_eq!((found.cost, found.sale_proceeds), (atoms(100_500), Some(atoms(98_500))));
    assert_eq!(quote_of(LOW_TOKEN, &[], &Market::default()).await, None);
}

#[tokio::test]
async fn a_pool_that_cannot_deliver_is_left_out_but_one_without_an_answer_leaves_no_price() {
    let only_cheap = |dear: fn() -> Result<Bytes, ChainFault>| {
        let cost: fn(u32) -> Result<Bytes, ChainFault> = match dear() {
            Err(ChainFault::Reverted { .. }) => {
                |fee| if fee == 3_000 { revert_reply() } else { buy_reply(100_500) }
            }
            _failed => |fee| if fee == 3_000 { failure_reply() } else { buy_reply(100_500) },
        };
        Market { cost, ..Market::default() }
    };
    let found = quote_of(LOW_TOKEN, &[500, 3_000], &only_cheap(revert_reply)).await.unwrap();
    assert_eq!(found.cost, atoms(100_500));
    // The price that is missing may be the highest.
    assert_eq!(quote_of(LOW_TOKEN, &[500, 3_000], &only_cheap(failure_reply)).await, None);
    let odd = Market { cost: |_fee| Ok(Bytes::from_static(&[1])), ..Market::default() };
    assert_eq!(quote_of(LOW_TOKEN, &[500], &odd).await, None);
    let free = Market { cost: |_fee| buy_reply(0), ..Market::default() };
    assert_eq!(quote_of(LOW_TOKEN, &[500], &free).await, None, "no price is zero");
}

#[tokio::test]
async fn checks_without_a_result_are_doubts_and_checks_without_an_answer_leave_no_price() {
    let market =
        Market { tenfold: |_fee| revert_reply(), sale: |_fee| revert_reply(), ..Market::default() };
    let found = quote_of(LOW_TOKEN, &[500], &market).await.unwrap();
    assert_eq!((found.sale_proceeds, found.tenfold_cost), (None, None));
    for market in [
        Market { tenfold: |_fee| failure_reply(), ..Market::default() },
        Market { sale: |_fee| failure_reply(), ..Market::default() },
        Market { tick: failure_reply(), ..Market::default() },
        Market { average: failure_reply(), ..Market::default() },
    ] {
        assert_eq!(quote_of(LOW_TOKEN, &[500], &market).await, None);
    }
}

#[tokio::test]
async fn the_average_is_compared_in_the_direction_of_the_price() {
    // 1.0001^296 is 3.004 % above one, and 1.0001^-296 is 2.917 % below it.
    for (token, now, mean, off) in [
        (LOW_TOKEN, 296, 0, 301),
        (LOW_TOKEN, 0, 296, 292),
        (HIGH_TOKEN, 296, 0, 292),
        (HIGH_TOKEN, -296, 0, 301),
        (LOW_TOKEN, 1_296, 1_000, 301),
        (LOW_TOKEN, 5, 5, 0),
    ] {
        let market =
            Market { tick: slot0_reply(now), average: average_reply(mean), ..Market::default() };
        let found = quote_of(token, &[500], &market).await.unwrap();
        assert_eq!(found.average_deviation, Some(Bps(off)), "{token} {now} {mean}");
    }
}

/// The route pays with token 1 of the first pool and with token 0 of the second, so their ticks count in opposite
/// directions.
#[tokio::test]
async fn the_averages_of_two_pools_are_added_each_in_its_own_direction() {
    let subject = subject(LOW_TOKEN);
    let (coin, wrapped) = (subject.network.stablecoin.address, subject.exchange.wrapped_native);
    assert!(wrapped < coin && wrapped < LOW_TOKEN);
    let pool = |token| V3Pool::new(wrapped, token, 500).unwrap().address(&subject.exchange.v3);
    for (first, second, off) in [(200, -96, 301), (-200, 96, 292), (96, -200, 301), (150, 150, 0)] {
        let market = Market {
            tick: slot0_reply(second),
            average: average_reply(0),
            other: Some((pool(coin), first)),
            ..Market::default()
        };
        let routes = Routes::through(&subject, &[pool(coin), pool(LOW_TOKEN)]);
        let found = routes.quote(&market, &subject, Utc::from_seconds(7)).await.unwrap();
        assert!(matches!(found.route, Venue::V3Path { .. }), "{:?}", found.route);
        assert_eq!(found.average_deviation, Some(Bps(off)), "{first} {second}");
    }
}

#[test]
fn a_token_has_its_tiers_and_one_hop_and_the_wrapped_coin_its_tiers_alone() {
    let routes = |token| {
        let subject = subject(token);
        let pools: Vec<Address> =
            all_pools(&subject).iter().map(|pool| pool.address(&subject.exchange.v3)).collect();
        let found = Routes::through(&subject, &pools);
        let hops = |count| found.0.iter().filter(|route| route.buy.hops().len() == count).count();
        (pools.len(), hops(1), hops(2))
    };
    assert_eq!(routes(LOW_TOKEN), (12, 4, 16));
    assert_eq!(routes(subject(LOW_TOKEN).exchange.wrapped_native), (4, 4, 0));
    // Both pools of a route must exist.
    let subject = subject(LOW_TOKEN);
    let (wrapped, v3) = (subject.exchange.wrapped_native, &subject.exchange.v3);
    let pool = V3Pool::new(wrapped, LOW_TOKEN, 500).unwrap().address(v3);
    assert!(Routes::through(&subject, &[pool]).0.is_empty());
}
