//! The five minutes within which an allowed plan may sign.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::Action;
use bursar_domain::command::StepOrder;
use bursar_domain::plan::{PLAN_MS, StepPurpose};
use bursar_submit::{Input, Kind};

use crate::support::clock::{HOUR, MINUTE, SECOND};
use crate::trades::bench::{Bench, Fate, signatures, trade};
use crate::trades::stops::{Point, Stop, VALUE, plan_at};

/// After five minutes the trade has ended, but its allowance transaction is watched until it is final.
#[test]
fn no_swap_follows_an_allowance_that_was_mined_too_late() {
    let (mut bench, id, _none) = plan_at(Point::AllowanceSigned);
    Stop::FiveMinutes.apply(&mut bench);
    bench.finish(id, Fate::Succeeded);
    assert!(bench.try_open(id, StepPurpose::Swap).is_err());
    assert_eq!((bench.end_code(id), bench.volumes(0)), (Some(Code::PlanExpired), (0, 0)));
    bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
    assert!(bench.is_closed(id));
}

/// From 300 s after the approval on, by either clock, nothing is signed.
#[test]
fn a_plan_signs_until_five_minutes_and_not_at_five_minutes() {
    let at = |bench: &mut Bench, ms: i64, set_by: i64| {
        bench.world.clock.pass(ms);
        bench.world.clock.shift_wall_clock(set_by);
    };
    for (ms, set_by, late) in [
        (PLAN_MS - 1, 0, false),
        (PLAN_MS, 0, true),
        (PLAN_MS + 1, 0, true),
        (PLAN_MS, -HOUR, true),
        (0, PLAN_MS, true),
        (PLAN_MS - 1, -HOUR, false),
    ] {
        let what = format!("{ms} {set_by}");
        // The next tick ends the plan if a clock shows that its time has passed.
        let (mut bench, id, _unanswered) = plan_at(Point::SwapAuthorized);
        at(&mut bench, ms, set_by);
        bench.world.tick();
        assert_eq!(bench.end_code(id), late.then_some(Code::PlanExpired), "{what}");
        assert_eq!(bench.volumes(0), (0, if late { 0 } else { VALUE }), "{what}");
        // Without a tick, the next order ends the trade.
        let (mut bench, id, _none) = plan_at(Point::AllowanceMined);
        at(&mut bench, ms, set_by);
        bench.try_open(id, StepPurpose::Swap).unwrap();
        assert_eq!(bench.end_code(id), late.then_some(Code::PlanExpired), "{what}");
        assert_eq!(bench.execution(id).open_step().is_some(), !late, "{what}");
    }
}

/// After a reboot with a wall clock that was set back, the time since the boot counts.
#[test]
fn a_plan_ends_five_minutes_after_a_reboot_at_the_latest() {
    for (passed, late) in [(PLAN_MS - MINUTE - 1, false), (PLAN_MS - MINUTE, true)] {
        let (mut bench, id, _none) = plan_at(Point::AllowanceMined);
        bench.world.clock.shift_wall_clock(-HOUR);
        bench.world.clock.reboot(0);
        bench.world.clock.pass(passed);
        bench.world.tick();
        assert_eq!(bench.end_code(id), late.then_some(Code::PlanExpired), "{passed}");
    }
}

/// Without a tick, a late signature is discarded, and a late gas price authorizes no signature.
#[test]
fn a_late_signature_or_price_ends_the_plan() {
    for (waited, late) in [(PLAN_MS - 1, false), (PLAN_MS, true), (HOUR, true)] {
        let (mut bench, id, unanswered) = plan_at(Point::SwapAuthorized);
        let (key, submission) = (bench.key(id), bench.submission(id));
        bench.world.clock.pass(waited);
        bench.sign(key, &unanswered.unwrap());
        assert_eq!(bench.is_signed(key, submission), !late);
        assert_eq!(bench.end_code(id), late.then_some(Code::PlanExpired));
        let (mut bench, id, _none) = plan_at(Point::SwapOpen);
        bench.world.clock.pass(waited);
        let key = bench.key(id);
        assert_eq!(signatures(&bench.price(key)).len(), usize::from(!late));
        assert_eq!(bench.end_code(id), late.then_some(Code::PlanExpired));
        let (mut bench, id, _none) = plan_at(Point::SwapOpen);
        bench.world.clock.pass(waited);
        bench.input(key, Input::Tick).unwrap();
        assert_eq!(bench.end_code(id), late.then_some(Code::PlanExpired));
    }
}

