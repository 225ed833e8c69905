//! kill -9 at random moments under load: sixteen clients, several engine lives on one folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_control::answers::Answer;
use bursar_domain::Status;
use bursar_engine::journal::{Checkpoints, RedbStore, Store, verify_chain};
use bursar_engine::ports::NoFailpoints;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, json_or_null};
use bursar_tests::dice::Dice;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::crash::oracle::nonce;
use crate::crash::scenario::now_s;

const CLIENTS: usize = 16;
const ENGINE_LIVES: usize = 6;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bodies per agent; together they cost more than a day allows.
const BODIES_PER_AGENT: u64 = 40;
/// The daily limit: one dollar, in micro-dollars.
const DAILY_LIMIT_MICROS: u64 = 1_000_000;

/// A body that is sent repeatedly, with all answers that it ever got.
#[derive(Debug)]
struct Ask {
    agent: String,
    atoms: u64,
    body: Value,
    headers: Mutex<BTreeSet<String>>,
    ids: Mutex<BTreeSet<String>>,
}

/// Set `BURSAR_CRASH_SEED` to repeat a run.
fn seeded_dice() -> Dice {
    let given = std::env::var("BURSAR_CRASH_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("entropy");
        u64::from_le_bytes(bytes)
    });
    // The test runner shows this if the test fails.
    println!("BURSAR_CRASH_SEED={seed}");
    Dice::new(seed)
}

async fn set_up_wallet(engine: &EngineProcess) -> Vec<Agent> {
    let mut operator = engine.operator().await;
    for line in [
        "wallet create main",
        "seed create",
        "address create pay 0 \"for tests\"",
        "policy create p --day 1 --txn 1 --auto 0.5",
    ] {
        operator.must(line).await;
    }
    let mut agents = Vec::new();
    for (name, auth) in [("a", "hmac"), ("b", "bearer"), ("c", "hmac"), ("d", "bearer")] {
        let created = operator.outcome(&format!("agent register {name} --auth {auth}")).await;
        let Ok(Answer::Credentials(given)) = created.reply.result else { panic!() };
        operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let token = created.secret.expect("a token");
        agents.push(Agent::new(given.agent_id, token, auth == "bearer"));
    }
    agents
}

