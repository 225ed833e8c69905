//! Loans: the reported states, which never go back, and the amounts that truly moved.

use bursar_auditor::observations::*;

use crate::common::BASE;
use crate::common::lending::*;

/// Plays a supply of 40 dollars until its transaction is in a block.
fn included() -> (Lender, Transaction) {
    let mut lender = Lender::new(lending());
    lender.starts(&supply(40), "one");
    let tx = lender.executes(&supply(40));
    (lender, tx)
}

#[test]
fn executed_needs_the_confirmations_of_its_own_transaction() {
    let (mut lender, tx) = included();
    lender.blocks(1);
    lender.poll_rejects("executed", "one", executed_loan(&tx, None, None));
    let (mut lender, tx) = included();
    lender.blocks(2);
    let other = Transaction { hash: "0xelse".into(), ..tx };
    lender.poll_rejects("executed", "one", executed_loan(&other, None, None));
    let mut lender = Lender::new(lending());
    lender.starts(&supply(40), "one");
    let tx = lender.approve_tx(&supply(40));
    lender.sends(&tx);
    lender.blocks(2);
    lender.poll_rejects("executed", "one", executed_loan(&tx, None, None));
    // A reorganization removed the transaction.
    let (mut lender, tx) = included();
    lender.accepts(Observation::Unmined { chain: BASE, hash: tx.hash.clone() });
    lender.blocks(2);
    lender.poll_rejects("executed", "one", executed_loan(&tx, None, None));
}

#[test]
fn amounts_come_from_the_chain() {
    for (told, position, rule) in [
        (Some(40 * DOLLAR), Some(40 * DOLLAR), None),
        (None, None, None),
        (Some(40 * DOLLAR - 1), None, Some("fill")),
        (Some(0), None, Some("fill")),
        (None, Some(41 * DOLLAR), Some("position")),
    ] {
        let (mut lender, tx) = included();
        lender.blocks(2);
        let state = executed_loan(&tx, told, position);
        match rule {
            None => lender.polls("one", state),
            Some(rule) => lender.poll_rejects(rule, "one", state),
        }
    }
    // A withdrawal reports the amount that arrives, whatever was quoted.
    for (told, right) in [(39, true), (40, false)] {
        let mut lender = Lender::new(lending());
        lender.lends(&supply(40), "one");
        let exit = withdraw(LoanAmount::All);
        lender.starts(&exit, "two");
        let tx = lender.main_tx(&exit);
        lender.signs_and_broadcasts(&tx);
        lender.moves(&exit, &tx, 39 * DOLLAR);
        lender.blocks(2);
        let state = executed_loan(&tx, Some(told * DOLLAR), None);
        if right {
            lender.polls("two", state);
        } else {
            lender.poll_rejects("fill", "two", state);
        }
    }
}

#[test]
fn status_never_goes_back() {
    let ended = || {
        let (mut lender, tx) = included();
        lender.blocks(2);
        lender.polls("one", executed_loan(&tx, None, None));
        lender
    };
    for state in [LoanState::Pending, LoanState::Executing, LOAN_REJECTED, LOAN_FAILED] {
        ended().poll_rejects("I-p", "one", state);
    }
    let mut lender = Lender::new(lending());
    lender.starts(&supply(40), "one");
    lender.poll_rejects("I-p", "one", LoanState::Pending);
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    let ticket = lender.poll("one");
    let missing = crate::common::refusal(404, "REQUEST_NOT_FOUND", None);
    lender.rejects("I-p", Observation::Answered { ticket, answer: missing });
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    lender.poll_rejects("I-p", "one", LOAN_REJECTED);
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    lender.poll_rejects("approvals", "one", LoanState::Executing);
}

#[test]
fn pending_ends_after_fifteen_minutes() {
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    lender.driver.advance_ms(899_999);
    lender.polls("one", LoanState::Pending);
    lender.driver.advance_ms(1);
    lender.poll_rejects("I-e", "one", LoanState::Pending);
}

#[test]
fn loan_ends_without_effect_only_if_none_can_follow() {
    for end in [LOAN_REJECTED, LOAN_FAILED] {
        // The transaction is in flight, in a block, reverted without confirmations, or reverted with them.
        let sent = || {
            let mut lender = Lender::new(lending());
            lender.starts(&supply(40), "one");
            let allowance = lender.approve_tx(&supply(40));
            lender.sends(&allowance);
            let tx = lender.main_tx(&supply(40));
            lender.signs_and_broadcasts(&tx);
            (lender, tx)
        };
        sent().0.poll_rejects("I-d", "one", end.clone());
        let (mut lender, tx) = sent();
        lender.moves(&supply(40), &tx, 40 * DOLLAR);
        lender.blocks(2);
        lender.poll_rejects("I-d", "one", end.clone());
        let (mut lender, tx) = sent();
        lender.includes(&tx, false, vec![]);
        lender.poll_rejects("I-d", "one", end.clone());
        let (mut lender, tx) = sent();
        lender.includes(&tx, false, vec![]);
        lender.blocks(2);
        lender.polls("one", end);
    }
}

#[test]
fn displaced_supply_stays_counted() {
    let mut lender = Lender::new(lending());
    lender.lends_approved(&supply(200), "one");
    lender.starts(&supply(90), "two");
    let allowance = lender.approve_tx(&supply(90));
    lender.sends(&allowance);
    let tx = lender.main_tx(&supply(90));
    lender.signs_and_broadcasts(&tx);
    lender.accepts(Observation::NonceTaken { chain: BASE, from: tx.from.clone(), nonce: tx.nonce });
    lender.polls("two", LOAN_FAILED);
    lender.holds(&supply(200), "three");
    lender.hold_rejected("exposure", &supply(11));
}

#[test]
fn only_a_lack_of_liquidity_is_retryable() {
    let failed =
        |code: Option<&str>, retryable| LoanState::Failed { code: code.map(Into::into), retryable };
    let not_liquid = Some("INSUFFICIENT_LIQUIDITY");
    for (state, right) in [
        (failed(not_liquid, true), true),
        (failed(not_liquid, false), false),
        (failed(Some("REVERTED"), true), false),
        (failed(Some("REVERTED"), false), true),
    ] {
        let mut lender = Lender::new(lending());
        lender.lends(&supply(40), "one");
        let ticket = lender.opens(&withdraw(LoanAmount::All));
        if right {
            lender.answers(ticket, "two", state);
        } else {
            lender.rejects("answers", loan_answer(ticket, "two", state));
        }
    }
}

#[test]
fn loans_end_once_faults_stop() {
    let (mut lender, _) = included();
    lender.accepts(Observation::Calm);
    lender.driver.advance_ms(1_800_000);
    lender.polls("one", LoanState::Executing);
    lender.rejects("I-n", Observation::Over);
}

#[test]
fn chain_may_not_hold_two_transactions_of_one_nonce() {
    let (mut lender, tx) = included();
    let hash = tx.hash.clone();
    lender.accepts(Observation::Mined { chain: BASE, hash, succeeded: true });
    lender.accepts(Observation::Broadcast(Transaction { hash: "0xcopy".into(), ..tx.clone() }));
    lender.blocks(1);
    let copy = Included {
        chain: BASE,
        hash: "0xcopy".into(),
        block: lender.block,
        block_s: lender.driver.second(),
        succeeded: true,
        transfers: vec![],
        unwrapped: vec![],
        native_received: 0,
        pool_out: None,
        gas_paid: 0,
    };
    lender.rejects("I-b", Observation::Included(Box::new(copy)));
}
