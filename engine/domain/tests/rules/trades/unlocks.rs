//! Plans after a crash, at an unlock, and at the acceptance of a journal.

use bursar_domain::Action;
use bursar_domain::plan::{ExecutionEnd, PLAN_MS, StepPurpose};

use crate::support::clock::SECOND;
use crate::trades::stops::{Point, Stop, plan_at};

/// After a crash, a plan resumes unless it was allowed five minutes ago or earlier (docs/register.md, T-53).
#[test]
fn an_unlock_after_a_crash_resumes_a_young_plan_and_ends_an_old_one() {
    for point in Point::UNSIGNED {
        for (down_ms, resumes) in [(SECOND, true), (PLAN_MS, false)] {
            let (mut bench, id, _unanswered) = plan_at(point);
            bench.world.unlocked = false;
            bench.world.clock.reboot(down_ms);
            bench.world.unlock();
            let end = bench.execution(id).end.clone();
            if resumes {
                assert_eq!(end, None, "{point:?}");
                continue;
            }
            assert!(matches!(end, Some(ExecutionEnd::Rejected(_))), "{point:?}: {end:?}");
            assert_eq!(bench.volumes(0), (0, 0), "{point:?}");
        }
    }
}

/// An unlock ends the plans that something stopped while the engine was down or locked.
#[test]
fn an_unlock_ends_the_plans_of_stopped_agents_and_old_plans() {
    for point in Point::UNSIGNED {
        for stop in [Stop::Suspend, Stop::Freeze, Stop::FiveMinutes] {
            let (mut bench, id, _unanswered) = plan_at(point);
            bench.world.unlocked = false;
            stop.apply(&mut bench);
            assert_eq!(bench.execution(id).end, None, "a locked wallet ends nothing");
            bench.world.unlock();
            assert_eq!(bench.end_code(id), Some(stop.code()), "{point:?} {stop:?}");
            assert_eq!(bench.volumes(0), (0, 0), "{point:?} {stop:?}");
        }
    }
}

/// A freeze with an untrusted journal also ends a plan once the journal is accepted.
#[test]
fn a_freeze_with_an_untrusted_journal_ends_the_plan_once_the_journal_is_accepted() {
    let (mut bench, id, _none) = plan_at(Point::Nothing);
    bench.world.trusted = false;
    bench.world.must(Action::Freeze);
    bench.world.must(Action::AcceptJournal);
    bench.world.trusted = true;
    bench.world.must(Action::Thaw);
    let swap = bench.try_open(id, StepPurpose::Swap).map(|decision| decision.events);
    assert!(bench.execution(id).open_step().is_none(), "{swap:?}");
}

/// Accepting a journal accepts none of its permissions to sign, so its unsigned plans end.
#[test]
fn accepting_a_journal_ends_unsigned_plans() {
    for point in Point::UNSIGNED {
        let (mut bench, id, _unanswered) = plan_at(point);
        bench.world.trusted = false;
        bench.world.must(Action::AcceptJournal);
        bench.world.trusted = true;
        assert!(bench.execution(id).end.is_some(), "{point:?}");
        assert_eq!(bench.volumes(0), (0, 0), "{point:?}");
    }
}

/// Accepting the journal drops the open transaction, so the plan's step must end with it.
#[test]
fn accepting_a_journal_with_an_open_step_keeps_the_state_possible() {
    let (mut bench, _id, _none) = plan_at(Point::SwapOpen);
    bench.world.trusted = false;
    // The world checks the state after every action.
    bench.world.must(Action::AcceptJournal);
}
