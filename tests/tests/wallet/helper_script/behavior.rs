//! The helper's behaviour towards merchants, and towards a wallet that is slow, busy or gone.

use bursar_core::json;
use bursar_core::limits::BODY_DEPTH_MAX;
use bursar_engine::agent_api::message::{Endpoint, canonical_text};
use bursar_engine::edition::AgentWire;
use bursar_tests::agent::Agent;
use bursar_tests::offers::header;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::helper_script::peer::{Peer, ReceivedRequest, Reply, reply};
use crate::helper_script::python::{run_helper, run_script};

pub(crate) const TX: &str = "0x00000000000000000000000000000000000000000000000000000000000000aa";

pub(crate) fn agent(bearer: bool) -> Agent {
    let token = "AT_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".into();
    Agent::new("ABC123".into(), token, bearer)
}

/// Checks the proof in a body with the engine's own table of signed messages.
pub(crate) fn check_proof(agent: &Agent, seen: &ReceivedRequest) {
    let json::Value::Object(body) = json::parse(&seen.body, BODY_DEPTH_MAX).unwrap() else {
        panic!()
    };
    let signature = seen.json()["signature"].as_str().unwrap().to_owned();
    if agent.uses_bearer {
        return assert_eq!(signature, agent.token);
    }
    let endpoint = match seen.path.as_str() {
        "/sign" => Endpoint::Sign,
        "/callback" => Endpoint::Callback,
        "/venues" => Endpoint::Venues,
        "/position" => Endpoint::Position,
        _ => Endpoint::Read,
    };
    let [_sig, timestamp, digest] = signature.split(':').collect::<Vec<_>>()[..] else { panic!() };
    let messages =
        endpoint.messages(&AgentWire::FULL, &agent.id, timestamp.parse().unwrap(), &body);
    let [message] = messages.unwrap().try_into().unwrap();
    let key = hex::decode(&agent.token[3..]).unwrap();
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let mac = mac.chain_update(canonical_text(message));
    assert_eq!(digest, hex::encode(mac.finalize().into_bytes()));
}

/// Returns a success of `/sign`; the header's value contains the number of the request.
pub(crate) fn signed_reply(name: &str, n: usize) -> Reply {
    reply(
        200,
        &json!({
            "status": "success", "x402_version": 2, "header_name": name,
            "header_value": format!("paid-{n}"), "transaction_id": format!("tx-{n}"),
        }),
    )
}

/// A wallet that signs every request with a valid proof.
fn signing_wallet(agent: Agent, name: &'static str) -> Peer {
    Peer::serve(move |seen, n| {
        check_proof(&agent, seen);
        Some(match seen.path.as_str() {
            "/sign" => signed_reply(name, n),
            _ => reply(200, &json!({ "status": "ok", "limit": 0.1 })),
        })
    })
}

fn offer() -> String {
    header(&json!({ "x402Version": 2, "accepts": [{ "scheme": "exact", "amount": "1" }] }))
}

/// A version 2 merchant that accepts any payment.
pub(crate) fn shop() -> Peer {
    Peer::serve(|seen, _n| {
        Some(match seen.header("payment-signature") {
            None => reply(402, &json!({})).with_header("payment-required", offer()),
            Some(_paid) => reply(200, &json!({ "goods": "yours" })).with_header(
                "PAYMENT-RESPONSE",
                header(&json!({ "success": true, "transaction": TX })),
            ),
        })
    })
}

fn paths(peer: &Peer) -> Vec<String> {
    peer.received().into_iter().map(|seen| seen.path).collect()
}

#[test]
fn version_2_is_paid_once_and_reported_with_either_proof() {
    for bearer in [false, true] {
        let agent = agent(bearer);
        let (wallet, shop) = (signing_wallet(agent.clone(), "PAYMENT-SIGNATURE"), shop());
        let url = format!("{}/a b?q=é", shop.url);
        let arguments = ["pay", &url, "--data", "{\"n\":1}", "--header", "X-Mine: 7"];
        let (exit, answer) = run_helper(&wallet.url, &agent, &arguments);
        assert_eq!((exit, &answer["http"], &answer["status"]), (0, &json!(200), &json!("success")));
        assert_eq!(answer["transaction_id"], "tx-0");
        assert_eq!((&answer["tx_hash"], &answer["reported"]), (&json!(TX), &json!("settled")));
        assert_eq!(answer["body"], json!({ "goods": "yours" }));

        let asks = wallet.received();
        assert_eq!(paths(&wallet), ["/sign", "/callback"]);
        assert_eq!(asks[0].json()["payment_required"], offer());
        assert_eq!(asks[0].json()["request_url"], format!("{}/a%20b?q=%C3%A9", shop.url));
        assert_eq!(asks[0].json()["idempotency_key"].is_string(), bearer);
        assert_eq!(asks[1].json()["transaction_id"], "tx-0");
        // The paid request is the first one with one more header.
        let [first, second] = &shop.received()[..] else { panic!() };
        assert_eq!((&first.path, &first.body), (&second.path, &second.body));
        assert_eq!(first.method, "POST");
        assert_eq!((first.header("x-mine"), second.header("x-mine")), (Some("7"), Some("7")));
        assert_eq!((first.header("payment-signature"), &second.method), (None, &first.method));
        assert_eq!(second.header("payment-signature"), Some("paid-0"));
    }
}

