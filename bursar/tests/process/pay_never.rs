//! Purchases that `bursar pay` refuses, and servers and wallets that fail. Nothing is signed twice.

use std::process::Stdio;

use serde_json::json;

use crate::pay::short_id;
use crate::payer::{AGENT_VARIABLES, CommandResult, Payer, pay_without_agent};
use crate::shop::{Shop, encode_header, offer, write_response};

#[test]
fn lost_connection_is_retried_with_the_same_payment() {
    let mut left = 2;
    let shop = Shop::selling("10000", move |stream| {
        if left == 0 {
            write_response(stream, "200 OK", &[], "goods");
        }
        left = u32::saturating_sub(left, 1);
    });
    let payer = Payer::new();
    let mut pay = payer.pay_command("hmac", &[&shop.url]);
    let ended = CommandResult::of(pay.env("BURSAR_LOG", "trace").output().unwrap());
    assert_eq!((ended.exit_code, ended.out.as_str()), (0, "goods"), "{ended:?}");
    let payments = shop.payments();
    assert!(ended.err.contains("TRACE") && !ended.err.contains(&payments[0]), "{ended:?}");
    assert_eq!(payments.len(), 3);
    assert!(payments.iter().all(|payment| *payment == payments[0]));
    assert_eq!(payer.history().len(), 1, "one signature");

    let deaf = Shop::selling("10000", |_hangs_up| {});
    let ended = payer.run_pay("bearer", &[&deaf.url, "--json"]);
    let told = ended.json();
    assert_eq!(
        (ended.exit_code, &told["error"]["code"]),
        (1, &json!("PAYMENT_UNANSWERED")),
        "{told}"
    );
    assert_eq!((deaf.payments().len(), &told["data"]["paid"]["sent"]), (3, &json!(3)));
    let id = told["data"]["request_id"].as_str().unwrap();
    assert!(
        told["error"]["message"].as_str().unwrap().contains(&format!("receipt {}", short_id(id)))
    );
    assert_eq!(payer.history().len(), 2);

    // With `--json`, a truncated body can be requested again from its beginning.
    let mut broken = 1;
    let halves = Shop::selling("10000", move |stream| {
        use std::io::Write;
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
        let body = if broken > 0 { "go" } else { "good" };
        broken -= 1;
        let _gone = write!(stream, "{head}{body}");
    });
    let told = payer.run_pay("bearer", &[&halves.url, "--json"]).json();
    assert_eq!((&told["ok"], &told["data"]["body"]), (&json!(true), &json!("good")), "{told}");
    assert_eq!((halves.payments().len(), payer.history().len()), (2, 3));
}

#[test]
fn a_payment_that_is_in_use_is_sent_again_until_the_server_has_answered() {
    let in_use = json!({ "error": {
        "message": "later", "type": "payment_error", "param": null, "code": "payment_in_use",
    } });
    let mut busy = 4;
    let shop = Shop::selling("10000", move |stream| {
        if busy == 0 {
            write_response(stream, "200 OK", &[], "goods");
        } else {
            write_response(stream, "409 Conflict", &[("retry-after", "1")], &in_use.to_string());
        }
        busy = u32::saturating_sub(busy, 1);
    });
    let payer = Payer::new();
    let ended = payer.run_pay("hmac", &[&shop.url]);
    assert_eq!((ended.exit_code, ended.out.as_str()), (0, "goods"), "{ended:?}");
    assert!(ended.err.contains("still processing this payment"), "{ended:?}");
    let payments = shop.payments();
    // The connection fails more often than the program retries.
    assert_eq!(payments.len(), 5);
    assert!(payments.iter().all(|payment| *payment == payments[0]));
    assert_eq!(payer.history().len(), 1, "one signature");

    // A 409 with another reason is final.
    let spent = json!({ "error": { "message": "no", "code": "payment_spent" } }).to_string();
    let told = spent.clone();
    let other =
        Shop::selling("10000", move |stream| write_response(stream, "409 Conflict", &[], &told));
    let ended = payer.run_pay("bearer", &[&other.url]);
    assert_eq!((ended.exit_code, ended.out), (1, spent));
    assert_eq!(other.payments().len(), 1);

    // The offer is valid for one minute, and the command does not wait longer.
    let in_use = json!({ "error": { "code": "payment_in_use" } }).to_string();
    let held = in_use.clone();
    let long = Shop::selling("10000", move |stream| {
        write_response(stream, "409 Conflict", &[("retry-after", "90")], &held);
    });
    let ended = payer.run_pay("bearer", &[&long.url]);
    assert_eq!((ended.exit_code, ended.out), (1, in_use));
    assert_eq!((long.payments().len(), payer.history().len()), (1, 3));
}

