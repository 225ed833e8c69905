//! Proofs of receipts: complete, checked from their own bytes, and refused after any change.

use std::sync::Arc;

use base64::Engine as _;
use bursar_control::answers::{Answer, ProofAnswer};
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::status::EntryKind;
use bursar_engine::proofs::{Checked, check, parse_head};
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Longer than any payment of these tests stays valid.
const LAPSE_MS: u64 = 3_700_000;

async fn stage() -> (TestEngine, Agent) {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5 --networks 8453").await;
    let agent = engine.add_agent("bot", "hmac").await;
    (engine, agent)
}

/// Pays and returns the id of the request.
async fn pay(engine: &TestEngine, agent: &Agent, n: u64) -> String {
    pay_signed(engine, agent, n).await.0
}

/// Pays and returns the id of the request, and the hex digits of the payment's signature.
async fn pay_signed(engine: &TestEngine, agent: &Agent, n: u64) -> (String, String) {
    let body = agent.ask(engine.now_s(), &offer(12_000 + n, n), None);
    let (status, paid) = engine.post("/sign", &body).await;
    assert_eq!(status, 200, "{paid}");
    let header = paid["header_value"].as_str().expect("a header");
    let payload = base64::engine::general_purpose::STANDARD.decode(header).expect("base64");
    let payload: Value = serde_json::from_slice(&payload).expect("JSON");
    let signature = payload["payload"]["signature"].as_str().expect("a signature");
    let signature = signature.trim_start_matches("0x").to_owned();
    (paid["transaction_id"].as_str().expect("an id").to_owned(), signature)
}

/// Writes a proof, and returns the answer and the file.
async fn prove(engine: &TestEngine, line: &str) -> (ProofAnswer, String) {
    let outcome = engine.operator().outcome(line).await;
    match outcome.reply.result {
        Ok(Answer::Proof(proof)) => (proof, outcome.file),
        other => panic!("{line}: {other:?}"),
    }
}

fn rules() -> Arc<EditionRules> {
    Arc::new(EditionRules::of(EditionName::Full))
}

fn checked(file: &str) -> Checked {
    check(file.as_bytes(), None, rules()).expect("a proof")
}

fn is_good(file: &[u8]) -> bool {
    check(file, None, rules()).is_ok_and(|checked| checked.defects.is_empty())
}

fn form(checked: &Checked) -> Value {
    let receipt = checked.receipt.as_ref().expect("a receipt").to_compact();
    serde_json::from_str(&receipt).expect("JSON")
}

