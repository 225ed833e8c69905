//! Loans: the ceiling, reservations, the limit of one deposit, and the operations of a day.

use bursar_auditor::observations::*;

use crate::common::lending::*;
use crate::common::trading::signs;
use crate::common::{BASE, COIN, MAIN, approve};

/// Returns a supply to the vault of the second network.
fn elsewhere(dollars: u128) -> Loan {
    Loan { chain: OTHER_CHAIN, ..supply(dollars) }
}

#[test]
fn single_deposit_above_its_maximum_is_refused() {
    let mut lender = Lender::new(lending());
    lender.holds(&supply(200), "one");
    Lender::new(lending()).hold_rejected("per deposit", &supply(201));
    Lender::new(lending()).ask_and_refuse(&supply(201), "one", "PER_DEPOSIT_EXCEEDED");
    Lender::new(lending()).expect_refusal_rejected(
        "per deposit",
        &supply(200),
        "PER_DEPOSIT_EXCEEDED",
    );
}

#[test]
fn held_supplies_of_all_agents_and_networks_reserve() {
    let reserved = || {
        let mut lender = Lender::new(lending());
        lender.holds(&supply(200), "one");
        let ask = lender.bearer(&elsewhere(200), None);
        let ticket = lender.open_call(&ask);
        lender.reads(&elsewhere(200));
        lender.answers(ticket, "two", LoanState::Pending);
        lender
    };
    reserved().hold_rejected("exposure", &supply(101));
    reserved().ask_and_refuse(&supply(101), "three", "EXPOSURE_EXCEEDED");
    reserved().holds(&supply(100), "three");
    // No state explains the refusal of a supply that fits.
    reserved().expect_refusal_rejected("I-d", &supply(100), "EXPOSURE_EXCEEDED");
}

#[test]
fn reservation_returns_once_when_its_loan_is_denied_or_expires() {
    for expires in [false, true] {
        let free = || {
            let mut lender = Lender::new(lending());
            for id in ["one", "two"] {
                lender.holds(&supply(200), id);
            }
            if expires {
                lender.driver.advance_ms(900_000);
                lender.head();
                lender.polls("one", LOAN_REJECTED);
            } else {
                let end = End::Decided { status: "denied".into() };
                lender.driver.order(Order::Deny { id: "one".into() }, end);
            }
            lender
        };
        free().holds(&supply(200), "three");
        free().expect_refusal_rejected("I-d", &supply(50), "EXPOSURE_EXCEEDED");
    }
    // If the reservation returned twice, it would leave room that does not exist.
    let mut lender = Lender::new(lending());
    for id in ["one", "two"] {
        lender.holds(&supply(200), id);
    }
    lender.driver.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    lender.holds(&supply(200), "three");
    lender.hold_rejected("exposure", &supply(101));
}

#[test]
fn exposure_is_the_higher_of_chain_and_journal() {
    let lent = || {
        let mut lender = Lender::new(lending());
        for id in ["one", "two"] {
            lender.lends_approved(&supply(200), id);
        }
        lender
    };
    // The chain's value includes interest.
    let mut lender = lent();
    lender.positions.insert((BASE, VAULT.into()), (450 * DOLLAR, 400 * DOLLAR));
    lender.hold_rejected("exposure", &supply(51));
    // A node reports less than the position, or the venue had a loss: the journal still counts.
    for value in [0, 300] {
        let mut lender = lent();
        lender.positions.insert((BASE, VAULT.into()), (value * DOLLAR, 400 * DOLLAR));
        lender.hold_rejected("exposure", &supply(101));
    }
    // The journal counts until the operator books the loss.
    let mut lender = lent();
    lender.positions.insert((BASE, VAULT.into()), (300 * DOLLAR, 400 * DOLLAR));
    let off = WriteOff { label: "main".into(), chain: BASE, venue: VAULT.into() };
    lender.order(Order::WriteOff(Box::new(off)));
    lender.holds(&supply(200), "three");
    lender.hold_rejected("exposure", &supply(1));
}

#[test]
fn positions_from_outside_the_wallet_count() {
    let mut lender = Lender::new(lending());
    lender.positions.insert((OTHER_CHAIN, VAULT.into()), (450 * DOLLAR, 1));
    lender.hold_rejected("exposure", &supply(51));
    // The positions count even if the wallet did not read them.
    let mut lender = Lender::new(lending());
    lender.positions.insert((OTHER_CHAIN, VAULT.into()), (450 * DOLLAR, 1));
    let truth = lender.deployed(OTHER_CHAIN);
    lender.accepts(truth);
    lender.positions.clear();
    lender.hold_rejected("exposure", &supply(51));
}

