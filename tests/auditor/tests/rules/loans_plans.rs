//! Loans: who may sign, and when; one plan at a time (trades included); allowances.

use bursar_auditor::observations::*;

use crate::common::lending::*;
use crate::common::trading::{
    DEADLINE_S, V3_ROUTER, buy, fair_output, floor_of, signs, signs_request, v3, v3_call,
};
use crate::common::{BASE, COIN, MAIN, approve, encode};

/// Plays a held supply up to its approval.
fn approved() -> Lender {
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    lender.approves(&supply(150), "one");
    lender
}

/// Plays an approved supply until its allowance is mined. Returns the deposit, which is not signed yet.
fn allowed() -> (Lender, Transaction) {
    let mut lender = approved();
    let tx = lender.approve_tx(&supply(150));
    lender.sends(&tx);
    let deposit = lender.main_tx(&supply(150));
    (lender, deposit)
}

fn agent() -> String {
    "HHH111".into()
}

#[test]
fn nothing_is_signed_while_frozen_locked_or_suspended_nor_revived_after() {
    for (stop, resume, rule) in [
        (Order::Freeze, Order::Thaw { right: true }, "I-g"),
        (Order::LockWallet, Order::OpenWallet { right: true }, "I-f"),
        (Order::Suspend { agent: agent() }, Order::Resume { agent: agent() }, "I-i"),
    ] {
        let (mut lender, deposit) = allowed();
        lender.order(stop.clone());
        lender.rejects(rule, signs(&deposit));
        let (mut lender, deposit) = allowed();
        lender.order(stop);
        lender.order(resume);
        lender.rejects("T-53", signs(&deposit));
    }
}

#[test]
fn step_after_lending_or_its_network_was_turned_off_is_never_sent() {
    let (mut lender, deposit) = allowed();
    lender.order(Order::SwitchNetwork { chain: BASE, on: false });
    lender.accepts(signs(&deposit));
    lender.rejects("T-53", Observation::Broadcast(deposit));
    let (mut lender, deposit) = allowed();
    lender.edit(LendingPolicy { enabled: false, ..lending() });
    lender.accepts(signs(&deposit));
    lender.rejects("T-53", Observation::Broadcast(deposit));
}

#[test]
fn nothing_unsigned_survives_five_minutes() {
    for (ms, right) in [(300_000, true), (300_001, false)] {
        let (mut lender, deposit) = allowed();
        lender.driver.advance_ms(ms);
        lender.head();
        lender.accepts(signs(&deposit));
        if right {
            lender.accepts(Observation::Broadcast(deposit));
        } else {
            lender.rejects("T-53", Observation::Broadcast(deposit));
        }
    }
    let (mut lender, deposit) = allowed();
    lender.driver.restart();
    lender.accepts(signs(&deposit));
    let (mut lender, deposit) = allowed();
    lender.order(Order::Freeze);
    lender.driver.restart();
    lender.order(Order::Thaw { right: true });
    lender.rejects("T-53", signs(&deposit));
}

#[test]
fn deadline_of_an_approved_loan_counts_by_the_blocks_that_nodes_show() {
    let shown: [(&[u64], bool); 3] = [(&[0], true), (&[1], false), (&[1, 0], false)];
    for (late, right) in shown {
        let mut lender = Lender::new(lending());
        let at_s = lender.driver.second() + 10;
        let loan = Loan { deadline_s: Some(at_s), ..supply(150) };
        lender.holds(&loan, "one");
        lender.driver.clocks.block_ms = Some(lender.driver.clocks.wall_ms + 20_000);
        lender.driver.advance_ms(20_000);
        for late_s in late {
            lender.block += 1;
            let (block, time_s) = (lender.block, at_s + late_s);
            lender.accepts(Observation::Head(Head { chain: BASE, block, time_s }));
        }
        lender.approves(&loan, "one");
        let tx = lender.approve_tx(&loan);
        if right {
            lender.accepts(signs(&tx));
        } else {
            lender.rejects("deadline", signs(&tx));
        }
    }
}

/// The call that a crash left without an answer has the same terms as a plan that lapsed before its first signature.
#[test]
fn signature_is_judged_by_the_request_that_it_is_made_for() {
    for (request, right) in [("two", true), ("one", false)] {
        let mut lender = Lender::new(lending());
        lender.starts(&supply(40), "one");
        lender.driver.advance_ms(300_001);
        lender.head();
        lender.opens(&supply(40));
        lender.driver.restart();
        let tx = lender.approve_tx(&supply(40));
        lender.accepts(signs_request(&tx, request));
        if right {
            lender.accepts(Observation::Broadcast(tx));
        } else {
            lender.rejects("T-53", Observation::Broadcast(tx));
        }
    }
}

