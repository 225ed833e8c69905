//! `bursar pay` with wallets that are slow, unreachable or malicious.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::payer::{CommandResult, pay_without_agent};
use crate::shop::{ReceivedRequest, Shop, encode_header, offer, write_response};

const ID: &str = "6fa459ea-ee8a-4ca4-894e-db77e160355e";

/// Returns the response of a wallet that signed for this payee. The signature is not checked.
fn signing_response(payee: &str) -> Value {
    let offered = &offer("10000")["accepts"][0];
    let terms = json!({ "to": payee, "value": "10000" });
    let payment = json!({
        "x402Version": 2, "accepted": offered, "payload": { "authorization": terms },
    });
    json!({
        "status": "success", "x402_version": 2, "header_name": "PAYMENT-SIGNATURE",
        "header_value": encode_header(&payment), "transaction_id": ID,
    })
}

fn honest_response() -> Value {
    signing_response(offer("10000")["accepts"][0]["payTo"].as_str().unwrap())
}

fn answer(stream: &mut TcpStream, status: &str, body: &Value) {
    write_response(stream, status, &[("content-type", "application/json")], &body.to_string());
}

fn buy(shop: &Shop, wallet: &Shop, mode: &str) -> CommandResult {
    let mut pay = pay_without_agent(&[&shop.url]);
    pay.env("WALLET_AGENT_ID", "ABC123")
        .env("WALLET_AGENT_TOKEN", format!("AT_{}", "1".repeat(64)))
        .env("WALLET_AUTH_MODE", mode)
        .env("WALLET_URL", wallet.base());
    CommandResult::of(pay.output().unwrap())
}

/// Pays with the wallet at `wallet`. Returns the result and the payments that the shop received.
fn pay(wallet: &Shop, mode: &str) -> (CommandResult, Vec<String>) {
    let shop = Shop::selling("10000", |stream| write_response(stream, "200 OK", &[], "goods"));
    (buy(&shop, wallet, mode), shop.payments())
}

#[test]
fn unanswered_sign_is_repeated_byte_for_byte_and_polls_survive_a_restart() {
    for mode in ["hmac", "bearer"] {
        let mut calls = 0;
        let wallet = Shop::open(move |_, stream| {
            calls += 1;
            match calls {
                // The wallet's responses in order: closes the connection, is busy, is signing, closes the connection
                // during a poll, has signed.
                1 | 4 => {}
                2 => answer(stream, "503 Service Unavailable", &json!({ "code": "BUSY" })),
                3 => answer(
                    stream,
                    "202 Accepted",
                    &json!({ "status": "executing", "request_id": ID }),
                ),
                _last => answer(stream, "200 OK", &honest_response()),
            }
        });
        let (ended, payments) = pay(&wallet, mode);
        assert_eq!(
            (ended.exit_code, ended.out.as_str(), payments.len()),
            (0, "goods", 1),
            "{ended:?}"
        );
        let seen = wallet.requests();
        let asks: Vec<&ReceivedRequest> =
            seen.iter().filter(|call| call.line.starts_with("POST /sign ")).collect();
        assert_eq!(asks.len(), 3, "{seen:?}");
        assert!(asks.iter().all(|ask| ask.body == asks[0].body), "{asks:?}");
        let polls = seen.iter().filter(|call| call.line.contains(&format!("/sign/status/{ID}")));
        assert_eq!(polls.count(), 2);
    }
}

/// A payment that waits for a Ledger needs no approval, so the message must not ask for one.
#[test]
fn a_payment_that_waits_for_a_ledger_says_so() {
    let body = |status: &str, waits_for: &str| {
        json!({
            "status": status, "request_id": ID, "waits_for": waits_for, "code": "APPROVAL_REQUIRED",
        })
    };
    let mut calls = 0;
    let wallet = Shop::open(move |_, stream| {
        calls += 1;
        match calls {
            1 => answer(stream, "202 Accepted", &body("pending", "operator")),
            2 => answer(stream, "202 Accepted", &body("pending", "device")),
            3 => answer(stream, "202 Accepted", &body("executing", "device")),
            _last => answer(stream, "200 OK", &honest_response()),
        }
    });
    let (ended, payments) = pay(&wallet, "bearer");
    assert_eq!((ended.exit_code, payments.len()), (0, 1), "{ended:?}");
    let said: Vec<&str> = ended.err.lines().filter(|line| line.contains("held: ")).collect();
    let [first, second] = said[..] else { panic!("{ended:?}") };
    assert!(first.contains("needs the operator's approval (bursar approve 6fa459ea)"), "{first}");
    assert!(second.contains("waits for the operator's Ledger"), "{second}");
    assert!(!second.contains("approve"), "{second}");
}

#[test]
fn payment_to_another_payee_is_not_sent_and_odd_wallets_are_rejected() {
    let nobody = "0x0000000000000000000000000000000000000001";
    let other = Shop::open(move |_, stream| answer(stream, "200 OK", &signing_response(nobody)));
    let (ended, payments) = pay(&other, "bearer");
    assert!(ended.exit_code == 1 && ended.err.contains("did not offer"), "{ended:?}");
    assert!(payments.is_empty());

    let mut header_of_its_own = honest_response();
    header_of_its_own["header_name"] = json!("Authorization");
    for told in [header_of_its_own, json!([1]), json!({ "error": "\u{1b}[2J" })] {
        let odd = Shop::open(move |_, stream| answer(stream, "200 OK", &told));
        let (ended, payments) = pay(&odd, "hmac");
        assert!(ended.exit_code != 0 && payments.is_empty(), "{ended:?}");
        assert!(!ended.err.contains('\u{1b}'), "{ended:?}");
    }
}

/// The wallet refuses the settlement report, but the response is still delivered.
#[test]
fn failed_settlement_report_is_only_a_warning() {
    let wallet = Shop::open(|call, stream| match call.line.contains("/callback") {
        true => answer(
            stream,
            "404 Not Found",
            &json!({ "code": "TRANSACTION_NOT_FOUND", "error": "no" }),
        ),
        false => answer(stream, "200 OK", &honest_response()),
    });
    let receipt = json!({ "success": true, "transaction": format!("0x{}", "cd".repeat(32)) });
    let shop = Shop::selling("10000", move |stream| {
        write_response(
            stream,
            "200 OK",
            &[("payment-response", &encode_header(&receipt))],
            "goods",
        );
    });
    let ended = buy(&shop, &wallet, "bearer");
    assert_eq!((ended.exit_code, ended.out.as_str()), (0, "goods"), "{ended:?}");
    assert!(ended.err.contains("settlement could not be reported"), "{ended:?}");
    assert!(!ended.err.contains("Nothing was paid"), "{ended:?}");
    let told = wallet.requests().into_iter().find(|call| call.line.contains("/callback")).unwrap();
    let told: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!((&told["event"], &told["transaction_id"]), (&json!("settled"), &json!(ID)));
}