#[tokio::test]
async fn proof_gives_the_same_receipt_from_the_entries_alone() {
    let (engine, agent) = stage().await;
    let other = engine.add_agent("other", "bearer").await;
    engine.operator().must("mandate create bot").await;
    let (mut ids, mut signatures) = (Vec::new(), Vec::new());
    for n in 1..=9 {
        let (id, signature) = pay_signed(&engine, &agent, 2 * n).await;
        ids.push(id);
        signatures.push(signature);
        pay(&engine, &other, 2 * n + 1).await;
    }
    // A request that the operator approved.
    let body = agent.ask(engine.now_s(), &offer(2_000_000, 90), None);
    let (status, held) = engine.post("/sign", &body).await;
    assert_eq!(status, 202, "{held}");
    let held = held["request_id"].as_str().expect("an id").to_owned();
    let fault = engine.operator().run_refused(&format!("receipt {held} --proof p")).await;
    assert_eq!(fault.code, Code::RequestNoLongerValid, "it is open: {fault}");
    let mut operator = engine.operator();
    operator.must(&format!("approve {held} --confirm 2.00 --yes")).await;
    ids.push(held);
    let fault = operator.run_refused(&format!("receipt {} --proof p", ids[0])).await;
    assert!(fault.message.contains("can still be settled"), "{fault}");
    engine.clock.advance(LAPSE_MS);
    let report = agent.report(engine.now_s(), &ids[3], "failed", None);
    assert_eq!(engine.post("/callback", &report).await.0, 200);
    for id in &ids {
        let (proof, file) = prove(&engine, &format!("receipt {id} --proof p")).await;
        let found = checked(&file);
        assert_eq!(found.defects, [""; 0], "{id}");
        let receipt = engine.get(&format!("/receipt/{id}")).await.1;
        assert_eq!(form(&found), receipt);
        assert_eq!(found.signer.map(|one| one.to_checksum(None)), proof.signer);
        assert_eq!(receipt["authorization"]["wallet"]["address"], proof.signer.clone().unwrap());
        let head = parse_head(&proof.head).unwrap();
        assert!(check(file.as_bytes(), Some(head), rules()).unwrap().defects.is_empty());
        let wrong = check(file.as_bytes(), Some([1; 32]), rules()).unwrap();
        assert_eq!(wrong.defects.len(), 1, "{:?}", wrong.defects);
        // Neither other requests nor the signature of the payment.
        for private in ids.iter().filter(|other| *other != id) {
            let hidden = private.replace('-', "");
            assert!(!file.contains(private) && !file.contains(&hidden));
        }
        for signature in &signatures {
            assert!(!file.contains(signature.as_str()), "{signature}");
        }
    }
    // One anchor covers them all, and each statement was recorded before it was signed.
    let Answer::Activity(activity) = operator.must("activity --limit 200").await else { panic!() };
    let count = |kind| activity.entries.iter().filter(|row| row.kind == kind).count();
    assert_eq!(count(EntryKind::JournalAnchored), 1);
    assert_eq!(count(EntryKind::ReceiptStated), ids.len());
    assert!(matches!(operator.must("audit verify").await, Answer::Audit(_)));
}

#[tokio::test]
async fn every_changed_byte_of_a_proof_is_refused() {
    let (engine, agent) = stage().await;
    let id = pay(&engine, &agent, 1).await;
    pay(&engine, &agent, 2).await;
    pay(&engine, &agent, 3).await;
    engine.clock.advance(LAPSE_MS);
    let (_proof, file) = prove(&engine, &format!("receipt {id} --proof p")).await;
    assert!(is_good(file.as_bytes()));
    let mut bytes = file.clone().into_bytes();
    for at in 0..bytes.len() {
        for change in [1, 2, 0x20, 0x80] {
            bytes[at] ^= change;
            assert!(!is_good(&bytes), "byte {at} of {}", bytes.len());
            bytes[at] ^= change;
        }
        assert!(!is_good(&bytes[..at]), "cut at {at}");
    }
    for longer in [format!("{file}\n"), format!(" {file}"), file.replace(":", ": ")] {
        assert!(!is_good(longer.as_bytes()));
    }
}

#[tokio::test]
async fn spliced_proofs_and_proofs_without_a_voucher_are_refused() {
    let (engine, agent) = stage().await;
    let (first, second) = (pay(&engine, &agent, 1).await, pay(&engine, &agent, 2).await);
    engine.clock.advance(LAPSE_MS);
    let report = agent.report(engine.now_s(), &first, "failed", None);
    assert_eq!(engine.post("/callback", &report).await.0, 200);
    let (proof, file) = prove(&engine, &format!("receipt {first} --proof p")).await;
    let (_other, other) = prove(&engine, &format!("receipt {second} --proof p")).await;
    let [own, foreign]: [Value; 2] =
        [&file, &other].map(|text| serde_json::from_str(text).unwrap());
    let with = |key: &str, value: Value| {
        let mut changed = own.clone();
        changed[key] = value;
        ordered(&changed)
    };
    assert_eq!(ordered(&own), file, "the helper writes the same text");
    for key in ["entries", "leaf", "path", "statement", "signature"] {
        let spliced = with(key, foreign[key].clone());
        assert!(spliced == file || !is_good(spliced.as_bytes()), "{key}");
    }
    // Without its last entry, the failure would be missing.
    let mut fewer = own["entries"].as_array().unwrap().clone();
    fewer.pop();
    assert!(!is_good(with("entries", fewer.into()).as_bytes()));
    // Without a signature only a noted head vouches for it.
    let unsigned = with("signature", Value::Null);
    assert!(!is_good(unsigned.as_bytes()));
    let head = parse_head(&proof.head).unwrap();
    let named = check(unsigned.as_bytes(), Some(head), rules()).unwrap();
    assert_eq!(named.defects, ["names of agent and mandate without a signature"]);
    let mut bare: Value = serde_json::from_str(&unsigned).unwrap();
    bare["statement"]["agent"]["name"] = Value::Null;
    let unsigned = ordered(&bare);
    assert!(check(unsigned.as_bytes(), Some(head), rules()).unwrap().defects.is_empty());
    // Another journal has other heads.
    let (elsewhere, stranger) = stage().await;
    let id = pay(&elsewhere, &stranger, 1).await;
    elsewhere.clock.advance(LAPSE_MS);
    let (_proof, strange) = prove(&elsewhere, &format!("receipt {id} --proof p")).await;
    let strange: Value = serde_json::from_str(&strange).unwrap();
    assert!(!is_good(with("anchor", strange["anchor"].clone()).as_bytes()));
}