#[test]
fn version_1_sends_the_body_unchanged_and_the_header_of_the_answer() {
    let body = json!({
        "x402Version": 1, "error": "pay – é",
        "accepts": [{
            "scheme": "exact", "network": "base", "maxAmountRequired": "10000", "asset": "0x1",
            "maxTimeoutSeconds": 60, "extra": { "rate": 1.5, "big": 12345678901234567890u64 },
        }],
    });
    let challenge = body.clone();
    let shop = Peer::serve(move |seen, _n| {
        Some(match seen.header("x-payment") {
            None => reply(402, &challenge),
            Some(_paid) => reply(200, &json!("goods")).with_header(
                "X-PAYMENT-RESPONSE",
                header(&json!({ "success": true, "transaction": TX })),
            ),
        })
    });
    for bearer in [false, true] {
        let agent = agent(bearer);
        let wallet = signing_wallet(agent.clone(), "X-PAYMENT");
        let (exit, answer) = run_helper(&wallet.url, &agent, &["pay", &shop.url]);
        assert_eq!((exit, &answer["tx_hash"], &answer["body"]), (0, &json!(TX), &json!("goods")));
        let ask = wallet.received()[0].json();
        assert_eq!((&ask["x402_data"], ask.get("payment_required")), (&body, None));
        assert_eq!(shop.received().last().unwrap().header("x-payment"), Some("paid-0"));
    }
}

#[test]
fn a_lost_answer_is_asked_for_with_the_same_bytes() {
    for bearer in [false, true] {
        let agent = agent(bearer);
        let busy = json!({ "status": "error", "code": "BUSY", "error": "", "retry_after": 5 });
        let wallet = Peer::serve(move |seen, n| match (seen.path.as_str(), n) {
            ("/sign", 0) => None,
            ("/sign", 1) => Some(reply(503, &busy)),
            _ => Some(signed_reply("PAYMENT-SIGNATURE", n)),
        });
        let (exit, answer) = run_helper(&wallet.url, &agent, &["pay", &shop().url]);
        assert_eq!((exit, &answer["transaction_id"]), (0, &json!("tx-2")));
        let [first, second, third, callback] = &wallet.received()[..] else { panic!() };
        assert_eq!((&first.body, &second.body), (&second.body, &third.body));
        assert_eq!(callback.path, "/callback");
    }
}

#[test]
fn two_purchases_of_the_same_item_are_never_the_same_request() {
    const CODE: &str = r#"
import json, sys, helper
print(json.dumps([helper.Wallet.from_env().pay(sys.argv[1]).transaction_id for _ in range(3)]))
"#;
    for (bearer, field) in [(false, "signature"), (true, "idempotency_key")] {
        let agent = agent(bearer);
        let wallet = signing_wallet(agent.clone(), "PAYMENT-SIGNATURE");
        run_script(&wallet.url, &agent, CODE, &[&shop().url]);
        let asks = wallet.received().into_iter().filter(|seen| seen.path == "/sign");
        let mut names: Vec<String> = asks.map(|ask| ask.json()[field].to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3);
    }
}

