//! The clients of PyPI's x402 call our facilitator. They treat any status other than 200 as a fault, and check
//! every field of a 200 answer.

use alloy_primitives::{Address, U256};
use bursar_tests::payer::{Payer, TransferMethod};
use bursar_tests::sdk::{Script, WHEELS};
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, SHOP, Stage};

/// The package's synchronous and asynchronous clients.
const CLIENTS: [&str; 2] = ["sync", "async"];

/// Returns the payer's address in an answer.
fn payer_of(answer: &Value) -> Address {
    answer["payer"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().expect("an address")
}

#[test]
fn the_list_of_python_packages_pins_bytes_and_names_no_host() {
    assert!(!WHEELS.requirements.contains("://"));
    // The recorded requirements name no folder of the machine that made them.
    assert!(!WHEELS.requirements.contains("--find-links"));
    let entries: Vec<&str> = WHEELS.requirements.split("\n").collect();
    for (at, line) in entries.iter().enumerate() {
        let is_package = line.contains("==");
        assert!(!is_package || entries[at + 1].trim().starts_with("--hash=sha256:"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_clients_find_verify_and_settle() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let mut facilitator_client =
        Script::start_python("facilitator_client.py", &[&stage.facilitator.url]).await;
    let payer = stage.payer().await;
    for by in CLIENTS {
        let answer = facilitator_client.ask(&json!({ "ask": "supported", "by": by })).await;
        let kinds = answer["kinds"].as_array().unwrap_or_else(|| panic!("{answer}"));
        for (version, network) in [(2, "eip155:8453"), (1, "base")] {
            let kind = json!({ "x402Version": version, "scheme": "exact", "network": network });
            assert!(kinds.contains(&kind), "{answer}");
        }
        assert!(answer["signers"]["eip155:*"].is_array(), "{answer}");
        for (method, version) in [
            (TransferMethod::Eip3009, 1),
            (TransferMethod::Eip3009, 2),
            (TransferMethod::Permit2, 2),
        ] {
            let case = format!("{by} {method:?} version {version}");
            let body = stage.pay(&payer, method, 900).body(version);
            let before = stage.balance(SHOP).await;
            let answer =
                facilitator_client.ask(&json!({ "ask": "verify", "by": by, "body": body })).await;
            assert_eq!(
                (&answer["isValid"], payer_of(&answer)),
                (&json!(true), payer.address()),
                "{case}"
            );
            let answer =
                facilitator_client.ask(&json!({ "ask": "settle", "by": by, "body": body })).await;
            assert_eq!(
                (&answer["success"], payer_of(&answer)),
                (&json!(true), payer.address()),
                "{case}"
            );
            assert_eq!(answer["network"], body["paymentRequirements"]["network"], "{case}");
            assert_eq!(answer["transaction"].as_str().map(str::len), Some(66), "{case}: {answer}");
            assert_eq!(stage.balance(SHOP).await, before + U256::from(900), "{case}");
        }
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_clients_read_why_a_payment_is_refused() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let mut facilitator_client =
        Script::start_python("facilitator_client.py", &[&stage.facilitator.url]).await;
    let poor = Payer::random();
    for (by, version) in [("sync", 1), ("async", 2)] {
        let body = stage.pay(&poor, TransferMethod::Eip3009, 900).body(version);
        let answer =
            facilitator_client.ask(&json!({ "ask": "verify", "by": by, "body": body })).await;
        assert_eq!(answer["isValid"], false, "{answer}");
        assert_eq!(answer["invalidReason"], "insufficient_balance", "{answer}");
        assert_eq!(payer_of(&answer), poor.address());
        let answer =
            facilitator_client.ask(&json!({ "ask": "settle", "by": by, "body": body })).await;
        assert_eq!(
            (&answer["success"], &answer["transaction"]),
            (&json!(false), &json!("")),
            "{answer}"
        );
        assert_eq!(answer["errorReason"], "insufficient_balance", "{answer}");
    }
    stage.facilitator.stop().await;
}
