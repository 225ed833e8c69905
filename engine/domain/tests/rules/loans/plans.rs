//! Plans of loans: their order among plans of all lanes, and the events that stop them.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::policy::AllowedNetworks;
use bursar_domain::loans::LoanAsk;
use bursar_domain::plan::{ExecutionEnd, PLAN_MS, StepPurpose, Volume};
use bursar_domain::{Action, Decision, Event, LaneAsk};
use bursar_submit::Event as OutboxEvent;

use crate::loans::asks::{
    BASE, ROBINHOOD, loan_at, price, supply, vault, with_facts, with_quote, withdrawal,
};
use crate::loans::bench::{Bench, Fate, signatures};
use crate::support::build;
use crate::trades::asks::trade;

const VALUE: u64 = 40_000_000;

fn trade_ask(micros: u64) -> LaneAsk {
    LaneAsk::Trade(Box::new(trade(micros)))
}

/// One plan per address and network acts at a time, whatever its lane. Plans of other addresses or networks act in
/// parallel.
#[test]
fn plans_of_both_lanes_act_one_after_the_other() {
    for loan_first in [true, false] {
        let mut bench = Bench::new();
        let start = |bench: &mut Bench, loan: bool, agent: usize| {
            if loan {
                (bench.starts(agent, supply(VALUE)), StepPurpose::Supply)
            } else {
                (bench.ask_lane(agent, trade_ask(VALUE)).unwrap(), StepPurpose::Swap)
            }
        };
        let (first, main) = start(&mut bench, loan_first, 0);
        let (second, other_main) = start(&mut bench, !loan_first, 1);
        let elsewhere = bench.starts(1, loan_at(ROBINHOOD, vault(0x31), supply(VALUE)));
        let spare = bench.starts(2, withdrawal(VALUE));
        for purpose in [StepPurpose::Allowance, other_main] {
            assert_eq!(bench.try_open(second, purpose).unwrap_err().code, Code::Busy);
        }
        bench.opens(elsewhere, StepPurpose::Supply);
        bench.opens(spare, StepPurpose::Withdrawal);
        bench.open_and_finish(first, StepPurpose::Allowance, Fate::Succeeded);
        assert_eq!(bench.try_open(second, other_main).unwrap_err().code, Code::Busy);
        bench.open_and_finish(first, main, Fate::Reverted);
        // The second plan acts either before or after the revocation of the first, never at the same time.
        bench.opens(first, StepPurpose::Revocation);
        assert_eq!(bench.try_open(second, other_main).unwrap_err().code, Code::Busy);
        bench.finish(first, Fate::Succeeded);
        bench.opens(second, StepPurpose::Allowance);
        bench.finish(second, Fate::Succeeded);
        bench.open_and_finish(second, other_main, Fate::Succeeded);
    }
}

/// A plan whose main transaction is final stays first until its receipt has been read.
#[test]
fn the_next_plan_waits_for_the_receipt() {
    let mut bench = Bench::new();
    let first = bench.starts(0, supply(VALUE));
    let second = bench.starts(1, supply(VALUE));
    bench.open_and_finish(first, StepPurpose::Supply, Fate::Succeeded);
    assert_eq!(bench.try_open(second, StepPurpose::Supply).unwrap_err().code, Code::Busy);
    bench.end_executed(first, Some(VALUE));
    bench.opens(second, StepPurpose::Supply);
}

/// The point that a plan has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Nothing,
    AllowanceOpen,
    AllowanceAuthorized,
    AllowanceMined,
    MainOpen,
    MainAuthorized,
}

const POINTS: [Point; 6] = [
    Point::Nothing,
    Point::AllowanceOpen,
    Point::AllowanceAuthorized,
    Point::AllowanceMined,
    Point::MainOpen,
    Point::MainAuthorized,
];

fn main_purpose(loan: &LoanAsk) -> StepPurpose {
    if loan.is_supply() { StepPurpose::Supply } else { StepPurpose::Withdrawal }
}

/// Returns a plan at a point, with the requests for a signature that are still unanswered.
fn plan_at(point: Point, loan: &LoanAsk) -> (Bench, RequestId, Option<Decision>) {
    let mut bench = Bench::new();
    let id = bench.starts(0, loan.clone());
    let purpose = match point {
        Point::Nothing => return (bench, id, None),
        Point::AllowanceOpen | Point::AllowanceAuthorized => StepPurpose::Allowance,
        Point::AllowanceMined | Point::MainOpen | Point::MainAuthorized => {
            bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
            main_purpose(loan)
        }
    };
    if point == Point::AllowanceMined {
        return (bench, id, None);
    }
    bench.opens(id, purpose);
    let unanswered = matches!(point, Point::AllowanceAuthorized | Point::MainAuthorized)
        .then(|| bench.authorizes(id));
    (bench, id, unanswered)
}

type Stop = (Code, fn(&mut Bench));