#[test]
fn nothing_is_signed_before_the_approval_after_a_denial_or_after_expiry() {
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("approvals", signs(&tx));
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    let end = End::Decided { status: "denied".into() };
    lender.driver.order(Order::Deny { id: "one".into() }, end);
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("approvals", signs(&tx));
    for (ms, right) in [(899_999, true), (900_000, false)] {
        let mut lender = Lender::new(lending());
        lender.holds(&supply(150), "one");
        lender.driver.advance_ms(ms);
        lender.head();
        let ticket = lender.driver.open_order(approve("one"));
        lender.reads(&supply(150));
        let end = End::Decided { status: "executing".into() };
        let ended = Observation::OrderEnded { ticket, end };
        if right {
            lender.accepts(ended);
        } else {
            lender.rejects("I-e", ended);
        }
    }
}

#[test]
fn decision_about_a_held_loan_is_not_refused_without_reason() {
    for (code, rule) in [
        ("REQUEST_NOT_FOUND", "I-p"),
        ("REQUEST_EXPIRED", "I-e"),
        ("REQUEST_ALREADY_PROCESSED", "approvals"),
    ] {
        let mut lender = Lender::new(lending());
        lender.holds(&supply(150), "one");
        let end = End::Refused { code: code.into() };
        assert_eq!(lender.driver.order_rejected(approve("one"), end).rule, rule);
    }
    let mut lender = approved();
    let end = End::Decided { status: "executing".into() };
    assert_eq!(lender.driver.order_rejected(approve("one"), end).rule, "approvals");
    let mut lender = approved();
    let end = End::Decided { status: "denied".into() };
    let deny = Order::Deny { id: "one".into() };
    assert_eq!(lender.driver.order_rejected(deny, end).rule, "approvals");
}

#[test]
fn deposit_follows_its_mined_allowance() {
    let mut lender = approved();
    let tx = lender.approve_tx(&supply(150));
    lender.signs_and_broadcasts(&tx);
    let deposit = lender.main_tx(&supply(150));
    lender.rejects("plan order", signs(&deposit));
    let mut lender = approved();
    let tx = lender.approve_tx(&supply(150));
    lender.signs_and_broadcasts(&tx);
    lender.includes(&tx, false, vec![]);
    let deposit = lender.main_tx(&supply(150));
    lender.rejects("plan order", signs(&deposit));
}

#[test]
fn one_plan_at_a_time_on_an_address_and_a_network() {
    let (mut lender, _) = allowed();
    lender.starts(&supply(20), "two");
    let other = lender.approve_tx(&supply(20));
    lender.rejects("one plan", signs(&other));
    // Plans on another network do not wait.
    let (mut lender, _) = allowed();
    let elsewhere = Loan { chain: OTHER_CHAIN, ..supply(20) };
    lender.starts(&elsewhere, "two");
    let other = lender.approve_tx(&elsewhere);
    lender.accepts(signs(&other));
    // The next plan begins once the main transaction of the first is in a block.
    let (mut lender, deposit) = allowed();
    lender.signs_and_broadcasts(&deposit);
    lender.moves(&supply(150), &deposit, 150 * DOLLAR);
    lender.starts(&supply(20), "two");
    let other = lender.approve_tx(&supply(20));
    lender.accepts(signs(&other));
    // A failed plan must revoke its allowance first.
    for revoked in [true, false] {
        let (mut lender, deposit) = allowed();
        lender.signs_and_broadcasts(&deposit);
        lender.includes(&deposit, false, vec![]);
        if revoked {
            let revoke = lender.tx(BASE, COIN, encode::approve(VAULT, 0));
            lender.sends(&revoke);
        }
        lender.starts(&supply(20), "two");
        let other = lender.approve_tx(&supply(20));
        if revoked {
            lender.accepts(signs(&other));
        } else {
            lender.rejects("one plan", signs(&other));
        }
    }
}

