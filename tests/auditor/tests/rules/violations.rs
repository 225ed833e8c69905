//! For every rule, a wallet that breaks it. The auditor must find the violation.

use bursar_auditor::observations::*;

use crate::common::*;

#[test]
fn auditor_rejects_a_second_header_with_another_nonce() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(5);
    let payment = driver.pays(&ask, "one");
    let other = Payment { nonce: "other".into(), ..payment };
    let found = driver.call_rejected(poll("one"), header("one", &other));
    assert_eq!(found.rule, "I-b");
}

#[test]
fn auditor_rejects_a_second_payment_for_one_call() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.bearer(5);
    driver.pays(&ask, "one");
    driver.pays_rejected(&ask, "two");
}

#[test]
fn auditor_rejects_a_second_digest_for_one_request() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(5);
    driver.pays(&ask, "one");
    assert_eq!(driver.rejects(signed_observation("one", "two")).rule, "I-b");
}

#[test]
fn auditor_rejects_one_digest_for_two_requests() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let (a, b) = (driver.hmac(5), driver.hmac(6));
    driver.pays(&a, "one");
    driver.open_call(sign(&b));
    assert_eq!(driver.rejects(signed_observation("two", "one")).rule, "I-b");
}

#[test]
fn auditor_rejects_one_nonce_for_two_requests() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let (a, b) = (driver.hmac(5), driver.hmac(6));
    driver.pays(&a, "one");
    let payment = driver.payment(&b, "one");
    let ticket = driver.open_call(sign(&b));
    driver.accepts(signed_observation("two", "two"));
    let found = driver.rejects(Observation::Answered { ticket, answer: header("two", &payment) });
    assert_eq!(found.rule, "I-b");
}

/// Plays a call until its request is approved but not signed.
fn driver_with_executing_request() -> AuditorDriver {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.order(approve("one"), End::Decided { status: "executing".into() });
    driver
}

#[test]
fn auditor_rejects_a_signature_while_frozen_locked_suspended_or_restarted() {
    for (order, rule) in [
        (Order::Freeze, "I-g"),
        (Order::LockWallet, "I-f"),
        (Order::Suspend { agent: "HHH111".into() }, "I-i"),
    ] {
        let mut driver = driver_with_executing_request();
        driver.order(order, End::Done);
        assert_eq!(driver.rejects(signed_observation("one", "one")).rule, rule);
    }
    let mut driver = driver_with_executing_request();
    driver.accepts(Observation::Died);
    driver.accepts(Observation::Started);
    assert_eq!(driver.rejects(signed_observation("one", "one")).rule, "I-f");
}

#[test]
fn auditor_accepts_a_signature_before_an_open_freeze_completes() {
    let mut driver = driver_with_executing_request();
    let ticket = driver.open_order(Order::Freeze);
    driver.accepts(signed_observation("one", "one"));
    driver.accepts(Observation::OrderEnded { ticket, end: End::Done });
}

#[test]
fn auditor_rejects_an_approval_at_exactly_fifteen_minutes() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.advance_ms(900_000);
    driver.open_order(approve("one"));
    assert_eq!(driver.rejects(signed_observation("one", "one")).rule, "I-e");

    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.advance_ms(900_000);
    let found = driver.order_rejected(approve("one"), End::Decided { status: "executing".into() });
    assert_eq!(found.rule, "I-e");
}

#[test]
fn auditor_rejects_a_payment_one_micro_over_the_daily_limit() {
    let mut driver = AuditorDriver::new(policy(30, 50, 20));
    let (a, b) = (driver.hmac(15), driver.hmac(16));
    driver.pays(&a, "one");
    driver.pays_rejected(&b, "two");
    let mut driver = AuditorDriver::new(policy(30, 50, 20));
    let (a, b) = (driver.hmac(15), driver.hmac(15));
    driver.pays(&a, "one");
    driver.pays(&b, "two");
}

#[test]
fn auditor_rejects_an_uncounted_reservation() {
    let mut driver = AuditorDriver::new(policy(45, 50, 20));
    let (a, b) = (driver.hmac(30), driver.hmac(16));
    driver.holds(&a, "one");
    driver.pays_rejected(&b, "two");
}