/// The stops that end an unsigned plan at once.
const STOPS: [Stop; 4] = [
    (Code::AgentSuspended, |bench| {
        bench.world.must(Action::Suspend { agent: build::agent(0) });
    }),
    (Code::AgentsFrozen, |bench| {
        bench.world.must(Action::Freeze);
    }),
    (Code::WalletLocked, |bench| bench.world.lock()),
    (Code::PlanExpired, |bench| {
        bench.world.clock.pass(PLAN_MS);
        bench.world.tick();
    }),
];

/// The changes of rules that only forbid the next signature.
const RULES: [Stop; 4] = [
    (Code::DefiDisabled, |bench| {
        bench.world.edit(|policy| policy.lending.enabled = false).unwrap();
    }),
    (Code::NetworkDisabled, |bench| {
        bench.world.must(Action::SetNetwork { chain: BASE, enabled: false });
    }),
    (Code::NetworkNotAllowed, |bench| {
        let only = std::collections::BTreeSet::from([ROBINHOOD]);
        bench.world.edit(|policy| policy.networks = AllowedNetworks::Only(only)).unwrap();
    }),
    (Code::PlanExpired, |bench| bench.world.clock.pass(PLAN_MS)),
];

/// Checks that no signature was authorized or recorded since an entry.
#[track_caller]
fn assert_unsigned_since(bench: &Bench, entries: usize, what: &str) {
    for entry in &bench.world.entries[entries..] {
        let Event::Outbox { event, .. } = &entry.event else { continue };
        let signs = matches!(event, OutboxEvent::Authorized { .. } | OutboxEvent::Signed { .. });
        assert!(!signs, "{what}: {event:?}");
    }
}

/// The plan is rejected, its reservation is returned once, and nothing of it is signed.
#[test]
fn what_is_unsigned_ends_at_a_stop() {
    for loan in [supply(VALUE), withdrawal(VALUE)] {
        for point in POINTS {
            for (code, stop) in STOPS {
                let what = format!("{point:?} {code:?} {}", loan.action.text());
                let (mut bench, id, unanswered) = plan_at(point, &loan);
                let (key, since) = (bench.key(id), bench.world.entries.len());
                stop(&mut bench);
                assert_eq!(bench.end_code(id), Some(code), "{what}");
                let end = bench.execution(id).end.clone();
                assert!(matches!(end, Some(ExecutionEnd::Rejected(_))), "{what}");
                assert_eq!(bench.volume(id), Volume::Returned, "{what}");
                let nothing = (bench.reserved("main"), bench.deployed("main"), bench.operations(0));
                assert_eq!(nothing, (0, 0, 0), "{what}");
                // A slow signer answers after the stop.
                if let Some(unanswered) = &unanswered {
                    bench.sign(key, unanswered);
                }
                assert_eq!(signatures(&bench.price(key)), [], "{what}");
                let main = bench.try_open(id, main_purpose(&loan));
                assert!(main.is_err(), "{what}: {main:?}");
                assert_unsigned_since(&bench, since, &what);
                assert_eq!(bench.execution(id).end, end, "{what}");
            }
        }
    }
}

/// A plan that was allowed under the old rules signs nothing under the new ones, whether or not its step is open.
#[test]
fn nothing_is_signed_after_the_rules_forbid_it() {
    for loan in [supply(VALUE), withdrawal(VALUE)] {
        for point in POINTS {
            for (code, forbid) in RULES {
                let what = format!("{point:?} {code:?} {}", loan.action.text());
                let (mut bench, id, unanswered) = plan_at(point, &loan);
                let (key, since) = (bench.key(id), bench.world.entries.len());
                forbid(&mut bench);
                if let Some(unanswered) = &unanswered {
                    bench.sign(key, unanswered);
                }
                if bench.execution(id).end.is_some() {
                    assert!(unanswered.is_some(), "{what}: the signature came too late");
                } else if bench.world.state.outboxes.get(&key).open.is_empty() {
                    bench.try_open(id, main_purpose(&loan)).expect("the loan ends");
                } else {
                    assert_eq!(signatures(&bench.price(key)), [], "{what}");
                }
                assert_unsigned_since(&bench, since, &what);
                assert_eq!(bench.end_code(id), Some(code), "{what}");
                assert_eq!((bench.reserved("main"), bench.deployed("main")), (0, 0), "{what}");
            }
        }
    }
}

/// A lowered maximum also stops a supply that is open, but no withdrawal.
#[test]
fn a_lowered_maximum_stops_an_open_supply() {
    for (most, stops) in [(VALUE, false), (VALUE - 1, true)] {
        let (mut bench, id, _none) = plan_at(Point::MainOpen, &supply(VALUE));
        bench.world.edit(|policy| policy.lending.max_deposit = Usd(most)).unwrap();
        let key = bench.key(id);
        assert_eq!(signatures(&bench.price(key)).is_empty(), stops, "{most}");
        assert_eq!(bench.end_code(id), stops.then_some(Code::PerDepositExceeded), "{most}");
    }
    let (mut bench, id, _none) = plan_at(Point::MainOpen, &withdrawal(VALUE));
    bench.world.edit(|policy| policy.lending.max_deposit = Usd::ZERO).unwrap();
    bench.signs(id);
}