#[test]
fn a_payment_header_follows_no_redirect_and_an_unpaid_request_none_to_another_origin() {
    let agent = agent(false);
    let other = Peer::serve(|_seen, _n| {
        Some(reply(402, &json!({})).with_header("PAYMENT-REQUIRED", offer()))
    });
    let elsewhere = format!("{}/", other.url);
    let aim = elsewhere.clone();
    let shop = Peer::serve(move |seen, _n| {
        Some(match (seen.path.as_str(), seen.header("payment-signature")) {
            ("/moved", _) => reply(301, &json!({})).with_header("Location", "/here"),
            ("/here", None) => reply(402, &json!({})).with_header("PAYMENT-REQUIRED", offer()),
            _ => reply(307, &json!({})).with_header("Location", aim.clone()),
        })
    });
    let wallet = signing_wallet(agent.clone(), "PAYMENT-SIGNATURE");
    let (exit, answer) = run_helper(&wallet.url, &agent, &["pay", &format!("{}/away", shop.url)]);
    assert_eq!((exit, &answer["http"], &answer["location"]), (1, &json!(307), &json!(elsewhere)));
    assert_eq!(answer["transaction_id"], Value::Null);
    assert_eq!(wallet.received(), []);

    let (exit, answer) = run_helper(&wallet.url, &agent, &["pay", &format!("{}/moved", shop.url)]);
    assert_eq!(
        (exit, &answer["http"], &answer["transaction_id"]),
        (1, &json!(307), &json!("tx-0"))
    );
    assert_eq!(wallet.received()[0].json()["request_url"], format!("{}/here", shop.url));
    assert_eq!(paths(&shop), ["/away", "/moved", "/here", "/here"]);
    assert_eq!(other.received(), []);
}

#[test]
fn refusals_include_the_wallets_code() {
    let agent = agent(false);
    let code_of = |status: u16, ask: Value, poll: Value| {
        let wallet = Peer::serve(move |seen, n| match seen.path.as_str() {
            "/sign" => Some(reply(status, &ask)),
            _ if n == 1 => {
                Some(reply(202, &json!({ "status": "executing", "request_id": "7f3c" })))
            }
            _ => Some(reply(200, &poll)),
        });
        let arguments = ["pay", &shop().url, "--poll", "0.01"];
        let (exit, answer) = run_helper(&wallet.url, &agent, &arguments);
        assert_eq!((exit, &answer["status"]), (1, &json!("error")));
        answer
    };
    let refused = json!({
        "status": "error", "code": "EXCEEDS_PER_REQUEST_MAX", "error": "Exceeds", "max_micro": 7,
    });
    let answer = code_of(403, refused, Value::Null);
    assert_eq!(
        (&answer["code"], &answer["max_micro"]),
        (&json!("EXCEEDS_PER_REQUEST_MAX"), &json!(7))
    );
    assert_eq!((&answer["http"], &answer["error"]), (&json!(403), &json!("Exceeds")));
    let pending = json!({ "status": "pending", "request_id": "7f3c" });
    for (poll, code) in [
        (json!({ "status": "rejected", "reason": "User rejected" }), "REQUEST_DENIED"),
        (
            json!({ "status": "rejected", "reason": "", "code": "REQUEST_EXPIRED" }),
            "REQUEST_EXPIRED",
        ),
        (json!({ "status": "success", "code": "ALREADY_SIGNED" }), "ALREADY_SIGNED"),
        (json!("no object"), "UNEXPECTED_ANSWER"),
    ] {
        assert_eq!(code_of(202, pending.clone(), poll)["code"], code);
    }
    let answer = code_of(200, json!({ "status": "rejected", "reason": "no" }), Value::Null);
    assert_eq!((&answer["code"], &answer["reason"]), (&json!("REQUEST_DENIED"), &json!("no")));
}

#[test]
fn the_helper_reports_why_a_purchase_is_impossible() {
    let agent = agent(false);
    let wallet = signing_wallet(agent.clone(), "PAYMENT-SIGNATURE");
    let odd = Peer::serve(|_seen, _n| Some(reply(402, &json!({ "pay": "me" }))));
    // Takes the payment and hangs up.
    let rude = Peer::serve(|seen, _n| match seen.header("payment-signature") {
        None => Some(reply(402, &json!({})).with_header("PAYMENT-REQUIRED", offer())),
        Some(_paid) => None,
    });
    let cases = [
        (odd.url.as_str(), "NOT_X402"),
        ("http://127.0.0.1:9/", "UNREACHABLE"),
        ("file:///etc/hostname", "WRONG_INPUT"),
        ("http://user:secret@127.0.0.1:9/", "WRONG_INPUT"),
    ];
    for (url, code) in cases {
        let (exit, answer) = run_helper(&wallet.url, &agent, &["pay", url]);
        assert_eq!((exit, &answer["code"]), (1, &json!(code)), "{url}");
    }
    assert_eq!(wallet.received(), []);
    let (exit, answer) = run_helper(&wallet.url, &agent, &["pay", &rude.url]);
    assert_eq!((exit, &answer["code"]), (1, &json!("UNDELIVERED")));
    assert_eq!(
        (&answer["transaction_id"], &answer["header_value"]),
        (&json!("tx-0"), &json!("paid-0"))
    );
    let held = Peer::serve(|_seen, _n| {
        Some(reply(202, &json!({ "status": "pending", "request_id": "7f3c" })))
    });
    let (exit, answer) = run_helper(&held.url, &agent, &["wait", "7f3c", "--timeout", "0"]);
    assert_eq!(
        (exit, &answer["code"], &answer["request_id"]),
        (1, &json!("TIMEOUT"), &json!("7f3c"))
    );
}

