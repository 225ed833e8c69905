//! Sequences that the specification allows: the auditor must accept them.

use bursar_auditor::observations::*;

use crate::common::*;

#[test]
fn repeated_small_payment_returns_the_identical_header() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(19);
    let payment = driver.pays(&ask, "one");
    driver.call(sign(&ask), header("one", &payment));
    driver.call(poll("one"), header("one", &payment));
    driver.standing("HHH111", 100, 19, 0).unwrap();
    driver.advance_ms(60_000);
    driver.call(poll("one"), Answer::AlreadySigned { id: "one".into() });
    driver.call(sign(&ask), refusal(409, "PAYMENT_EXPIRED", None));
    assert_eq!(driver.auditor.rule_counts().get("act"), Some(&1));
}

#[test]
fn validity_of_a_held_payment_starts_at_its_approval() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(20);
    driver.holds(&ask, "one");
    driver.standing("HHH111", 100, 0, 20).unwrap();
    driver.advance_ms(899_999);
    driver.approves(&ask, "one");
    driver.standing("HHH111", 100, 20, 0).unwrap();
    driver.order(approve("one"), refuses("REQUEST_ALREADY_PROCESSED"));
}

#[test]
fn expired_request_releases_its_reservation_after_fifteen_minutes() {
    let mut driver = AuditorDriver::new(policy(40, 50, 20));
    let ask = driver.hmac(40);
    driver.holds(&ask, "one");
    let second = driver.bearer(40);
    driver.holds(&second, "two");
    let third = driver.hmac(1);
    driver.call(sign(&third), refusal(429, "EXCEEDS_DAILY_LIMIT", Some("three")));
    driver.advance_ms(900_000);
    driver.order(approve("one"), refuses("REQUEST_EXPIRED"));
    driver.call(poll("two"), rejected_answer("two", Some("REQUEST_EXPIRED")));
    let fourth = driver.hmac(1);
    driver.pays(&fourth, "four");
}

#[test]
fn denied_bearer_request_repeats_its_denial_for_fifteen_minutes_only() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.bearer(30);
    driver.holds(&ask, "one");
    driver.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    driver.call(sign(&ask), rejected_answer("one", Some("REQUEST_DENIED")));
    driver.advance_ms(899_000);
    driver.call(sign(&ask), rejected_answer("one", Some("REQUEST_DENIED")));
    driver.advance_ms(2_000);
    driver.holds(&ask, "two");
    driver.call(poll("one"), rejected_answer("one", Some("REQUEST_DENIED")));
}

#[test]
fn refusals_are_remembered_for_hmac_agents_only() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(51);
    for _ in 0..2 {
        driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("one")));
    }
    let ask = driver.bearer(51);
    driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("two")));
    driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("three")));
    driver.call(poll("three"), rejected_answer("three", Some("EXCEEDS_PER_REQUEST_MAX")));
}

#[test]
fn parallel_copies_of_a_call_give_one_payment() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.bearer(5);
    let tickets: Vec<_> = (0..16).map(|_| driver.open_call(sign(&ask))).collect();
    driver.accepts(signed_observation("one", "one"));
    let payment = driver.payment(&ask, "one");
    for ticket in tickets {
        driver.accepts(Observation::Answered { ticket, answer: header("one", &payment) });
    }
    driver.standing("BBB111", 100, 5, 0).unwrap();
}

#[test]
fn concurrent_calls_for_the_last_allowance_may_be_decided_in_any_order() {
    let mut driver = AuditorDriver::new(policy(25, 50, 20));
    let (a, b) = (driver.hmac(15), driver.hmac(16));
    let (first, second) = (driver.open_call(sign(&a)), driver.open_call(sign(&b)));
    let answer = refusal(429, "EXCEEDS_DAILY_LIMIT", Some("one"));
    driver.accepts(Observation::Answered { ticket: first, answer });
    driver.accepts(signed_observation("two", "two"));
    let payment = driver.payment(&b, "two");
    driver.accepts(Observation::Answered { ticket: second, answer: header("two", &payment) });
}

#[test]
fn call_lost_in_a_crash_may_be_counted_or_not() {
    for spent in [0, 15] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        let ask = driver.hmac(15);
        driver.open_call(sign(&ask));
        driver.restart();
        driver.standing("HHH111", 100, spent, 0).unwrap();
    }
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(15);
    driver.open_call(sign(&ask));
    driver.restart();
    assert!(driver.standing("HHH111", 100, 14, 0).is_err());
}

#[test]
fn payment_unsigned_at_a_crash_is_signed_with_its_decided_terms() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(15);
    let payment = driver.payment(&ask, "one");
    driver.open_call(sign(&ask));
    driver.advance_ms(5_000);
    driver.restart();
    let ticket = driver.open_call(sign(&ask));
    driver.accepts(signed_observation("one", "one"));
    driver.accepts(Observation::Answered { ticket, answer: header("one", &payment) });
    driver.standing("HHH111", 100, 15, 0).unwrap();
}

