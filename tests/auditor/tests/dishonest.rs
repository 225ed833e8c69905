//! For every rule, a wallet that breaks it and an auditor that must find the violation.

mod common;
use bursar_auditor::seen::*;
use common::*;

#[test]
fn auditor_rejects_a_second_header_with_another_nonce() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(5);
    let payment = play.pays(&ask, "one");
    let other = Payment { nonce: "other".into(), ..payment };
    let found = play.call_bad(poll("one"), header("one", &other));
    assert_eq!(found.rule, "I-b");
}

#[test]
fn auditor_rejects_a_second_payment_for_one_call() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.bearer(5);
    play.pays(&ask, "one");
    play.pays_bad(&ask, "two");
}

#[test]
fn auditor_rejects_a_second_digest_for_one_request() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(5);
    play.pays(&ask, "one");
    assert_eq!(play.bad(signed("one", "two")).rule, "I-b");
}

#[test]
fn auditor_rejects_one_digest_for_two_requests() {
    let mut play = Play::new(policy(100, 50, 20));
    let (a, b) = (play.hmac(5), play.hmac(6));
    play.pays(&a, "one");
    play.called(sign(&b));
    assert_eq!(play.bad(signed("two", "one")).rule, "I-b");
}

#[test]
fn auditor_rejects_one_nonce_for_two_requests() {
    let mut play = Play::new(policy(100, 50, 20));
    let (a, b) = (play.hmac(5), play.hmac(6));
    play.pays(&a, "one");
    let payment = play.payment(&b, "one");
    let ticket = play.called(sign(&b));
    play.ok(signed("two", "two"));
    let found = play.bad(Seen::Answered { ticket, answer: header("two", &payment) });
    assert_eq!(found.rule, "I-b");
}

/// Plays up to an approved request that is not signed yet.
fn executing() -> Play {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.order(approve("one"), End::Decided { status: "executing".into() });
    play
}

#[test]
fn auditor_rejects_a_signature_while_frozen_locked_suspended_or_restarted() {
    for (order, rule) in [
        (Order::Freeze, "I-g"),
        (Order::LockWallet, "I-f"),
        (Order::Suspend { agent: "HHH111".into() }, "I-i"),
    ] {
        let mut play = executing();
        play.order(order, End::Done);
        assert_eq!(play.bad(signed("one", "one")).rule, rule);
    }
    let mut play = executing();
    play.ok(Seen::Died);
    play.ok(Seen::Started);
    assert_eq!(play.bad(signed("one", "one")).rule, "I-f");
}

#[test]
fn auditor_accepts_a_signature_before_an_open_freeze_completes() {
    let mut play = executing();
    let ticket = play.ordered(Order::Freeze);
    play.ok(signed("one", "one"));
    play.ok(Seen::Obeyed { ticket, end: End::Done });
}

#[test]
fn auditor_rejects_an_approval_at_exactly_fifteen_minutes() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.later(900_000);
    play.ordered(approve("one"));
    assert_eq!(play.bad(signed("one", "one")).rule, "I-e");

    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.later(900_000);
    let found = play.order_bad(approve("one"), End::Decided { status: "executing".into() });
    assert_eq!(found.rule, "I-e");
}

#[test]
fn auditor_rejects_a_payment_one_micro_over_the_daily_limit() {
    let mut play = Play::new(policy(30, 50, 20));
    let (a, b) = (play.hmac(15), play.hmac(16));
    play.pays(&a, "one");
    play.pays_bad(&b, "two");
    let mut play = Play::new(policy(30, 50, 20));
    let (a, b) = (play.hmac(15), play.hmac(15));
    play.pays(&a, "one");
    play.pays(&b, "two");
}

#[test]
fn auditor_rejects_an_uncounted_reservation() {
    let mut play = Play::new(policy(45, 50, 20));
    let (a, b) = (play.hmac(30), play.hmac(16));
    play.holds(&a, "one");
    play.pays_bad(&b, "two");
}