#[test]
fn two_commands_in_one_second_are_two_payments() {
    let shop = Shop::selling("10000", |stream| write_response(stream, "200 OK", &[], "goods"));
    let payer = Payer::new();
    for mode in ["hmac", "bearer"] {
        let before = shop.payments().len();
        let all: Vec<_> =
            (0..4).map(|_n| payer.pay_command(mode, &[&shop.url]).spawn().unwrap()).collect();
        for child in all {
            let ended = CommandResult::of(child.wait_with_output().unwrap());
            assert_eq!((ended.exit_code, ended.out.as_str()), (0, "goods"), "{ended:?}");
        }
        let payments: std::collections::BTreeSet<_> =
            shop.payments().into_iter().skip(before).collect();
        assert_eq!(payments.len(), 4, "{mode}: each is its own payment");
    }
    assert_eq!(payer.history().len(), 8);
}

#[test]
fn second_402_is_an_error_without_a_second_signature() {
    let evil = "no\u{1b}[2J\u{202e}\r\nbursar: paid";
    let shop = Shop::selling("10000", move |stream| {
        let receipt = encode_header(&json!({
            "success": false, "transaction": evil, "network": evil, "errorReason": evil,
        }));
        let again = encode_header(&offer("10000"));
        let headers =
            [("payment-response", receipt.as_str()), ("payment-required", again.as_str())];
        write_response(stream, "402 Payment Required", &headers, "{}");
    });
    let payer = Payer::new();
    for (mode, json) in [("hmac", false), ("bearer", true)] {
        let words = if json { vec![shop.url.as_str(), "--json"] } else { vec![shop.url.as_str()] };
        let ended = payer.run_pay(mode, &words);
        assert_eq!(ended.exit_code, 1, "{ended:?}");
        let said = if json {
            let told = ended.json();
            assert_eq!(told["error"]["code"], "PAYMENT_REFUSED");
            assert_eq!(told["data"]["receipt"]["error_reason"], evil);
            told["error"]["message"].as_str().unwrap().to_owned()
        } else {
            ended.err.clone()
        };
        assert!(said.contains("\\u{1b}[2J\\u{202e}\\u{d}\\u{a}bursar: paid"), "{said}");
        let raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!ended.err.contains(raw), "{:?}", ended.err);
    }
    assert_eq!((shop.payments().len(), payer.history().len()), (2, 2));
}

#[test]
fn a_receipt_shows_no_control_characters() {
    let evil = "\u{1b}]0;x\u{7}\u{9b}31m\nbursar: all is well";
    let shop = Shop::selling("10000", move |stream| {
        let receipt = json!({ "success": true, "transaction": evil, "network": evil });
        write_response(
            stream,
            "200 OK",
            &[("payment-response", &encode_header(&receipt))],
            "goods",
        );
    });
    let payer = Payer::new();
    let ended = payer.run_pay("bearer", &[&shop.url]);
    assert_eq!((ended.exit_code, ended.out.as_str()), (0, "goods"));
    assert!(
        ended.err.contains("\\u{1b}]0;x\\u{7}\\u{9b}31m\\u{a}bursar: all is well"),
        "{ended:?}"
    );
    assert!(!ended.err.contains(|c: char| c.is_control() && c != '\n'), "{:?}", ended.err);
    assert!(!ended.err.lines().any(|line| line.starts_with("bursar: all")), "{ended:?}");
}

#[test]
fn nothing_is_signed_above_the_maximum_or_without_an_offer() {
    let dear = Shop::selling("10001", |stream| write_response(stream, "200 OK", &[], "goods"));
    let vague = Shop::open(|_, stream| {
        write_response(stream, "402 Payment Required", &[], "send a cheque")
    });
    let payer = Payer::new();
    let ended = payer.run_pay("bearer", &[&dear.url, "--max", "0.01"]);
    assert_eq!((ended.exit_code, ended.out.as_str()), (6, ""), "{ended:?}");
    assert!(
        ended.err.contains("0.010001 USDC") && ended.err.contains("nothing was signed"),
        "{ended:?}"
    );
    let ended = payer.run_pay("bearer", &[&vague.url]);
    assert_eq!((ended.exit_code, ended.out.as_str()), (1, "send a cheque"), "{ended:?}");
    assert_eq!((dear.requests().len(), vague.requests().len(), payer.history().len()), (1, 1, 0));

    // A refusal by the wallet is reported with its code and exit code.
    let limit = Shop::selling("10000001", |stream| write_response(stream, "200 OK", &[], "goods"));
    let ended = payer.run_pay("hmac", &[&limit.url]);
    assert_eq!((ended.exit_code, limit.payments().len()), (6, 0), "{ended:?}");
    assert!(ended.err.contains("EXCEEDS_PER_REQUEST_MAX"), "{ended:?}");
    // Price and limit are named in both modes.
    let of_bearer = payer.run_pay("bearer", &[&limit.url]);
    for ended in [ended, of_bearer] {
        let names_both =
            ended.err.contains("10.000001 USDC") && ended.err.contains("allows 10.00 USD");
        assert!(names_both, "{ended:?}");
    }
}

