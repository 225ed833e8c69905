//! Trades: which ones the wallet must refuse, and which it may execute without an approval.

use bursar_auditor::observations::*;

use crate::common::trading::*;
use crate::common::{BASE, COIN};

/// Answers an automatic trade after showing this market. Returns the rule that the answer breaks.
fn automatic(
    limits: TradingPolicy,
    trade: &Trade,
    show: impl FnOnce(&mut Trader),
) -> Result<(), String> {
    let mut trader = Trader::new(limits);
    let ask = trader.ask(trade);
    let ticket = trader.open_call(&ask);
    show(&mut trader);
    let judged =
        trader.driver.auditor.observe(&answered_observation(ticket, "one", TradeState::Executing));
    judged.map_err(|found| found.rule.to_owned())
}

fn by_quote(trade: &Trade, change: impl Fn(Quoted) -> Quoted) -> Result<(), String> {
    automatic(limits(), trade, |trader| {
        let quoted = change(trader.quote(trade, fair_output(40)));
        trader.market(trade, quoted);
    })
}

#[test]
fn auditor_rejects_an_automatic_trade_at_the_threshold() {
    let show = |dollars: u128| {
        move |trader: &mut Trader| {
            let quoted = trader.quote(&buy(dollars), fair_output(dollars));
            trader.market(&buy(dollars), quoted);
        }
    };
    assert_eq!(automatic(limits(), &buy(99), show(99)), Ok(()));
    assert_eq!(automatic(limits(), &buy(100), show(100)), Err("I-j".to_owned()));
    let manual = TradingPolicy { auto_below: 0, ..limits() };
    assert_eq!(automatic(manual, &buy(1), show(1)), Err("I-j".to_owned()));
}

#[test]
fn auditor_rejects_an_automatic_trade_above_the_impact_ceiling() {
    let bad = Err("automatic".to_owned());
    let trade = buy(40);
    let dust = |bps: u128| {
        by_quote(&trade, |q| Quoted {
            dust_ideal: Some(fair_output(40) * 10_000 / (10_000 - bps)),
            ..q
        })
    };
    // The impact by the dust quote is added to the fee of 0.05 %.
    assert_eq!((dust(490), dust(496)), (Ok(()), bad.clone()));
    let slot0 = |bps: u128| {
        by_quote(&trade, |q| Quoted {
            slot0_ideal: Some(fair_output(40) * 10_000 / (10_000 - bps)),
            ..q
        })
    };
    assert_eq!((slot0(499), slot0(501)), (Ok(()), bad.clone()));
    assert_eq!(by_quote(&trade, |q| Quoted { dust_ideal: None, ..q }), Ok(()));
    assert_eq!(by_quote(&trade, |q| Quoted { slot0_ideal: None, ..q }), Ok(()));
    let unknown = |q: Quoted| Quoted { slot0_ideal: None, dust_ideal: None, ..q };
    assert_eq!(by_quote(&trade, unknown), bad.clone());
    // An output better than the pool's own price is not possible.
    assert_eq!(by_quote(&trade, |q| Quoted { slot0_ideal: Some(fair_output(40) - 1), ..q }), bad);
}

#[test]
fn auditor_rejects_an_automatic_trade_in_a_moved_pool() {
    let trade = buy(40);
    // All numbers of the pool agree, but the output is worth too little.
    let moved = |percent: u128| {
        automatic(limits(), &trade, |trader| {
            let quoted = trader.quote(&trade, fair_output(40) / 100 * percent);
            trader.market(&trade, quoted);
        })
    };
    assert_eq!((moved(96), moved(94)), (Ok(()), Err("automatic".to_owned())));
}

#[test]
fn auditor_rejects_an_automatic_trade_through_an_unlisted_hook() {
    let trade = Trade { pool: Route::Pool(v4(HOOK)), ..buy(40) };
    assert_eq!(by_quote(&trade, |q| q), Err("automatic".to_owned()));
    let listed = TradingPolicy { hooks: vec![HOOK.into()], ..limits() };
    let show = |trader: &mut Trader| {
        let quoted = trader.quote(&trade, fair_output(40));
        trader.market(&trade, quoted);
    };
    assert_eq!(automatic(listed, &trade, show), Ok(()));
    let dynamic = Pool::V4 { fee: 0x80_0000, tick_spacing: 10, hooks: NATIVE.into() };
    let trade = Trade { pool: Route::Pool(dynamic), ..buy(40) };
    assert_eq!(by_quote(&trade, |q| q), Err("automatic".to_owned()));
    let plain = Trade { pool: Route::Pool(v4(NATIVE)), ..buy(40) };
    assert_eq!(by_quote(&plain, |q| q), Ok(()));
}

#[test]
fn auditor_rejects_an_automatic_trade_of_an_unknown_token() {
    let trade = Trade { token_out: SHARE.into(), ..buy(40) };
    assert_eq!(by_quote(&trade, |q| q), Err("automatic".to_owned()));
    let listed = TradingPolicy { tokens: vec![SHARE.into()], ..limits() };
    let show = |trader: &mut Trader| {
        let quoted = trader.quote(&trade, fair_output(40));
        trader.market(&trade, quoted);
    };
    assert_eq!(automatic(listed, &trade, show), Ok(()));
}

