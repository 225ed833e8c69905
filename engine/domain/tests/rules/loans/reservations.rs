//! The value that open supplies reserve: for every agent of the address, on every network, until each supply ends.

use alloy_primitives::U256;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::policy::Policy;
use bursar_domain::loans::LoanAsk;
use bursar_domain::plan::{ExecutionEnd, PLAN_MS, StepPurpose, Volume};
use bursar_domain::{Action, Refusal};

use crate::loans::asks::{ROBINHOOD, loan_at, supply, vault, with_quote, withdrawal};
use crate::loans::bench::{Bench, Fate, policy};
use crate::support::build;
use crate::support::clock::MINUTE;

/// A policy with a total of 100 dollars.
fn small_policy() -> Policy {
    let mut policy = policy();
    policy.lending.max_total = Usd::dollars(100);
    policy
}

/// Reserves the ceiling of 100 dollars up to `left`, by a held, a started and a signed supply.
fn nearly_full(left: u64) -> (Bench, [bursar_core::ids::RequestId; 3]) {
    let mut bench = Bench::with_policy(&small_policy());
    let held = bench.holds(0, supply(50_000_000));
    let started = bench.starts(1, loan_at(ROBINHOOD, vault(0x31), supply(30_000_000)));
    let signed = bench.starts(1, supply(20_000_000 - left));
    bench.opens(signed, StepPurpose::Supply);
    bench.signs(signed);
    assert_eq!(bench.reserved("main"), 100_000_000 - left);
    assert_eq!(bench.reserved("spare"), 0);
    (bench, [held, started, signed])
}

#[test]
fn held_and_running_supplies_of_all_agents_of_the_address_are_reserved() {
    for agent in [0, 1] {
        for asked in [supply(1_000_000), loan_at(ROBINHOOD, vault(0x32), supply(1_000_000))] {
            let (mut bench, _ids) = nearly_full(1_000_000);
            let more = LoanAsk { size: supply(1_000_001).size, ..asked.clone() };
            let more = LoanAsk { counted_value: Usd(1_000_001), ..more };
            let more = with_quote(more, |quote| {
                (quote.assets, quote.redeem_value) =
                    (Atoms(U256::from(1_000_001)), Atoms(U256::from(1_000_001)));
            });
            assert_eq!(bench.refuses(agent, more), Code::ExposureExceeded);
            bench.starts(agent, asked);
            assert_eq!(bench.refuses(agent, supply(1)), Code::ExposureExceeded);
            bench.starts(2, supply(49_000_000));
            // A withdrawal reserves nothing and is not refused.
            bench.starts(agent, withdrawal(1_000_000));
            assert_eq!(bench.reserved("main"), 100_000_000);
        }
    }
}

/// At the approval and at each step, the request's own reservation is replaced, not added again.
#[test]
fn a_requests_own_reservation_does_not_count_against_it() {
    let mut bench = Bench::with_policy(&small_policy());
    let id = bench.holds(0, supply(100_000_000));
    bench.approves(id, supply(100_000_000).quote);
    assert_eq!(bench.reserved("main"), 100_000_000);
    bench.open_and_finish(id, StepPurpose::AllowanceReset, Fate::Succeeded);
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
    assert_eq!((bench.reserved("main"), bench.deployed("main")), (0, 100_000_000));
    bench.end_executed(id, Some(100_000_000));
    assert_eq!(bench.deployed("main"), 100_000_000);
}

/// Loans that other requests made meanwhile count at the approval and at each step.
#[test]
fn loans_of_other_requests_count_at_approval_and_at_each_step() {
    let mut bench = Bench::with_policy(&small_policy());
    let held = bench.holds(0, supply(60_000_000));
    let running = bench.starts(1, loan_at(ROBINHOOD, vault(0x31), supply(40_000_000)));
    let change = |policy: &mut Policy| policy.lending.max_total = Usd(99_999_999);
    bench.world.edit(change).unwrap();
    assert_eq!(bench.rejects(held, supply(60_000_000).quote), Code::ExposureExceeded);
    bench.opens(running, StepPurpose::Supply);
    let mut bench = Bench::with_policy(&small_policy());
    let first = bench.holds(0, supply(60_000_000));
    bench.approves(first, supply(60_000_000).quote);
    let second = bench.starts(1, loan_at(ROBINHOOD, vault(0x31), supply(40_000_000)));
    bench.world.edit(change).unwrap();
    for (id, other) in [(first, 40_000_000), (second, 0)] {
        bench.try_open(id, StepPurpose::Supply).unwrap();
        let is_open = bench.execution(id).open_step().is_some();
        assert_eq!(is_open, other == 0, "the first step of both is one too many");
    }
    assert_eq!(bench.end_code(first), Some(Code::ExposureExceeded));
    assert_eq!(bench.reserved("main"), 40_000_000);
}

