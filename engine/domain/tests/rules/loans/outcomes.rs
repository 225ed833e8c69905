//! The effects of each step's outcome on the reservation, the journal's sum and the allowance.

use alloy_primitives::B256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_domain::loans::{LoanAsk, LoanPlace};
use bursar_domain::plan::{AllowanceLeft, ExecutionEnd, StepPurpose, Volume};
use bursar_domain::{Action, Refusal};

use crate::loans::asks::{
    mint_calls, place, price, refused_venue, supply, with_facts, with_quote, withdrawal,
};
use crate::loans::bench::{Bench, Fate};

const VALUE: u64 = 40_000_000;

/// Every fate, and whether such a transaction may have taken effect.
const FATES: [(Fate, bool); 5] = [
    (Fate::Succeeded, true),
    (Fate::NonceTaken, true),
    (Fate::Reverted, false),
    (Fate::Cancelled, false),
    (Fate::Dropped, false),
];

fn loan_place() -> LoanPlace {
    place("main", &supply(0))
}

/// Returns the reserved amount and the amount that the journal expects.
fn reserved_and_expected(bench: &Bench) -> (u64, u64) {
    (bench.reserved("main"), bench.lent(&loan_place()))
}

#[test]
fn each_outcome_of_a_supply() {
    for allowed in [false, true] {
        for (fate, effect) in FATES {
            let what = format!("{fate:?} {allowed}");
            let mut bench = Bench::new();
            let id = bench.starts(0, supply(VALUE));
            if allowed {
                bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
            }
            bench.opens(id, StepPurpose::Supply);
            assert_eq!(reserved_and_expected(&bench), (VALUE, 0));
            bench.finish(id, fate);
            let lent = if effect { VALUE } else { 0 };
            assert_eq!(reserved_and_expected(&bench), (0, lent), "{what}");
            let volume = if effect { Volume::Spent } else { Volume::Returned };
            assert_eq!(bench.volume(id), volume, "{what}");
            let leaves = allowed && fate != Fate::Succeeded;
            assert_eq!(bench.execution(id).leaves_allowance(), leaves, "{what}");
            if fate == Fate::Succeeded {
                assert!(!bench.is_closed(id), "the lane reads the receipt first");
                bench.end_executed(id, Some(VALUE));
            }
            assert_eq!(bench.is_closed(id), !leaves, "{what}");
            if leaves {
                bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
                assert!(bench.is_closed(id), "{what}");
            }
            assert_eq!(reserved_and_expected(&bench), (0, lent), "{what}: nothing ends twice");
        }
    }
}

/// Only the receipt of a successful withdrawal lowers the amount lent, and only once.
#[test]
fn each_outcome_of_a_withdrawal() {
    for (fate, _effect) in FATES {
        let mut bench = Bench::new();
        bench.lends(0, supply(VALUE));
        let id = bench.starts(1, withdrawal(30_000_000));
        assert_eq!(reserved_and_expected(&bench), (0, VALUE), "a withdrawal reserves nothing");
        bench.open_and_finish(id, StepPurpose::Withdrawal, fate);
        assert_eq!(reserved_and_expected(&bench), (0, VALUE), "{fate:?}: no receipt was read");
        if fate == Fate::Succeeded {
            let hash = bench.execution(id).main_step().unwrap().hash().unwrap();
            bench.end_executed(id, Some(30_000_000));
            assert_eq!(reserved_and_expected(&bench), (0, VALUE - 30_000_000));
            let received = Some(Atoms(alloy_primitives::U256::from(30_000_000)));
            let end = ExecutionEnd::Executed { hash, received, position: None };
            let again = Action::EndExecution { id, steps: 1, end: Box::new(end), fee: None };
            assert_eq!(bench.world.run_refused(again).code, Code::RequestNotFound);
            assert_eq!(reserved_and_expected(&bench), (0, VALUE - 30_000_000));
        }
        assert!(bench.is_closed(id), "{fate:?}");
    }
}