#[test]
fn auditor_rejects_an_automatic_trade_without_a_proving_rehearsal() {
    let trade = buy(40);
    for (outcome, right) in
        [(Rehearsal::Proved, true), (Rehearsal::Failed, false), (Rehearsal::Unavailable, false)]
    {
        let judged = automatic(limits(), &trade, |trader| {
            let quoted = trader.quote(&trade, fair_output(40));
            trader.rehearsal = outcome;
            trader.market(&trade, quoted);
        });
        assert_eq!(judged.is_ok(), right, "{judged:?}");
    }
}

/// Answers an automatic sale after showing these price readings, a minute after good ones.
fn by_prices_of(wei: u128, out: u128, show: impl FnOnce(&mut Trader)) -> Result<(), String> {
    let trade = sell(wei);
    let mut trader = Trader::new(limits());
    trader.price(2500, 2500);
    trader.driver.advance_ms(61_000);
    show(&mut trader);
    let ask = trader.ask(&trade);
    let ticket = trader.open_call(&ask);
    let quoted = trader.quote(&trade, out);
    trader.unpriced_market(&trade, quoted);
    let judged =
        trader.driver.auditor.observe(&answered_observation(ticket, "one", TradeState::Executing));
    judged.map_err(|found| found.rule.to_owned())
}

/// Like [`by_prices_of`], for a sale of 0.02 coins.
fn by_prices(show: impl FnOnce(&mut Trader)) -> Result<(), String> {
    by_prices_of(COIN_WEI / 50, 49_975_000, show)
}

#[test]
fn auditor_rejects_an_automatic_trade_by_a_bad_price() {
    let bad = Err("value".to_owned());
    assert_eq!(by_prices(|t| t.price(2500, 2500)), Ok(()));
    assert_eq!(by_prices(|_| {}), bad);
    let stale = |t: &mut Trader| {
        t.price(2500, 2500);
        t.driver.advance_ms(60_001);
    };
    assert_eq!(by_prices(stale), bad);
    assert_eq!(by_prices(|t| t.price(2500, 2430)), Ok(()));
    assert_eq!(by_prices(|t| t.price(2500, 2420)), bad);
    assert_eq!(by_prices(|t| t.price(3126, 3126)), bad);
    // The feed failed, or is too old.
    let api = PriceRead::Api { micros: Some(2_500_000_000) };
    assert_eq!(by_prices(|t| t.accepts(Observation::PriceRead(api.clone()))), bad);
    let old = |t: &mut Trader, updated_s| {
        t.accepts(Observation::PriceRead(api.clone()));
        let feed = PriceRead::Feed { chain: BASE, micros: Some(2_500_000_000), updated_s };
        t.accepts(Observation::PriceRead(feed));
    };
    assert_eq!(by_prices(|t| old(t, t.time_s() - 3_000)), Ok(()));
    assert_eq!(by_prices(|t| old(t, t.time_s() - 4_000)), bad);
}

#[test]
fn auditor_values_coins_by_the_higher_price() {
    // 0.0396 coins are worth 99 dollars at 2,500, and 101 dollars at 2,550.
    let sold =
        |api, feed| by_prices_of(COIN_WEI / 10_000 * 396, 98_900_000, |t| t.price(api, feed));
    assert_eq!(sold(2500, 2500), Ok(()));
    assert_eq!(sold(2500, 2550), Err("I-j".to_owned()));
    assert_eq!(sold(2550, 2500), Err("I-j".to_owned()));
}

/// Answers a call as held. Returns the rule that the answer breaks.
fn held(
    limits: TradingPolicy,
    trade: &Trade,
    show: impl FnOnce(&mut Trader),
) -> Result<(), String> {
    let mut trader = Trader::new(limits);
    trader.has_large_balances = false;
    let ticket = trader.opens(trade, fair_output(40));
    show(&mut trader);
    let judged =
        trader.driver.auditor.observe(&answered_observation(ticket, "one", TradeState::Pending));
    judged.map_err(|found| found.rule.to_owned())
}

#[test]
fn auditor_rejects_accepting_what_must_be_refused() {
    let bad = Err("refusals".to_owned());
    let nothing = |_: &mut Trader| {};
    assert_eq!(held(limits(), &buy(40), nothing), Ok(()));
    let off = TradingPolicy { enabled: false, ..limits() };
    assert_eq!(held(off, &buy(40), nothing), bad);
    assert_eq!(held(limits(), &buy(201), nothing), bad);
    assert_eq!(held(limits(), &buy(200), nothing), Ok(()));
    let steep = Trade { max_slippage_bps: Some(301), ..buy(40) };
    assert_eq!(held(limits(), &steep, nothing), bad);
    let poor = |t: &mut Trader| t.balance(COIN, 40 * DOLLAR - 1);
    assert_eq!(held(limits(), &buy(40), poor), bad);
    let min = limits().min_native;
    let dry = |t: &mut Trader| t.balance(NATIVE, min + 999);
    assert_eq!(held(limits(), &buy(40), dry), bad);
    let enough = |t: &mut Trader| t.balance(NATIVE, min + 1_000);
    assert_eq!(held(limits(), &buy(40), enough), Ok(()));
    let now_s = u64::try_from(START / 1000).unwrap();
    let late = Trade { deadline_s: Some(now_s - 1), ..buy(40) };
    assert_eq!(held(limits(), &late, nothing), bad);
}