#[test]
fn all_other_calls_have_a_valid_proof_and_keep_numbers_exact() {
    for bearer in [false, true] {
        let agent = agent(bearer);
        let wallet = signing_wallet(agent.clone(), "PAYMENT-SIGNATURE");
        let calls: [&[&str]; 7] = [
            &["venues"],
            &["venues", "--chain-id", "8453"],
            &["mandate"],
            &["balances"],
            &["status"],
            &["callback", "tx-0", "failed", "--error", "out of stock"],
            &["sign", "--payment-required", "e30=", "--idempotency-key", "k"],
        ];
        for call in calls {
            let (exit, answer) = run_helper(&wallet.url, &agent, call);
            assert_eq!(exit, 0, "{answer}");
            assert!(call[0] == "sign" || answer["limit"] == "0.1", "{answer}");
        }
        let (received, paths) = (wallet.received(), paths(&wallet));
        assert_eq!(paths[..2], ["/venues", "/venues"]);
        assert_eq!(paths[2..], ["/mandate", "/balances", "/status", "/callback", "/sign"]);
        let asked = received[..2].iter().map(|seen| seen.json().get("position").cloned());
        assert_eq!(asked.collect::<Vec<_>>(), [None, Some(json!({ "chain_id": 8453 }))]);
        assert_eq!(received[6].json()["idempotency_key"], "k");
    }
}

const VAULT: &str = "0xBeEff033F34C046626B8D0A041844C5d1A5409dd";
const MARKET: &str = "0xb323495f7e4148be5643a4ea4a8221eef163e4bccfdedc2a6f4696baacbc86cc";

#[test]
fn a_position_is_asked_for_once_and_polled_until_it_is_over() {
    for bearer in [false, true] {
        let agent = agent(bearer);
        let known = agent.clone();
        let wallet = Peer::serve(move |seen, n| {
            if seen.method == "POST" {
                check_proof(&known, seen);
            }
            let open =
                |status: &str| Some(json!({ "status": status, "request_id": "7f3c", "quote": {} }));
            let busy = json!({ "status": "error", "code": "BUSY", "error": "", "retry_after": 5 });
            let executed = json!({ "status": "executed", "request_id": "7f3c", "tx_hash": TX });
            let (status, answer) = match n {
                // The first answer is lost, and the wallet restarts during a poll.
                0 | 3 => (200, None),
                1 => (202, open("pending")),
                2 => (202, open("pending")),
                4 => (503, Some(busy)),
                5 => (200, open("executing")),
                _ => (200, Some(executed)),
            };
            answer.map(|answer| reply(status, &answer))
        });
        let arguments =
            ["position", "supply", VAULT, "25.5", "--chain-id", "8453", "--poll", "0.01"];
        let (exit, answer) = run_helper(&wallet.url, &agent, &arguments);
        assert_eq!(
            (exit, &answer["status"], &answer["tx_hash"]),
            (0, &json!("executed"), &json!(TX))
        );
        let received = wallet.received();
        assert_eq!(paths(&wallet)[..3], ["/position", "/position", "/position/status/7f3c"]);
        assert_eq!((received.len(), &received[0].body), (7, &received[1].body));
        let asked = received[0].json();
        assert_eq!(
            asked["position"],
            json!({
                "action": "supply", "venue": VAULT, "venue_kind": "vault", "amount": "25.5",
                "chain_id": 8453,
            })
        );
        assert_eq!(asked["idempotency_key"].is_string(), bearer);
    }
}

