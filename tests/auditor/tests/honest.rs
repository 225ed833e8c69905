//! Sequences that the specification allows: the auditor must accept them.

mod common;
use bursar_auditor::seen::*;
use common::*;

#[test]
fn repeated_small_payment_returns_the_identical_header() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(19);
    let payment = play.pays(&ask, "one");
    play.call(sign(&ask), header("one", &payment));
    play.call(poll("one"), header("one", &payment));
    play.standing("HHH111", 100, 19, 0).unwrap();
    play.later(60_000);
    play.call(poll("one"), Answer::AlreadySigned { id: "one".into() });
    play.call(sign(&ask), refusal(409, "PAYMENT_EXPIRED", None));
    assert_eq!(play.auditor.reached().get("act"), Some(&1));
}

#[test]
fn validity_of_a_held_payment_starts_at_its_approval() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(20);
    play.holds(&ask, "one");
    play.standing("HHH111", 100, 0, 20).unwrap();
    play.later(899_999);
    play.approves(&ask, "one");
    play.standing("HHH111", 100, 20, 0).unwrap();
    play.order(approve("one"), refuses("REQUEST_ALREADY_PROCESSED"));
}

#[test]
fn expired_request_releases_its_reservation_after_fifteen_minutes() {
    let mut play = Play::new(policy(40, 50, 20));
    let ask = play.hmac(40);
    play.holds(&ask, "one");
    let second = play.bearer(40);
    play.holds(&second, "two");
    let third = play.hmac(1);
    play.call(sign(&third), refusal(429, "EXCEEDS_DAILY_LIMIT", Some("three")));
    play.later(900_000);
    play.order(approve("one"), refuses("REQUEST_EXPIRED"));
    play.call(poll("two"), rejected("two", Some("REQUEST_EXPIRED")));
    let fourth = play.hmac(1);
    play.pays(&fourth, "four");
}

#[test]
fn denied_bearer_request_repeats_its_denial_for_fifteen_minutes_only() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.bearer(30);
    play.holds(&ask, "one");
    play.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    play.call(sign(&ask), rejected("one", Some("REQUEST_DENIED")));
    play.later(899_000);
    play.call(sign(&ask), rejected("one", Some("REQUEST_DENIED")));
    play.later(2_000);
    play.holds(&ask, "two");
    play.call(poll("one"), rejected("one", Some("REQUEST_DENIED")));
}

#[test]
fn refusals_are_remembered_for_hmac_agents_only() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(51);
    for _ in 0..2 {
        play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("one")));
    }
    let ask = play.bearer(51);
    play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("two")));
    play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("three")));
    play.call(poll("three"), rejected("three", Some("EXCEEDS_PER_REQUEST_MAX")));
}

#[test]
fn parallel_copies_of_a_call_give_one_payment() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.bearer(5);
    let tickets: Vec<_> = (0..16).map(|_| play.called(sign(&ask))).collect();
    play.ok(signed("one", "one"));
    let payment = play.payment(&ask, "one");
    for ticket in tickets {
        play.ok(Seen::Answered { ticket, answer: header("one", &payment) });
    }
    play.standing("BBB111", 100, 5, 0).unwrap();
}

#[test]
fn concurrent_calls_for_the_last_allowance_may_be_decided_in_any_order() {
    let mut play = Play::new(policy(25, 50, 20));
    let (a, b) = (play.hmac(15), play.hmac(16));
    let (first, second) = (play.called(sign(&a)), play.called(sign(&b)));
    let answer = refusal(429, "EXCEEDS_DAILY_LIMIT", Some("one"));
    play.ok(Seen::Answered { ticket: first, answer });
    play.ok(signed("two", "two"));
    let payment = play.payment(&b, "two");
    play.ok(Seen::Answered { ticket: second, answer: header("two", &payment) });
}

#[test]
fn call_lost_in_a_crash_may_be_counted_or_not() {
    for spent in [0, 15] {
        let mut play = Play::new(policy(100, 50, 20));
        let ask = play.hmac(15);
        play.called(sign(&ask));
        play.restart();
        play.standing("HHH111", 100, spent, 0).unwrap();
    }
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(15);
    play.called(sign(&ask));
    play.restart();
    assert!(play.standing("HHH111", 100, 14, 0).is_err());
}

#[test]
fn payment_unsigned_at_a_crash_is_signed_with_its_decided_terms() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(15);
    let payment = play.payment(&ask, "one");
    play.called(sign(&ask));
    play.later(5_000);
    play.restart();
    let ticket = play.called(sign(&ask));
    play.ok(signed("one", "one"));
    play.ok(Seen::Answered { ticket, answer: header("one", &payment) });
    play.standing("HHH111", 100, 15, 0).unwrap();
}

