//! Facts that a crash leaves open, and facts that it must not lose.

use bursar_auditor::observations::*;

use crate::common::*;

#[test]
fn refusal_lost_in_a_crash_may_be_remembered_or_judged_again() {
    for remembered in [true, false] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        let ask = driver.hmac(51);
        driver.open_call(sign(&ask));
        driver.restart();
        let edit = Order::EditPolicy { name: "p".into(), policy: policy(100, 60, 60) };
        driver.order(edit, End::Done);
        if remembered {
            for _ in 0..2 {
                driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("one")));
            }
        } else {
            driver.pays(&ask, "one");
        }
    }
}

#[test]
fn approval_lost_in_a_crash_may_have_happened_and_counts_once() {
    for happened in [true, false] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        let mut ask = driver.hmac(30);
        if let Some(o) = ask.offers.first_mut() {
            o.max_timeout_s = Some(600);
        }
        driver.holds(&ask, "one");
        let payment = driver.payment(&ask, "one");
        driver.open_order(approve("one"));
        driver.advance_ms(1_000);
        driver.restart();
        if happened {
            driver.standing("HHH111", 100, 30, 0).unwrap();
            driver.accepts(signed_observation("one", "one"));
            driver.call(poll("one"), header("one", &payment));
            driver.order(approve("one"), refuses("REQUEST_ALREADY_PROCESSED"));
        } else {
            driver.call(poll("one"), Answer::Pending { id: "one".into() });
            driver.standing("HHH111", 100, 0, 30).unwrap();
            assert!(driver.auditor.observe(&signed_observation("one", "one")).is_err());
        }
    }
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.open_order(approve("one"));
    driver.restart();
    assert!(driver.standing("HHH111", 100, 30, 30).is_err());
}

#[test]
fn held_request_lost_in_a_crash_is_bound_by_its_listing() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.open_call(sign(&ask));
    driver.restart();
    driver.order(Order::List, End::Held(vec![listed("one", "card")]));
    driver.call(sign(&ask), Answer::Pending { id: "one".into() });
    driver.standing("HHH111", 100, 0, 30).unwrap();
    driver.call_rejected(sign(&ask), Answer::Pending { id: "two".into() });
}

#[test]
fn answered_order_survives_a_crash() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    driver.order(Order::Freeze, End::Done);
    driver.restart();
    let ask = driver.hmac(5);
    driver.pays_rejected(&ask, "one");
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let ask = driver.hmac(30);
    driver.holds(&ask, "one");
    driver.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    driver.restart();
    driver.order_rejected(approve("one"), End::Decided { status: "executing".into() });
}

#[test]
fn order_refused_by_a_failed_disk_may_have_happened_after_restart() {
    for frozen in [true, false] {
        let mut driver = AuditorDriver::new(policy(100, 50, 20));
        driver.accepts(Observation::DiskFailed);
        driver.order(Order::Freeze, refuses("JOURNAL_FAILED"));
        driver.restart();
        let ask = driver.hmac(5);
        if frozen {
            driver.call(sign(&ask), refusal(403, "AGENTS_FROZEN", None));
        } else {
            driver.pays(&ask, "one");
        }
    }
}

#[test]
fn wallet_is_locked_after_a_start() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    driver.accepts(Observation::Stopped);
    driver.accepts(Observation::Started);
    let (hmac, bearer) = (driver.hmac(5), driver.bearer(5));
    driver.call(sign(&hmac), refusal(401, "AUTH_FAILED", None));
    driver.call(sign(&bearer), refusal(503, "WALLET_LOCKED", None));
    driver.call_rejected(sign(&bearer), refusal(401, "AUTH_FAILED", None));
}

#[test]
fn idempotency_key_with_other_content_is_a_conflict() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let mut first = driver.bearer(5);
    first.idempotency_key = Some("k".into());
    driver.pays(&first, "one");
    let mut second = driver.bearer(6);
    second.idempotency_key = Some("k".into());
    driver.call(sign(&second), refusal(409, "IDEMPOTENCY_CONFLICT", None));
    driver.pays_rejected(&second, "two");
}

#[test]
fn repeat_with_a_blocked_url_is_refused_despite_a_signed_payment() {
    let mut blocked = policy(100, 50, 20);
    blocked.blocked_domains = vec!["bad.test".into()];
    let mut driver = AuditorDriver::new(blocked);
    let ask = driver.bearer(5);
    let payment = driver.pays(&ask, "one");
    let mut other = ask.clone();
    other.request_url = Some("https://good.test/".into());
    driver.call(sign(&other), header("one", &payment));
    other.request_url = Some("https://api.bad.test/".into());
    driver.call(sign(&other), refusal(403, "DOMAIN_NOT_ALLOWED", None));
    driver.call_rejected(sign(&other), header("one", &payment));
}

#[test]
fn thirty_first_refusal_in_a_minute_has_no_record() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    for n in 0..30 {
        let ask = driver.bearer(51);
        let id = format!("r{n}");
        driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some(&id)));
    }
    let ask = driver.bearer(51);
    driver.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", None));
    driver.call_rejected(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("r30")));
}

#[test]
fn repeats_of_two_lost_calls_are_matched_to_their_listed_ids() {
    let mut driver = AuditorDriver::new(policy(100, 50, 20));
    let (a, b) = (driver.hmac(30), driver.hmac(31));
    driver.open_call(sign(&a));
    driver.open_call(sign(&b));
    driver.restart();
    let list = vec![listed_for("of b", "card b", 31), listed_for("of a", "card a", 30)];
    driver.order(Order::List, End::Held(list));
    driver.holds(&a, "of a");
    driver.holds(&b, "of b");
    driver.call_rejected(sign(&b), Answer::Pending { id: "of a".into() });
}
