//! The time in which a caller without a valid proof is refused, by kind of proof.
//!
//! Each mean is compared with that of a wrong signature: the time must not reveal a locked wallet or
//! an unknown agent. The bench marks a ratio that deviates by more than a twentieth; the first two
//! lines show this machine's noise.
//!
//! `cargo bench -p bursar-tests --bench auth`

use std::time::{Duration, Instant};

use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use serde_json::{Map, Value, json};

const CALLS: usize = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (open, agent) = engine().await;
    let (locked, its_agent) = engine().await;
    locked.operator().must("wallet lock").await;
    let now = open.now_s();
    let fields = Map::from_iter([("payment_required".to_owned(), json!(offer(1_000, 1)))]);
    let body = |id: &str, signature: String| {
        let mut body = fields.clone();
        body.insert("agent_id".to_owned(), json!(id));
        body.insert("signature".to_owned(), json!(signature));
        Value::Object(body)
    };
    let wrong = format!("SIG:{now}:{}", "0".repeat(64));
    let cases = [
        ("wrong signature", &open, body(&agent.id, wrong.clone())),
        ("wrong signature, again", &open, body(&agent.id, wrong.clone())),
        ("unknown agent", &open, body("ZZZ999", wrong.clone())),
        ("stale", &open, body(&agent.id, agent.sign(now - 400, &fields))),
        ("other message", &open, body(&agent.id, agent.sign(now, &Map::new()))),
        ("right, wallet locked", &locked, body(&its_agent.id, its_agent.sign(now, &fields))),
        ("wrong, wallet locked", &locked, body(&its_agent.id, wrong)),
    ];
    let mut spent = [Duration::ZERO; 7];
    for turn in 0..CALLS + 100 {
        // The kinds take turns, so that other load on the machine affects all of them alike.
        for ((_, engine, body), spent) in cases.iter().zip(&mut spent) {
            let started = Instant::now();
            let (status, _) = engine.post("/sign", body).await;
            let took = started.elapsed();
            assert_eq!(status, 401);
            if turn >= 100 {
                *spent += took;
            }
        }
    }
    let mean = |spent: &Duration| spent.as_secs_f64() / CALLS as f64;
    let first = mean(&spent[0]);
    for ((name, ..), spent) in cases.iter().zip(&spent) {
        let ratio = mean(spent) / first;
        let mark = if (ratio - 1.0).abs() > 0.05 { "  <- more than a twentieth" } else { "" };
        println!("{name:<24} {:>8.1} us  {ratio:.3}{mark}", mean(spent) * 1e6);
    }
}

async fn engine() -> (TestEngine, Agent) {
    let engine =
        TestEngine::start(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 0.5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    (engine, agent)
}