/// The receipt shows the amount that moved, but a node reports the receipt. A withdrawal therefore lowers the sum by
/// at most the signed amount, and a plain supply does not lower it.
#[test]
fn a_receipt_frees_what_it_shows_and_no_more_than_was_signed() {
    for (received, left) in [
        (Some(0), VALUE),
        (Some(1), VALUE - 1),
        (Some(VALUE - 1), 1),
        (Some(VALUE), 0),
        (Some(VALUE + 1), 0),
        (Some(u64::MAX), 0),
        (None, VALUE),
    ] {
        let mut bench = Bench::new();
        bench.lends(0, supply(VALUE));
        let id = bench.starts(0, withdrawal(VALUE));
        bench.open_and_finish(id, StepPurpose::Withdrawal, Fate::Succeeded);
        bench.end_executed(id, received);
        assert_eq!(reserved_and_expected(&bench), (0, left), "{received:?}");
    }
    for received in [2_000_000, VALUE, u64::MAX] {
        let mut bench = Bench::new();
        bench.lends(0, supply(VALUE));
        let id = bench.starts(0, withdrawal(1_000_000));
        bench.open_and_finish(id, StepPurpose::Withdrawal, Fate::Succeeded);
        bench.end_executed(id, Some(received));
        assert_eq!(reserved_and_expected(&bench), (0, VALUE - 1_000_000), "{received}");
    }
    for taken in [Some(VALUE), Some(VALUE - 1), Some(0), Some(VALUE + 1), None] {
        let mut bench = Bench::new();
        let id = bench.starts(0, supply(VALUE));
        bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
        bench.end_executed(id, taken);
        assert_eq!(reserved_and_expected(&bench), (0, VALUE), "{taken:?}");
    }
}

/// A faulty lane cannot lower the amount lent if no transaction returned money.
#[test]
fn a_loan_is_executed_only_after_its_main_transaction_succeeded() {
    let executed = || ExecutionEnd::Executed {
        hash: B256::repeat_byte(1),
        received: Some(Atoms(alloy_primitives::U256::ZERO)),
        position: None,
    };
    for asked in [supply(VALUE), withdrawal(VALUE)] {
        let mut bench = Bench::new();
        bench.lends(0, supply(VALUE));
        let id = bench.starts(0, asked);
        let before = reserved_and_expected(&bench);
        bench.end(id, executed()).expect_err("nothing was sent");
        bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        bench.end(id, executed()).expect_err("only an allowance was sent");
        assert_eq!(
            (reserved_and_expected(&bench), bench.execution(id).end.is_none()),
            (before, true)
        );
    }
}

/// The lane cannot end a request that has ended, or one with an open step.
#[test]
fn an_end_counts_once() {
    let mut bench = Bench::new();
    let id = bench.starts(0, supply(VALUE));
    bench.opens(id, StepPurpose::Supply);
    let rejected = || ExecutionEnd::Rejected(Refusal::new(Code::WouldFail));
    assert_eq!(bench.end(id, rejected()).unwrap_err().code, Code::AlreadyDecided);
    bench.finish(id, Fate::NonceTaken);
    assert!(bench.is_closed(id));
    assert_eq!(bench.end(id, rejected()).unwrap_err().code, Code::RequestNotFound);
    assert_eq!(reserved_and_expected(&bench), (0, VALUE));
}

/// A supply that buys shares may leave a part of its token allowance. The lane looks for the remainder and revokes
/// it.
#[test]
fn an_allowance_that_a_purchase_of_shares_did_not_use_up_is_revoked() {
    for gives_allowance in [false, true] {
        let mut bench = Bench::new();
        let buys: LoanAsk = with_quote(supply(VALUE), |quote| quote.calls = mint_calls(VALUE));
        let id = bench.starts(0, buys);
        if gives_allowance {
            bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
        }
        bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
        bench.end_executed(id, Some(VALUE - 1));
        assert!(!bench.is_closed(id), "{gives_allowance}");
        // A node that has not seen the supply does not show what is left.
        let left = bench.execution(id).allowance_left();
        assert!(matches!(left, AllowanceLeft::Possible { since: 1.. }), "{left:?}");
        let mut other = bench.world.restarted();
        // The lane finds that no allowance is left.
        other.must(Action::ClosePlan { id });
        assert!(!other.state.executing.contains_key(&id));
        bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
        assert!(bench.is_closed(id));
        assert_eq!(reserved_and_expected(&bench), (0, VALUE - 1));
    }
}

