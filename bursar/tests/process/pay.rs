//! `bursar pay`: which payments it makes, that it makes each once, and how it passes responses on.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use alloy_primitives::Address;
use bursar_core::networks::ChainId;
use bursar_devnet::merchant::{Merchant, MerchantConfig, Version};
use serde_json::{Value, json};

use crate::payer::{CommandResult, Payer};
use crate::shop::{Shop, encode_header, write_response};

fn tx_hash() -> String {
    format!("0x{}", "ab".repeat(32))
}

/// Longest wait for a command that streams.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the short form of an id that people see.
pub(crate) fn short_id(id: &str) -> &str {
    id.split('-').next().unwrap()
}

fn settlement_header() -> String {
    encode_header(&json!({ "success": true, "transaction": tx_hash(), "network": "eip155:8453" }))
}

#[test]
fn both_auth_modes_pay_both_versions_at_a_verifying_merchant() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let goods = MerchantConfig::new(ChainId(8453), Address::repeat_byte(7))
        .sell("/v2", 10_000)
        .sell_in(Version::V1, "/v1", 20_000);
    let merchant = runtime.block_on(Merchant::serve(goods)).unwrap();
    let payer = Payer::new();
    for mode in ["hmac", "bearer"] {
        for (path, price) in [("/v1", "0.02"), ("/v2", "0.01")] {
            let url = format!("{}{path}", merchant.url());
            let ended = payer.run_pay(mode, &[&url, "--max", price]);
            assert_eq!(ended.exit_code, 0, "{ended:?}");
            let goods: Value = serde_json::from_str(&ended.out).unwrap();
            assert_eq!(goods["content"], format!("What you paid for at {path}."));
            let asked =
                format!("402: the server asks for {price} USDC on Base, to 0x0707070707070707");
            assert!(ended.err.contains(&asked), "{ended:?}");
            assert!(ended.err.contains("the server reports: settled"), "{ended:?}");
        }
        // Running the command again makes another purchase, even at the same moment.
        let url = format!("{}/v2", merchant.url());
        let told = payer.run_pay(mode, &[&url, "--json"]).json();
        let data = &told["data"];
        assert_eq!((&told["ok"], &data["status"]), (&json!(true), &json!(200)), "{told}");
        let paid = &data["paid"];
        assert_eq!(
            (&paid["amount"]["text"], &paid["amount"]["atoms"]),
            (&json!("0.010000 USDC"), &json!("10000"))
        );
        assert_eq!((&paid["token"], &paid["network"]), (&json!("USDC"), &json!("eip155:8453")));
        assert_eq!((&paid["x402_version"], &paid["sent"]), (&json!(2), &json!(1)));
        assert_eq!(data["receipt"]["success"], true);
        assert_eq!(data["request_id"].as_str().unwrap().len(), 36);
        let goods: Value = serde_json::from_str(data["body"].as_str().unwrap()).unwrap();
        assert_eq!(goods["paid"], "10000");
    }
    assert!(merchant.payments().iter().all(|payment| payment.outcome.is_paid()));
    assert_eq!((merchant.payments().len(), payer.history().len()), (6, 6));
    // A path that needs no payment costs nothing.
    let ended = payer.run_pay("hmac", &[&format!("{}/nothing", merchant.url())]);
    assert_eq!((ended.exit_code, payer.history().len()), (7, 6), "{ended:?}");
    assert!(ended.out.contains("nothing is sold here"), "{ended:?}");
}

