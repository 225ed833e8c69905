//! The effects of each step's outcome on the trade, its volume and the allowance.

use bursar_core::codes::Code;
use bursar_domain::Action;
use bursar_domain::plan::{AllowanceLeft, ExecutionEnd, StepPurpose, Volume};

use crate::trades::bench::{Bench, Fate, trade};

const VALUE: u64 = 40_000_000;

/// How the trade continues after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consequence {
    Continues,
    Rejected(Code),
    Failed(Code),
}

use Consequence::{Continues, Failed, Rejected};

/// Checks a plan after a step: its end, its volume, and whether it leaves an allowance to be revoked.
#[track_caller]
fn assert_consequence(
    bench: &Bench,
    id: bursar_core::ids::RequestId,
    after: Consequence,
    leaves: bool,
) {
    let execution = bench.execution(id);
    let end = match &execution.end {
        None => Continues,
        Some(ExecutionEnd::Rejected(refusal)) => Rejected(refusal.code),
        Some(ExecutionEnd::Failed { refusal, .. }) => Failed(refusal.code),
        Some(ExecutionEnd::Executed { .. }) => panic!("no receipt was read"),
    };
    assert_eq!(end, after, "{:?}", execution.steps);
    let sums = match execution.volume {
        Volume::Reserved => (0, VALUE),
        Volume::Spent => (VALUE, 0),
        Volume::Returned => (0, 0),
    };
    assert_eq!(bench.volumes(0), sums, "{:?}", execution.steps);
    assert_eq!(execution.leaves_allowance(), leaves, "{:?}", execution.steps);
    assert_eq!(bench.is_closed(id), end != Continues && !leaves, "{:?}", execution.steps);
}

#[test]
fn each_outcome_of_an_allowance_and_of_its_reset() {
    for purpose in [StepPurpose::Allowance, StepPurpose::AllowanceReset] {
        let gives = purpose == StepPurpose::Allowance;
        for (fate, after, volume, leaves) in [
            (Fate::Succeeded, Continues, Volume::Reserved, gives),
            (Fate::Reverted, Failed(Code::ExecutionError), Volume::Returned, false),
            (Fate::Cancelled, Rejected(Code::PlanExpired), Volume::Returned, false),
            (Fate::Dropped, Rejected(Code::PlanExpired), Volume::Returned, false),
        ] {
            let mut bench = Bench::new();
            let id = bench.starts(0, trade(VALUE));
            bench.open_and_finish(id, purpose, fate);
            assert_eq!(bench.volume(id), volume, "{purpose:?} {fate:?}");
            assert_consequence(&bench, id, after, leaves);
        }
    }
}

/// No swap was sent, so the volume returns. The displaced transaction may still be mined, so the allowance is
/// checked.
#[test]
fn a_displaced_allowance_may_be_mined_later_and_is_revoked() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::NonceTaken);
    assert_eq!(bench.volume(id), Volume::Returned);
    assert_consequence(&bench, id, Failed(Code::ExecutionError), true);
}

/// Only an allowance that a mined step gave, and that no later transaction may have used, is known to be left.
#[test]
fn the_plan_knows_whether_its_allowance_is_left() {
    use AllowanceLeft::{Given, Possible, Zero};
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Reverted);
    assert_eq!(bench.execution(id).allowance_left(), Zero);
    for swap in [Fate::Succeeded, Fate::NonceTaken, Fate::Reverted, Fate::Dropped] {
        let mut bench = Bench::new();
        let id = bench.starts(0, trade(VALUE));
        bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        let given = bench.execution(id).allowance_left();
        let Given { block: block @ 1.. } = given else { panic!("{given:?}") };
        bench.open_and_finish(id, StepPurpose::Swap, swap);
        let left = match swap {
            Fate::Succeeded => Zero,
            Fate::NonceTaken => Possible { since: block },
            _without_effect => given,
        };
        assert_eq!(bench.execution(id).allowance_left(), left, "{swap:?}");
    }
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::NonceTaken);
    assert_eq!(bench.execution(id).allowance_left(), Possible { since: 0 });
}

