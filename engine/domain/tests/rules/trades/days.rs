//! Volumes at the renewal of the daily allowance.

use bursar_core::money::Usd;
use bursar_domain::plan::{StepPurpose, Volume};

use crate::support::clock::{Clock, SECOND};
use crate::trades::bench::{Bench, Fate, policy, quote, trade};

const EVENING: &str = "2026-01-15T23:59:50Z";

/// A bench in the evening: 100 dollars a day, and all trades automatic.
fn evening() -> Bench {
    let mut policy = policy();
    policy.trading.daily = Usd::dollars(100);
    policy.trading.auto_below = Usd::dollars(101);
    let mut bench = Bench::with_clock(Clock::at("2026-01-15T01:00:00Z", "UTC"), &policy);
    bench.world.clock.pass_until(EVENING);
    bench
}

/// An open reservation moves into the new allowance, whatever the outcome of the trade.
#[test]
fn a_trade_that_is_executed_at_midnight_counts_in_the_new_allowance() {
    for (fate, spent, volume) in
        [(Fate::Succeeded, 60_000_000, Volume::Spent), (Fate::Reverted, 0, Volume::Returned)]
    {
        let mut bench = evening();
        let earlier = bench.starts(0, trade(30_000_000));
        bench.open_and_finish(earlier, StepPurpose::Swap, Fate::Succeeded);
        bench.end_executed(earlier);
        let id = bench.starts(0, trade(60_000_000));
        bench.opens(id, StepPurpose::Swap);
        bench.signs(id);
        assert_eq!(bench.volumes(0), (30_000_000, 60_000_000));
        bench.world.clock.pass(20 * SECOND);
        bench.world.tick();
        assert_eq!(bench.volumes(0), (0, 60_000_000), "a new day, with what is reserved");
        assert!(bench.ask(0, trade(40_000_001)).is_err());
        bench.starts(0, trade(40_000_000));
        bench.finish(id, fate);
        assert_eq!((bench.volumes(0), bench.volume(id)), ((spent, 40_000_000), volume));
        assert!(bench.ask(0, trade(100_000_000 - spent - 40_000_000 + 1)).is_err());
        assert!(bench.ask(0, trade(100_000_000 - spent - 40_000_000)).is_ok());
    }
}

/// No date exceeds its limit, even if the swap's end is the first entry of the day (I-a).
#[test]
fn a_swap_that_ends_before_the_first_tick_of_the_day_counts_in_the_new_allowance() {
    let mut bench = evening();
    let id = bench.starts(0, trade(100_000_000));
    bench.world.clock.pass(20 * SECOND);
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed(id);
    assert!(bench.ask(0, trade(1)).is_err(), "{:?}", bench.volumes(0));
}

/// A trade that is held over midnight counts in the new allowance, which also decides about its approval.
#[test]
fn a_trade_that_is_held_at_midnight_counts_in_the_new_allowance() {
    let mut bench = evening();
    bench.world.edit(|policy| policy.trading.auto_below = Usd::ZERO).unwrap();
    let id = bench.holds(0, trade(60_000_000));
    bench.world.clock.pass(20 * SECOND);
    assert!(bench.ask(0, trade(40_000_001)).is_err());
    bench.approves(id, quote(60_000_000));
    assert_eq!(bench.volumes(0), (0, 60_000_000));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    assert_eq!(bench.volumes(0), (60_000_000, 0));
}

/// After a midnight, the trades that ended before it no longer count.
#[test]
fn each_midnight_forgets_what_was_spent_before() {
    let mut bench = evening();
    for _day in 0..3 {
        let id = bench.starts(0, trade(100_000_000));
        bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
        bench.end_executed(id);
        assert!(bench.ask(0, trade(1)).is_err());
        bench.world.clock.pass(86_400 * SECOND);
    }
}