/// Writes an object with the members in the order of a proof.
fn ordered(proof: &Value) -> String {
    let statement = &proof["statement"];
    let (agent, wallet) = (&statement["agent"], &statement["wallet"]);
    format!(
        r#"{{"format":{},"entries":{},"anchor":{},"leaf":{},"path":{},"statement":{{"type":{},"version":{},"request":{},"head":{},"entries":{},"agent":{{"id":{},"name":{}}},"mandateId":{},"wallet":{wallet}}},"signature":{}}}"#,
        proof["format"],
        proof["entries"],
        proof["anchor"],
        proof["leaf"],
        proof["path"],
        statement["type"],
        statement["version"],
        statement["request"],
        statement["head"],
        statement["entries"],
        agent["id"],
        agent["name"],
        statement["mandateId"],
        proof["signature"],
    ) + "\n"
}

#[tokio::test]
async fn noted_head_proves_older_receipts_and_no_other_head_does() {
    let (engine, agent) = stage().await;
    let (first, second) = (pay(&engine, &agent, 1).await, pay(&engine, &agent, 2).await);
    engine.clock.advance(LAPSE_MS);
    let (noted, _file) = prove(&engine, &format!("receipt {second} --proof p")).await;
    let later = pay(&engine, &agent, 3).await;
    engine.clock.advance(LAPSE_MS);
    let (newer, _file) = prove(&engine, &format!("receipt {later} --proof p")).await;
    assert_ne!(newer.head, noted.head);
    let line = format!("receipt {first} --proof p --head {}", noted.head);
    let (old, file) = prove(&engine, &line).await;
    assert_eq!(old.head, noted.head);
    assert!(is_good(file.as_bytes()));
    let mut operator = engine.operator();
    let line = format!("receipt {later} --proof p --head {}", noted.head);
    assert_eq!(operator.run_refused(&line).await.code, Code::NothingFound, "it is too old");
    let Answer::Audit(audit) = operator.must("audit verify").await else { panic!() };
    let line = format!("receipt {first} --proof p --head {}", audit.head);
    let fault = operator.run_refused(&line).await;
    assert!(fault.message.contains("only heads that proofs show"), "{fault}");
    let line = format!("receipt {first} --proof p --head 00");
    assert_eq!(operator.run_refused(&line).await.code, Code::BadInput);
}