#[test]
fn redirect_is_reported_and_not_followed() {
    let there = Shop::open(|_, stream| write_response(stream, "200 OK", &[], "elsewhere"));
    let to = there.url.clone();
    let shop = Shop::selling("10000", move |stream| {
        write_response(stream, "307 Temporary Redirect", &[("location", &to)], "moved");
    });
    let payer = Payer::new();
    let ended = payer.run_pay("bearer", &[&shop.url]);
    assert_eq!((ended.exit_code, ended.out.as_str()), (0, "moved"), "{ended:?}");
    assert!(ended.err.contains(&there.url) && ended.err.contains("not followed"), "{ended:?}");
    assert!(there.requests().is_empty());
}

#[test]
fn missing_or_wrong_agent_variables_are_reported_and_nothing_is_paid() {
    let shop = Shop::selling("10000", |stream| write_response(stream, "200 OK", &[], "goods"));
    let ended = CommandResult::of(pay_without_agent(&[&shop.url]).output().unwrap());
    assert_eq!((ended.exit_code, ended.out.as_str()), (2, ""));
    assert!(ended.err.contains("eval \"$(bursar agent instructions <agent>)\""), "{ended:?}");
    let ended = CommandResult::of(pay_without_agent(&[&shop.url, "--json"]).output().unwrap());
    assert_eq!(ended.json()["error"]["code"], "BAD_INPUT");

    let mut payer = Payer::new();
    for name in AGENT_VARIABLES {
        let ended = CommandResult::of(
            payer.pay_command("hmac", &[&shop.url]).env_remove(name).output().unwrap(),
        );
        assert!(ended.exit_code == 2 && ended.err.contains(name), "{ended:?}");
    }
    for words in [
        &["-H", "X-PAYMENT: x"][..],
        &["-H", "Host: a"],
        &["-H", "nonsense"],
        &["--max", "much"],
        &["--data", "x"],
        &["-d", "@/nonexistent"],
        &["-X", "A B"],
    ] {
        let ended = payer.run_pay("hmac", &[&[shop.url.as_str()], words].concat());
        assert_eq!(ended.exit_code, 2, "{words:?} {ended:?}");
    }
    let ended = payer.run_pay("hmac", &["http://shop.example/"]);
    assert!(ended.exit_code == 2 && ended.err.contains("--allow-http"), "{ended:?}");
    assert!(shop.requests().is_empty(), "no server was asked before the error");

    let wrong = format!("AT_{}", "0".repeat(64));
    for mode in ["hmac", "bearer"] {
        let mut pay = payer.pay_command(mode, &[&shop.url, "--json"]);
        let ended = CommandResult::of(pay.env("WALLET_AGENT_TOKEN", &wrong).output().unwrap());
        let told = ended.json();
        assert_eq!((ended.exit_code, &told["error"]["code"]), (5, &json!("AUTH_FAILED")), "{told}");
        assert!(!format!("{ended:?}").contains(&wrong));
    }
    payer.home.must("wallet lock");
    let ended = payer.run_pay("bearer", &[&shop.url]);
    assert!(ended.exit_code == 4 && ended.err.contains("bursar wallet open"), "{ended:?}");
    drop(payer.engine.take());
    let ended = payer.run_pay("hmac", &[&shop.url]);
    assert!(ended.exit_code == 3 && ended.err.contains("bursar engine"), "{ended:?}");
    assert!(shop.payments().is_empty());
    let nobody = CommandResult::of(
        payer.pay_command("hmac", &["http://127.0.0.1:9/"]).stdin(Stdio::null()).output().unwrap(),
    );
    assert_eq!(nobody.exit_code, 1, "{nobody:?}");
}
