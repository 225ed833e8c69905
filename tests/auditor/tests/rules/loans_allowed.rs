//! Loans: correct histories, from the call to the reported end.

use bursar_auditor::observations::*;

use crate::common::lending::*;
use crate::common::trading::signs;
use crate::common::{BASE, MAIN, refusal};

#[test]
fn automatic_supply_runs_to_its_end() {
    let mut lender = Lender::new(lending());
    let loan = supply(40);
    lender.starts(&loan, "one");
    let tx = lender.executes(&loan);
    lender.polls("one", LoanState::Executing);
    lender.blocks(2);
    lender.reads_positions(BASE);
    let end = executed_loan(&tx, Some(40 * DOLLAR), Some(40 * DOLLAR));
    lender.polls("one", end.clone());
    lender.polls("one", end);
    lender.accepts(Observation::Calm);
    lender.driver.advance_ms(1_800_000);
    lender.accepts(Observation::Over);
    let counts = lender.driver.auditor.rule_counts();
    assert_eq!(counts.get("loan: automatic"), Some(&1));
    assert_eq!(counts.get("signature: loan"), Some(&2));
    assert_eq!(counts.get("deployed"), Some(&1));
}

#[test]
fn held_supply_runs_to_its_end() {
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    lender.polls("one", LoanState::Pending);
    lender.approves(&supply(150), "one");
    let tx = lender.executes(&supply(150));
    lender.blocks(2);
    lender.polls("one", executed_loan(&tx, Some(150 * DOLLAR), None));
}

#[test]
fn market_supplies_and_full_exits_run_to_their_ends() {
    for loan in [supply(40), to_market(supply(40))] {
        let mut lender = Lender::new(lending());
        lender.lends(&loan, "one");
        for (id, amount) in
            [("two", LoanAmount::Assets(10 * DOLLAR)), ("three", LoanAmount::Shares(5 * DOLLAR))]
        {
            lender.lends(&Loan { action: LoanAction::Withdraw, amount, ..loan.clone() }, id);
        }
        let exit = Loan { action: LoanAction::Withdraw, amount: LoanAmount::All, ..loan };
        lender.starts(&exit, "four");
        let tx = lender.executes(&exit);
        lender.blocks(2);
        lender.polls("four", executed_loan(&tx, Some(25 * DOLLAR), Some(0)));
    }
}

#[test]
fn answer_may_come_with_the_result() {
    let mut lender = Lender::new(lending());
    let ticket = lender.opens(&supply(40));
    let tx = lender.executes(&supply(40));
    lender.blocks(2);
    lender.answers(ticket, "one", executed_loan(&tx, Some(40 * DOLLAR), None));
}

#[test]
fn repeated_call_gets_the_same_answer() {
    let mut lender = Lender::new(lending());
    let ask = lender.ask(&supply(150));
    let ticket = lender.open_call(&ask);
    lender.reads(&supply(150));
    lender.answers(ticket, "one", LoanState::Pending);
    let ticket = lender.open_call(&ask);
    lender.answers(ticket, "one", LoanState::Pending);
    let ticket = lender.open_call(&ask);
    lender.rejects("same ask, same answer", loan_answer(ticket, "two", LoanState::Pending));

    // A bearer agent's call with an idempotency key does not repeat the same call without a key.
    let mut lender = Lender::new(lending());
    for (key, id) in [(None, "one"), (Some("k"), "two"), (Some("k"), "two"), (None, "one")] {
        let ask = lender.bearer(&supply(110), key);
        let ticket = lender.open_call(&ask);
        lender.reads(&supply(110));
        lender.answers(ticket, id, LoanState::Pending);
    }
    let other = lender.bearer(&supply(120), Some("k"));
    let ticket = lender.open_call(&other);
    let conflict = refusal(409, "IDEMPOTENCY_CONFLICT", None);
    lender.accepts(Observation::Answered { ticket, answer: conflict });
}

/// Both exits have the same call data, so only the answers show which of them was executed.
#[test]
fn loans_that_differ_in_their_deadlines_are_told_apart_by_their_answers() {
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    let exit = withdraw(LoanAmount::All);
    let deadline_s = Some(lender.driver.second() + 60);
    let first = lender.opens(&exit);
    let second = lender.opens(&Loan { deadline_s, ..exit.clone() });
    let tx = lender.main_tx(&exit);
    let content = SignedContent::Transaction(Box::new(tx.clone()));
    let (signer, digest, request) = (MAIN.into(), "digest".into(), Some("two".into()));
    lender.accepts(Observation::Signed(Signed { signer, digest, request, content }));
    lender.accepts(Observation::Broadcast(tx.clone()));
    lender.moves(&exit, &tx, 40 * DOLLAR);
    lender.answers(second, "three", refused_loan("PLAN_EXPIRED"));
    lender.blocks(2);
    lender.answers(first, "two", executed_loan(&tx, Some(40 * DOLLAR), None));
}