/// A plan can be closed only after its request has ended, and not while a step is open.
#[test]
fn a_plan_closes_only_after_its_end_and_between_steps() {
    let mut bench = Bench::new();
    let id = bench.starts(0, supply(VALUE));
    let close = Action::ClosePlan { id };
    let stays = |bench: &mut Bench| {
        assert_eq!(bench.world.must(close.clone()).events, []);
    };
    stays(&mut bench);
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    stays(&mut bench);
    bench.opens(id, StepPurpose::Supply);
    stays(&mut bench);
    bench.finish(id, Fate::Reverted);
    bench.opens(id, StepPurpose::Revocation);
    stays(&mut bench);
    bench.finish(id, Fate::Dropped);
    assert!(!bench.is_closed(id));
    bench.world.lock();
    assert_eq!(bench.world.run_refused(Action::ClosePlan { id }).code, Code::WalletLocked);
    bench.world.unlock();
    assert_eq!(bench.world.must(Action::ClosePlan { id }).events.len(), 1);
    assert!(bench.is_closed(id));
    assert_eq!(reserved_and_expected(&bench), (0, 0));
}

/// A node that reports a purchase for almost nothing lowers the sum by at most the part that a deposit may lose.
#[test]
fn a_purchase_of_shares_spares_at_most_a_thousandth() {
    for taken in [Some(VALUE - VALUE / 1_000), Some(VALUE / 2), Some(1), Some(0)] {
        let mut bench = Bench::new();
        let id =
            bench.starts(0, with_quote(supply(VALUE), |quote| quote.calls = mint_calls(VALUE)));
        bench.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
        bench.end_executed(id, taken);
        assert_eq!(reserved_and_expected(&bench), (0, VALUE - VALUE / 1_000), "{taken:?}");
    }
}

/// A loss needs the operator's approval once, because later prices are compared with the approved price.
#[test]
fn an_approved_price_is_the_new_measure() {
    let at = |assets: u64| with_facts(supply(1_000_000), |venue| venue.price = price(assets));
    let mut bench = Bench::new();
    bench.lends(0, at(1_000_000));
    let id = bench.holds(0, at(900_000));
    assert_eq!(bench.hold_reason(id), Some(HoldReason::SharePriceFell));
    let held = bench.holds(0, at(900_000));
    assert_eq!(
        bench.hold_reason(held),
        Some(HoldReason::SharePriceFell),
        "a request approves nothing"
    );
    bench.approves(id, at(900_000).quote);
    bench.starts(1, at(900_000));
    let lower = bench.holds(1, at(899_999));
    assert_eq!(bench.hold_reason(lower), Some(HoldReason::SharePriceFell));
}

/// The price of a refused request is recorded too. A venue that Bursar does not trust leaves no record.
#[test]
fn a_refused_request_shows_a_price() {
    let at =
        |micros: u64, assets: u64| with_facts(supply(micros), |venue| venue.price = price(assets));
    let mut bench = Bench::new();
    assert_eq!(bench.refuses(0, at(1_000_000_000_000, 1_000_000)), Code::PerDepositExceeded);
    let id = bench.holds(0, at(1_000_000, 999_999));
    assert_eq!(bench.hold_reason(id), Some(HoldReason::SharePriceFell));

    let mut bench = Bench::new();
    let strange = with_facts(supply(1_000_000), |venue| venue.trust = refused_venue());
    let place = (strange.chain, strange.venue);
    assert_eq!(bench.refuses(0, strange), Code::VenueNotPermitted);
    assert!(bench.world.state.loans.venue(place.0, place.1).is_none());
}
