//! The helper's canonical text, proofs and bodies equal those of the vectors.

use std::path::{Path, PathBuf};

use bursar_tests::agent::Agent;
use serde_json::Value;

use crate::helper_script::python::run_script;

fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name)
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(vectors(name)).unwrap()).unwrap()
}

fn unused_agent() -> Agent {
    let token = format!("AT_{}", "0".repeat(64));
    Agent::new("ABC123".into(), token, false)
}

/// Runs code that reads the vector file `sys.argv[1]`.
fn run_vector_code(code: &str, file: &str) -> Vec<Value> {
    let answer =
        run_script("http://127.0.0.1:9", &unused_agent(), code, &[vectors(file).to_str().unwrap()]);
    answer.as_array().unwrap().clone()
}

#[test]
fn canonical_texts_are_those_of_the_vectors() {
    const CODE: &str = r#"
import base64, json, sys
import helper
results = []
for case in json.load(open(sys.argv[1]))["cases"]:
    wire = case["wire"] if case.get("wire") is not None else base64.b64decode(case["wire_b64"])
    try:
        results.append(helper.canonical(json.loads(wire)))
    except (ValueError, RecursionError):
        results.append(None)
print(json.dumps(results))
"#;
    let file = read("python-canonical-json.json");
    let cases = file["cases"].as_array().unwrap();
    let answer = run_vector_code(CODE, "python-canonical-json.json");
    let mut counts = (0, 0, 0);
    for (case, answer) in cases.iter().zip(&answer) {
        match case["advice"].as_str().unwrap() {
            "accept" => {
                assert_eq!(answer, &case["python"], "{}", case["id"]);
                counts.0 += 1;
            }
            // Where the vector advises servers to refuse the text, the helper may refuse it
            // although CPython serialises it.
            _ if answer.is_null() => counts.1 += 1,
            _ => {
                assert_eq!(answer, &case["python"], "{}", case["id"]);
                counts.2 += 1;
            }
        }
    }
    assert_eq!((cases.len(), answer.len()), (371, 371));
    assert_eq!(counts.0, 318);
    assert_eq!(counts.1 + counts.2, 53);
}

#[test]
fn signatures_are_those_of_the_vectors() {
    const CODE: &str = r#"
import json, sys
import helper
file = json.load(open(sys.argv[1]))
print(json.dumps([
    [helper.canonical(case["message"]), helper.sign_message(file["tokens"][case["token"]], case["message"])]
    for case in file["accepted"]
]))
"#;
    let file = read("hmac-requests.json");
    let accepted = file["accepted"].as_array().unwrap();
    let answer = run_vector_code(CODE, "hmac-requests.json");
    assert_eq!((accepted.len(), answer.len()), (24, 24));
    for (case, answer) in accepted.iter().zip(answer) {
        assert_eq!(answer[0], case["canonical"], "{}", case["id"]);
        assert_eq!(answer[1], case["body"]["signature"], "{}", case["id"]);
    }
}

#[test]
fn bodies_are_those_of_the_vectors() {
    const CODE: &str = r#"
import json, sys
import helper
file = json.load(open(sys.argv[1]))
results = []
for case in file["accepted"]:
    body, at = case["body"], case["message"]["timestamp"]
    wallet = helper.Wallet("http://127.0.0.1:9", body["agent_id"], file["tokens"][case["token"]])
    if case["endpoint"] == "/sign":
        results.append(wallet.sign_body(body.get("payment_required"), body.get("x402_data"),
                                     body.get("request_url"), body.get("idempotency_key"), timestamp=at))
    elif case["endpoint"] == "/callback":
        results.append(wallet.callback_body(body["transaction_id"], body["event"], body.get("tx_hash"),
                                         body.get("error"), timestamp=at))
    elif case["endpoint"] == "/venues":
        results.append(wallet.venues_body(body.get("position", {}).get("chain_id"), timestamp=at))
    elif case["endpoint"] == "/position":
        results.append(wallet.position_body(body["position"], timestamp=at))
    elif case["endpoint"] in ("/mandate", "/balances"):
        results.append(wallet.read_body(timestamp=at))
    else:
        results.append(None)
print(json.dumps(results))
"#;
    let file = read("hmac-requests.json");
    let accepted = file["accepted"].as_array().unwrap();
    let answer = run_vector_code(CODE, "hmac-requests.json");
    let mut built = 0;
    for (case, answer) in accepted.iter().zip(&answer).filter(|(_case, answer)| !answer.is_null()) {
        let empty = |value: &Value| value.is_null() || value == "";
        let fields = |body: &Value| -> Vec<(String, Value)> {
            let all = body.as_object().unwrap().clone().into_iter();
            all.filter(|(_name, value)| !empty(value)).collect()
        };
        // Empty fields may be present or absent.
        assert_eq!(fields(answer), fields(&case["body"]), "{}", case["id"]);
        built += 1;
    }
    assert_eq!((accepted.len(), built), (24, 20));
}