/// Plays a trade that is executed without an approval, up to the answer.
fn starts_trade(lender: &mut Lender) {
    let trade = buy(40);
    let timestamp_s = lender.driver.clocks.wall_ms / 1000;
    let signature = format!("SIG:{timestamp_s}:trade");
    let ask = TradeAsk {
        agent: agent(),
        proof: Proof::Hmac { timestamp_s, signature, is_valid: true },
        content: "trade".into(),
        idempotency_key: None,
        trade: trade.clone(),
    };
    let ticket = lender.driver.open_call(Call::Trade(Box::new(ask)));
    let (block, block_s) = (lender.block, lender.driver.second());
    lender.accepts(Observation::Quoted(Box::new(Quoted {
        chain: BASE,
        block,
        block_s,
        token_in: trade.token_in.clone(),
        amount_in: trade.amount_in,
        hops: vec![Hop { pool: v3(), token_out: trade.token_out.clone() }],
        amount_out: Some(fair_output(40)),
        slot0_ideal: Some(fair_output(40) / 9_995 * 10_000 + 10_000),
        dust_ideal: Some(fair_output(40)),
        fee_ppm: Some(500),
    })));
    for token in [NATIVE, COIN] {
        let (chain, owner, token) = (BASE, MAIN.into(), token.into());
        let amount = Some(u128::MAX / 2);
        lender.accepts(Observation::Read(Read::Balance { chain, block, owner, token, amount }));
    }
    for price in [
        PriceRead::Api { micros: Some(2_500_000_000) },
        PriceRead::Feed { chain: BASE, micros: Some(2_500_000_000), updated_s: block_s },
    ] {
        lender.accepts(Observation::PriceRead(price));
    }
    let (chain, from, outcome) = (BASE, MAIN.into(), Rehearsal::Proved);
    let (token_in, token_out, amount_in) = (trade.token_in, trade.token_out, trade.amount_in);
    let one = Rehearsed { chain, from, token_in, token_out, amount_in, outcome };
    lender.accepts(Observation::Rehearsed(one));
    let answer =
        Answer::Trade(TradeAnswer { id: Some("trade".into()), state: TradeState::Executing });
    lender.accepts(Observation::Answered { ticket, answer });
}

#[test]
fn trades_and_loans_share_the_one_plan() {
    let (mut lender, _) = allowed();
    starts_trade(&mut lender);
    let tx = lender.tx(BASE, COIN, encode::approve(V3_ROUTER, buy(40).amount_in));
    lender.rejects("one plan", signs(&tx));

    let mut lender = approved();
    starts_trade(&mut lender);
    let tx = lender.tx(BASE, COIN, encode::approve(V3_ROUTER, buy(40).amount_in));
    lender.sends(&tx);
    let allowance = lender.approve_tx(&supply(150));
    lender.rejects("one plan", signs(&allowance));

    let mut lender = approved();
    starts_trade(&mut lender);
    let tx = lender.tx(BASE, COIN, encode::approve(V3_ROUTER, buy(40).amount_in));
    lender.sends(&tx);
    let deadline_s = lender.driver.second() + DEADLINE_S;
    let call =
        v3_call(&buy(40), MAIN, buy(40).amount_in, floor_of(fair_output(40), 50), deadline_s);
    let swap = lender.tx(BASE, V3_ROUTER, call);
    lender.sends(&swap);
    let tx = lender.approve_tx(&supply(150));
    lender.sends(&tx);
    let deposit = lender.main_tx(&supply(150));
    lender.accepts(signs(&deposit));
}

#[test]
fn allowances_end_as_they_began() {
    for (left, right) in [(0, true), (150 * DOLLAR, false)] {
        let (mut lender, deposit) = allowed();
        lender.signs_and_broadcasts(&deposit);
        lender.includes(&deposit, false, vec![]);
        let (token, spender) = (COIN.into(), VAULT.into());
        let open = OpenAllowance { token, spender, permit2: false, amount: left };
        let open = if left == 0 { vec![] } else { vec![open] };
        let (chain, block, owner) = (BASE, lender.block, MAIN.into());
        lender.accepts(Observation::Allowances(Allowances { chain, block, owner, open }));
        lender.blocks(2);
        lender.polls("one", LOAN_FAILED);
        lender.accepts(Observation::Calm);
        lender.driver.advance_ms(600_000);
        if right {
            lender.accepts(Observation::Over);
        } else {
            lender.rejects("I-s", Observation::Over);
        }
    }
}

#[test]
fn frozen_agents_get_no_loan() {
    let mut lender = Lender::new(lending());
    lender.order(Order::Freeze);
    let ticket = lender.opens(&supply(40));
    let frozen = crate::common::refusal(403, "AGENTS_FROZEN", None);
    lender.accepts(Observation::Answered { ticket, answer: frozen });
    let ticket = lender.opens(&supply(40));
    lender.rejects("I-i", loan_answer(ticket, "one", LoanState::Pending));
    let mut lender = Lender::new(lending());
    let ticket = lender.opens(&supply(40));
    let frozen = crate::common::refusal(403, "AGENTS_FROZEN", None);
    lender.rejects("answers", Observation::Answered { ticket, answer: frozen });
}
