//! Plans from request to end: automatic and approved trades.

use alloy_primitives::U256;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Bps, Usd, Wei};
use bursar_core::policy::Policy;
use bursar_domain::command::StepOrder;
use bursar_domain::plan::{ExecutionEnd, Quote, StepPurpose, Volume};
use bursar_domain::trades::{TradeAsk, TradeQuote};
use bursar_domain::{Action, Refusal, Status};

use crate::support::build;
use crate::support::clock::{MINUTE, SECOND};
use crate::trades::bench::{BASE, Bench, Fate, PLAN_COST, quote, step_cost, trade, with_quote};

/// The volume stays reserved until the swap is final, and is then spent once.
#[test]
fn an_automatic_trade_executes_its_plan() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(40_000_000));
    assert_eq!(bench.volumes(0), (0, 40_000_000));
    bench.opens(id, StepPurpose::Allowance);
    bench.signs(id);
    assert_eq!(bench.volumes(0), (0, 40_000_000));
    bench.finish(id, Fate::Succeeded);
    bench.opens(id, StepPurpose::Swap);
    bench.signs(id);
    assert_eq!(bench.volumes(0), (0, 40_000_000));
    bench.finish(id, Fate::Succeeded);
    assert_eq!((bench.volumes(0), bench.volume(id)), ((40_000_000, 0), Volume::Spent));
    assert!(!bench.is_closed(id), "the lane reads the fill first");
    bench.end_executed(id);
    let hash = bench.execution(id).main_step().unwrap().hash().unwrap();
    let received = Some(Atoms(U256::from(40_000_000_000_u64)));
    assert_eq!(
        bench.execution(id).end,
        Some(ExecutionEnd::Executed { hash, received, position: None })
    );
    assert!(bench.is_closed(id));
    assert_eq!(bench.volumes(0), (40_000_000, 0));
    assert_eq!(bench.world.restarted().state, bench.world.state);
}

/// Without this rule, a token that does not keep its approvals would cost gas until the plan's time is over.
#[test]
fn a_plan_gives_an_allowance_once() {
    for lost in [StepPurpose::Allowance, StepPurpose::AllowanceReset] {
        let mut bench = Bench::new();
        let id = bench.starts(0, trade(40_000_000));
        bench.open_and_finish(id, StepPurpose::AllowanceReset, Fate::Succeeded);
        bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        bench.try_open(id, lost).expect("the trade ends");
        assert!(bench.execution(id).open_step().is_none());
        assert_eq!((bench.end_code(id), bench.volumes(0)), (Some(Code::WouldFail), (0, 0)));
        bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
        assert!(bench.is_closed(id));
    }
}

/// The approval counts the fresh value. Of the least outputs of the request and of the fresh quote, the higher
/// applies.
#[test]
fn an_approved_trade_keeps_the_higher_floor() {
    for (fresh_out, floor) in [
        (60_000_000_000_u64, 59_400_000_000_u64),
        (59_400_000_000, 59_400_000_000),
        (70_000_000_000, 69_300_000_000),
    ] {
        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        assert_eq!(bench.volumes(0), (0, 60_000_000));
        let mut fresh = quote(61_000_000);
        fresh.out = Atoms(U256::from(fresh_out));
        bench.approves(id, fresh);
        assert_eq!(bench.execution(id).floor, Atoms(U256::from(floor)), "{fresh_out}");
        assert_eq!(bench.execution(id).counted_value, Usd(61_000_000));
        assert_eq!(bench.volumes(0), (0, 61_000_000));
        bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
        bench.end_executed(id);
        assert!(bench.is_closed(id));
        assert_eq!(bench.volumes(0), (61_000_000, 0));
    }
}

/// The least output is fixed at the request, and no later quote lowers it.
#[test]
fn a_price_below_the_floor_rejects_at_the_approval() {
    for (out, wanted) in [(59_400_000_000_u64, None), (59_399_999_999, Some(Code::PriceMoved))] {
        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        let fresh = with_out(60_000_000, out);
        match wanted {
            None => bench.approves(id, fresh),
            Some(code) => {
                assert_eq!(bench.rejects(id, Ok(fresh)), code);
                assert_eq!(bench.volumes(0), (0, 0));
            }
        }
    }
}

