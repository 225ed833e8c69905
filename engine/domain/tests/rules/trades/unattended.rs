//! Plans and the limit of unattended days.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::settings::Setting;
use bursar_domain::plan::StepPurpose;
use bursar_domain::{Action, Status};

use crate::support::clock::{Clock, SECOND};
use crate::trades::bench::{Bench, Fate, policy, trade};

/// A bench in which all trades are automatic and 50 dollars a day may be spent unattended.
fn bench() -> Bench {
    let mut policy = policy();
    policy.trading.daily = Usd::dollars(1_000);
    policy.trading.per_trade = Usd::dollars(1_000);
    policy.trading.auto_below = Usd::dollars(1_000);
    let mut bench = Bench::with_clock(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    bench.world.must(Action::Set(Setting::UnattendedDaily(Some(Usd::dollars(50)))));
    bench
}

fn reboot(bench: &mut Bench) {
    bench.world.unlocked = false;
    bench.world.clock.reboot(SECOND);
    bench.world.unlock_unattended();
}

/// Value that a running plan may still spend counts, and so does value that it has spent.
#[test]
fn running_plans_count() {
    let mut bench = bench();
    reboot(&mut bench);
    let first = bench.starts(0, trade(30_000_000));
    let held = bench.holds(0, trade(20_000_001));
    let reason = match bench.status(held) {
        Status::Held { reason, .. } => *reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason, HoldReason::UnattendedLimit);
    bench.open_and_finish(first, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed(first);
    bench.holds(0, trade(20_000_001));
    let second = bench.starts(0, trade(20_000_000));
    bench.open_and_finish(second, StepPurpose::Swap, Fate::Reverted);
    // A swap that took no effect returns its value.
    bench.starts(0, trade(20_000_000));
}

/// A swap that is signed before midnight and final after it counts on the new day, even as its first entry.
#[test]
fn a_swap_that_is_final_on_the_next_day_begins_that_day() {
    let mut bench = bench();
    reboot(&mut bench);
    bench.world.clock.pass_until("2026-01-15T23:59:50Z");
    let id = bench.starts(0, trade(30_000_000));
    bench.opens(id, StepPurpose::Swap);
    bench.signs(id);
    bench.world.clock.pass(20 * SECOND);
    bench.finish(id, Fate::Succeeded);
    bench.end_executed(id);
    let spent = bench.world.state.unattended.spent_at(&bench.world.now());
    assert_eq!(spent, Usd::dollars(30));
    bench.holds(0, trade(20_000_001));
    bench.starts(0, trade(20_000_000));
}

/// A plan from a time when a person had opened the wallet continues after an unattended reboot only within the limit.
#[test]
fn a_plan_from_before_the_reboot_stops_at_the_limit() {
    for (micros, goes_on) in [(50_000_000, true), (50_000_001, false)] {
        let mut bench = bench();
        let id = bench.starts(0, trade(micros));
        reboot(&mut bench);
        let opened = bench.try_open(id, StepPurpose::Swap);
        assert!(opened.is_ok(), "{opened:?}");
        let code = bench.end_code(id);
        assert_eq!(code, (!goes_on).then_some(Code::RequestNoLongerValid), "{micros}");
    }
}

/// The limit also covers a transaction that was opened but not signed when the machine went down.
#[test]
fn a_step_from_before_the_reboot_is_not_signed_beyond_the_limit() {
    for (micros, is_allowed) in [(50_000_000, true), (50_000_001, false)] {
        let mut bench = bench();
        let id = bench.starts(0, trade(micros));
        bench.opens(id, StepPurpose::Swap);
        reboot(&mut bench);
        let key = bench.key(id);
        let decision = bench.price(key);
        let signs = crate::trades::bench::signatures(&decision);
        assert_eq!(!signs.is_empty(), is_allowed, "{micros}: {decision:?}");
    }
}

/// The limit applies from the start of the engine until a person opens the wallet, even if it is already unlocked.
#[test]
fn the_limit_holds_from_the_start_of_the_engine() {
    let mut bench = bench();
    assert!(!bench.world.state.unattended.active, "a person created the wallet");
    bench.world.must(Action::RecordStart);
    bench.holds(0, trade(50_000_001));
    bench.world.must(Action::RecordUnlock { attended: true, noted_entry: None });
    bench.starts(0, trade(50_000_001));
}

/// A plan that the operator approved may exceed the limit.
#[test]
fn an_approved_plan_continues() {
    let mut bench = bench();
    reboot(&mut bench);
    let id = bench.holds(0, trade(60_000_000));
    bench.approves(id, crate::trades::bench::quote(60_000_000));
    bench.opens(id, StepPurpose::Swap);
}
