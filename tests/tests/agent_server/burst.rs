//! What a burst of payments leaves behind in memory.

use std::time::Duration;

use bursar_control::answers::Answer;
use bursar_tests::agent::Agent;
use bursar_tests::caller::AgentClient;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, Start, memory_mib};

/// Enough to make their memory visible.
const PAYMENTS: u64 = 6_000;
/// Longest wait, reached only on failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Once the payments can no longer be redeemed, their memory returns to the system, although nothing else happens.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_a_burst_returns_while_the_engine_is_idle() {
    let home = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start(&home.path().join("data"), &Start::default());
    let mut operator = engine.operator().await;
    for line in [
        "wallet create main",
        "seed create",
        "address create pay 0",
        "policy create p --day 1000 --txn 10 --auto 0.5",
    ] {
        operator.must(line).await;
    }
    let created = operator.outcome("agent register bot --auth hmac").await;
    let Ok(Answer::Credentials(given)) = created.reply.result else { panic!() };
    operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
    let agent = Agent { id: given.agent_id, token: created.secret.unwrap(), bearer: false };
    let (before, _peak) = memory_mib(engine.pid());
    let callers = (0..8).map(|first| {
        let (caller, agent) = (AgentClient::to(&engine.url), agent.clone());
        tokio::spawn(async move {
            for n in (first..PAYMENTS).step_by(8) {
                let body = agent.ask(jiff::Timestamp::now().as_second(), &offer(10_000, n), None);
                assert_eq!(caller.post("/sign", &body).await.expect("answered").0, 200);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let (burst, _peak) = memory_mib(engine.pid());
    engine.skew(3_600_000);
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let (now, _peak) = memory_mib(engine.pid());
        // The page caches of the journal, whose size does not depend on the burst, may stay.
        if now < before + 14.0 {
            println!(
                "{before:.1} MiB before, {burst:.1} MiB after {PAYMENTS} payments, {now:.1} MiB idle"
            );
            return;
        }
        assert!(std::time::Instant::now() < end, "{before:.1} {burst:.1} {now:.1} MiB");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