/// The step is checked against the least output of the approval, not of the request.
#[test]
fn a_price_below_the_floor_ends_the_trade_at_the_step() {
    for purpose in [StepPurpose::AllowanceReset, StepPurpose::Allowance, StepPurpose::Swap] {
        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        bench.approves(id, with_out(60_000_000, 70_000_000_000));
        let floor = 69_300_000_000_u64;
        let order =
            StepOrder { quote: with_out(60_000_000, floor - 1).into(), ..bench.step(id, purpose) };
        bench.order(order).unwrap();
        assert_eq!(bench.end_code(id), Some(Code::PriceMoved), "{purpose:?}");
        assert_eq!((bench.volumes(0), bench.is_closed(id)), ((0, 0), true));

        let id = bench.holds(0, trade(60_000_000));
        bench.approves(id, with_out(60_000_000, 70_000_000_000));
        let order =
            StepOrder { quote: with_out(60_000_000, floor).into(), ..bench.step(id, purpose) };
        bench.order(order).unwrap();
        assert!(bench.execution(id).open_step().is_some(), "{purpose:?}");
    }
}

/// The lane measured again for the approval and found that the trade can no longer be made.
#[test]
fn an_approval_with_a_refused_requote_rejects_the_trade() {
    for code in [Code::NoPool, Code::ChainUnavailable, Code::ExecutionError] {
        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        assert_eq!(bench.rejects(id, Err(Refusal::new(code))), code);
        assert_eq!(bench.volumes(0), (0, 0));
    }
}

/// The fresh value counts at the approval, even if it no longer fits the limit.
#[test]
fn the_fresh_value_is_judged_at_the_approval() {
    let mut bench = Bench::new();
    let id = bench.holds(0, trade(60_000_000));
    let dear = TradeQuote { value_in: Some(Usd(100_000_001)), ..quote(60_000_000) };
    assert_eq!(bench.rejects(id, Ok(dear)), Code::ExceedsPerTradeMax);

    // 499 of 500 dollars are reserved, and the request's own reservation does not count twice.
    let id = bench.holds(0, trade(60_000_000));
    for micros in [100_000_000, 100_000_000, 100_000_000, 100_000_000, 39_000_000] {
        bench.ask(0, trade(micros)).unwrap();
    }
    assert_eq!(bench.volumes(0), (0, 499_000_000));
    let dearer = |value| TradeQuote { value_in: Some(Usd(value)), ..quote(60_000_000) };
    assert_eq!(bench.rejects(id, Ok(dearer(61_000_001))), Code::ExceedsDailyVolume);
    let id = bench.holds(0, trade(60_000_000));
    bench.approves(id, dearer(61_000_000));
    assert_eq!(bench.volumes(0), (0, 500_000_000));
}

/// A trade of unknown value reserves the policy's largest trade, and its own value once that is known.
#[test]
fn an_unknown_value_reserves_the_largest_trade_until_it_is_known() {
    let unknown = TradeQuote { value_in: None, value_out: None, ..quote(60_000_000) };
    let asked = || with_quote(trade(60_000_000), unknown.clone(), Usd::dollars(100));
    let mut bench = Bench::new();
    let id = bench.holds(0, asked());
    assert_eq!(bench.volumes(0), (0, 100_000_000));
    bench.approves(id, quote(60_000_000));
    assert_eq!(bench.volumes(0), (0, 60_000_000));

    let id = bench.holds(0, asked());
    bench.approves(id, unknown.clone());
    assert_eq!(bench.volumes(0), (0, 160_000_000));
    assert_eq!(bench.execution(id).counted_value, Usd::dollars(100));
}

