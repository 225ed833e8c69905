//! A counterparty built from the protocol's own packages: resource server and facilitator.
//!
//! It writes the offers, checks our headers and settles them. Other servers built from these
//! packages accept the same headers.

use alloy_primitives::B256;
use bursar_core::edition::EditionName;
use bursar_devnet::Devnet;
use bursar_tests::agent::Agent;
use bursar_tests::offers::{PAY_TO, decode_header, header};
use bursar_tests::operator::Expect;
use bursar_tests::sdk::{PACKAGES, Script};
use serde_json::{Value, json};

use crate::chain::programs::{Buyer, CASES};
use crate::chain::settlements::{
    PROGRAMS, assert_verified, download_helper, program, report_settled, stage_with_relay,
};
use crate::chain::stage::{SMALL_PRICE, Stage, TIMEOUT};

/// A combination of packages, served at its own path of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// npm `x402` alone.
    X402,
    /// npm `x402` writes the offers, and `@x402/evm` checks and settles them.
    EvmV1,
    /// `@x402/core` and `@x402/evm`.
    EvmV2,
}

const SIDES: [Side; 3] = [Side::X402, Side::EvmV1, Side::EvmV2];

impl Side {
    fn path(self) -> &'static str {
        match self {
            Self::X402 => "/x402",
            Self::EvmV1 => "/evm-v1",
            Self::EvmV2 => "/evm-v2",
        }
    }

    /// Returns the name of the payment header.
    fn header_name(self) -> &'static str {
        match self {
            Self::X402 | Self::EvmV1 => "X-PAYMENT",
            Self::EvmV2 => "PAYMENT-SIGNATURE",
        }
    }

    /// Returns the entry for this side among the three expected messages.
    fn expected(self, words: [&'static str; 3]) -> &'static str {
        match self {
            Self::X402 => words[0],
            Self::EvmV1 => words[1],
            Self::EvmV2 => words[2],
        }
    }
}

/// The counterparty, as a process.
#[derive(Debug)]
struct Peer {
    url: String,
    client: reqwest::Client,
    _script: Script,
}

/// The counterparty's answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// The offer, if payment is required.
    challenge: Value,
    /// The outcome of the payment, if it was settled.
    receipt: Value,
}

impl Peer {
    async fn open(chain: &Devnet) -> Self {
        let script = Script::start("peer.mjs", &[chain.url(), PAY_TO]).await;
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build();
        Self { url: script.ready_text.clone(), client: client.expect("a client"), _script: script }
    }

    fn url(&self, side: Side) -> String {
        format!("{}{}", self.url, side.path())
    }

    /// Sets the peer's clock this many seconds ahead.
    async fn advance(&self, seconds: i64) {
        let answer = self.client.post(format!("{}/ahead", self.url)).body(seconds.to_string());
        assert_eq!(answer.send().await.expect("an answer").status(), 200);
    }