/// A signed supply may be mined in any case, so its outcome decides whether it counts as lent.
#[test]
fn a_signed_supply_is_watched_to_its_end() {
    for (code, stop) in STOPS {
        for (fate, lent) in
            [(Fate::Succeeded, VALUE), (Fate::Reverted, 0), (Fate::NonceTaken, VALUE)]
        {
            let what = format!("{code:?} {fate:?}");
            let (mut bench, id, _none) = plan_at(Point::MainOpen, &supply(VALUE));
            bench.signs(id);
            let (key, submission) = (bench.key(id), bench.submission(id));
            stop(&mut bench);
            assert_eq!(bench.execution(id).end, None, "{what}");
            assert_eq!((bench.reserved("main"), bench.operations(0)), (VALUE, 1), "{what}");
            bench.mine(key, submission, fate);
            if code == Code::WalletLocked {
                assert_eq!(bench.reserved("main"), VALUE, "a locked wallet ends nothing");
                bench.world.unlock();
                bench.mine(key, submission, fate);
            }
            assert_eq!((bench.reserved("main"), bench.deployed("main")), (0, lent), "{what}");
        }
    }
}

/// A new doubt in a fresh measurement ends a plan that the policy allowed, but not one that the operator approved.
#[test]
fn a_doubt_that_appears_within_a_plan_ends_an_automatic_one() {
    for approved in [false, true] {
        let mut bench = Bench::new();
        let asked = supply(if approved { 60_000_000 } else { VALUE });
        let id = if approved {
            let id = bench.holds(0, asked.clone());
            bench.approves(id, asked.quote.clone());
            id
        } else {
            bench.starts(0, asked.clone())
        };
        let fell = with_facts(asked, |venue| venue.price = price(999_999)).quote;
        bench.try_open_by(id, StepPurpose::Supply, fell).unwrap();
        if approved {
            assert!(bench.execution(id).open_step().is_some());
        } else {
            assert_eq!(bench.end_code(id), Some(Code::RequestNoLongerValid));
            assert_eq!(bench.reserved("main"), 0);
        }
    }
}

/// The highest recorded share price counts for every agent, even if only a held request showed it.
#[test]
fn the_highest_recorded_price_of_a_share_counts_for_all() {
    let mut bench = Bench::new();
    let at_price = |micros, assets| with_facts(supply(micros), |venue| venue.price = price(assets));
    let held = bench.holds(0, at_price(60_000_000, 1_000_002));
    bench.world.deny(held).unwrap();
    for (assets, asks) in
        [(1_000_001, true), (1_000_002, false), (1_000_003, false), (1_000_002, true)]
    {
        let id = bench.ask(2, at_price(1_000_000, assets)).unwrap();
        assert_eq!(bench.hold_reason(id).is_some(), asks, "{assets}");
    }
    // Every venue has its own highest price, and so has the same vault address on another network.
    bench.starts(2, loan_at(BASE, vault(0x78), at_price(1_000_000, 1)));
    bench.starts(2, loan_at(ROBINHOOD, vault(0x77), at_price(1_000_000, 1)));
}

/// A refusal by the lane does not hide a rule that refuses the request too.
#[test]
fn a_rule_comes_before_the_refusal_of_the_lane() {
    let lane = || Some(bursar_domain::Refusal::new(Code::InsufficientLiquidity));
    for (asked, code) in [
        (supply(1_000_000), Code::InsufficientLiquidity),
        (supply(60_000_000), Code::InsufficientLiquidity),
        (supply(100_000_001), Code::PerDepositExceeded),
        (
            with_quote(supply(1_000_000), |quote| {
                quote.redeem_value = bursar_core::money::Atoms::default()
            }),
            Code::InsufficientLiquidity,
        ),
        (
            with_quote(supply(1_000_000), |quote| {
                quote.native_balance = alloy_primitives::U256::ZERO
            }),
            Code::InsufficientFunds,
        ),
        (withdrawal(1_000_000), Code::InsufficientLiquidity),
    ] {
        let mut bench = Bench::new();
        let refusal = bench.ask_refused(0, crate::loans::bench::loan(asked), lane()).unwrap_err();
        assert_eq!(refusal.code, code);
        assert_eq!((bench.reserved("main"), bench.operations(0)), (0, 0));
    }
    // If nothing could be measured, the rules that need no measurement still take precedence.
    let unread = with_quote(supply(1_000_000), |quote| *quote = Default::default());
    for (code, forbid) in RULES.into_iter().take(3) {
        let mut bench = Bench::new();
        forbid(&mut bench);
        let asked = crate::loans::bench::loan(unread.clone());
        let refusal = bench.ask_refused(0, asked, lane()).unwrap_err();
        assert_eq!(refusal.code, code);
    }
}
