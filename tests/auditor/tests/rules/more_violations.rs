//! More wallets that break a rule about terms, approvals, orders, transactions, reports or the end of a run.

use bursar_auditor::observations::*;

use crate::common::*;

#[test]
fn auditor_rejects_a_payment_with_changed_terms() {
    type Change = fn(&mut Payment);
    let changes: [Change; 6] = [
        |p| p.amount += 1,
        |p| p.payee = COIN.into(),
        |p| p.chain = 1,
        |p| p.valid_before_s += 1,
        |p| p.valid_after_s += 1,
        |p| p.signer = Some(SHOP.into()),
    ];
    for change in changes {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        let ask = driver.hmac(5);
        let mut payment = driver.payment(&ask, "one");
        change(&mut payment);
        let ticket = driver.open_call(sign(&ask));
        driver.accepts(signed_observation("one", "one"));
        let found =
            driver.rejects(Observation::Answered { ticket, answer: header("one", &payment) });
        assert_eq!(found.rule, "terms");
    }
}

#[test]
fn auditor_rejects_an_approval_against_the_current_policy() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    let edit = Order::EditPolicy { name: "p".into(), policy: policy(100, 29, 20) };
    driver.order(edit, End::Done);
    driver.order_rejected(approve("one"), End::Decided { status: "executing".into() });
}

#[test]
fn auditor_rejects_an_approval_with_an_old_card() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.order(Order::List, End::Held(vec![listed("one", "old")]));
    let edit = Order::EditPolicy { name: "p".into(), policy: policy(90, 50, 20) };
    driver.order(edit, End::Done);
    let old = Order::Approve { id: "one".into(), card: Some("old".into()) };
    driver.order_rejected(old, End::Decided { status: "executing".into() });
}

#[test]
fn auditor_rejects_a_header_without_a_signature() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(5);
    let payment = driver.payment(&ask, "one");
    assert_eq!(driver.call_rejected(sign(&ask), header("one", &payment)).rule, "I-m");
}

#[test]
fn auditor_rejects_loosening_a_policy_while_locked_but_not_tightening() {
    let edit = |daily| Order::EditPolicy { name: "p".into(), policy: policy(daily, 50, 20) };
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    driver.order(Order::LockWallet, End::Done);
    driver.order(edit(99), End::Done);
    driver.order(edit(100), refuses("WALLET_LOCKED"));
    assert_eq!(driver.order_rejected(edit(100), End::Done).rule, "orders");
}

#[test]
fn auditor_rejects_new_decisions_on_a_failed_disk() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    driver.accepts(Observation::DiskFailed);
    let ask = driver.hmac(5);
    driver.call(sign(&ask), refusal(503, "JOURNAL_FAILED", None));
    let ask = driver.hmac(6);
    driver.pays_rejected(&ask, "one");
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(5);
    let found = driver.call_rejected(sign(&ask), refusal(503, "JOURNAL_FAILED", None));
    assert_eq!(found.rule, "disk");
}

#[test]
fn auditor_rejects_unordered_and_duplicate_transactions() {
    let tx = |nonce, value: u128| Transaction {
        chain: BASE,
        from: MAIN.into(),
        nonce,
        to: SHOP.into(),
        value,
        data: "0x".into(),
        hash: format!("hash {nonce} {value}"),
    };
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    assert_eq!(driver.rejects(Observation::Broadcast(tx(0, 7))).rule, "transactions");
    for second in [tx(1, 7), tx(0, 8)] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        let ticket = driver.open_order(Order::Send(Box::new(send.clone())));
        driver.accepts(Observation::Broadcast(tx(0, 7)));
        driver.accepts(Observation::OrderEnded { ticket, end: End::Sent { id: "s".into() } });
        assert_eq!(driver.rejects(Observation::Broadcast(second)).rule, "transactions");
    }
}

#[test]
fn auditor_rejects_a_transfer_under_a_nonce_never_issued() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let (payer, nonce, hash) = (MAIN.into(), "n".into(), "0x1".into());
    assert_eq!(
        driver.rejects(Observation::Redeemed { chain: BASE, payer, nonce, hash }).rule,
        "I-a"
    );
}

#[test]
fn auditor_rejects_an_unanswered_call_and_an_unsigned_payment_at_the_end() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    driver.accepts(Observation::Calm);
    let ask = driver.hmac(5);
    driver.open_call(sign(&ask));
    assert_eq!(driver.rejects(Observation::Over).rule, "I-n");
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let mut ask = driver.hmac(30);
    ask.offers[0].max_timeout_s = Some(600);
    driver.holds(&ask, "one");
    driver.order(approve("one"), End::Decided { status: "executing".into() });
    driver.accepts(Observation::Calm);
    driver.advance_ms(120_000);
    assert_eq!(driver.rejects(Observation::Over).rule, "I-n");
}

#[test]
fn auditor_rejects_a_stage_that_goes_back_or_is_verified_off_chain() {
    for (event, stage) in [(Event::Submitted, "submitted"), (Event::Settled, "verified")] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        let ask = driver.hmac(9);
        driver.pays(&ask, "one");
        let report = |driver: &mut AuditorDriver, event| {
            let (proof, tx_hash) = (driver.hmac(1).proof, Some("0xfeed".to_owned()));
            Call::Report(Report { agent: "HHH111".into(), proof, id: "one".into(), event, tx_hash })
        };
        let call = report(&mut driver, Event::Settled);
        driver.call(call, Answer::Reported { stage: "settled".into() });
        let call = report(&mut driver, event);
        let found = driver.call_rejected(call, Answer::Reported { stage: stage.into() });
        assert_eq!(found.rule, "reports");
    }
}

#[test]
fn auditor_rejects_serving_a_stale_signature() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let mut ask = driver.hmac(5);
    ask.proof =
        Proof::Hmac { timestamp_s: NOON / 1000 - 301, signature: "s".into(), is_valid: true };
    driver.pays_rejected(&ask, "one");
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let mut ask = driver.hmac(5);
    ask.proof =
        Proof::Hmac { timestamp_s: NOON / 1000 - 300, signature: "s".into(), is_valid: true };
    driver.pays(&ask, "one");
}