/// However a held request ends, its reservation is returned once.
#[test]
fn a_held_supply_returns_its_reservation_once() {
    for how in ["denied", "expired", "rejected", "refused by the lane"] {
        let mut bench = Bench::with_policy(&small_policy());
        let id = bench.holds(0, supply(100_000_000));
        assert_eq!(bench.refuses(1, supply(1)), Code::ExposureExceeded);
        match how {
            "denied" => drop(bench.world.deny(id).unwrap()),
            "expired" => {
                bench.world.clock.pass(15 * MINUTE);
                // An overdue request reserves nothing even before its expiry is recorded.
                assert_eq!(bench.reserved("main"), 0);
                bench.world.tick();
            }
            "rejected" => {
                let short =
                    with_quote(supply(100_000_000), |quote| quote.balance = U256::ZERO).quote;
                assert_eq!(bench.rejects(id, short), Code::InsufficientFunds);
            }
            _lane => drop(bench.approve(id, Err(Refusal::new(Code::WouldFail))).unwrap()),
        }
        assert_eq!(bench.reserved("main"), 0, "{how}");
        assert!(bench.world.deny(id).is_err(), "{how}");
        let again = bench.holds(1, supply(100_000_000));
        assert_eq!(bench.reserved("main"), 100_000_000, "{how}");
        bench.world.deny(again).unwrap();
    }
}

#[test]
fn an_expired_hold_makes_room_at_once_and_the_deadline_is_exact() {
    for (waited, room) in [(-1, false), (0, true), (1, true)] {
        let mut bench = Bench::with_policy(&small_policy());
        let id = bench.holds(0, supply(100_000_000));
        bench.world.clock.pass(15 * MINUTE + waited);
        assert_eq!(bench.ask(1, supply(40_000_000)).is_ok(), room, "{waited}");
        let approved = bench.approve(id, Ok(supply(100_000_000).quote.into()));
        if room {
            assert!(approved.is_err(), "its expiry is recorded");
        } else {
            approved.unwrap();
            assert_eq!(bench.reserved("main"), 100_000_000);
        }
    }
}

/// A plan that ends before its main transaction returns its reservation and changes nothing else.
#[test]
fn a_plan_without_a_main_transaction_lends_nothing() {
    type End = fn(&mut Bench, bursar_core::ids::RequestId);
    let ends: [(&str, End); 6] = [
        ("lane", |bench, id| {
            let end = ExecutionEnd::Rejected(Refusal::new(Code::WouldFail));
            bench.end(id, end).unwrap();
        }),
        ("allowance reverted", |bench, id| {
            bench.open_and_finish(id, StepPurpose::Allowance, Fate::Reverted);
        }),
        ("five minutes", |bench, _id| {
            bench.world.clock.pass(PLAN_MS);
            bench.world.tick();
        }),
        ("freeze", |bench, _id| drop(bench.world.must(Action::Freeze))),
        ("suspension", |bench, _id| {
            bench.world.must(Action::Suspend { agent: build::agent(0) });
        }),
        ("lock", |bench, _id| bench.world.lock()),
    ];
    for (what, end) in ends {
        let mut bench = Bench::new();
        let id = bench.starts(0, supply(40_000_000));
        assert_eq!((bench.reserved("main"), bench.operations(0)), (40_000_000, 1));
        end(&mut bench, id);
        assert_eq!(bench.volume(id), Volume::Returned, "{what}");
        assert_eq!((bench.reserved("main"), bench.deployed("main")), (0, 0), "{what}");
        assert!(bench.world.state.loans.lent.is_empty(), "{what}");
        assert_eq!(bench.operations(0), 0, "{what}");
        assert!(bench.is_closed(id), "{what}");
    }
}

/// A supply reserves the most that it may take, and that amount then counts as lent, whatever the receipt shows.
#[test]
fn a_supply_that_may_take_more_than_its_rehearsal_paid_reserves_its_size() {
    let mut bench = Bench::new();
    let paid = |micros: u64| {
        with_quote(supply(40_000_000), |quote| quote.assets = Atoms(U256::from(micros)))
    };
    // The lane's request counts the same value as the rules.
    let asked = paid(30_000_000);
    assert_eq!(asked.counted_value_at(&asked.quote), Usd(40_000_000));
    let id = bench.starts(0, asked);
    bench.try_open_by(id, StepPurpose::Supply, paid(39_000_000).quote).unwrap();
    assert_eq!(bench.reserved("main"), 40_000_000);
    bench.finish(id, Fate::Succeeded);
    assert_eq!(bench.deployed("main"), 40_000_000);
    bench.end_executed(id, Some(39_500_000));
    assert_eq!(bench.deployed("main"), 40_000_000);

    let id = bench.holds(0, supply(60_000_000));
    let cheaper = with_quote(supply(60_000_000), |quote| quote.assets = Atoms(U256::from(1)));
    bench.approves(id, cheaper.quote);
    assert_eq!(bench.reserved("main"), 60_000_000);
}

/// The stablecoins of a running supply are committed, so a second supply cannot take them too.
#[test]
fn coins_of_a_running_supply_are_promised_whole() {
    for (balance, fits) in [(80_000_000u64, true), (79_999_999, false)] {
        let mut bench = Bench::new();
        let mint = with_quote(supply(40_000_000), |quote| quote.assets = Atoms(U256::from(1)));
        bench.starts(0, mint);
        let next = with_quote(supply(40_000_000), |quote| quote.balance = U256::from(balance));
        assert_eq!(bench.ask(1, next).is_ok(), fits, "{balance}");
    }
}
