//! Resource servers and callers that send too much, or input with two readings. Tests every bound at its limit and one
//! above, and the memory that the whole table costs a process.

use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::json;

use crate::threats::bound_cases::{MIB, PAID, table};
use crate::threats::stage::{
    add_agent, authorized_count, engine_with, send, set_up_wallet, unlimited_in_memory,
};
use crate::threats::wire::KeepAlive;

const POLICY: &str = "--day 1000 --txn 10 --auto 5";
/// Maximum growth of a process's peak memory by the whole table, in KiB. An input that expands in memory takes dozens
/// of MiB. Per-thread allocator caches add up to 5 MiB, depending on how the threads share the work.
const GROWTH_KIB: u64 = 12 * 1024;

#[tokio::test]
async fn t_10_every_bound_accepts_its_limit_and_refuses_one_more() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let (mut lines, mut paid) = (0, 0);
    for case in table(&agent) {
        let response = send(&engine, ("POST", "/sign"), &[], case.body).await;
        let answer = (response.status, response.code());
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert_eq!((answer.0, answer.1.as_str()), case.expected, "{}: {text}", case.name);
        lines += 1;
        paid += usize::from(answer.0 == 200);
        assert_eq!(authorized_count(&engine), paid, "{}", case.name);
    }
    assert!(lines > 100, "{lines} lines");
    // A compressed body would bypass the bound on its size.
    let body = json!({"agent_id": agent.id}).to_string();
    for encoding in ["gzip", "deflate", "br", "identity, gzip", "x"] {
        let headers = [("content-encoding", encoding)];
        let response = send(&engine, ("POST", "/sign"), &headers, body.clone()).await;
        assert_eq!(response.status, 415, "{encoding}");
    }
}

fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process of ours");
    let case = status.lines().find_map(|case| case.strip_prefix("VmHWM:")).expect("a peak");
    case.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_10_inputs_at_every_bound_cost_little_memory() {
    if !cfg!(target_os = "linux") {
        eprintln!("skipped: only Linux tells the peak of another process");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, POLICY).await;
    let agent = add_agent(&mut operator, "bot", "bearer").await;
    let lines = table(&agent);
    let mut connection = KeepAlive::open(&engine.url);
    // Warm up the memory that the process needs anyway: the largest bodies, with wrong proofs, and payments.
    let full = json!({"agent_id": agent.id, "payment_required": "x".repeat(MIB - 100)}).to_string();
    for _time in 0..8 {
        assert_eq!(connection.ask("POST", "/sign", full.as_bytes()).0, 401);
    }
    for case in lines.iter().filter(|case| case.expected == PAID).take(8) {
        assert_eq!(connection.ask("POST", "/sign", &case.body).0, 200, "{}", case.name);
    }
    let before = peak_kib(engine.pid());
    let mut dearest = (0, String::new());
    let mut last = before;
    for case in &lines {
        // A body refused for its length closes the connection.
        let mut connection = KeepAlive::open(&engine.url);
        let (status, _) = connection.ask("POST", "/sign", &case.body);
        assert_eq!(status, case.expected.0, "{}", case.name);
        // The kernel counts pages in batches, so the reported peak can drop by a few.
        let now = peak_kib(engine.pid()).max(last);
        if now - last > dearest.0 {
            dearest = (now - last, case.name.clone());
        }
        last = now;
    }
    let grown = last - before;
    operator.must("status").await;
    eprintln!("{} lines: {before} KiB and {grown} KiB more", lines.len());
    assert!(grown < GROWTH_KIB, "{grown} KiB more than {before}, most by {dearest:?}");
}
