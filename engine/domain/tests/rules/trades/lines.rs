//! One plan at a time acts for each address and network, and no step is opened twice (docs/register.md, T-51).

use bursar_core::codes::Code;
use bursar_domain::Refusal;
use bursar_domain::command::StepOrder;
use bursar_domain::plan::{ExecutionEnd, StepPurpose, Volume};

use crate::support::build;
use crate::trades::bench::{Bench, Fate, ROBINHOOD, quote, trade, trade_on};

/// From a plan's first step until it is over, no other plan of the same address and network takes a step.
#[test]
fn a_second_trade_of_the_line_waits_until_the_first_plan_is_over() {
    for second_agent in [0, 1] {
        let mut bench = Bench::new();
        let first = bench.starts(0, trade(40_000_000));
        let second = bench.starts(second_agent, trade(30_000_000));
        let busy = |bench: &mut Bench| {
            for purpose in [StepPurpose::Allowance, StepPurpose::Swap] {
                let refused = bench.try_open(second, purpose).unwrap_err();
                assert_eq!(refused.code, Code::Busy);
            }
        };
        busy(&mut bench);
        bench.opens(first, StepPurpose::Allowance);
        busy(&mut bench);
        bench.finish(first, Fate::Succeeded);
        busy(&mut bench);
        bench.open_and_finish(first, StepPurpose::Swap, Fate::Reverted);
        busy(&mut bench);
        bench.open_and_finish(first, StepPurpose::Revocation, Fate::Succeeded);
        assert!(bench.is_closed(first));
        bench.open_and_finish(second, StepPurpose::Swap, Fate::Succeeded);
        bench.end_executed(second);
        assert!(bench.is_closed(second));
    }
}

#[test]
fn other_addresses_and_networks_are_independent() {
    let mut bench = Bench::new();
    let first = bench.starts(0, trade(40_000_000));
    let elsewhere = bench.starts(0, trade_on(ROBINHOOD, trade(40_000_000)));
    let other = bench.starts(2, trade(40_000_000));
    for id in [elsewhere, other, first] {
        bench.opens(id, StepPurpose::Allowance);
    }
    for id in [first, other, elsewhere] {
        bench.finish(id, Fate::Succeeded);
        bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
        bench.end_executed(id);
        assert!(bench.is_closed(id));
    }
    assert_eq!((bench.volumes(0), bench.volumes(2)), ((80_000_000, 0), (40_000_000, 0)));
}

/// A trade that was requested earlier but approved later waits for the plan that has already begun.
#[test]
fn an_older_request_that_is_approved_later_does_not_overtake_a_running_plan() {
    let mut bench = Bench::new();
    let older = bench.holds(0, trade(60_000_000));
    let running = bench.starts(1, trade(40_000_000));
    bench.open_and_finish(running, StepPurpose::Allowance, Fate::Succeeded);
    bench.approves(older, quote(60_000_000));
    let refused = bench.try_open(older, StepPurpose::Allowance).map(|decision| decision.events);
    assert_eq!(refused, Err(Refusal::new(Code::Busy)), "the allowance of the other would be lost");
    bench.open_and_finish(running, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed(running);
    bench.opens(older, StepPurpose::Allowance);
}

/// The older request also waits while a transaction of the running plan is open.
#[test]
fn an_older_request_opens_no_second_transaction() {
    let mut bench = Bench::new();
    let older = bench.holds(0, trade(60_000_000));
    let running = bench.starts(1, trade(40_000_000));
    bench.opens(running, StepPurpose::Allowance);
    bench.approves(older, quote(60_000_000));
    let refused = bench.try_open(older, StepPurpose::Allowance).map(|decision| decision.events);
    assert_eq!(refused, Err(Refusal::new(Code::Busy)));
}

/// A caller with an older view opens nothing, and a repeated order opens no second step.
#[test]
fn a_stale_or_repeated_order_opens_nothing() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(40_000_000));
    let order = bench.step(id, StepPurpose::Allowance);
    let ahead = StepOrder { index: 1, ..order.clone() };
    let refused = |bench: &mut Bench, order: &StepOrder| {
        let before = bench.world.entries.len();
        let refusal = bench.order(order.clone()).unwrap_err();
        assert_eq!(bench.world.entries.len(), before);
        refusal.code
    };
    assert_eq!(refused(&mut bench, &ahead), Code::AlreadyDecided);
    bench.order(order.clone()).unwrap();
    assert_eq!(refused(&mut bench, &order), Code::AlreadyDecided);
    assert_eq!(refused(&mut bench, &ahead), Code::AlreadyDecided, "the first step is open");
    bench.finish(id, Fate::Succeeded);
    assert_eq!(refused(&mut bench, &order), Code::AlreadyDecided);
    bench.order(StepOrder { purpose: StepPurpose::Swap, ..ahead.clone() }).unwrap();
    bench.finish(id, Fate::Succeeded);
    bench.end_executed(id);
    for order in [order, ahead, StepOrder { index: 2, ..bench.step(id, StepPurpose::Swap) }] {
        assert_eq!(refused(&mut bench, &order), Code::RequestNotFound);
    }
    assert_eq!(bench.execution(id).steps.len(), 2);
}

