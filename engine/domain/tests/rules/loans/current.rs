//! A measurement that began before the journal's newest loan of the address is too old to judge a supply by.

use bursar_core::codes::Code;
use bursar_domain::Refusal;
use bursar_domain::loans::{LoanAsk, LoanQuote};
use bursar_domain::plan::StepPurpose;

use crate::loans::asks::{ROBINHOOD, loan_at, mint_calls, supply, vault, with_quote, withdrawal};
use crate::loans::bench::{Bench, Fate, loan};
use crate::support::build;

fn loan_as_of(seq: u64, asked: LoanAsk) -> LoanAsk {
    with_quote(asked, |quote| quote.as_of_entry = seq)
}

/// Returns a bench with a finished loan, and the entry that changed it last.
fn lender() -> (Bench, u64) {
    let mut bench = Bench::new();
    let id = bench.starts(0, supply(40_000_000));
    bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
    bench.end_executed(id, Some(40_000_000));
    let place = supply(0).place(build::address("main"));
    let changed = bench.world.state.loans.lent[&place].changed_entry;
    assert!(changed > 0 && changed <= bench.world.state.seq);
    (bench, changed)
}

/// Runs an action that must be refused as `BUSY` and must record nothing.
#[track_caller]
fn assert_busy<T>(bench: &mut Bench, run: impl FnOnce(&mut Bench) -> Result<T, Refusal>) {
    let (state, entries) = (bench.world.state.clone(), bench.world.entries.len());
    match run(bench) {
        Err(refusal) => assert_eq!(refusal.code, Code::Busy),
        Ok(_allowed) => panic!("it is too old"),
    }
    assert_eq!((&bench.world.state, bench.world.entries.len()), (&state, entries));
}

#[test]
fn a_request_measured_before_the_newest_loan_is_busy() {
    for (younger, busy) in [(-1i64, true), (0, false), (1, false)] {
        for agent in [0, 1] {
            let (mut bench, changed) = lender();
            let seq = changed.checked_add_signed(younger).unwrap();
            for chain_and_venue in [None, Some((ROBINHOOD, vault(0x12)))] {
                let asked = loan_as_of(seq, supply(1_000_000));
                let asked = match chain_and_venue {
                    Some((chain, venue)) => loan_at(chain, venue, asked),
                    None => asked,
                };
                if busy {
                    assert_busy(&mut bench, |bench| bench.ask(agent, asked));
                } else {
                    bench.starts(agent, asked);
                }
            }
        }
    }
    let (mut bench, _changed) = lender();
    bench.starts(2, loan_as_of(0, supply(1_000_000)));
    bench.starts(0, loan_as_of(0, withdrawal(1_000_000)));
}

/// A request that the lane refuses is `BUSY` too if its measurement is too old.
#[test]
fn a_refused_request_measured_before_the_newest_loan_is_busy() {
    let (mut bench, changed) = lender();
    let refusal = Refusal::new(Code::WouldFail);
    assert_busy(&mut bench, |bench| {
        bench.ask_refused(
            0,
            loan(loan_as_of(changed - 1, supply(1_000_000))),
            Some(refusal.clone()),
        )
    });
    // A request without a measurement cannot be too old.
    let unread = with_quote(supply(1_000_000), |quote| *quote = LoanQuote::default());
    let answer = bench.ask_refused(0, loan(unread), Some(refusal)).unwrap_err();
    assert_eq!(answer.code, Code::WouldFail);
}

#[test]
fn an_approval_measured_before_the_newest_loan_is_busy_and_keeps_the_request() {
    for (younger, busy) in [(-1i64, true), (0, false)] {
        let (mut bench, _first) = lender();
        let id = bench.holds(0, supply(60_000_000));
        let other = bench.starts(1, supply(1_000_000));
        bench.open_and_finish(other, StepPurpose::Supply, Fate::Succeeded);
        bench.end_executed(other, Some(1_000_000));
        let changed =
            bench.world.state.loans.lent.values().map(|lent| lent.changed_entry).max().unwrap();
        let seq = changed.checked_add_signed(younger).unwrap();
        let quote = loan_as_of(seq, supply(60_000_000)).quote;
        if busy {
            assert_busy(&mut bench, |bench| bench.approve(id, Ok(quote.into())));
            assert!(bench.record(id).is_held());
        } else {
            bench.approves(id, quote);
        }
    }
}

/// Each step of a plan also needs a current measurement. The lane measures again, and the plan continues.
#[test]
fn a_step_measured_before_the_newest_loan_is_busy() {
    for (first, second) in
        [(StepPurpose::Supply, None), (StepPurpose::Allowance, Some(StepPurpose::Supply))]
    {
        let mut bench = Bench::new();
        let id = bench.starts(0, loan_as_of(bench.world.state.seq, supply(40_000_000)));
        // Plans of the same address on different networks run at the same time.
        let bought = with_quote(supply(30_000_000), |quote| quote.calls = mint_calls(30_000_000));
        let other = bench.starts(1, loan_at(ROBINHOOD, vault(0x12), bought));
        bench.open_and_finish(other, StepPurpose::Supply, Fate::Succeeded);
        assert_busy(&mut bench, |bench| bench.try_open(id, first));
        let young = loan_as_of(bench.world.state.seq, supply(40_000_000)).quote;
        bench.try_open_by(id, first, young.clone()).unwrap();
        bench.finish(id, Fate::Succeeded);
        // The purchase took a cent less than it was allowed to, which changes the amount lent once more.
        bench.end_executed(other, Some(29_990_000));
        if let Some(second) = second {
            assert_busy(&mut bench, |bench| bench.try_open_by(id, second, young));
            assert_eq!(bench.end_code(id), None);
            let younger = loan_as_of(bench.world.state.seq, supply(40_000_000)).quote;
            bench.try_open_by(id, second, younger).unwrap();
            assert!(bench.execution(id).open_step().is_some());
        }
    }
}

/// A withdrawal only lowers the amount lent, so the age of its measurement does not matter.
#[test]
fn a_withdrawal_is_never_busy() {
    let (mut bench, changed) = lender();
    let id = bench.holds(0, loan_as_of(0, withdrawal(60_000_000)));
    bench.approves(id, loan_as_of(changed - 1, withdrawal(60_000_000)).quote);
    bench.opens(id, StepPurpose::Withdrawal);
}

/// A write-off and the proceeds of a withdrawal make earlier measurements too old, as any loan does.
#[test]
fn a_write_off_and_a_withdrawal_make_earlier_measurements_old() {
    let (mut bench, _changed) = lender();
    let before = bench.world.state.seq;
    let place = supply(0).place(build::address("main"));
    bench.write_off(place, 30_000_000).unwrap();
    assert_busy(&mut bench, |bench| bench.ask(0, loan_as_of(before, supply(1_000_000))));
    let id = bench.starts(1, withdrawal(10_000_000));
    bench.open_and_finish(id, StepPurpose::Withdrawal, Fate::Succeeded);
    let before = bench.world.state.seq;
    bench.end_executed(id, Some(10_000_000));
    assert_busy(&mut bench, |bench| bench.ask(0, loan_as_of(before, supply(1_000_000))));
    bench.starts(0, loan_as_of(bench.world.state.seq, supply(1_000_000)));
}