#[test]
fn finished_withdrawal_frees_what_the_chain_moved() {
    let mut lender = Lender::new(lending());
    for id in ["one", "two"] {
        lender.lends_approved(&supply(200), id);
    }
    lender.lends_approved(&withdraw(LoanAmount::Assets(150 * DOLLAR)), "three");
    lender.holds(&supply(200), "four");
    lender.hold_rejected("exposure", &supply(51));
}

#[test]
fn unreadable_network_or_venue_stops_supplies_and_no_withdrawal() {
    let unread = |positions: Option<Vec<PositionReading>>| {
        let mut lender = Lender::new(lending());
        let ask = lender.ask(&supply(40));
        let ticket = lender.open_call(&ask);
        lender.reads_venue(&supply(40));
        lender.reads_positions(BASE);
        let (owner, block) = (MAIN.into(), lender.block);
        let read = ExposureReading { chain: OTHER_CHAIN, owner, block, positions };
        lender.accepts(Observation::ExposureRead(Box::new(read)));
        lender.reads_balances(&supply(40));
        lender.rehearses(&supply(40));
        (lender, ticket)
    };
    let venue = PositionReading { venue: VAULT.into(), value: None, shares: None };
    for positions in [None, Some(vec![venue])] {
        for state in [LoanState::Pending, LoanState::Executing] {
            let (mut lender, ticket) = unread(positions.clone());
            lender.rejects("exposure unread", loan_answer(ticket, "one", state));
        }
        let (mut lender, ticket) = unread(positions);
        lender.answers(ticket, "one", refused_loan("EXPOSURE_UNREADABLE"));
    }
    let (mut lender, ticket) = unread(Some(vec![]));
    let refused = refused_loan("EXPOSURE_UNREADABLE");
    lender.rejects("exposure unread", loan_answer(ticket, "one", refused));
    // One network was not read at all.
    let mut lender = Lender::new(lending());
    let ask = lender.ask(&supply(40));
    let ticket = lender.open_call(&ask);
    lender.reads_venue(&supply(40));
    lender.reads_positions(BASE);
    lender.rehearses(&supply(40));
    lender.rejects("exposure unread", loan_answer(ticket, "one", LoanState::Executing));
}

#[test]
fn withdrawals_are_never_refused_for_money() {
    let all =
        ["PER_DEPOSIT_EXCEEDED", "EXPOSURE_EXCEEDED", "EXPOSURE_UNREADABLE", "DAILY_OPS_EXCEEDED"];
    for code in all {
        let mut lender = Lender::new(lending());
        lender.lends(&supply(40), "one");
        let ticket = lender.opens(&withdraw(LoanAmount::All));
        lender.rejects("withdrawals", loan_answer(ticket, "two", refused_loan(code)));
    }
    let mut lender = Lender::new(LendingPolicy { max_deposit: 0, max_total: 0, ..lending() });
    lender.positions.insert((BASE, VAULT.into()), (900 * DOLLAR, 900 * DOLLAR));
    lender.holds(&withdraw(LoanAmount::All), "one");
    let end = End::Refused { code: "EXPOSURE_EXCEEDED".into() };
    assert_eq!(lender.driver.order_rejected(approve("one"), end).rule, "withdrawals");
}

#[test]
fn concurrent_supplies_stay_below_the_ceiling_together() {
    // Both supplies were decided before either was signed, and the second signature breaks the ceiling.
    let policy = LendingPolicy { max_total: 150_000_000, ..lending() };
    let mut lender = Lender::new(policy);
    lender.starts(&supply(90), "one");
    let ticket = lender.opens(&elsewhere(90));
    lender.answers(ticket, "two", LoanState::Executing);
    let first = lender.approve_tx(&supply(90));
    lender.sends(&first);
    let tx = lender.main_tx(&supply(90));
    lender.signs_and_broadcasts(&tx);
    let second = lender.approve_tx(&elsewhere(90));
    lender.sends(&second);
    let tx = lender.main_tx(&elsewhere(90));
    lender.rejects("exposure", signs(&tx));
}

#[test]
fn percentage_of_liquid_and_deployed_is_a_ceiling() {
    let policy = || LendingPolicy { max_percent_bps: Some(1_000), ..lending() };
    // Of 1000 liquid dollars on Base, a tenth may be deployed.
    Lender::new(policy()).holds(&supply(100), "one");
    Lender::new(policy()).hold_rejected("exposure", &supply(101));
}

