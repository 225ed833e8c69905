//! Bounds on gas spending: failed plans are limited by their number, executed trades by the daily volume.

use alloy_primitives::U256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_domain::Status;
use bursar_domain::plan::StepPurpose;

use crate::support::clock::{Clock, DAY, SECOND};
use crate::trades::bench::{
    BASE, Bench, Fate, PLAN_COST, ROBINHOOD, policy, quote, trade, trade_on,
};

/// A trade that wastes gas: its swap is cancelled after its deadline.
fn waste_gas(bench: &mut Bench, agent: usize) -> RequestId {
    let id = bench.starts(agent, trade(1_000_000));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Cancelled);
    id
}

fn next_trade_is_held(bench: &mut Bench, agent: usize) -> bool {
    let id = bench.ask(agent, trade(1_000_000)).expect("the trade is not refused");
    match bench.status(id) {
        Status::Held { reason, .. } => {
            assert_eq!(*reason, HoldReason::FailedPlans);
            true
        }
        Status::Executing(_) => {
            // The trade ends without signing anything, so that the next plan of the address can act.
            bench.open_and_finish(id, StepPurpose::Swap, Fate::Dropped);
            false
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_twenty_failed_plans_of_a_day_a_trade_needs_the_operator() {
    let mut bench = Bench::new();
    for count in 0..20 {
        assert!(!next_trade_is_held(&mut bench, 0), "after {count}");
        waste_gas(&mut bench, 0);
    }
    assert!(next_trade_is_held(&mut bench, 0));
    assert!(!next_trade_is_held(&mut bench, 2), "another agent");
    bench.world.clock.pass_until("2026-01-15T23:59:59Z");
    assert!(next_trade_is_held(&mut bench, 0));
    bench.world.clock.pass(SECOND);
    assert!(!next_trade_is_held(&mut bench, 0), "the next UTC day");
}

#[test]
fn only_plans_that_signed_a_transaction_and_moved_nothing_count() {
    for (fate, counts) in [
        (Fate::Succeeded, false),
        (Fate::Dropped, false),
        (Fate::Reverted, true),
        (Fate::Cancelled, true),
        // The effect of a displaced transaction is unknown, so it counts as failed.
        (Fate::NonceTaken, true),
    ] {
        let mut bench = Bench::new();
        for _trade in 0..20 {
            let id = bench.starts(0, trade(1));
            bench.open_and_finish(id, StepPurpose::Swap, fate);
            if fate == Fate::Succeeded {
                bench.end_executed(id);
            }
        }
        assert_eq!(next_trade_is_held(&mut bench, 0), counts, "{fate:?}");
    }
}

/// A mined approval has cost gas, whatever stops the plan afterwards.
#[test]
fn a_plan_that_ends_after_its_approval_counts() {
    let mut bench = Bench::new();
    for _trade in 0..20 {
        let id = bench.starts(0, trade(1_000_000));
        bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        bench.open_and_finish(id, StepPurpose::Swap, Fate::Dropped);
        bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
    }
    assert!(next_trade_is_held(&mut bench, 0));
}

/// Plans that were allowed before the twentieth failure sign nothing after it.
#[test]
fn a_queue_of_plans_stops_at_the_limit() {
    let mut bench = Bench::new();
    let all: Vec<RequestId> = (0..22).map(|_one| bench.starts(0, trade(1_000_000))).collect();
    for id in &all[..20] {
        bench.open_and_finish(*id, StepPurpose::Swap, Fate::Cancelled);
    }
    for id in &all[20..] {
        bench.try_open(*id, StepPurpose::Swap).expect("the order is not refused");
        assert_eq!(bench.end_code(*id), Some(Code::RequestNoLongerValid));
    }
    let approved = bench.holds(0, trade(1_000_000));
    bench.approves(approved, quote(1_000_000));
    bench.opens(approved, StepPurpose::Swap);
}

/// A plan in flight on another network may fail too, so it counts until it ends.
#[test]
fn two_networks_do_not_share_the_last_failure() {
    let mut bench = Bench::new();
    for _trade in 0..19 {
        waste_gas(&mut bench, 0);
    }
    let here = bench.starts(0, trade_on(BASE, trade(1_000_000)));
    let there = bench.starts(0, trade_on(ROBINHOOD, trade(1_000_000)));
    bench.opens(here, StepPurpose::Swap);
    bench.signs(here);
    bench.try_open(there, StepPurpose::Swap).expect("the order is not refused");
    assert_eq!(bench.end_code(there), Some(Code::RequestNoLongerValid));
    bench.finish(here, Fate::Succeeded);
    bench.end_executed(here);
    bench.starts(0, trade(1_000_000));
}

#[test]
fn the_fee_of_an_executed_trade_counts_in_the_volume() {
    let wei =
        |micros: u64| U256::from(micros) * U256::from(10).pow(U256::from(12)) / U256::from(3_000);
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(1));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    assert_eq!(bench.volumes(0), (1, 0));
    bench.end_executed_with_fee(id, Some(wei(2_000)));
    assert_eq!(bench.volumes(0), (2_001, 0));
    let id = bench.starts(0, trade(1));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed_with_fee(id, None);
    let most = PLAN_COST * 3_000 / 1_000_000_000_000;
    assert_eq!(bench.volumes(0), (2_002 + most, 0), "without a receipt, what it could cost");
    // A node reports the fee, so even an absurd one counts at most the volume of a day.
    let id = bench.starts(0, trade(1));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed_with_fee(id, Some(U256::MAX));
    assert_eq!(bench.volumes(0), (2_003 + most + 500_000_000, 0), "the volume of a day");
}

#[test]
fn without_a_price_of_eth_a_fee_counts_one_dollar_and_holds_nothing() {
    let mut bench = Bench::new();
    let mut ask = trade(1_000_000);
    ask.quote.native_price = None;
    let id = bench.starts(0, ask);
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed_with_fee(id, Some(U256::ONE));
    assert_eq!(bench.volumes(0), (2_000_000, 0));
}

/// A trade of exactly the limit is allowed: its fee counts against later trades only.
#[test]
fn a_fee_never_counts_against_its_own_trade() {
    let mut policy = policy();
    policy.trading.daily = Usd::dollars(40);
    let mut bench = Bench::with_clock(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    let id = bench.starts(0, trade(40_000_000));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed_with_fee(id, Some(U256::from(PLAN_COST)));
    assert_eq!(bench.volumes(0), (40_003_000, 0));
    let refusal = bench.ask(0, trade(1)).expect_err("the volume is used up");
    assert_eq!(refusal.code, Code::ExceedsDailyVolume);
    bench.world.clock.pass(DAY);
    bench.starts(0, trade(40_000_000));
}

/// Trades that move almost nothing stop once their fees have used up the daily volume.
#[test]
fn tiny_trades_use_up_the_volume_by_their_fees() {
    let mut policy = policy();
    policy.trading.daily = Usd::dollars(2);
    let mut bench = Bench::with_clock(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    let mut trades = 0;
    while let Ok(id) = bench.ask(0, trade_with_plan_cost(U256::from(PLAN_COST) * U256::from(100))) {
        bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
        bench.end_executed_with_fee(id, Some(U256::from(PLAN_COST) * U256::from(100)));
        trades += 1;
        assert!(trades < 10, "0.30 dollars each");
    }
    assert_eq!(trades, 7);
}

fn trade_with_plan_cost(wei: U256) -> bursar_domain::trades::TradeAsk {
    let mut ask = trade(1);
    ask.quote.plan_cost = wei;
    ask
}