#[test]
fn order_lost_in_a_crash_may_have_happened_or_not() {
    for http in [None, Some(403)] {
        let mut play = Play::new(policy(100, 50, 20));
        play.ordered(Order::Suspend { agent: "HHH111".into() });
        play.restart();
        let ask = play.hmac(5);
        match http {
            None => {
                play.pays(&ask, "one");
                let ask = play.hmac(5);
                play.call_bad(sign(&ask), refusal(403, "AGENT_SUSPENDED", None));
            }
            Some(http) => {
                play.call(sign(&ask), refusal(http, "AGENT_SUSPENDED", None));
                let ask = play.hmac(5);
                play.pays_bad(&ask, "one");
            }
        }
    }
}

#[test]
fn allowance_renews_at_midnight_only() {
    let mut play = Play::new(policy(25, 50, 20));
    let ask = play.hmac(19);
    play.pays(&ask, "one");
    // Commissioned at noon, or a little later.
    let midnight = NOON + 12 * 3_600_000;
    play.later(midnight - play.clocks.wall_ms - 1);
    play.standing("HHH111", 25, 19, 0).unwrap();
    play.later(1);
    play.standing("HHH111", 25, 0, 0).unwrap();
    assert!(play.auditor.reached().contains_key("renewal"));
    let ask = play.hmac(18);
    play.pays(&ask, "two");
    for hours in [8, 12, 3] {
        play.later(hours * 3_600_000);
        play.standing("HHH111", 25, 18, 0).unwrap();
    }
    play.later(3_600_000);
    play.standing("HHH111", 25, 0, 0).unwrap();
}

#[test]
fn clock_jump_holds_the_renewal_back_until_the_operator_grants_it() {
    let mut play = Play::new(policy(25, 50, 20));
    let ask = play.hmac(19);
    play.pays(&ask, "one");
    play.set_wall(NOON + 86_400_000);
    play.standing("HHH111", 25, 19, 0).unwrap();
    play.order(Order::Renew { agent: "HHH111".into() }, End::Done);
    play.standing("HHH111", 25, 0, 0).unwrap();
    play.order(Order::Renew { agent: "HHH111".into() }, refuses("BAD_INPUT"));
    assert!(play.auditor.reached().contains_key("renewal held back"));
}

#[test]
fn approval_with_an_old_card_digest_is_refused() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.order(Order::List, End::Waiting(vec![listed("one", "old")]));
    let edit = Order::EditPolicy { name: "p".into(), policy: policy(90, 50, 20) };
    play.order(edit, End::Done);
    play.order(Order::List, End::Waiting(vec![listed("one", "new")]));
    let with = |card: &str| Order::Approve { id: "one".into(), card: Some(card.into()) };
    play.order(with("old"), refuses("CARD_CHANGED"));
    play.order(with("new"), End::Decided { status: "executing".into() });
    play.call(poll("one"), Answer::Executing { id: "one".into() });
    play.ok(signed("one", "one"));
    let payment = play.payment(&ask, "one");
    play.call(poll("one"), header("one", &payment));
}

#[test]
fn settled_payment_is_reported_as_settled_and_not_signed_again() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(9);
    let payment = play.pays(&ask, "one");
    let hash = Some("0xfeed".to_owned());
    let report = |play: &mut Play, event, stage: &str| {
        let proof = play.hmac(1).proof;
        let tx_hash = hash.clone();
        let report = Report { agent: "HHH111".into(), proof, id: "one".into(), event, tx_hash };
        play.call(Call::Report(report), Answer::Reported { stage: stage.into() });
    };
    report(&mut play, Event::Submitted, "submitted");
    report(&mut play, Event::Settled, "settled");
    let previous = Some("one".to_owned());
    let told =
        Answer::Refused { http: 409, code: "PAYMENT_ALREADY_SETTLED".into(), id: None, previous };
    play.call(sign(&ask), told);
    let (payer, nonce, hash) = (MAIN.into(), payment.nonce, "0xfeed".into());
    play.ok(Seen::Redeemed { chain: BASE, payer, nonce, hash });
    report(&mut play, Event::Failed, "verified");
}

#[test]
fn operator_sends_and_replaces_a_transaction_while_agents_are_frozen() {
    let mut play = Play::new(policy(100, 50, 20));
    play.order(Order::Freeze, End::Done);
    let send = Send { label: "main".into(), chain: BASE, to: SHOP.into(), amount: 7, native: true };
    let ticket = play.ordered(Order::Send(Box::new(send)));
    play.ok(Seen::Signed(Signed { signer: MAIN.into(), digest: "t1".into(), request: None }));
    for hash in ["0x1", "0x2"] {
        play.ok(Seen::Broadcast(transaction(7, hash)));
    }
    play.ok(Seen::Obeyed { ticket, end: End::Sent { id: "s".into() } });
    play.order(Order::DeleteAddress { label: "main".into() }, refuses("IN_USE"));
    play.ok(Seen::Mined { chain: BASE, hash: "0x2".into(), succeeded: true });
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
