//! Unique secrets used in every wallet operation. Afterwards every file, log, answer, argument and environment variable
//! is searched for them.

use std::path::Path;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_core::time::Utc;
use bursar_tests::agent::Agent;
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};

use crate::threats::credentials::files;
use crate::threats::node::Node;
use crate::threats::stage::{add_agent, cases, vectors};
use crate::threats::wire::exchange;

const PASSWORD: &str = "Kanarienvogel-7f3a Passwort";
const NEXT_PASSWORD: &str = "Kanarienvogel-91c2 Passwort";
const RPC_KEY: &str = "KANARIENVOGELRPCKEY55aa";
const ORDER_KEY: &str = "kanarienvogel-order-key-0193";
/// Start of a phrase of different words, which the vectors list with its private keys.
const PHRASE: &str = "legal winner";

/// Byte strings that must not appear anywhere, with their names.
#[derive(Default)]
struct Canaries(Vec<(String, Vec<u8>)>);

impl Canaries {
    fn add(&mut self, name: &str, bytes: &[u8]) {
        assert!(bytes.len() >= 12, "{name} is too short to be found by chance");
        self.0.push((name.to_owned(), bytes.to_vec()));
    }

    /// Adds a text and its base64 form.
    fn text(&mut self, name: &str, text: &str) {
        use base64::Engine as _;
        self.add(name, text.as_bytes());
        let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(text);
        self.add(&format!("{name}, base64"), encoded.as_bytes());
    }

    /// Adds bytes and their hex and decimal forms.
    fn bytes(&mut self, name: &str, digits: &str) {
        let digits = digits.trim_start_matches("0x");
        self.add(name, &hex::decode(digits).expect("hex"));
        self.add(&format!("{name}, digits"), digits.as_bytes());
        self.add(&format!("{name}, capital digits"), digits.to_uppercase().as_bytes());
        let list: Vec<String> =
            hex::decode(digits).unwrap().iter().take(8).map(u8::to_string).collect();
        self.add(&format!("{name}, as Rust shows bytes"), list.join(", ").as_bytes());
    }

    fn token(&mut self, name: &str, agent: &Agent) {
        self.text(name, &agent.token);
        self.bytes(name, &agent.token[3..]);
    }

    /// Adds every three consecutive words, with various separators.
    fn words(&mut self, phrase: &str) {
        let words: Vec<&str> = phrase.split(' ').collect();
        for three in words.windows(3) {
            for between in [" ", "\n", ",", ", ", "\",\"", "\", \""] {
                self.add("words of the seed", three.join(between).as_bytes());
            }
        }
    }

    fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let found = self.0.iter().filter(|(_, canary)| contains(bytes, canary));
        found.map(|(name, _)| name.as_str()).collect()
    }

    fn assert_none(&self, place: &str, bytes: &[u8]) {
        let found = self.found_in(bytes);
        assert!(found.is_empty(), "{found:?} in {place}");
    }
}

pub(crate) fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    // Searches for the first byte first, because the files here have mebibytes.
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == wanted[0]) {
        rest = &rest[at..];
        if rest.starts_with(wanted) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

/// Records the answers byte by byte.
struct AnswerLog<'a> {
    engine: &'a EngineProcess,
    answers: Vec<(String, Vec<u8>)>,
}