#[tokio::test]
async fn proof_needs_consent_an_open_wallet_and_something_that_was_paid() {
    let (engine, agent) = stage().await;
    let id = pay(&engine, &agent, 1).await;
    let body = agent.ask(engine.now_s(), &offer(9_000_000, 5), None);
    assert_ne!(engine.post("/sign", &body).await.0, 200);
    let Answer::History(history) = engine.operator().must("history --status refused").await else {
        panic!("a history")
    };
    let refused = history.requests[0].id.clone();
    engine.clock.advance(LAPSE_MS);
    let line = format!("receipt {id} --proof p");
    let mut silent = engine.operator();
    silent.asking = Asking::Silent;
    assert_eq!(silent.run_refused(&line).await.code, Code::ConfirmationNeeded);
    let mut dry = engine.operator();
    dry.asking = Asking::DryRun;
    assert!(matches!(dry.must(&line).await, Answer::Plan(_)));
    let mut operator = engine.operator();
    let fault = operator.run_refused(&format!("receipt {refused} --proof p")).await;
    assert!(fault.message.contains("Nothing was paid"), "{fault}");
    operator.must("freeze").await;
    prove(&engine, &line).await;
    operator.must("wallet lock").await;
    assert_eq!(operator.run_refused(&line).await.code, Code::WalletLocked);
    operator.must("wallet open").await;
    // The restore and the acceptance of a journal are part of the next anchor.
    operator.must("audit accept").await;
    let (proof, file) = prove(&engine, &line).await;
    assert!(checked(&file).anchor.unwrap().2.accepted.is_none(), "the earlier anchor is enough");
    assert_eq!(proof.entries.len(), 1);
    // An address that was deleted signs nothing.
    operator.must("address create other 1").await;
    operator.must("agent commission bot p other").await;
    operator.must("address delete pay").await;
    let outcome = engine.operator().outcome(&line).await;
    assert_eq!(outcome.reply.warnings[0].code, "NOT_SIGNED");
    assert!(!is_good(outcome.file.as_bytes()));
    let Ok(Answer::Proof(proof)) = outcome.reply.result else { panic!("a proof") };
    let head = parse_head(&proof.head).unwrap();
    let noted = check(outcome.file.as_bytes(), Some(head), rules()).unwrap();
    assert_eq!(noted.defects, [""; 0]);
}

/// The library that computes the tree must not be asked about impossible ones.
#[tokio::test]
async fn anchors_with_impossible_numbers_are_refused() {
    let (engine, agent) = stage().await;
    let id = pay(&engine, &agent, 1).await;
    engine.clock.advance(LAPSE_MS);
    let (_proof, file) = prove(&engine, &format!("receipt {id} --proof p")).await;
    let own: Value = serde_json::from_str(&file).unwrap();
    let anchor = hex::decode(own["anchor"].as_str().unwrap()).unwrap();
    // Form, number, time and previous hash; then two variants, `through` and its hash.
    let (through, through_bytes) = varint(&anchor[51..]);
    let after = 51 + through_bytes + 32;
    let (_requests, requests_bytes) = varint(&anchor[after..]);
    let limits =
        [0, 1, 2, through, through + 1, 1 << 40, 1 << 62, 1 << 63, (1 << 63) + 1, u64::MAX];
    for requests in limits {
        for leaf in [0, 1, requests.wrapping_sub(1), requests, u64::MAX] {
            let tail = &anchor[after + requests_bytes..];
            let forged = [&anchor[..after], &to_varint(requests), tail].concat();
            let head: [u8; 32] = Sha256::digest(&forged).into();
            let mut proof = own.clone();
            proof["anchor"] = hex::encode(&forged).into();
            proof["leaf"] = leaf.into();
            proof["statement"]["head"] = hex::encode(head).into();
            proof["statement"]["agent"]["name"] = Value::Null;
            proof["signature"] = Value::Null;
            let checked = check(ordered(&proof).as_bytes(), Some(head), rules()).unwrap();
            let is_real = requests == 1 && leaf == 0;
            assert_eq!(checked.defects.is_empty(), is_real, "{requests} {leaf}");
        }
    }
}

/// Reads an integer of postcard, and returns its length in bytes.
fn varint(bytes: &[u8]) -> (u64, usize) {
    let length = 1 + bytes.iter().take_while(|byte| **byte >= 0x80).count();
    let value =
        bytes[..length].iter().rev().fold(0, |sum, byte| (sum << 7) | u64::from(byte & 0x7f));
    (value, length)
}

fn to_varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}
