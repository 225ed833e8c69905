//! Shared by the threat tests: an engine without a rate limit, whole responses, and canonical text that is not the
//! engine's own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use bursar_control::answers::Answer;
use bursar_domain::Status;
use bursar_engine::journal::MemoryStore;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::{challenge, decode_header, header};
use bursar_tests::operator::{Expect, Operator};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

/// Pays up to 0.50 dollars automatically, and at most ten per payment and a thousand per day.
pub(crate) const POLICY: &str = "--day 1000 --txn 10 --auto 0.5";

/// Returns a setup without a rate limit, and with a journal in memory.
pub(crate) fn unlimited_in_memory() -> Setup {
    Setup {
        store: Some(Box::new(MemoryStore::default())),
        settings: UNLIMITED_RATE_SETTINGS,
        ..Setup::default()
    }
}

/// Starts an engine with a wallet and policy, and registers an agent.
pub(crate) async fn engine_with(setup: Setup, policy: &str, auth: &str) -> (TestEngine, Agent) {
    let engine = TestEngine::start(setup).await;
    engine.set_up_wallet(policy).await;
    let agent = engine.add_agent("bot", auth).await;
    (engine, agent)
}

/// A response with everything that the caller sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FullResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl FullResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Sends one request with these headers from this machine.
pub(crate) async fn send(
    engine: &TestEngine,
    call: (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> FullResponse {
    send_from(engine, [127, 0, 0, 1], call, headers, body).await
}

/// Sends one request from a new address, which has no failed proofs yet.
pub(crate) async fn send_from_new_address(
    engine: &TestEngine,
    call: (&str, &str),
    body: impl Into<Vec<u8>>,
) -> FullResponse {
    static MACHINE_COUNTER: AtomicU32 = AtomicU32::new(0);
    let [_, b, c, d] = MACHINE_COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    send_from(engine, [10, b, c, d], call, &[], body).await
}

async fn send_from(
    engine: &TestEngine,
    peer: [u8; 4],
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> FullResponse {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.into())).expect("a request");
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((peer, 5))));
    let response =
        tower::ServiceExt::oneshot(engine.http.clone(), request).await.expect("answered");
    let status = response.status().as_u16();
    let answer = response.headers().iter();
    let headers =
        answer.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body").to_vec();
    FullResponse { status, headers, body }
}

/// Returns a proof over canonical text that the test wrote itself.
pub(crate) fn proof(token: &str, timestamp: i64, canonical: &str) -> String {
    let key = hex::decode(&token[3..]).expect("a token");
    let mac = Hmac::<Sha256>::new_from_slice(&key).expect("any key will do");
    let digest = mac.chain_update(canonical.as_bytes()).finalize().into_bytes();
    format!("SIG:{timestamp}:{}", hex::encode(digest))
}

/// Returns a signed body with one member, as for `/trade` and `/position`.
pub(crate) fn signed_body(agent: &Agent, now_s: i64, field: &str, value: &Value) -> Value {
    let mut fields = serde_json::Map::new();
    fields.insert(field.to_owned(), value.clone());
    let signature = agent.sign(now_s, &fields);
    json!({"agent_id": agent.id, "signature": signature, field: value})
}

/// Returns a changed offer on Base as a header; `n` makes it unique.
pub(crate) fn offer_with(atoms: u64, n: usize, change: impl FnOnce(&mut Value)) -> String {
    let url = format!("https://api.example.com/{n}");
    let mut offer = challenge(bursar_tests::offers::BASE, atoms, &url);
    change(&mut offer);
    header(&offer)
}

/// Returns the authorization in an answer to `/sign`.
pub(crate) fn terms(answer: &Value) -> Value {
    let header = answer["header_value"].as_str().unwrap_or_else(|| panic!("{answer}"));
    decode_header(header)["payload"]["authorization"].clone()
}

/// Returns the signed amount in an answer to `/sign`, in atoms.
pub(crate) fn signed_atoms(answer: &Value) -> u64 {
    terms(answer)["value"].as_str().expect("a string").parse().expect("a number")
}

/// Returns the number of payments that the journal has authorized, signed or not.
pub(crate) fn authorized_count(engine: &TestEngine) -> usize {
    let records = engine.engine.core().reader().latest(100_000).expect("readable");
    let is = |status: &Status| matches!(status, Status::Authorized { .. });
    records.iter().filter(|record| is(&record.status)).count()
}

/// Returns the number of the newest journal entry; if it is unchanged, nothing was recorded.
pub(crate) fn journal_seq(engine: &TestEngine) -> u64 {
    engine.engine.core().view().state.seq
}

/// Reads a vector file.
pub(crate) fn vectors(name: &str) -> Value {
    let path = format!("{}/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}

/// Returns a list of a vector file, which must have `count` elements.
pub(crate) fn cases<'a>(file: &'a Value, list: &str, count: usize) -> &'a [Value] {
    let cases = file[list].as_array().expect("a list");
    assert_eq!(cases.len(), count, "{list}");
    cases
}

/// Runs tasks concurrently and returns their results.
pub(crate) async fn run_all<T: Send + 'static, F>(tasks: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::with_capacity(running.len());
    for task in running {
        done.push(task.await.expect("no task panics"));
    }
    done
}

/// Wraps an engine for several tasks.
pub(crate) fn into_arc<T>(value: T) -> Arc<T> {
    Arc::new(value)
}

/// Registers an agent and gives it the policy `p`.
pub(crate) async fn add_agent(operator: &mut Operator, name: &str, auth: &str) -> Agent {
    let created = operator.outcome(&format!("agent register {name} --auth {auth}")).await;
    let Ok(Answer::Credentials(given)) = created.reply.result else { panic!("{name}") };
    operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
    Agent::new(given.agent_id, created.secret.expect("a token"), auth == "bearer")
}

/// Creates the wallet, seed, address and policy of an engine process.
pub(crate) async fn set_up_wallet(operator: &mut Operator, policy: &str) {
    for line in ["wallet create main", "seed create", "address create pay 0 \"for tests\""] {
        operator.must(line).await;
    }
    operator.must(&format!("policy create p {policy}")).await;
}