impl AnswerLog<'_> {
    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Value {
        let answer = exchange(&self.engine.url, method, path, headers, body.as_bytes());
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
        let value = serde_json::from_slice(&answer[end..]).unwrap_or(Value::Null);
        self.answers.push((format!("{method} {path}"), answer));
        value
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        self.ask("POST", path, "", &body.to_string())
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Sends everything that agents send: valid and invalid requests, and secrets in the wrong places.
fn ask_everything(
    answer_log: &mut AnswerLog<'_>,
    agent: &Agent,
    round: u64,
    ids: &mut Vec<String>,
) {
    let token = &agent.token;
    let mut asks = Vec::new();
    for (n, atoms) in [(0, 1_000), (1, 2_000_000), (2, 99_000_000)] {
        let mut body = agent.ask(now(), &offer(atoms, round * 10 + n), Some("https://a.example/"));
        body["idempotency_key"] = json!(format!("{ORDER_KEY}-{round}-{n}"));
        asks.push(body);
    }
    // A key reused for different content.
    let mut again = agent.ask(now(), &offer(1_000, round * 10 + 5), None);
    again["idempotency_key"] = json!(format!("{ORDER_KEY}-{round}-0"));
    asks.push(again);
    for body in &asks {
        let answer = answer_log.post("/sign", body);
        ids.extend(answer["request_id"].as_str().map(str::to_owned));
        ids.extend(answer["transaction_id"].as_str().map(str::to_owned));
    }
    for path in ["/mandate", "/balances", "/status"] {
        answer_log.post(path, &agent.read(now()));
    }
    for id in ids.clone() {
        for path in ["/sign/status/", "/receipt/", "/trade/status/"] {
            answer_log.ask("GET", &format!("{path}{id}"), "", "");
        }
        let hash = format!("0x{}", "cd".repeat(32));
        let news = json!({"transaction_id": id, "event": "settled", "tx_hash": hash});
        let fields = json!({"callback": news}).as_object().unwrap().clone();
        let mut body = news;
        body["agent_id"] = json!(agent.id);
        body["signature"] = json!(agent.sign(now(), &fields));
        answer_log.post("/callback", &body);
    }
    // The log must not repeat secrets in the wrong places of a request.
    let wrong = asks[0].to_string();
    let headers =
        format!("authorization: Bearer {token}\r\nx-agent-id: {token}\r\ncookie: t={token}\r\n");
    answer_log.ask("POST", "/sign", &headers, &wrong);
    answer_log.ask(
        "GET",
        "/status",
        &format!("x-agent-id: {}\r\nx-agent-signature: {token}x\r\n", agent.id),
        "",
    );
    for path in ["/sign/status/", "/receipt/", "/agent/", "/nothing/", "/ping?token=", "/status?t="]
    {
        answer_log.ask("GET", &format!("{path}{token}"), "", "");
    }
    for body in [
        json!({"agent_id": token, "signature": token, "payment_required": token}),
        json!({"agent_id": agent.id, "signature": format!("{token}0"), "payment_required": token}),
        json!({"agent_id": agent.id, "signature": token, "payment_required": token}),
        json!({"agent_id": agent.id, "signature": token, "x402_data": {"accepts": token}}),
        json!({"agent_id": agent.id, "signature": token, "x402_data": {"x402Version": PASSWORD}}),
        json!({"agent_id": agent.id, "signature": token, "idempotency_key": format!("{token} {token}")}),
        json!({"agent_id": agent.id, "signature": token, "trade": {"wallet": token}}),
        json!({token: token}),
        json!([token]),
        json!(PASSWORD),
    ] {
        for path in ["/sign", "/trade", "/ping", "/callback", "/mandate"] {
            answer_log.post(path, &body);
        }
    }
    answer_log.ask(
        "POST",
        "/sign",
        "",
        &format!("{{\"agent_id\":\"{token}\",\"{token}\":\"{token}"),
    );
    answer_log.ask("POST", "/sign", "content-encoding: x\r\n", &wrong);
    answer_log.ask(token, "/sign", "", &wrong);
}

async fn unlock(engine: &EngineProcess, password: &str) -> Operator {
    let mut operator = engine.operator().await;
    operator.password = password.to_owned();
    operator
}

fn assert_no_canaries(canaries: &Canaries, ids: &[String], folder: &Path, log: &Path) {
    let all = files(folder);
    assert!(all.len() >= 3, "{all:?}");
    for file in all {
        canaries.assert_none(&file.display().to_string(), &std::fs::read(&file).expect("ours"));
    }
    let log = std::fs::read(log).expect("a log");
    canaries.assert_none("the log", &log);
    for id in ids {
        assert!(!contains(&log, id.as_bytes()), "the log contains the whole of {id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_37_no_secret_is_in_a_file_a_log_or_an_answer() {
    let file = vectors("bip39-addresses.json");
    let case = file["cases"].as_array().unwrap().iter().find(|case| {
        case["mnemonic"].as_str().unwrap().starts_with(PHRASE) && case["passphrase"] == ""
    });
    let case = case.expect("the phrase");
    let phrase = case["mnemonic"].as_str().unwrap();
    assert_eq!(cases(&file, "cases", file["cases"].as_array().unwrap().len())[0]["passphrase"], "");
    let mut canaries = Canaries::default();
    canaries.text("password", PASSWORD);
    canaries.text("next password", NEXT_PASSWORD);
    canaries.text("key of the node", RPC_KEY);
    canaries.text("idempotency key", ORDER_KEY);
    canaries.words(phrase);
    canaries.bytes("entropy", case["entropy"].as_str().unwrap());
    canaries.bytes("seed", case["seed"].as_str().unwrap());
    for address in case["addresses"].as_array().unwrap() {
        canaries.bytes("private key", address["private_key"].as_str().unwrap());
    }

    let clock = Arc::new(ManualClock::new(Utc::default()));
    let node = Node::start(&clock, 8453).await;
    let home = tempfile::tempdir().unwrap();
    let (folder, log) = (home.path().join("data"), home.path().join("log"));
    let rpc = Some(format!("{}/v2/{RPC_KEY}?apikey={RPC_KEY}", node.url()));
    let start = StartOptions { rpc, log: Some(log.clone()), ..StartOptions::default() };
    let mut engine = EngineProcess::start(&folder, &start);
    let mut operator = unlock(&engine, PASSWORD).await;
    operator.must("wallet create main").await;
    phrase.clone_into(&mut operator.phrase);
    operator.must("seed import").await;
    operator.must("address create pay 0 \"for tests\"").await;
    operator.must("policy create p --day 100 --txn 10 --auto 0.5").await;
    let mut agents = vec![add_agent(&mut operator, "signer", "hmac").await];
    agents.push(add_agent(&mut operator, "bearer", "bearer").await);
    for agent in &agents {
        canaries.token(&agent.id, agent);
    }
    let (mut ids, mut answers) = (Vec::new(), Vec::new());
    for round in 0..3u64 {
        let mut answer_log = AnswerLog { engine: &engine, answers: Vec::new() };
        for (n, agent) in (0..).zip(&agents) {
            ask_everything(&mut answer_log, agent, round * 2 + n, &mut ids);
        }
        answers.append(&mut answer_log.answers);
        for line in ["requests", "status", "agent list", "seed list", "address list", "policy list"]
        {
            let response = operator.outcome(line).await;
            canaries.assert_none(line, format!("{response:?}").as_bytes());
        }
        for id in &ids {
            let _over_already = operator.outcome(&format!("deny {id}")).await;
        }
        for name in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{}/{name}", engine.pid())).expect("ours");
            // The operator, not the engine, wrote the node's key into this file.
            let bytes = String::from_utf8_lossy(&bytes).replace(RPC_KEY, "");
            canaries.assert_none(name, bytes.as_bytes());
        }
        assert_no_canaries(&canaries, &ids, &folder, &log);
        match round {
            0 => {
                operator.passwords.extend([PASSWORD.to_owned(), NEXT_PASSWORD.to_owned()]);
                operator.must("wallet passwd").await;
                operator.must("wallet lock").await;
                let refused = operator.outcome("wallet open").await;
                assert!(refused.reply.result.is_err(), "the old password opens the wallet");
                canaries.assert_none("a refused password", format!("{refused:?}").as_bytes());
                engine.kill();
            }
            1 => assert_eq!(engine.terminate(), Some(0)),
            _last => break,
        }
        assert_no_canaries(&canaries, &ids, &folder, &log);
        engine = EngineProcess::start(&folder, &start);
        operator = unlock(&engine, NEXT_PASSWORD).await;
        operator.must("wallet open").await;
    }
    assert!(node.requests() > 0, "the node was never asked");
    for (what, answer) in &answers {
        canaries.assert_none(&format!("the answer to {what}"), answer);
    }
    assert!(ids.len() > 12 && answers.len() > 400, "{} ids, {} answers", ids.len(), answers.len());
    // Control: the search finds what is present.
    let log = std::fs::read(&log).unwrap();
    for said in ["TRACE hyper_util", "code=INVALID_JSON", "agent server started"] {
        assert!(contains(&log, said.as_bytes()), "the log lacks {said}: is it the log?");
    }
    assert_eq!(canaries.found_in(format!("x{PASSWORD}x").as_bytes()), ["password"]);
}