#[test]
fn each_outcome_of_a_swap() {
    for allowed in [false, true] {
        for (fate, after, volume, leaves) in [
            (Fate::Succeeded, Continues, Volume::Spent, false),
            (Fate::Reverted, Failed(Code::ExecutionError), Volume::Returned, allowed),
            (Fate::Cancelled, Rejected(Code::PlanExpired), Volume::Returned, allowed),
            (Fate::Dropped, Rejected(Code::PlanExpired), Volume::Returned, allowed),
            // Another transaction may have taken the swap's nonce, and the swap may still be mined.
            (Fate::NonceTaken, Failed(Code::ExecutionError), Volume::Spent, allowed),
        ] {
            let mut bench = Bench::new();
            let id = bench.starts(0, trade(VALUE));
            if allowed {
                bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
            }
            bench.open_and_finish(id, StepPurpose::Swap, fate);
            assert_eq!(bench.volume(id), volume, "{fate:?}");
            assert_consequence(&bench, id, after, leaves);
            let hash = match &bench.execution(id).end {
                Some(ExecutionEnd::Failed { hash, .. }) => *hash,
                _other => None,
            };
            assert_eq!(hash.is_some(), fate == Fate::Reverted, "the receipt shows it");
            if fate == Fate::Succeeded {
                bench.end_executed(id);
                assert!(bench.is_closed(id));
                assert_eq!(bench.volumes(0), (VALUE, 0));
            }
        }
    }
}

/// A revocation that had no effect is repeated. A reverted one is not, because it would revert every time.
#[test]
fn each_outcome_of_a_revocation() {
    for swap in [Fate::Reverted, Fate::NonceTaken] {
        for (fate, closes) in [
            (Fate::Succeeded, true),
            (Fate::Reverted, true),
            (Fate::NonceTaken, false),
            (Fate::Cancelled, false),
            (Fate::Dropped, false),
        ] {
            let mut bench = Bench::new();
            let id = bench.starts(0, trade(VALUE));
            bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
            bench.open_and_finish(id, StepPurpose::Swap, swap);
            let (end, volume) = (bench.execution(id).end.clone(), bench.volumes(0));
            bench.open_and_finish(id, StepPurpose::Revocation, fate);
            assert_eq!(bench.is_closed(id), closes, "{fate:?}");
            assert_eq!((&bench.execution(id).end, bench.volumes(0)), (&end, volume));
            if !closes {
                bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
                assert!(bench.is_closed(id));
            }
        }
    }
}

/// A plan can be closed only after its request has ended, and not while a step is open.
#[test]
fn a_plan_closes_only_after_its_end_and_between_steps() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    let close = Action::ClosePlan { id };
    assert_eq!(bench.world.must(close.clone()).events, []);
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    assert_eq!(bench.world.must(close.clone()).events, []);
    bench.opens(id, StepPurpose::Swap);
    assert_eq!(bench.world.must(close.clone()).events, []);
    bench.finish(id, Fate::Reverted);
    bench.opens(id, StepPurpose::Revocation);
    assert_eq!(bench.world.must(close.clone()).events, []);
    bench.finish(id, Fate::Dropped);
    assert!(!bench.is_closed(id));
    assert_eq!(bench.world.must(close.clone()).events.len(), 1);
    assert!(bench.is_closed(id));
    assert_eq!(bench.world.must(close).events, []);
    assert_eq!(bench.volumes(0), (0, 0));
}

/// No seal covers the entries of a locked wallet, so this one would make the next unlock distrust the journal.
#[test]
fn a_locked_wallet_closes_no_plan() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Reverted);
    bench.world.lock();
    let _refused = bench.world.run(Action::ClosePlan { id });
    assert!(!bench.is_closed(id));
    bench.world.unlock();
    bench.world.must(Action::ClosePlan { id });
    assert!(bench.is_closed(id));
}