/// Tightened limits take effect at the approval and at every step.
#[test]
fn a_tightened_policy_stops_the_trade() {
    type PolicyEdit = fn(&mut Policy);
    let cases: [(Code, PolicyEdit); 5] = [
        (Code::TradingDisabled, |policy| policy.trading.enabled = false),
        (Code::ExceedsPerTradeMax, |policy| policy.trading.per_trade = Usd(59_999_999)),
        (Code::ExceedsDailyVolume, |policy| policy.trading.daily = Usd(59_999_999)),
        (Code::ExceedsMaxSlippage, |policy| policy.trading.max_slippage = Bps(99)),
        (Code::BelowMinNative, |policy| policy.trading.min_native = Wei(u128::MAX)),
    ];
    for (code, tighten) in cases {
        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        bench.world.edit(tighten).unwrap();
        assert_eq!(bench.rejects(id, Ok(quote(60_000_000))), code);
        assert_eq!(bench.volumes(0), (0, 0), "{code:?}");

        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        bench.approves(id, quote(60_000_000));
        bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        bench.world.edit(tighten).unwrap();
        bench.try_open(id, StepPurpose::Swap).unwrap();
        assert_eq!((bench.end_code(id), bench.volumes(0)), (Some(code), (0, 0)));
        assert!(!bench.is_closed(id), "the allowance is left");
        bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
        assert!(bench.is_closed(id));
    }
}

/// If the prices of a step would need the operator, an automatic trade ends and an approved one continues.
#[test]
fn only_an_approved_trade_continues_where_the_policy_would_hold() {
    let above = TradeQuote { value_in: Some(Usd::dollars(50)), ..quote(40_000_000) };
    let impact = TradeQuote { impact: Some(Bps(501)), ..quote(40_000_000) };
    for moved in [above, impact] {
        let mut bench = Bench::new();
        let id = bench.starts(0, trade(40_000_000));
        let order = StepOrder { quote: moved.clone().into(), ..bench.step(id, StepPurpose::Swap) };
        bench.order(order).unwrap();
        assert_eq!((bench.end_code(id), bench.volumes(0)), (Some(Code::PriceMoved), (0, 0)));

        bench.world.edit(|policy| policy.trading.auto_below = Usd::ZERO).unwrap();
        let id = bench.holds(0, trade(40_000_000));
        bench.approves(id, quote(40_000_000));
        bench
            .order(StepOrder { quote: moved.into(), ..bench.step(id, StepPurpose::Swap) })
            .unwrap();
        assert!(bench.execution(id).open_step().is_some());
    }
}

/// A disabled network, or a policy that no longer lists the network, stops a plan between its steps.
#[test]
fn a_disabled_network_stops_the_plan_at_its_next_step() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(40_000_000));
    bench.world.must(Action::SetNetwork { chain: BASE, enabled: false });
    bench.try_open(id, StepPurpose::Swap).unwrap();
    assert_eq!((bench.end_code(id), bench.is_closed(id)), (Some(Code::NetworkDisabled), true));
}

/// The operator's sends in flight and the payments that can still be redeemed are not available to a trade.
#[test]
fn promised_funds_are_not_free_for_a_trade() {
    let mut bench = Bench::new();
    let mut ask = trade(10_000_000);
    ask.quote.balance_in = U256::from(10_500_000);
    bench.world.signs(build::payment(500_001));
    assert_eq!(bench.ask(0, ask.clone()).unwrap_err().code, Code::InsufficientFunds);
    assert!(bench.ask(2, ask).is_ok(), "another address");

    // The gas of an open step is committed too.
    let mut bench = Bench::new();
    let mut ask = trade(10_000_000);
    let least = U256::from(100_000_000_000_000_u64) + U256::from(PLAN_COST);
    ask.quote.native_balance = least + step_cost() - U256::ONE;
    let first = bench.starts(0, ask.clone());
    bench.opens(first, StepPurpose::Swap);
    assert_eq!(bench.ask(0, ask.clone()).unwrap_err().code, Code::BelowMinNative);
    ask.quote.native_balance += U256::ONE;
    assert!(bench.ask(0, ask).is_ok());
}

