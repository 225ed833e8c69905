//! Checks the facilitator's reports about itself against official libraries and the specification.

use std::collections::BTreeSet;

use bursar_core::networks;
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, Stage};

/// Chain ids in the specification's table of networks.
const CHAINS: [u64; 6] = [8453, 84532, 1_187_947_933, 324_705_682, 4663, 46630];

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn official_libraries_parse_the_supported_kinds() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    let (status, answer) = stage.facilitator.get("/supported").await;
    assert_eq!(status, 200);
    // Checks the shape that zod and pydantic expect: objects, strings, and lists of strings by name.
    let kinds = answer["kinds"].as_array().expect("a list");
    let kind = |version: u64, network: &str| {
        kinds.iter().any(|kind| {
            kind["x402Version"].as_u64() == Some(version)
                && kind["scheme"] == "exact"
                && kind["network"] == network
                && kind.get("extra").is_none_or(Value::is_object)
        })
    };
    assert!(kind(2, "eip155:8453") && kind(1, "base"), "{answer}");
    let served = BTreeSet::from(["eip155:8453", "base"]);
    for kind in kinds {
        assert!(served.contains(kind["network"].as_str().expect("a text")), "{kind}");
        assert!([1, 2].contains(&kind["x402Version"].as_u64().expect("a number")), "{kind}");
    }
    let extensions = answer["extensions"].as_array().expect("a list");
    assert!(extensions.iter().all(Value::is_string), "{answer}");
    let signers = json!(stage.home.signers);
    for name in ["eip155:*", "eip155:8453"] {
        let mut answer = answer["signers"][name].as_array().expect("a list").clone();
        let mut expected = signers.as_array().expect("a list").clone();
        answer.sort_by_key(Value::to_string);
        expected.sort_by_key(Value::to_string);
        assert_eq!(answer, expected, "{name}");
    }
    assert_eq!(keys(&answer["signers"]), BTreeSet::from(["eip155:*", "eip155:8453"]));
    // The following fields are only in the specification.
    assert_eq!(answer["x402Version"], 2);
    assert!(answer["schemes"].as_array().expect("a list").contains(&json!("exact")));
    for method in ["eip3009", "permit2", "prism", "smartWallet"] {
        assert_eq!(answer["capabilities"][method], true, "{method}");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_matches_the_specifications_table() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let (status, answer) = stage.facilitator.get("/supported?view=summary").await;
    assert_eq!(status, 200);
    assert_eq!(keys(&answer), BTreeSet::from(["x402Version", "kinds", "extensions", "signers"]));
    assert!(answer["x402Version"].is_u64(), "{answer}");
    let kinds = answer["kinds"].as_array().expect("a list");
    let known = [json!("exact"), json!("upto"), json!("batch-settlement")];
    assert!(kinds.contains(&known[0]) && kinds.iter().all(|kind| known.contains(kind)), "{answer}");
    assert_eq!(keys(&answer["extensions"]), BTreeSet::from(["eip3009", "permit2", "smartWallet"]));
    assert!(answer["extensions"].as_object().expect("named").values().all(Value::is_boolean));
    assert_eq!(answer["signers"], json!({ "eip155:8453": stage.home.signers }));
    let (status, answer) = stage.facilitator.get("/supported?view=other").await;
    assert_eq!(status, 400);
    assert!(answer["error"].is_string());
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_contracts_list_the_configured_networks() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let (status, answer) = stage.facilitator.get("/health").await;
    assert_eq!(status, 200);
    assert_eq!(keys(&answer), BTreeSet::from(["status", "version", "networks"]));
    assert_eq!(answer["status"], "healthy");
    assert!(answer["version"].as_str().is_some_and(|version| !version.is_empty()));
    let names: BTreeSet<String> = CHAINS.map(|chain| format!("eip155:{chain}")).into();
    for name in &names {
        assert!(answer["networks"][name]["configured"].is_boolean(), "{name}: {answer}");
    }
    for (name, network) in answer["networks"].as_object().expect("named") {
        assert_eq!(network, &json!({ "configured": name == "eip155:8453" }), "{name}");
    }
    let (status, answer) = stage.facilitator.get("/contracts").await;
    assert_eq!(status, 200);
    let prism = json!(bursar_tests::payer::PRISM);
    let row = networks::by_id_or_v1_name("base").expect("a row");
    for name in ["eip155:8453", row.v1_names[0]] {
        assert_eq!(answer[name]["prism"], prism, "{name}");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_paths_and_methods_are_refused_in_json() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let cases = [
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("POST", "/verify/", 404),
        ("GET", "/Verify", 404),
        ("POST", "//settle", 404),
        ("GET", "/metrics", 404),
        ("GET", "/verify", 405),
        ("GET", "/settle", 405),
        ("PUT", "/settle", 405),
        ("DELETE", "/verify", 405),
        ("PATCH", "/verify", 405),
        ("HEAD", "/settle", 405),
        ("POST", "/supported", 405),
        ("POST", "/health", 405),
        ("POST", "/contracts", 405),
        ("HEAD", "/supported", 200),
        ("HEAD", "/health", 200),
        ("GET", "/openapi.json", 200),
    ];
    for (method, path, status) in cases {
        let answer = stage.facilitator.request(method, path).send().await.expect("answered");
        assert_eq!(answer.status().as_u16(), status, "{method} {path}");
        let kind = answer.headers().get("content-type").cloned();
        assert_eq!(kind.expect("a type"), "application/json", "{method} {path}");
        if status == 405 {
            assert!(answer.headers().contains_key("allow"), "{method} {path}");
        }
        let body = answer.bytes().await.expect("a body");
        if method == "HEAD" {
            assert!(body.is_empty(), "{method} {path}");
        } else {
            let reply: Value = serde_json::from_slice(&body).expect("JSON");
            assert!(status == 200 || reply["error"].is_string(), "{method} {path}: {reply}");
        }
    }
    stage.facilitator.stop().await;
}
