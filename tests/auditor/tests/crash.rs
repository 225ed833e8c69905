//! What a crash leaves undecided, and what it must not lose.

mod common;
use bursar_auditor::seen::*;
use common::*;

#[test]
fn refusal_lost_in_a_crash_may_be_remembered_or_judged_again() {
    for remembered in [true, false] {
        let mut play = Play::new(policy(100, 50, 20));
        let ask = play.hmac(51);
        play.called(sign(&ask));
        play.restart();
        let edit = Order::EditPolicy { name: "p".into(), policy: policy(100, 60, 60) };
        play.order(edit, End::Done);
        if remembered {
            for _ in 0..2 {
                play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("one")));
            }
        } else {
            play.pays(&ask, "one");
        }
    }
}

#[test]
fn approval_lost_in_a_crash_may_have_happened_and_counts_once() {
    for happened in [true, false] {
        let mut play = Play::new(policy(100, 50, 20));
        let mut ask = play.hmac(30);
        if let Some(o) = ask.offers.first_mut() {
            o.max_timeout_s = Some(600);
        }
        play.holds(&ask, "one");
        let payment = play.payment(&ask, "one");
        play.ordered(approve("one"));
        play.later(1_000);
        play.restart();
        if happened {
            play.standing("HHH111", 100, 30, 0).unwrap();
            play.ok(signed("one", "one"));
            play.call(poll("one"), header("one", &payment));
            play.order(approve("one"), refuses("REQUEST_ALREADY_PROCESSED"));
        } else {
            play.call(poll("one"), Answer::Pending { id: "one".into() });
            play.standing("HHH111", 100, 0, 30).unwrap();
            assert!(play.auditor.see(&signed("one", "one")).is_err());
        }
    }
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.ordered(approve("one"));
    play.restart();
    assert!(play.standing("HHH111", 100, 30, 30).is_err());
}

#[test]
fn held_request_lost_in_a_crash_is_bound_by_its_listing() {
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.called(sign(&ask));
    play.restart();
    play.order(Order::List, End::Waiting(vec![listed("one", "card")]));
    play.call(sign(&ask), Answer::Pending { id: "one".into() });
    play.standing("HHH111", 100, 0, 30).unwrap();
    play.call_bad(sign(&ask), Answer::Pending { id: "two".into() });
}

#[test]
fn answered_order_survives_a_crash() {
    let mut play = Play::new(policy(100, 50, 20));
    play.order(Order::Freeze, End::Done);
    play.restart();
    let ask = play.hmac(5);
    play.pays_bad(&ask, "one");
    let mut play = Play::new(policy(100, 50, 20));
    let ask = play.hmac(30);
    play.holds(&ask, "one");
    play.order(Order::Deny { id: "one".into() }, End::Decided { status: "denied".into() });
    play.restart();
    play.order_bad(approve("one"), End::Decided { status: "executing".into() });
}

#[test]
fn order_refused_by_a_failed_disk_may_have_happened_after_restart() {
    for frozen in [true, false] {
        let mut play = Play::new(policy(100, 50, 20));
        play.ok(Seen::DiskFailed);
        play.order(Order::Freeze, refuses("JOURNAL_FAILED"));
        play.restart();
        let ask = play.hmac(5);
        if frozen {
            play.call(sign(&ask), refusal(403, "AGENTS_FROZEN", None));
        } else {
            play.pays(&ask, "one");
        }
    }
}

#[test]
fn wallet_is_locked_after_a_start() {
    let mut play = Play::new(policy(100, 50, 20));
    play.ok(Seen::Stopped);
    play.ok(Seen::Started);
    let (hmac, bearer) = (play.hmac(5), play.bearer(5));
    play.call(sign(&hmac), refusal(401, "AUTH_FAILED", None));
    play.call(sign(&bearer), refusal(503, "WALLET_LOCKED", None));
    play.call_bad(sign(&bearer), refusal(401, "AUTH_FAILED", None));
}

#[test]
fn idempotency_key_with_other_content_is_a_conflict() {
    let mut play = Play::new(policy(100, 50, 20));
    let mut first = play.bearer(5);
    first.idempotency_key = Some("k".into());
    play.pays(&first, "one");
    let mut second = play.bearer(6);
    second.idempotency_key = Some("k".into());
    play.call(sign(&second), refusal(409, "IDEMPOTENCY_CONFLICT", None));
    play.pays_bad(&second, "two");
}

#[test]
fn repeat_with_a_blocked_url_is_refused_despite_a_signed_payment() {
    let mut blocked = policy(100, 50, 20);
    blocked.blocked_domains = vec!["bad.test".into()];
    let mut play = Play::new(blocked);
    let ask = play.bearer(5);
    let payment = play.pays(&ask, "one");
    let mut other = ask.clone();
    other.request_url = Some("https://good.test/".into());
    play.call(sign(&other), header("one", &payment));
    other.request_url = Some("https://api.bad.test/".into());
    play.call(sign(&other), refusal(403, "DOMAIN_NOT_ALLOWED", None));
    play.call_bad(sign(&other), header("one", &payment));
}

#[test]
fn thirty_first_refusal_in_a_minute_has_no_record() {
    let mut play = Play::new(policy(100, 50, 20));
    for n in 0..30 {
        let ask = play.bearer(51);
        let id = format!("r{n}");
        play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some(&id)));
    }
    let ask = play.bearer(51);
    play.call(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", None));
    play.call_bad(sign(&ask), refusal(403, "EXCEEDS_PER_REQUEST_MAX", Some("r30")));
}

#[test]
fn repeats_of_two_lost_calls_are_matched_to_their_listed_ids() {
    let mut play = Play::new(policy(100, 50, 20));
    let (a, b) = (play.hmac(30), play.hmac(31));
    play.called(sign(&a));
    play.called(sign(&b));
    play.restart();
    let list = vec![listed_for("of b", "card b", 31), listed_for("of a", "card a", 30)];
    play.order(Order::List, End::Waiting(list));
    play.holds(&a, "of a");
    play.holds(&b, "of b");
    play.call_bad(sign(&b), Answer::Pending { id: "of a".into() });
}