#[test]
fn auditor_rejects_a_trade_of_native_coins_below_the_least_balance() {
    let trade = Trade { token_in: NATIVE.into(), ..sell(COIN_WEI / 100) };
    let least = limits().min_native + COIN_WEI / 100 + 1_000;
    assert_eq!(held(limits(), &trade, |t| t.balance(NATIVE, least)), Ok(()));
    let poor = held(limits(), &trade, |t| t.balance(NATIVE, least - 1));
    assert_eq!(poor, Err("refusals".to_owned()));
}

#[test]
fn auditor_rejects_a_trade_on_a_disabled_network() {
    let mut trader = Trader::new(limits());
    trader.order(Order::SwitchNetwork { chain: BASE, on: false });
    let ticket = trader.opens(&buy(40), fair_output(40));
    trader.rejects("refusals", answered_observation(ticket, "one", TradeState::Pending));
}

#[test]
fn auditor_rejects_a_trade_without_any_quote() {
    let mut trader = Trader::new(limits());
    let ask = trader.ask(&buy(150));
    let ticket = trader.open_call(&ask);
    trader.rejects("refusals", answered_observation(ticket, "one", TradeState::Pending));
}

#[test]
fn auditor_rejects_refusing_a_trade_without_a_reason() {
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair_output(40));
    trader.rejects("refusals", answered_observation(ticket, "one", refused_for("ANYTHING")));
    // A failed quote is a reason to refuse.
    let mut trader = Trader::new(limits());
    let ticket = trader.opens(&buy(40), fair_output(40));
    let failed = Quoted { amount_out: None, ..trader.quote(&buy(40), 0) };
    trader.accepts(Observation::Quoted(Box::new(failed)));
    trader.accepts(answered_observation(ticket, "one", refused_for("NO_LIQUIDITY")));
}

#[test]
fn auditor_rejects_an_automatic_trade_while_the_journal_is_doubted() {
    let mut trader = Trader::new(limits());
    trader.accepts(Observation::JournalDoubted { doubted: true });
    trader.holds(&buy(40), fair_output(40), "one");
    let payment = trader.driver.hmac(5);
    trader.driver.holds(&payment, "payment");
    let payment = trader.driver.hmac(6);
    trader.driver.pays_rejected(&payment, "other");
    let mut trader = Trader::new(limits());
    trader.accepts(Observation::JournalDoubted { doubted: true });
    let ticket = trader.opens(&buy(40), fair_output(40));
    trader.rejects("automatic", answered_observation(ticket, "one", TradeState::Executing));
    let mut trader = Trader::new(limits());
    trader.accepts(Observation::JournalDoubted { doubted: true });
    trader.accepts(Observation::JournalDoubted { doubted: false });
    trader.starts(&buy(40), fair_output(40), "one");
}

#[test]
fn approval_applies_the_policy_of_today() {
    let step = |trading: TradingPolicy| {
        let mut trader = Trader::new(limits());
        trader.holds(&buy(150), fair_output(150), "one");
        let policy = Policy { trading, ..crate::common::policy(100, 50, 20) };
        trader.order(Order::EditPolicy { name: "p".into(), policy });
        trader.approves(&buy(150), "one", Some(fair_output(150)));
        let tx = trader.approve_tx(COIN, V3_ROUTER, buy(150).amount_in);
        let auditor = &mut trader.driver.auditor;
        let signed = auditor.observe(&signs(&tx));
        let sent = signed.and_then(|()| auditor.observe(&Observation::Broadcast(tx)));
        sent.map_err(|found| found.rule.to_owned())
    };
    let refusal = || Err("refusals".to_owned());
    assert_eq!(step(limits()), Ok(()));
    assert_eq!(step(TradingPolicy { per_trade: 149_000_000, ..limits() }), refusal());
    assert_eq!(step(TradingPolicy { max_slippage_bps: 49, ..limits() }), refusal());
    assert_eq!(step(TradingPolicy { daily: 149_000_000, ..limits() }), Err("volume".to_owned()));
    // A slow signer may finish after trading was turned off, but the wallet must not use the signature.
    assert_eq!(step(TradingPolicy { enabled: false, ..limits() }), Err("T-53".to_owned()));
    // The threshold and the impact ceiling only decide whether the operator must approve, and the operator did.
    assert_eq!(step(TradingPolicy { auto_below: 0, max_impact_bps: 0, ..limits() }), Ok(()));
}