#[test]
fn auditor_rejects_a_limit_refusal_within_the_limit() {
    let mut driver = AuditorDriver::new(policy(30, 50, 20));
    let ask = driver.hmac(15);
    let answer = refusal(429, "EXCEEDS_DAILY_LIMIT", Some("one"));
    assert_eq!(driver.call_rejected(sign(&ask), answer).rule, "judgement");
}

#[test]
fn auditor_rejects_signing_an_amount_equal_to_the_threshold() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(20);
    driver.pays_rejected(&ask, "one");
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(20);
    let found = driver.call_rejected(sign(&ask), Answer::Executing { id: "one".into() });
    assert_eq!(found.rule, "I-j");
    let mut driver = AuditorDriver::new(policy(100, 50, 0));
    let ask = driver.hmac(1);
    driver.pays_rejected(&ask, "one");
}

#[test]
fn auditor_rejects_holding_a_payment_below_the_threshold() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(19);
    driver.call_rejected(sign(&ask), Answer::Pending { id: "one".into() });
}

#[test]
fn auditor_rejects_a_reservation_returned_twice() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let (a, b) = (driver.hmac(30), driver.hmac(25));
    driver.holds(&a, "one");
    driver.holds(&b, "two");
    driver.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    assert_eq!(driver.standing("HHH111", 100, 0, 0).unwrap_err().rule, "I-d");
}

#[test]
fn auditor_rejects_a_status_that_goes_back() {
    let mut driver = driver_with_executing_request();
    let found = driver.call_rejected(poll("one"), Answer::Pending { id: "one".into() });
    assert_eq!(found.rule, "I-p");
    let mut driver = driver_with_executing_request();
    driver.accepts(signed_observation("one", "one"));
    let ask = driver.hmac(30);
    let payment = driver.payment(&ask, "one");
    driver.call(poll("one"), header("one", &payment));
    // Without a crash, the wallet must not lose the record of a signature.
    driver.stop_and_start();
    driver.call_rejected(poll("one"), Answer::Executing { id: "one".into() });
}

#[test]
fn auditor_rejects_an_id_forgotten_in_a_crash() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.restart();
    let found = driver.call_rejected(poll("one"), refusal(404, "REQUEST_NOT_FOUND", None));
    assert_eq!(found.rule, "I-p");
}

#[test]
fn auditor_rejects_a_payment_uncounted_after_a_crash() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(15);
    driver.pays(&ask, "one");
    driver.restart();
    assert_eq!(driver.standing("HHH111", 100, 0, 0).unwrap_err().rule, "I-d");
}

#[test]
fn auditor_rejects_a_changed_stored_answer() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(51);
    driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("one")));
    let edit = Order::EditPolicy { name: "p".into(), policy: policy(100, 60, 60) };
    driver.order(edit, End::Done);
    assert_eq!(driver.pays_rejected(&ask, "two").rule, "I-m");
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.bearer(30);
    driver.holds(&ask, "one");
    driver.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    driver.advance_ms(899_000);
    let found = driver.call_rejected(sign(&ask), Answer::Pending { id: "two".into() });
    assert_eq!(found.rule, "same ask, same answer");
}

#[test]
fn auditor_rejects_an_allowance_that_starts_at_the_first_request() {
    let mut driver = AuditorDriver::new(policy(25, 50, 20));
    // The allowance of the second day began at midnight, although the first request comes at six in the evening. So the
    // next allowance begins at midnight too. The machine reboots in between, because within one boot the boot clock may
    // count from the instant at which the renewal was recorded.
    driver.advance_ms(30 * 3_600_000);
    let ask = driver.hmac(19);
    driver.pays(&ask, "one");
    driver.clocks.boot = 2;
    driver.advance_ms(10 * 3_600_000);
    assert_eq!(driver.standing("HHH111", 25, 19, 0).unwrap_err().rule, "I-d");
}

#[test]
fn auditor_rejects_a_second_allowance_for_one_date() {
    let mut driver = AuditorDriver::new(policy(25, 50, 20));
    driver.advance_ms(24 * 3_600_000);
    let ask = driver.hmac(19);
    driver.pays(&ask, "one");
    driver.set_wall(NOON);
    driver.set_wall(NOON + 24 * 3_600_000);
    let ask = driver.hmac(18);
    driver.pays_rejected(&ask, "two");
}
