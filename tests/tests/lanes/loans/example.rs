//! `examples/lend.py`, used as its README shows.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use alloy_primitives::U256;
use bursar_tests::offers::BASE;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::loans::stage::{DOLLAR, MANUAL, Stage};

/// Timeout of a program; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts the example with arguments after the network's id.
fn start(stage: &Stage, arguments: &[&str]) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lend.py");
    Command::new("python3")
        .arg(script)
        .arg(BASE.0.to_string())
        .args(arguments)
        .env("WALLET_URL", &stage.engine.url)
        .env("WALLET_AGENT_ID", &stage.agent.id)
        .env("WALLET_AGENT_TOKEN", &stage.agent.token)
        .env("WALLET_AUTH_MODE", "hmac")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("python3 is missing: apt-get install -y python3")
}

/// Returns the exit code, the object that was printed, and standard error.
async fn end(stage: &Stage, child: Child) -> (Option<i32>, Value, String) {
    let output =
        timeout(TIMEOUT, child.wait_with_output()).await.expect("in time").expect("it ran");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let secret = &stage.agent.token[3..];
    assert!(!out.contains(secret) && !err.contains(secret), "{out}{err}");
    (output.status.code(), serde_json::from_str(&out).unwrap_or_default(), err.into_owned())
}

/// The example lists the venues, waits for the operator, withdraws everything, and reports a refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_supplies_after_an_approval_and_takes_everything_back() {
    let Some(mut stage) = Stage::on(BASE, MANUAL).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    let venue = vault.to_checksum(None);
    let child = start(&stage, &[]);
    let (exit, answer, err) = end(&stage, child).await;
    assert_eq!((exit, answer["status"].as_str()), (Some(0), Some("ok")), "{answer}{err}");
    assert!(answer["venues"].to_string().contains(&venue), "{answer}");

    for arguments in [["supply", &venue, "1000.5"], ["withdraw", &venue, "all"]] {
        let child = start(&stage, &arguments);
        let end_of_wait = tokio::time::Instant::now() + TIMEOUT;
        while stage.is_idle().await {
            assert!(tokio::time::Instant::now() < end_of_wait, "nothing is held");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stage.approve_held().await;
        let (exit, answer, err) = end(&stage, child).await;
        assert_eq!((exit, answer["status"].as_str()), (Some(0), Some("executed")), "{answer}{err}");
        assert!(err.contains("pending: request "), "{err}");
    }
    assert_eq!(stage.worth(vault).await, U256::ZERO);
    assert!(stage.dollars().await >= U256::from(10_000 * DOLLAR - 2));

    let child = start(&stage, &["supply", &venue, "2001"]);
    let (exit, answer, err) = end(&stage, child).await;
    assert_eq!((exit, answer["status"].as_str()), (Some(1), Some("rejected")), "{answer}{err}");
    assert!(err.contains("not done: PER_DEPOSIT_EXCEEDED: "), "{err}");
}