    /// Requests the resource with a payment, or without one to get an offer.
    async fn request_resource(&self, side: Side, payment: Option<&str>) -> Answer {
        let mut request = self.client.get(self.url(side));
        if let Some(payment) = payment {
            request = request.header(side.header_name(), payment);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let inside = |name: &str| {
            answer.headers().get(name).map(|text| decode_header(text.to_str().unwrap()))
        };
        let receipt = inside("payment-response").or_else(|| inside("x-payment-response"));
        let asked = inside("payment-required");
        let body: Value = answer.json().await.expect("JSON");
        Answer { status, challenge: asked.unwrap_or(body), receipt: receipt.unwrap_or_default() }
    }

    /// Returns a payment that our wallet signs for the peer's offer, as modified by `change`.
    async fn sign_changed_offer(
        &self,
        stage: &Stage,
        agent: &Agent,
        side: Side,
        change: impl Fn(&mut Value),
    ) -> Value {
        let asked = self.request_resource(side, None).await;
        assert_eq!(asked.status, 402, "{asked:?}");
        let mut challenge = asked.challenge.clone();
        change(&mut challenge["accepts"][0]);
        let (stamp, url) = (stage.next_second(), self.url(side));
        let body = match side {
            Side::X402 | Side::EvmV1 => agent.ask_v1(stamp, &challenge, Some(&url)),
            Side::EvmV2 => agent.ask(stamp, &header(&challenge), Some(&url)),
        };
        let (status, answer) = stage.ask(&body).await;
        assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
        assert_eq!(answer["header_name"], side.header_name());
        let mut payment = decode_header(answer["header_value"].as_str().expect("a header"));
        // Keeps the signed values, and restores only the parts that name the peer's offer.
        match side {
            Side::X402 | Side::EvmV1 => {
                payment["network"] = asked.challenge["accepts"][0]["network"].clone();
            }
            Side::EvmV2 => payment["accepted"] = asked.challenge["accepts"][0].clone(),
        }
        payment
    }
}

#[test]
fn the_lock_file_pins_bytes_and_names_no_host() {
    assert!(!PACKAGES.lock.contains("://"));
    let lock: Value = serde_json::from_str(PACKAGES.lock).expect("JSON");
    for (name, package) in lock["packages"].as_object().expect("packages") {
        assert!(name.is_empty() || package["integrity"].is_string(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_servers_accept_and_settle_the_payments_of_our_agents() {
    let Some((mut stage, _relay)) = stage_with_relay(EditionName::default()).await else { return };
    let peer = Peer::open(&stage.chain).await;
    for case in CASES {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        for side in SIDES {
            let before = stage.balances().await;
            let answer = case.send(&agent, &stage.engine.url, &peer.url(side)).finish().await;
            assert_eq!(answer.outcome(), ("paid", Some(0)), "{side:?}: {}", answer.line);
            assert_eq!(answer.line["body"]["content"], "what was paid for");
            stage.assert_moved(before, SMALL_PRICE).await;
            let receipt = &answer.line["payment_response"];
            assert_eq!(receipt["success"], true, "{receipt}");
            assert_eq!(receipt["payer"], stage.payer.to_string(), "{receipt}");
            let tx_hash: B256 = receipt["transaction"].as_str().unwrap().parse().unwrap();
            let id = answer.line["transaction_id"].as_str().expect("an id");
            report_settled(&stage, &agent, id, tx_hash).await;
            assert_verified(&mut stage, id, tx_hash).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_2_servers_get_their_offer_and_extensions_back() {
    let Some((mut stage, _relay)) = stage_with_relay(EditionName::default()).await else { return };
    let peer = Peer::open(&stage.chain).await;
    let agent = stage.add_agent("bot", "bearer").await;
    let whole = peer.sign_changed_offer(&stage, &agent, Side::EvmV2, NO_CHANGE).await;
    let asked = peer.request_resource(Side::EvmV2, None).await.challenge;
    assert_eq!(whole["accepted"], asked["accepts"][0]);
    assert_eq!(whole["resource"], asked["resource"]);
    assert_eq!(whole["extensions"], asked["extensions"]);
    assert_eq!(whole["extensions"]["note"]["info"]["alpha"][1], 2.5, "they ask for something");
    for (pointer, error) in [
        ("/accepted/extra/details/zeta", "No matching payment requirements"),
        ("/extensions/note/info/zeta", "extension_echo_mismatch"),
    ] {
        let mut changed = whole.clone();
        edit_text(&mut changed, pointer, |_text| "something else".to_owned());
        let answer = peer.request_resource(Side::EvmV2, Some(&header(&changed))).await;
        assert_eq!((answer.status, answer.challenge["error"].as_str()), (402, Some(error)));
    }
    assert_eq!(peer.request_resource(Side::EvmV2, Some(&header(&whole))).await.status, 200);
}

/// A manipulation of a payment, and the error that each side returns.
struct Forgery {
    name: &'static str,
    /// Changes the offer before the wallet signs.
    change_offer: fn(&mut Value),
    /// Changes the payment after the wallet has signed.
    change_payment: fn(&mut Value),
    /// Seconds by which the peer's clock is ahead of the payment.
    ahead_s: i64,
    error: [&'static str; 3],
}

const NO_CHANGE: fn(&mut Value) = |_same| {};
const SIGNATURE: [&str; 3] = [
    "invalid_exact_evm_payload_signature",
    "invalid_exact_evm_signature",
    "invalid_exact_evm_signature",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_servers_accept_the_payments_of_the_helper_and_curl() {
    let Some((mut stage, _relay)) = stage_with_relay(EditionName::default()).await else { return };
    let peer = Peer::open(&stage.chain).await;
    let folder = download_helper(&stage).await;
    for (name, auth) in PROGRAMS {
        let agent = stage.add_agent(&format!("{name}-{auth}"), auth).await;
        for side in SIDES {
            let before = stage.balances().await;
            let command = program(name, folder.path(), &peer.url(side));
            let answer = Buyer::start(command, &agent, &stage.engine.url).finish().await;
            assert_eq!(answer.exit, Some(0), "{name}, {side:?}: {}", answer.line);
            stage.assert_moved(before, SMALL_PRICE).await;
            // The program has reported the transaction in the server's receipt.
            let id = answer.line["transaction_id"].as_str().expect("an id");
            let receipt = stage.receipt_with_verdict(id, "verified").await;
            assert_eq!(receipt["status"], "payment-completed", "{receipt}");
        }
    }
}

/// Replaces a text in an object with the result of `make`.
fn edit_text(value: &mut Value, pointer: &str, make: impl Fn(&str) -> String) {
    let target = value.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    *target = json!(make(target.as_str().expect("text")));
}

fn one_less(number: &str) -> String {
    (number.parse::<u64>().expect("a number") - 1).to_string()
}

fn stranger_address(_address: &str) -> String {
    "0x00000000000000000000000000000000005409e0".to_owned()
}

const FORGERIES: [Forgery; 10] = [
    Forgery {
        name: "an atom less, signed",
        change_offer: |offer| {
            let key = if offer.get("amount").is_some() { "/amount" } else { "/maxAmountRequired" };
            edit_text(offer, key, one_less);
        },
        change_payment: NO_CHANGE,
        ahead_s: 0,
        error: [
            "invalid_exact_evm_payload_authorization_value",
            "invalid_exact_evm_authorization_value",
            "invalid_exact_evm_payload_authorization_value_mismatch",
        ],
    },
    Forgery {
        name: "an atom less, not signed",
        change_offer: NO_CHANGE,
        change_payment: |payment| edit_text(payment, "/payload/authorization/value", one_less),
        ahead_s: 0,
        error: SIGNATURE,
    },
    Forgery {
        name: "another payee, signed",
        change_offer: |offer| edit_text(offer, "/payTo", stranger_address),
        change_payment: NO_CHANGE,
        ahead_s: 0,
        error: [
            "invalid_exact_evm_payload_recipient_mismatch",
            "invalid_exact_evm_recipient_mismatch",
            "invalid_exact_evm_recipient_mismatch",
        ],
    },
    Forgery {
        name: "another payee, signed, with theirs written over it",
        change_offer: |offer| edit_text(offer, "/payTo", stranger_address),
        change_payment: |payment| {
            edit_text(payment, "/payload/authorization/to", |_to| PAY_TO.to_owned())
        },
        ahead_s: 0,
        error: SIGNATURE,
    },
    Forgery {
        name: "another network, signed, under theirs",
        change_offer: |offer| {
            let v1 = offer.get("amount").is_none();
            edit_text(offer, "/network", |_base| {
                if v1 { "base-sepolia" } else { "eip155:84532" }.into()
            });
            edit_text(offer, "/asset", |_usdc| "0x036CbD53842c5426634e7929541eC2318f3dCF7e".into());
            edit_text(offer, "/extra/name", |_name| "USDC".into());
        },
        change_payment: NO_CHANGE,
        ahead_s: 0,
        error: SIGNATURE,
    },
    Forgery {
        name: "another network, not signed",
        change_offer: NO_CHANGE,
        change_payment: |payment| match payment.get("accepted") {
            None => edit_text(payment, "/network", |_base| "base-sepolia".into()),
            Some(_offer) => edit_text(payment, "/accepted/network", |_base| "eip155:84532".into()),
        },
        ahead_s: 0,
        error: [
            "Unable to find matching payment requirements",
            "Unable to find matching payment requirements",
            "No matching payment requirements",
        ],
    },
    Forgery {
        name: "a longer life",
        change_offer: NO_CHANGE,
        change_payment: |payment| {
            edit_text(payment, "/payload/authorization/validBefore", |_soon| "99999999999".into());
        },
        ahead_s: 0,
        error: SIGNATURE,
    },
    Forgery {
        name: "another nonce",
        change_offer: NO_CHANGE,
        change_payment: |payment| {
            edit_text(payment, "/payload/authorization/nonce", |_nonce| {
                B256::repeat_byte(7).to_string()
            });
        },
        ahead_s: 0,
        error: SIGNATURE,
    },
    Forgery {
        name: "another payer",
        change_offer: NO_CHANGE,
        change_payment: |payment| {
            edit_text(payment, "/payload/authorization/from", stranger_address)
        },
        ahead_s: 0,
        error: SIGNATURE,
    },
    Forgery {
        name: "too late",
        change_offer: NO_CHANGE,
        change_payment: NO_CHANGE,
        // Offers are valid for a minute, and the facilitator requires six seconds of remaining validity.
        ahead_s: 60,
        error: ["invalid_exact_evm_payload_authorization_valid_before"; 3],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_servers_refuse_forged_payments() {
    let Some((mut stage, _relay)) = stage_with_relay(EditionName::default()).await else { return };
    let peer = Peer::open(&stage.chain).await;
    stage.operator.must("network enable 84532").await;
    let agent = stage.add_agent("bot", "hmac").await;
    for side in SIDES {
        let before = stage.balances().await;
        for forgery in &FORGERIES {
            let mut payment =
                peer.sign_changed_offer(&stage, &agent, side, forgery.change_offer).await;
            (forgery.change_payment)(&mut payment);
            peer.advance(forgery.ahead_s).await;
            let answer = peer.request_resource(side, Some(&header(&payment))).await;
            peer.advance(0).await;
            let error = answer.challenge["error"].as_str().unwrap_or_default();
            let wanted = side.expected(forgery.error);
            assert_eq!((answer.status, error), (402, wanted), "{side:?}, {}", forgery.name);
        }
        assert_eq!(stage.balances().await, before, "{side:?}");

        // Without a forgery the same steps succeed, so each refusal is caused by its forgery.
        let payment = header(&peer.sign_changed_offer(&stage, &agent, side, NO_CHANGE).await);
        let answer = peer.request_resource(side, Some(&payment)).await;
        assert_eq!((answer.status, &answer.receipt["success"]), (200, &json!(true)), "{answer:?}");
        stage.assert_moved(before, SMALL_PRICE).await;
        // The payment succeeds only once.
        let again = peer.request_resource(side, Some(&payment)).await;
        let error = again.challenge["error"].as_str().unwrap_or_default();
        let wanted = side.expected([
            "FiatTokenV2: authorization is used or canceled",
            "invalid_exact_evm_nonce_already_used",
            "invalid_exact_evm_nonce_already_used",
        ]);
        assert!(again.status == 402 && error.ends_with(wanted), "{side:?}: {again:?}");
        stage.assert_moved(before, SMALL_PRICE).await;
    }
}