/// Only one swap counts in the volume, so a plan opens no second swap, even if the lane orders it.
#[test]
fn a_plan_opens_one_swap() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(40_000_000));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    assert!(bench.try_open(id, StepPurpose::Swap).is_err());
}

/// A trade ends only once, and only if the caller knows all its steps.
#[test]
fn a_stale_or_repeated_end_ends_nothing() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(40_000_000));
    let end = |code| Box::new(ExecutionEnd::Rejected(Refusal::new(code)));
    let action =
        |steps, code| bursar_domain::Action::EndExecution { id, steps, end: end(code), fee: None };
    assert_eq!(bench.world.run_refused(action(1, Code::NoPool)).code, Code::AlreadyDecided);
    bench.opens(id, StepPurpose::Allowance);
    for steps in [0, 1] {
        assert_eq!(bench.world.run_refused(action(steps, Code::NoPool)).code, Code::AlreadyDecided);
    }
    bench.finish(id, Fate::Succeeded);
    assert_eq!(bench.world.run_refused(action(0, Code::NoPool)).code, Code::AlreadyDecided);
    bench.world.must(action(1, Code::NoPool));
    assert_eq!((bench.end_code(id), bench.volume(id)), (Some(Code::NoPool), Volume::Returned));
    assert_eq!(bench.world.run_refused(action(1, Code::PriceMoved)).code, Code::AlreadyDecided);
    assert!(!bench.is_closed(id), "the allowance is left");
    for purpose in [StepPurpose::Allowance, StepPurpose::Swap] {
        assert_eq!(bench.try_open(id, purpose).unwrap_err().code, Code::AlreadyDecided);
    }
    bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
    assert_eq!(bench.world.run_refused(action(2, Code::NoPool)).code, Code::RequestNotFound);
    assert_eq!((bench.end_code(id), bench.volumes(0)), (Some(Code::NoPool), (0, 0)));
}

/// With a locked wallet or an untrusted journal, no step is opened and no trade ended.
#[test]
fn steps_need_an_open_wallet_and_a_trusted_journal() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(40_000_000));
    bench.world.trusted = false;
    let refused = bench.try_open(id, StepPurpose::Swap).unwrap_err();
    assert_eq!(refused.code, Code::JournalUntrusted);
    (bench.world.trusted, bench.world.unlocked) = (true, false);
    assert_eq!(bench.try_open(id, StepPurpose::Swap).unwrap_err().code, Code::WalletLocked);
    let end = ExecutionEnd::Rejected(Refusal::new(Code::NoPool));
    assert_eq!(bench.end(id, end).unwrap_err().code, Code::WalletLocked);
    assert_eq!(bench.volumes(0), (0, 40_000_000));
}

/// The address and the agent of a running plan cannot be deleted.
#[test]
fn the_address_and_the_agent_of_a_plan_are_not_deleted() {
    let mut bench = Bench::new();
    let id = bench.starts(2, trade(40_000_000));
    let delete = bursar_domain::Action::DeleteAgent { agent: build::agent(2) };
    assert_eq!(bench.world.run_refused(delete.clone()).code, Code::InUse);
    let name = crate::support::policy_name();
    bench.world.must(build::commission(2, name.as_str(), "main"));
    let label = build::name("spare");
    let drop_address = bursar_domain::Action::DeleteAddress { label };
    assert_eq!(bench.world.run_refused(drop_address.clone()).code, Code::InUse);
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed(id);
    bench.world.must(delete);
    bench.world.must(drop_address);
}