#[test]
fn paid_request_differs_from_the_first_by_one_header() {
    let shop = Shop::selling("10000", |stream| {
        let headers =
            [("payment-response", settlement_header()), ("content-type", "a/b".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        write_response(stream, "201 Created", &headers, "done");
    });
    let payer = Payer::new();
    let mut pay = payer.pay_command(
        "bearer",
        &[
            &shop.url,
            "-X",
            "PUT",
            "-d",
            "@-",
            "-H",
            "Authorization: Bearer x",
            "-H",
            "A: 1",
            "-H",
            "A: 2",
            "--json",
            "--include",
        ],
    );
    let mut child = pay.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("{\"grüße\": 1}".as_bytes()).unwrap();
    let ended = CommandResult::of(child.wait_with_output().unwrap());
    assert_eq!(ended.exit_code, 0, "{ended:?}");
    let [first, mut paid] = <[_; 2]>::try_from(shop.requests()).unwrap();
    assert_eq!(first.line, "PUT /goods?x=1 HTTP/1.1");
    assert_eq!(first.body, "{\"grüße\": 1}");
    assert_eq!(first.header("content-type"), Some("application/json"));
    let before = paid.headers.len();
    paid.headers.retain(|(name, _)| name != "payment-signature");
    assert_eq!(paid.headers.len(), before - 1);
    let sorted = |mut headers: Vec<(String, String)>| {
        headers.sort();
        headers
    };
    assert_eq!(sorted(paid.headers), sorted(first.headers));
    assert_eq!((paid.line, paid.body), (first.line, first.body));

    let data = &ended.json()["data"];
    assert_eq!((&data["status"], &data["body"]), (&json!(201), &json!("done")));
    assert_eq!(data["headers"]["content-type"], "a/b");
    assert_eq!(data["paid"]["transaction"], tx_hash());
    assert!(
        ended.err.contains("HTTP 402 Payment Required") && ended.err.contains("HTTP 201 Created")
    );
    // The wallet received the settlement that the server reported.
    assert_eq!(data["reported"], true);
    assert_eq!(payer.history()[0]["tx_hash"], tx_hash());
}

/// Tests a final 409, and a 409 for a payment in use that expires before the next attempt.
#[test]
fn a_409_with_a_receipt_is_reported_to_the_wallet_like_any_other_answer() {
    let payer = Payer::new();
    for (n, (code, after)) in
        [("answer_not_kept", "1"), ("payment_in_use", "90")].iter().enumerate()
    {
        let body = json!({ "error": { "message": "no", "code": code } }).to_string();
        let told = body.clone();
        let shop = Shop::selling("10000", move |stream| {
            let receipt = settlement_header();
            let headers = [("payment-response", receipt.as_str()), ("retry-after", after)];
            write_response(stream, "409 Conflict", &headers, &told);
        });
        let ended = payer.run_pay("bearer", &[&shop.url, "--json"]);
        let told = ended.json();
        assert_eq!((ended.exit_code, shop.payments().len()), (1, 1), "{ended:?}");
        assert_eq!(
            (&told["data"]["reported"], &told["data"]["body"]),
            (&json!(true), &json!(body))
        );
        assert_eq!(told["data"]["receipt"]["success"], true);
        let history = payer.history();
        assert_eq!(history.len(), n + 1);
        assert!(history.iter().all(|request| request["tx_hash"] == tx_hash()), "{history:?}");
    }
}

#[test]
fn a_held_request_is_paid_once_the_operator_has_approved() {
    let shop = Shop::selling("1000000", |stream| write_response(stream, "200 OK", &[], "goods"));
    let payer = Payer::new();
    let held = |words: &[&str]| {
        let mut child = payer.pay_command("hmac", words).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("held: request") {
            assert!(err.read_line(&mut said).unwrap() > 0, "{said}");
        }
        let id = said.split("held: request ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        (child, err, id)
    };
    let end = |child: std::process::Child, mut err: BufReader<std::process::ChildStderr>| {
        let output = child.wait_with_output().unwrap();
        let mut said = String::new();
        err.read_to_string(&mut said).unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (child, err, id) = held(&[&shop.url]);
    assert!(shop.payments().is_empty());
    payer.home.must(&format!("approve {id} --yes"));
    let (exit, out, _) = end(child, err);
    assert_eq!((exit, out.as_str(), shop.payments().len()), (0, "goods", 1));

    let (child, err, id) = held(&[&shop.url]);
    payer.home.must(&format!("deny {id} too dear"));
    let (exit, out, said) = end(child, err);
    assert_eq!((exit, out.as_str()), (21, ""));
    assert!(said.contains("too dear"), "{said}");

    // An interrupted command reports that the request may still be approved.
    let (child, err, id) = held(&[&shop.url]);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (exit, out, said) = end(child, err);
    assert_eq!((exit, out.as_str()), (130, ""));
    assert!(said.contains(&id) && said.contains("may still be approved"), "{said}");
    for (wait, exit, code) in [("0", 20, "APPROVAL_REQUIRED"), ("1", 124, "WAIT_RAN_OUT")] {
        let ended = payer.run_pay("bearer", &[&shop.url, "--wait", wait, "--json"]);
        let told = ended.json();
        assert_eq!((ended.exit_code, told["error"]["code"].as_str()), (exit, Some(code)), "{told}");
        let whole = told["data"]["request_id"].as_str().unwrap();
        assert!(told["error"]["message"].as_str().unwrap().contains(short_id(whole)), "{told}");
    }
    assert_eq!(shop.payments().len(), 1);
}

#[test]
fn body_is_streamed_unchanged_and_a_truncated_body_fails() {
    let (seen, wait) = mpsc::channel::<()>();
    let shop = Shop::selling("10000", move |stream| {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        write!(stream, "{head}6\r\nfirst\n\r\n").unwrap();
        // The server sends the second part only after the first was read.
        if wait.recv_timeout(PATIENCE).is_ok() {
            stream.write_all(b"5\r\n\xff\x1b[2J\r\n0\r\n\r\n").unwrap();
        }
    });
    let payer = Payer::new();
    let mut child = payer.pay_command("hmac", &[&shop.url, "--quiet"]).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 6];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first\n");
    seen.send(()).unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"\xff\x1b[2J", "a body is passed on as it is");
    assert!(child.wait().unwrap().success());

    // A part was already written, so the response cannot start again.
    drop(seen);
    let ended = payer.run_pay("bearer", &[&shop.url]);
    assert_eq!((ended.exit_code, ended.out.as_str()), (1, "first\n"), "{ended:?}");
    assert!(ended.err.contains("may have been sent and accepted"), "{ended:?}");
    assert_eq!(shop.payments().len(), 2);
}