/// If two trades need the same tokens, the second is refused at once, and the first continues.
#[test]
fn the_input_of_a_running_trade_is_not_free_for_the_next() {
    let mut bench = Bench::new();
    let mut ask = trade(10_000_000);
    ask.quote.balance_in = U256::from(19_999_999);
    let dear = TradeQuote { balance_in: ask.quote.balance_in, ..quote(60_000_000) };
    let held = bench.holds(0, TradeAsk { quote: dear.clone(), ..ask.clone() });
    let first = bench.starts(0, ask.clone());
    let code = |bench: &mut Bench| bench.ask(0, ask.clone()).unwrap_err().code;
    assert_eq!(code(&mut bench), Code::InsufficientFunds);
    assert_eq!(bench.rejects(held, Ok(dear)), Code::InsufficientFunds);
    bench.open_and_finish(first, StepPurpose::Allowance, Fate::Succeeded);
    bench.opens(first, StepPurpose::Swap);
    assert_eq!(code(&mut bench), Code::InsufficientFunds, "the swap may still be mined");
    bench.finish(first, Fate::Succeeded);
    bench.starts(0, ask.clone());
}

/// A trade that was allowed later does not cause the refusal of an earlier one.
#[test]
fn a_later_trade_takes_no_tokens_from_an_earlier_one() {
    let mut bench = Bench::new();
    let mut ask = trade(10_000_000);
    ask.quote.balance_in = U256::from(20_000_000);
    let first = bench.starts(0, ask.clone());
    let second = bench.starts(1, ask.clone());
    let mut order = bench.step(first, StepPurpose::Swap);
    order.quote = quote_with_balance(&order, 19_999_999);
    bench.order(order).unwrap();
    assert!(bench.execution(first).open_step().is_some());
    bench.finish(first, Fate::Succeeded);
    bench.end_executed(first);
    let mut order = bench.step(second, StepPurpose::Swap);
    order.quote = quote_with_balance(&order, 9_999_999);
    bench.order(order).unwrap();
    assert_eq!(bench.end_code(second), Some(Code::InsufficientFunds));
}

/// The gas of a plan that has not begun is committed too.
#[test]
fn the_cost_of_a_waiting_plan_is_promised() {
    let mut bench = Bench::new();
    let mut ask = trade(10_000_000);
    let least = U256::from(100_000_000_000_000_u64);
    ask.quote.native_balance = least + U256::from(PLAN_COST) * U256::from(2) - U256::ONE;
    bench.starts(0, ask.clone());
    assert_eq!(bench.ask(0, ask.clone()).unwrap_err().code, Code::BelowMinNative);
    ask.quote.native_balance += U256::ONE;
    assert!(bench.ask(0, ask).is_ok());
}

/// A payment that can no longer be redeemed commits nothing, even before the next entry removes it from the state.
#[test]
fn a_lapsed_payment_is_free_for_a_trade() {
    let mut bench = Bench::new();
    bench.world.signs(build::payment(500_001));
    let mut ask = trade(10_000_000);
    ask.quote.balance_in = U256::from(10_500_000);
    bench.world.clock.pass(61 * SECOND);
    assert!(bench.ask(0, ask).is_ok());
}

/// A held trade ends once: it is denied, or it expires after exactly 15 minutes.
#[test]
fn a_held_trade_returns_its_volume_once() {
    let mut bench = Bench::new();
    let denied = bench.holds(0, trade(60_000_000));
    bench.world.deny(denied).unwrap();
    assert_eq!(bench.volumes(0), (0, 0));
    assert_eq!(bench.world.deny(denied).unwrap_err().code, Code::RequestNotFound);

    for (waited, expires) in [(-1, false), (0, true), (1, true)] {
        let mut bench = Bench::new();
        let id = bench.holds(0, trade(60_000_000));
        bench.world.clock.pass(15 * MINUTE + waited);
        let decision = bench.approve(id, Ok(quote(60_000_000))).unwrap();
        let executing = matches!(bench.status(id), Status::Executing(_));
        assert_eq!(executing, !expires, "{waited}: {decision:?}");
        assert_eq!(bench.volumes(0), (0, if expires { 0 } else { 60_000_000 }));
    }
}

fn with_out(micros: u64, out: u64) -> TradeQuote {
    TradeQuote { out: Atoms(U256::from(out)), ..quote(micros) }
}

/// Returns the order's quote with another balance of the input token.
fn quote_with_balance(order: &StepOrder, balance: u64) -> Quote {
    let quote = order.quote.trade().unwrap().clone();
    TradeQuote { balance_in: U256::from(balance), ..quote }.into()
}
