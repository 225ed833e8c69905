//! A journal restored from a backup: any request after the backup may have been signed.

use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_domain::agents::Credential;
use bursar_domain::{Action, Status};

use crate::support::clock::{Clock, HOUR};
use crate::support::{World, build, policy_name};
use build::{payment, policy};

const DAILY: Usd = Usd(10_000_000);

fn world(at: &str) -> World {
    let mut policy = policy();
    policy.payments.daily = DAILY;
    build::world(Clock::at(at, "UTC"), &policy)
}

#[test]
fn a_restore_ends_holds_and_spends_the_days_allowance() {
    let mut world = world("2026-01-15T12:00:00Z");
    world.signs(payment(500_000));
    let waited = world.holds(payment(9_000_000));
    world.must(Action::RecordRestore);
    let Status::Denied { reason: Some(reason), .. } = world.status(waited) else { panic!() };
    assert!(reason.contains("may have been approved"), "nobody is told to pay again: {reason}");
    assert_eq!((world.spent(), world.reserved_value()), (DAILY, Usd::ZERO));
    assert!(world.approve(waited).is_err());
    for micros in [1, 500_000, 9_000_000] {
        assert_eq!(world.refuses(payment(micros)).code, Code::LimitReached, "{micros}");
    }
    world.clock.pass(HOUR);
    world.tick();
    assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    world.clock.pass_until("2026-01-16T00:00:00Z");
    world.signs(payment(500_000));
}

#[test]
fn an_agent_of_the_lost_journal_has_spent_its_first_day() {
    for restored in [false, true] {
        let mut world = world("2026-01-15T12:00:00Z");
        build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
        if restored {
            world.must(Action::RecordRestore);
        }
        world.clock.pass(1_000);
        build::register(&mut world, 2, Credential::Bearer { sha256: [2; 32] });
        for index in [1, 2] {
            world.must(build::commission(index, policy_name().as_str(), "main"));
            let agent = &world.state.agents[&build::agent(index)];
            let spent = agent.commission.as_ref().unwrap().window.spent.payment;
            let lost = restored && index == 1;
            assert_eq!(spent, if lost { DAILY } else { Usd::ZERO }, "{index} {restored}");
        }
    }
}

#[test]
fn a_restore_by_a_clock_that_was_ahead_is_dated_again_by_the_operator() {
    let mut world = world("2026-01-15T12:00:00Z");
    world.clock.shift_wall_clock(40 * 24 * HOUR);
    world.must(Action::RecordRestore);
    let ahead = world.state.restored.unwrap();
    world.clock.shift_wall_clock(-40 * 24 * HOUR);
    let now = world.now().utc;
    assert!(ahead > now);
    world.must(Action::AcceptJournal);
    assert_eq!(world.state.restored, Some(now));
    // A restore time in the past stays unchanged.
    world.clock.pass(HOUR);
    world.must(Action::AcceptJournal);
    assert_eq!(world.state.restored, Some(now));
}