#[test]
fn loan_lost_in_a_crash_may_exist() {
    let mut lender = Lender::new(lending());
    let ask = lender.ask(&supply(150));
    lender.open_call(&ask);
    lender.reads(&supply(150));
    lender.driver.restart();
    let ticket = lender.open_call(&ask);
    lender.reads(&supply(150));
    lender.answers(ticket, "one", LoanState::Pending);
    lender.polls("one", LoanState::Pending);

    let mut lender = Lender::new(lending());
    let ask = lender.ask(&supply(40));
    lender.open_call(&ask);
    lender.driver.restart();
    lender.polls("one", LOAN_REJECTED);
    lender.poll_rejects("I-m", "never", LoanState::Pending);
}

#[test]
fn signed_supply_lost_in_a_crash_may_be_sent_or_dropped() {
    for sent in [true, false] {
        let mut lender = Lender::new(lending());
        lender.starts(&supply(40), "one");
        let allowance = lender.approve_tx(&supply(40));
        lender.sends(&allowance);
        let tx = lender.main_tx(&supply(40));
        lender.accepts(signs(&tx));
        lender.driver.restart();
        if sent {
            lender.accepts(Observation::Broadcast(tx.clone()));
            lender.moves(&supply(40), &tx, 40 * DOLLAR);
            lender.blocks(2);
            lender.polls("one", executed_loan(&tx, Some(40 * DOLLAR), None));
        } else {
            lender.polls("one", LOAN_REJECTED);
        }
    }
}

#[test]
fn loans_are_listed_and_denied_like_other_requests() {
    let listed = |id: &str| Listed {
        id: id.into(),
        card: "card".into(),
        agent: "HHH111".into(),
        amount: 0,
        asset: String::new(),
        trade: true,
    };
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    lender.driver.order(Order::List, End::Held(vec![listed("one")]));
    lender.driver.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    lender.polls("one", LOAN_REJECTED);
    lender.driver.order(Order::List, End::Held(vec![]));
    assert_eq!(
        lender.driver.order_rejected(Order::List, End::Held(vec![listed("one")])).rule,
        "I-p"
    );

    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    assert_eq!(lender.driver.order_rejected(Order::List, End::Held(vec![])).rule, "I-p");
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    let unknown = End::Held(vec![listed("one"), listed("ghost")]);
    assert_eq!(lender.driver.order_rejected(Order::List, unknown).rule, "I-m");
}

#[test]
fn operator_withdraws_without_an_agent_also_while_frozen() {
    let asked = |amount| {
        let (label, chain, venue, kind) = ("main".into(), BASE, VAULT.into(), VenueKind::Vault);
        let asked = OperatorWithdrawal { label, chain, venue, kind, amount };
        Order::WithdrawPosition(Box::new(asked))
    };
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.order(Order::Freeze);
    lender.driver.order(asked(LoanAmount::All), End::Sent { id: "own".into() });
    let tx = lender.executes(&withdraw(LoanAmount::All));
    assert_eq!(tx.from, MAIN);

    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.order(Order::LockWallet);
    let end = End::Sent { id: "own".into() };
    assert_eq!(lender.driver.order_rejected(asked(LoanAmount::All), end).rule, "I-f");

    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.driver.order(asked(LoanAmount::All), End::Sent { id: "own".into() });
    let tx = lender.main_tx(&withdraw(LoanAmount::Assets(DOLLAR)));
    lender.rejects("full exit", signs(&tx));
}

#[test]
fn policy_without_lending_has_none() {
    let mut lender = Lender::new(lending());
    lender.edit(LendingPolicy::default());
    let ticket = lender.opens(&supply(40));
    let off = refusal(400, "DEFI_DISABLED", None);
    lender.accepts(Observation::Answered { ticket, answer: off.clone() });
    lender.edit(lending());
    let ticket = lender.opens(&supply(40));
    lender.rejects("lending off", Observation::Answered { ticket, answer: off });

    // Without an observation about its lending part, an edit does not change that part.
    let mut lender = Lender::new(lending());
    let policy = Policy { trading: TradingPolicy::default(), ..crate::common::policy(90, 50, 20) };
    lender.order(Order::EditPolicy { name: "p".into(), policy });
    lender.lends(&supply(40), "one");
}