#[test]
fn approval_applies_todays_ceiling_to_fresh_readings() {
    let held = || {
        let mut lender = Lender::new(lending());
        lender.holds(&supply(150), "one");
        lender
    };
    let mut lender = held();
    lender.edit(LendingPolicy { max_total: 149_000_000, ..lending() });
    lender.approves(&supply(150), "one");
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("exposure", signs(&tx));

    let mut lender = held();
    lender.edit(LendingPolicy { max_deposit: 149_000_000, ..lending() });
    lender.approves(&supply(150), "one");
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("per deposit", signs(&tx));

    let mut lender = held();
    lender.positions.insert((BASE, VAULT.into()), (351 * DOLLAR, 351 * DOLLAR));
    lender.approves(&supply(150), "one");
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("exposure", signs(&tx));

    // Without fresh readings the exposure is unknown.
    let mut lender = held();
    let end = End::Decided { status: "executing".into() };
    lender.driver.order(approve("one"), end);
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("exposure unread", signs(&tx));
}

#[test]
fn operations_of_a_day_refuse_supplies_and_hold_withdrawals() {
    let policy = || LendingPolicy { ops_per_day: 2, ..lending() };
    let used = || {
        let mut lender = Lender::new(policy());
        lender.lends(&supply(40), "one");
        lender.lends(&withdraw(LoanAmount::Assets(DOLLAR)), "two");
        lender
    };
    used().hold_rejected("operations", &supply(10));
    used().ask_and_refuse(&supply(10), "three", "DAILY_OPS_EXCEEDED");
    used().start_rejected("operations", &withdraw(LoanAmount::Assets(DOLLAR)));
    used().holds(&withdraw(LoanAmount::Assets(DOLLAR)), "three");
    // The next day has its own operations.
    let mut lender = used();
    lender.driver.advance_ms(86_400_000);
    lender.head();
    lender.lends(&supply(10), "three");
    lender.lends(&supply(10), "four");
    lender.hold_rejected("operations", &supply(10));

    let mut lender = Lender::new(policy());
    lender.lends(&supply(40), "one");
    lender.expect_refusal_rejected("operations", &supply(10), "DAILY_OPS_EXCEEDED");
}

/// Plays a supply of 200 dollars until its block. The last node to answer reports `lies` less than the true position.
fn block_of(lies: u128, interest: u128) -> (Lender, Observation) {
    let mut lender = Lender::new(lending());
    let there = (BASE, VAULT.to_owned());
    lender.positions.insert(there.clone(), (300 * DOLLAR, 300 * DOLLAR));
    let truth = lender.deployed(BASE);
    lender.accepts(truth);
    lender.holds(&supply(200), "one");
    let ticket = lender.driver.open_order(approve("one"));
    let true_value = if lies > 0 { 310 } else { 300 };
    lender.positions.insert(there.clone(), (true_value * DOLLAR, 300 * DOLLAR));
    lender.reads(&supply(200));
    lender.positions.insert(there.clone(), ((true_value - lies) * DOLLAR, 300 * DOLLAR));
    lender.reads_positions(BASE);
    let end = End::Decided { status: "executing".into() };
    lender.accepts(Observation::OrderEnded { ticket, end });
    let allowance = lender.approve_tx(&supply(200));
    lender.sends(&allowance);
    let tx = lender.main_tx(&supply(200));
    lender.signs_and_broadcasts(&tx);
    lender.positions.insert(there, ((true_value + interest) * DOLLAR, 300 * DOLLAR));
    lender.moves(&supply(200), &tx, 200 * DOLLAR);
    let truth = lender.deployed(BASE);
    (lender, truth)
}

#[test]
fn ceiling_holds_at_the_block_with_true_values() {
    // Interest since the reading may exceed the ceiling.
    let (mut lender, truth) = block_of(0, 7);
    lender.accepts(truth);
    // One node showed the true value, and the wallet acted on the lower answer of another.
    let (mut lender, truth) = block_of(10, 0);
    lender.rejects("I-r", truth);
}

#[test]
fn allowance_alone_takes_nothing_of_the_ceiling() {
    let mut lender = Lender::new(lending());
    lender.starts(&supply(40), "one");
    let tx = lender.approve_tx(&supply(40));
    assert_eq!(tx.to, COIN);
    lender.sends(&tx);
    lender.driver.advance_ms(300_001);
    lender.head();
    lender.polls("one", LOAN_REJECTED);
    for id in ["two", "three"] {
        lender.holds(&supply(200), id);
    }
    lender.holds(&supply(100), "four");
}
