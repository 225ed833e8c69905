//! A day's operations: which loans count, and until when.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::policy::Policy;
use bursar_domain::loans::LoanAsk;
use bursar_domain::plan::{ExecutionEnd, StepPurpose};
use bursar_domain::{Action, Refusal};

use crate::loans::asks::{supply, withdrawal};
use crate::loans::bench::{Bench, Fate, policy};
use crate::support::build;
use crate::support::clock::{DAY, HOUR, MINUTE};

/// A bench whose policy allows two operations a day.
fn bench() -> Bench {
    let mut policy: Policy = policy();
    policy.lending.operations_per_day = 2;
    Bench::with_policy(&policy)
}

/// Executes a loan completely.
fn executes(bench: &mut Bench, agent: usize, loan: LoanAsk) {
    let purpose = if loan.is_supply() { StepPurpose::Supply } else { StepPurpose::Withdrawal };
    let id = bench.starts(agent, loan);
    bench.open_and_finish(id, purpose, Fate::Succeeded);
    bench.end_executed(id, Some(1_000_000));
}

#[test]
fn held_started_and_finished_loans_count_and_the_next_supply_is_refused() {
    for first in [supply(60_000_000), withdrawal(60_000_000)] {
        for second in [supply(1_000_000), withdrawal(1_000_000)] {
            let mut bench = bench();
            bench.holds(0, first.clone());
            assert_eq!(bench.operations(0), 1);
            executes(&mut bench, 0, second);
            assert_eq!(bench.operations(0), 2);
            assert_eq!(bench.refuses(0, supply(1_000_000)), Code::DailyOpsExceeded);
            assert_eq!(bench.operations(0), 2, "a refused request does not count");
            let asks = bench.holds(0, withdrawal(1_000_000));
            assert_eq!(bench.hold_reason(asks), Some(HoldReason::OperationsSpent));
            // Each agent has its own count, even if agents share an address.
            assert_eq!(bench.operations(1), 0);
            executes(&mut bench, 1, supply(1_000_000));
            assert_eq!((bench.operations(0), bench.operations(1)), (3, 1));
        }
    }
}

/// A request does not count against itself, so an agent's last operation of the day is not refused.
#[test]
fn a_request_does_not_count_against_itself() {
    let mut bench = bench();
    executes(&mut bench, 0, supply(1_000_000));
    let id = bench.holds(0, supply(60_000_000));
    assert_eq!(bench.refuses(0, supply(1_000_000)), Code::DailyOpsExceeded);
    bench.approves(id, supply(60_000_000).quote);
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
    bench.end_executed(id, Some(60_000_000));
    assert_eq!(bench.operations(0), 2);
}

/// The operator can approve a withdrawal beyond the day's operations, but no supply.
#[test]
fn an_approval_exceeds_the_operations_only_for_a_withdrawal() {
    let mut bench = bench();
    let first = bench.holds(0, supply(60_000_000));
    let takes = bench.holds(0, withdrawal(60_000_000));
    bench.world.edit(|policy| policy.lending.operations_per_day = 1).unwrap();
    assert_eq!(bench.rejects(first, supply(60_000_000).quote), Code::DailyOpsExceeded);
    assert_eq!(bench.operations(0), 1);
    bench.world.edit(|policy| policy.lending.operations_per_day = 0).unwrap();
    bench.approves(takes, withdrawal(60_000_000).quote);
    bench.open_and_finish(takes, StepPurpose::Withdrawal, Fate::Succeeded);
    bench.end_executed(takes, Some(60_000_000));
    assert_eq!(bench.operations(0), 1);
}

#[test]
fn what_took_no_effect_gives_its_operation_back() {
    for (fate, counts) in [
        (Fate::Succeeded, 1),
        (Fate::NonceTaken, 1),
        (Fate::Reverted, 0),
        (Fate::Cancelled, 0),
        (Fate::Dropped, 0),
    ] {
        for (loan, purpose) in [
            (supply(1_000_000), StepPurpose::Supply),
            (withdrawal(1_000_000), StepPurpose::Withdrawal),
        ] {
            let mut bench = bench();
            let id = bench.starts(0, loan);
            bench.opens(id, purpose);
            assert_eq!(bench.operations(0), 1);
            bench.finish(id, fate);
            assert_eq!(bench.operations(0), counts, "{fate:?} {purpose:?}");
        }
    }
    type End = fn(&mut Bench, bursar_core::ids::RequestId);
    let ends: [End; 3] = [
        |bench, id| drop(bench.world.deny(id).unwrap()),
        |bench, _id| {
            bench.world.clock.pass(15 * MINUTE);
            bench.world.tick();
        },
        |bench, id| drop(bench.approve(id, Err(Refusal::new(Code::WouldFail))).unwrap()),
    ];
    for end in ends {
        let mut bench = bench();
        let id = bench.holds(0, withdrawal(60_000_000));
        assert_eq!(bench.operations(0), 1);
        end(&mut bench, id);
        assert_eq!(bench.operations(0), 0);
    }
}

/// A finished loan counts until the allowance renews. An open loan also counts after that.
#[test]
fn operations_renew_with_the_allowance() {
    let mut bench = bench();
    executes(&mut bench, 0, supply(1_000_000));
    executes(&mut bench, 0, withdrawal(1_000_000));
    bench.world.clock.pass(12 * HOUR - 1);
    bench.world.tick();
    assert_eq!(bench.operations(0), 2);
    assert_eq!(bench.refuses(0, supply(1_000_000)), Code::DailyOpsExceeded);
    // It is midnight, but the renewal is not recorded yet.
    bench.world.clock.pass(1);
    assert_eq!(bench.operations(0), 0);
    let id = bench.holds(0, supply(60_000_000));
    assert_eq!(bench.operations(0), 1);
    bench.world.deny(id).unwrap();
    bench.world.tick();
    assert_eq!(bench.operations(0), 0);

    // A loan that begins before midnight and finishes after it counts once, in the new day.
    bench.world.clock.pass(DAY - MINUTE);
    let id = bench.starts(0, supply(1_000_000));
    bench.opens(id, StepPurpose::Supply);
    bench.signs(id);
    bench.world.clock.pass(2 * MINUTE);
    assert_eq!(bench.operations(0), 1);
    bench.finish(id, Fate::Succeeded);
    assert_eq!(bench.operations(0), 1);
    bench.end_executed(id, Some(1_000_000));
    assert_eq!(bench.operations(0), 1);
}

/// An operation is given back at most once, and never by an end that follows the outcome of the main transaction.
#[test]
fn an_end_after_the_outcome_changes_no_count() {
    let mut bench = bench();
    let id = bench.starts(0, supply(1_000_000));
    bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
    let end = ExecutionEnd::Failed { refusal: Refusal::new(Code::ExecutionError), hash: None };
    bench.end(id, end).unwrap();
    assert_eq!(bench.operations(0), 1);
    bench.world.must(Action::Suspend { agent: build::agent(0) });
    assert_eq!(bench.operations(0), 1);
}