/// Setting the wall clock back does not extend the time to sign.
#[test]
fn a_clock_that_is_set_back_does_not_let_a_late_signature_through() {
    let (mut bench, id, unanswered) = plan_at(Point::SwapAuthorized);
    let (key, submission) = (bench.key(id), bench.submission(id));
    bench.world.clock.pass(PLAN_MS);
    bench.world.clock.shift_wall_clock(-HOUR);
    bench.sign(key, &unanswered.unwrap());
    assert!(!bench.is_signed(key, submission));
}

/// The plan's own deadline holds even if the lane sets no time limit for the step.
#[test]
fn a_step_without_a_time_limit_ends_with_its_plan() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    let order = StepOrder { until: None, ..bench.step(id, StepPurpose::Swap) };
    bench.order(order).unwrap();
    let unanswered = bench.authorizes(id);
    let (key, submission) = (bench.key(id), bench.submission(id));
    bench.world.clock.pass(PLAN_MS);
    bench.sign(key, &unanswered);
    assert!(!bench.is_signed(key, submission));
}

/// Returns for each attempt of a submission whether it is empty, and whether it is signed.
fn attempts(bench: &Bench, id: RequestId) -> Vec<(bool, bool)> {
    let (key, submission) = (bench.key(id), bench.submission(id));
    let outbox = bench.world.state.outboxes.get(&key);
    let attempts = outbox.open[&submission].attempts.iter();
    attempts.map(|one| (matches!(one.kind, Kind::Empty { .. }), one.raw.is_some())).collect()
}

/// A transaction that is not mined is cancelled on its nonce, also after the plan's five minutes.
///
/// Otherwise it would keep the nonce, and all later transactions of the address would wait.
#[test]
fn an_overdue_transaction_is_cancelled_on_its_nonce() {
    for point in [Point::AllowanceSigned, Point::SwapSigned] {
        let (mut bench, id, _none) = plan_at(point);
        let key = bench.key(id);
        bench.world.clock.pass(HOUR);
        bench.world.tick();
        let empty = bench.price(key);
        assert_eq!(signatures(&empty).len(), 1, "{point:?}");
        bench.sign(key, &empty);
        assert_eq!(attempts(&bench, id), [(false, true), (true, true)], "{point:?}");
        // The same gas price requires no further signature.
        assert_eq!(signatures(&bench.price(key)), [], "{point:?}");
        bench.finish(id, Fate::Cancelled);
        assert_eq!(bench.end_code(id), Some(Code::PlanExpired), "{point:?}");
    }
}

/// Nothing is signed for a stopped agent, so the cancellation waits. It is authorized once, not at every gas price.
#[test]
fn a_cancellation_waits_for_a_stopped_agent() {
    for stop in [Stop::Suspend, Stop::Freeze] {
        let (mut bench, id, _none) = plan_at(Point::AllowanceSigned);
        let key = bench.key(id);
        stop.apply(&mut bench);
        bench.world.clock.pass(HOUR);
        for _price in 0..5 {
            assert_eq!(signatures(&bench.price(key)), [], "{stop:?}");
            assert_eq!(signatures(&bench.world.must(Action::ResumeOutbox(key))), [], "{stop:?}");
        }
        assert_eq!(attempts(&bench, id), [(false, true), (true, false)], "{stop:?}");
        stop.lift(&mut bench);
        let empty = bench.world.must(Action::ResumeOutbox(key));
        assert_eq!(signatures(&empty).len(), 1, "{stop:?}");
        bench.sign(key, &empty);
        assert_eq!(attempts(&bench, id), [(false, true), (true, true)], "{stop:?}");
    }
}

/// A revocation has no time limit, so neither a tick nor an unlock ends its offers. Otherwise rising fees would keep it
/// from being mined, and all later transactions of the address would wait.
#[test]
fn a_revocation_is_offered_again_after_the_five_minutes_of_its_plan() {
    type BenchAction = fn(&mut Bench);
    let cases: [(&str, BenchAction); 2] = [
        ("tick", |bench| {
            bench.world.tick();
        }),
        ("unlock", |bench| {
            bench.world.unlocked = false;
            bench.world.clock.reboot(SECOND);
            bench.world.unlock();
        }),
    ];
    for (what, happens) in cases {
        let (mut bench, id, _none) = plan_at(Point::AllowanceMined);
        Stop::FiveMinutes.apply(&mut bench);
        bench.opens(id, StepPurpose::Revocation);
        bench.signs(id);
        happens(&mut bench);
        bench.world.clock.pass(MINUTE);
        let key = bench.key(id);
        let higher = bench.price(key);
        assert_eq!(signatures(&higher).len(), 1, "{what}");
        bench.sign(key, &higher);
        assert_eq!(attempts(&bench, id), [(false, true), (false, true)], "{what}");
        bench.finish(id, Fate::Succeeded);
        assert!(bench.is_closed(id), "{what}");
    }
}