#[test]
fn order_lost_in_a_crash_may_have_happened_or_not() {
    for http in [None, Some(403)] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        driver.open_order(Order::Suspend { agent: "HHH111".into() });
        driver.restart();
        let ask = driver.hmac(5);
        match http {
            None => {
                driver.pays(&ask, "one");
                let ask = driver.hmac(5);
                driver.call_rejected(sign(&ask), refusal(403, "AGENT_SUSPENDED", None));
            }
            Some(http) => {
                driver.call(sign(&ask), refusal(http, "AGENT_SUSPENDED", None));
                let ask = driver.hmac(5);
                driver.pays_rejected(&ask, "one");
            }
        }
    }
}

#[test]
fn allowance_renews_at_midnight_only() {
    let mut driver = AuditorDriver::new(policy(25, 50, 20));
    let ask = driver.hmac(19);
    driver.pays(&ask, "one");
    // The agent was commissioned at noon or a little later.
    let midnight = NOON + 12 * 3_600_000;
    driver.advance_ms(midnight - driver.clocks.wall_ms - 1);
    driver.standing("HHH111", 25, 19, 0).unwrap();
    driver.advance_ms(1);
    driver.standing("HHH111", 25, 0, 0).unwrap();
    assert!(driver.auditor.rule_counts().contains_key("renewal"));
    let ask = driver.hmac(18);
    driver.pays(&ask, "two");
    for hours in [8, 12, 3] {
        driver.advance_ms(hours * 3_600_000);
        driver.standing("HHH111", 25, 18, 0).unwrap();
    }
    driver.advance_ms(3_600_000);
    driver.standing("HHH111", 25, 0, 0).unwrap();
}

#[test]
fn clock_jump_holds_the_renewal_back_until_the_operator_grants_it() {
    let mut driver = AuditorDriver::new(policy(25, 50, 20));
    let ask = driver.hmac(19);
    driver.pays(&ask, "one");
    driver.set_wall(NOON + 86_400_000);
    driver.standing("HHH111", 25, 19, 0).unwrap();
    driver.order(Order::Renew { agent: "HHH111".into() }, End::Done);
    driver.standing("HHH111", 25, 0, 0).unwrap();
    driver.order(Order::Renew { agent: "HHH111".into() }, refuses("BAD_INPUT"));
    assert!(driver.auditor.rule_counts().contains_key("renewal held back"));
}

#[test]
fn approval_with_an_old_card_digest_is_refused() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.order(Order::List, End::Held(vec![listed("one", "old")]));
    let edit = Order::EditPolicy { name: "p".into(), policy: policy(90, 50, 20) };
    driver.order(edit, End::Done);
    driver.order(Order::List, End::Held(vec![listed("one", "new")]));
    let with = |card: &str| Order::Approve { id: "one".into(), card: Some(card.into()) };
    driver.order(with("old"), refuses("CARD_CHANGED"));
    driver.order(with("new"), End::Decided { status: "executing".into() });
    driver.call(poll("one"), Answer::Executing { id: "one".into() });
    driver.accepts(signed_observation("one", "one"));
    let payment = driver.payment(&ask, "one");
    driver.call(poll("one"), header("one", &payment));
}

#[test]
fn settled_payment_is_reported_as_settled_and_not_signed_again() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(9);
    let payment = driver.pays(&ask, "one");
    let hash = Some("0xfeed".to_owned());
    let report = |driver: &mut AuditorDriver, event, stage: &str| {
        let proof = driver.hmac(1).proof;
        let tx_hash = hash.clone();
        let report = Report { agent: "HHH111".into(), proof, id: "one".into(), event, tx_hash };
        driver.call(Call::Report(report), Answer::Reported { stage: stage.into() });
    };
    report(&mut driver, Event::Submitted, "submitted");
    report(&mut driver, Event::Settled, "settled");
    let previous = Some("one".to_owned());
    let reported =
        Answer::Refused { http: 409, code: "PAYMENT_ALREADY_SETTLED".into(), id: None, previous };
    driver.call(sign(&ask), reported);
    let (payer, nonce, hash) = (MAIN.into(), payment.nonce, "0xfeed".into());
    driver.accepts(Observation::Redeemed { chain: BASE, payer, nonce, hash });
    report(&mut driver, Event::Failed, "verified");
}

#[test]
fn operator_sends_and_replaces_a_transaction_while_agents_are_frozen() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    driver.order(Order::Freeze, End::Done);
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    let ticket = driver.open_order(Order::Send(Box::new(send)));
    driver.accepts(Observation::Signed(Signed {
        signer: MAIN.into(),
        digest: "t1".into(),
        request: None,
        content: SignedContent::Undecodable,
    }));
    for hash in ["0x1", "0x2"] {
        driver.accepts(Observation::Broadcast(transaction(7, hash)));
    }
    driver.accepts(Observation::OrderEnded { ticket, end: End::Sent { id: "s".into() } });
    driver.order(Order::DeleteAddress { label: "main".into() }, refuses("IN_USE"));
    driver.accepts(Observation::Mined { chain: BASE, hash: "0x2".into(), succeeded: true });
}

fn transaction(value: u128, hash: &str) -> Transaction {
    Transaction {
        chain: BASE,
        from: MAIN.into(),
        nonce: 0,
        to: SHOP.into(),
        value,
        data: "0x".into(),
        hash: hash.into(),
    }
}