/// Runs one engine life: sixteen clients send requests until the `last` answer, which triggers the kill.
async fn run_life(engine: &mut EngineProcess, asks: &Arc<Vec<Ask>>, last: usize, dice: &mut Dice) {
    let (answers, last_answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let askers: Vec<_> = (0..CLIENTS)
        .map(|_asker| {
            let caller = AgentClient::for_url(&engine.url);
            let (asks, answers, last_answer) =
                (Arc::clone(asks), Arc::clone(&answers), Arc::clone(&last_answer));
            let mut dice = Dice::new(dice.next_u64());
            tokio::spawn(async move {
                loop {
                    let ask = &asks[dice.index(asks.len())];
                    // The kill closes the connection.
                    let Ok((status, bytes)) = caller.post("/sign", &ask.body).await else { return };
                    record(ask, status, &json_or_null(&bytes));
                    if answers.fetch_add(1, Ordering::SeqCst) + 1 == last {
                        last_answer.notify_one();
                    }
                }
            })
        })
        .collect();
    let reached = timeout(TIMEOUT, last_answer.notified()).await;
    assert!(reached.is_ok(), "the engine stopped answering by itself");
    assert!(!engine.has_exited(), "the engine ended by itself");
    engine.kill();
    for asker in askers {
        timeout(TIMEOUT, asker).await.expect("ends with the engine").expect("no panic");
    }
}

fn record(ask: &Ask, status: u16, answer: &Value) {
    match (status, answer["code"].as_str()) {
        (200, None) => {
            let header = answer["header_value"].as_str().expect("a header").to_owned();
            ask.headers.lock().unwrap().insert(header);
            let id = answer["transaction_id"].as_str().expect("an id").to_owned();
            ask.ids.lock().unwrap().insert(id);
        }
        (429, Some("EXCEEDS_DAILY_LIMIT" | "LIMIT_REACHED")) => {}
        _other => panic!("{status} {answer}"),
    }
}

/// Returns start options under which every life moves rows to the history.
fn start_with_history() -> StartOptions {
    StartOptions {
        checkpoints: Some(Checkpoints { after_bytes: 20_000, in_background: true }),
        ..StartOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_moments_never_make_a_second_authorization() {
    let mut dice = seeded_dice();
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let mut engine = EngineProcess::start(&folder, &start_with_history());
    let agents = set_up_wallet(&engine).await;
    let asks = agents.iter().flat_map(|agent| {
        (0..BODIES_PER_AGENT).map(|n| {
            let atoms = 30_000 + n;
            let body = agent.ask(now_s(), &offer(atoms, n), None);
            let (headers, ids) = Default::default();
            Ask { agent: agent.id.clone(), atoms, body, headers, ids }
        })
    });
    let asks: Arc<Vec<Ask>> = Arc::new(asks.collect());
    for life in 0..ENGINE_LIVES {
        if life > 0 {
            engine = EngineProcess::start(
                &folder,
                &StartOptions { has_password: true, ..start_with_history() },
            );
        }
        let last = 1 + dice.index(120);
        run_life(&mut engine, &asks, last, &mut dice).await;
    }
    let recorded = check_file(&folder.join("journal.redb"), &asks);
    check_engine(&folder, &agents, &asks, &recorded).await;
}

/// Checks the journal file without an engine; returns the authorized sum of each agent.
fn check_file(file: &Path, asks: &[Ask]) -> BTreeMap<String, u64> {
    let store = RedbStore::open(file, Arc::new(NoFailpoints)).expect("the journal opens");
    verify_chain(&*store.reader(), None, |_entry| ()).expect("the chain is whole");
    let mut authorized: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for request in store.reader().latest(1_000_000).expect("records") {
        if matches!(request.status, Status::Authorized { .. }) {
            let key = (request.agent.as_str().to_owned(), request.ask.usd().0);
            *authorized.entry(key).or_default() += 1;
        }
    }
    let mut nonces = BTreeSet::new();
    for ask in asks {
        let headers = ask.headers.lock().unwrap();
        assert!(headers.len() <= 1, "{headers:?}");
        assert!(ask.ids.lock().unwrap().len() <= 1);
        nonces.extend(headers.iter().map(|header| nonce(header)));
        let times = authorized.get(&(ask.agent.clone(), ask.atoms)).copied().unwrap_or(0);
        assert!(times <= 1, "{} was authorized {times} times over {}", ask.agent, ask.atoms);
        assert!(times == headers.len() || headers.is_empty(), "answered and not recorded");
    }
    let answered = asks.iter().filter(|ask| !ask.headers.lock().unwrap().is_empty()).count();
    assert_eq!(nonces.len(), answered, "one nonce for each authorized body");
    assert!(answered > 0, "the lives were too short");
    let mut sums = BTreeMap::new();
    for ((agent, atoms), _once) in authorized {
        *sums.entry(agent).or_default() += atoms;
    }
    sums
}

/// Runs one more life without a kill: the engine computes the same sums as the file, and repeats its earlier answers.
async fn check_engine(
    folder: &Path,
    agents: &[Agent],
    asks: &[Ask],
    recorded: &BTreeMap<String, u64>,
) {
    let mut engine = EngineProcess::start(
        folder,
        &StartOptions { has_password: true, ..StartOptions::default() },
    );
    let caller = AgentClient::for_url(&engine.url);
    let mut operator = engine.operator().await;
    let Answer::Audit(audit) = operator.must("audit verify").await else { panic!() };
    assert!(audit.sealed && audit.untrusted.is_none(), "{audit:?}");
    for agent in agents {
        let (status, bytes) = caller.post("/status", &agent.read(now_s())).await.unwrap();
        let answer = json_or_null(&bytes);
        assert_eq!(status, 200, "{answer}");
        let spent = answer["agent"]["spent_today_micro"].as_u64().unwrap();
        assert_eq!(spent, recorded.get(&agent.id).copied().unwrap_or(0), "{answer}");
        assert!(spent <= DAILY_LIMIT_MICROS, "more than a day allows: {answer}");
    }
    for ask in asks {
        let answered = !ask.headers.lock().unwrap().is_empty();
        let (status, bytes) = caller.post("/sign", &ask.body).await.unwrap();
        record(ask, status, &json_or_null(&bytes));
        assert!(status == 200 || !answered, "{}", json_or_null(&bytes));
        assert!(ask.headers.lock().unwrap().len() <= 1, "another header in the last life");
    }
    assert_eq!(engine.terminate(), Some(0));
}