#[test]
fn a_full_exit_names_no_amount_and_each_call_is_a_separate_request() {
    const CODE: &str = r#"
import json, sys, helper
wallet = helper.Wallet.from_env()
print(json.dumps([wallet.position("withdraw", sys.argv[1], withdraw_all=True)["status"] for _ in range(2)]))
"#;
    for (bearer, field) in [(false, "signature"), (true, "idempotency_key")] {
        let agent = agent(bearer);
        let wallet = Peer::serve(|_seen, _n| Some(reply(200, &json!({ "status": "executed" }))));
        run_script(&wallet.url, &agent, CODE, &[MARKET]);
        let [first, second] = &wallet.received()[..] else { panic!() };
        let exit = json!({
            "action": "withdraw", "venue": MARKET, "venue_kind": "market", "withdraw_all": true,
        });
        assert_eq!(first.json()["position"], exit);
        assert_ne!(first.json()[field], second.json()[field]);
    }
    let nowhere = "http://127.0.0.1:9/";
    for wrong in [&["withdraw", VAULT][..], &["withdraw", VAULT, "1", "--all"]] {
        let (exit, answer) = run_helper(nowhere, &agent(true), &[&["position"], wrong].concat());
        assert_eq!((exit, &answer["code"]), (1, &json!("WRONG_INPUT")), "{wrong:?}");
    }
}

#[test]
fn a_position_that_ends_otherwise_is_an_error_with_its_reason() {
    let agent = agent(false);
    let ended = |first: (u16, Value), poll: Value| {
        let wallet = Peer::serve(move |seen, _n| {
            Some(match seen.method.as_str() {
                "POST" => reply(first.0, &first.1),
                _poll => reply(200, &poll),
            })
        });
        let arguments = ["position", "withdraw", VAULT, "--all", "--poll", "0.01"];
        let (exit, answer) = run_helper(&wallet.url, &agent, &arguments);
        assert_eq!((exit, &answer["status"]), (1, &json!("error")));
        answer
    };
    let rejected = |code: Value, reason: &str| {
        json!({
            "status": "rejected", "request_id": "7f3c", "reason": "Not now.", "code": code,
            "reason_code": reason, "retryable": reason == "INSUFFICIENT_LIQUIDITY",
        })
    };
    let mut dry = rejected(json!("INSUFFICIENT_LIQUIDITY"), "INSUFFICIENT_LIQUIDITY");
    dry["retry_after"] = json!(60);
    let answer = ended((503, dry), Value::Null);
    assert_eq!((&answer["code"], &answer["http"]), (&json!("INSUFFICIENT_LIQUIDITY"), &json!(503)));
    assert_eq!((&answer["retry_after"], &answer["retryable"]), (&json!(60), &json!(true)));
    assert_eq!(answer["error"], "Not now.");
    let pending = || (202, json!({ "status": "pending", "request_id": "7f3c" }));
    for (poll, code) in [
        (rejected(Value::Null, "REQUEST_DENIED"), "REQUEST_DENIED"),
        (rejected(json!("EXPIRED"), "REQUEST_EXPIRED"), "REQUEST_EXPIRED"),
        (rejected(json!("POLICY_REJECTED"), "EXPOSURE_EXCEEDED"), "EXPOSURE_EXCEEDED"),
        (
            json!({ "status": "failed", "code": "REVERTED", "reason_code": "EXECUTION_ERROR" }),
            "EXECUTION_ERROR",
        ),
        (json!("no object"), "UNEXPECTED_ANSWER"),
    ] {
        assert_eq!(ended(pending(), poll)["code"], code);
    }
    let off = json!({ "status": "error", "code": "DEFI_DISABLED", "error": "Not enabled." });
    assert_eq!(ended((400, off), Value::Null)["code"], "DEFI_DISABLED");

    let held = Peer::serve(|_seen, _n| {
        Some(reply(202, &json!({ "status": "pending", "request_id": "7f3c" })))
    });
    let (exit, answer) =
        run_helper(&held.url, &agent, &["wait-position", "7f3c", "--timeout", "0"]);
    assert_eq!((exit, &answer["code"]), (1, &json!("TIMEOUT")));
    assert_eq!(paths(&held), ["/position/status/7f3c"]);
}

#[test]
fn old_environment_names_are_read_and_a_wallet_shows_no_token() {
    const CODE: &str = r#"
import json, os, helper
for name in list(os.environ):
    if name.startswith("WALLET_"):
        os.environ["PRIMER_VAULT_" + name[7:]] = os.environ.pop(name)
wallet = helper.Wallet.from_env()
try:
    helper.Wallet.from_env({})
except ValueError as missing:
    print(json.dumps([repr(wallet), str(missing)]))
"#;
    let agent = agent(true);
    let answer = run_script("http://127.0.0.1:9/", &agent, CODE, &[]);
    assert_eq!(answer[0], "Wallet('http://127.0.0.1:9', 'ABC123', auth_mode='bearer')");
    assert_eq!(answer[1], "the environment variable WALLET_URL is not set");
}