#[test]
fn auditor_rejects_a_limit_refusal_within_the_limit() {
    let mut play = Play::new(policy(30, 50, 20));
    let ask = play.hmac(15);
    let answer = refusal(429, "EXCEEDS_DAILY_LIMIT", Some("one"));
    assert_eq!(play.call_bad(sign(&ask), answer).rule, "judgement");
}

#[test]
fn auditor_rejects_signing_an_amount_equal_to_the_threshold() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(20);
    play.pays_bad(&ask, "one");
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(20);
    let found = play.call_bad(sign(&ask), Answer::Executing { id: "one".into() });
    assert_eq!(found.rule, "I-j");
    let mut play = Play::new(policy(100, 50, 0));
    let ask = play.hmac(1);
    play.pays_bad(&ask, "one");
}

#[test]
fn auditor_rejects_holding_a_payment_below_the_threshold() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(19);
    play.call_bad(sign(&ask), Answer::Pending { id: "one".into() });
}

#[test]
fn auditor_rejects_a_reservation_returned_twice() {
    let mut play = Play::new(policy(100, 50, 20));
    let (a, b) = (play.hmac(30), play.hmac(25));
    play.holds(&a, "one");
    play.holds(&b, "two");
    play.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    assert_eq!(play.standing("HHH111", 100, 0, 0).unwrap_err().rule, "I-d");
}

#[test]
fn auditor_rejects_a_status_that_goes_back() {
    let mut play = executing();
    let found = play.call_bad(poll("one"), Answer::Pending { id: "one".into() });
    assert_eq!(found.rule, "I-p");
    let mut play = executing();
    play.ok(signed("one", "one"));
    let ask = play.hmac(30);
    let payment = play.payment(&ask, "one");
    play.call(poll("one"), header("one", &payment));
    // Only a crash may lose the record of a signature.
    play.stop_and_start();
    play.call_bad(poll("one"), Answer::Executing { id: "one".into() });
}

#[test]
fn auditor_rejects_an_id_forgotten_in_a_crash() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.restart();
    let found = play.call_bad(poll("one"), refusal(404, "REQUEST_NOT_FOUND", None));
    assert_eq!(found.rule, "I-p");
}

#[test]
fn auditor_rejects_a_payment_uncounted_after_a_crash() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(15);
    play.pays(&ask, "one");
    play.restart();
    assert_eq!(play.standing("HHH111", 100, 0, 0).unwrap_err().rule, "I-d");
}

#[test]
fn auditor_rejects_a_changed_stored_answer() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(51);
    play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("one")));
    let edit = Order::EditPolicy { name: "p".into(), policy: policy(100, 60, 60) };
    play.order(edit, End::Done);
    assert_eq!(play.pays_bad(&ask, "two").rule, "I-m");
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.bearer(30);
    play.holds(&ask, "one");
    play.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    play.later(899_000);
    let found = play.call_bad(sign(&ask), Answer::Pending { id: "two".into() });
    assert_eq!(found.rule, "same ask, same answer");
}

#[test]
fn auditor_rejects_an_allowance_that_starts_at_the_first_request() {
    let mut play = Play::new(policy(25, 50, 20));
    // The allowance of the second day began at midnight, although the first request comes at six in the evening. So the
    // next one begins at midnight too. The machine reboots in between: within one boot, the boot clock may count from
    // the instant at which the renewal was recorded.
    play.later(30 * 3_600_000);
    let ask = play.hmac(19);
    play.pays(&ask, "one");
    play.clocks.boot = 2;
    play.later(10 * 3_600_000);
    assert_eq!(play.standing("HHH111", 25, 19, 0).unwrap_err().rule, "I-d");
}

#[test]
fn auditor_rejects_a_second_allowance_for_one_date() {
    let mut play = Play::new(policy(25, 50, 20));
    play.later(24 * 3_600_000);
    let ask = play.hmac(19);
    play.pays(&ask, "one");
    play.set_wall(NOON);
    play.set_wall(NOON + 24 * 3_600_000);
    let ask = play.hmac(18);
    play.pays_bad(&ask, "two");
}
