//! All outbound connections of the engine over a whole run, traced from outside the process.
//!
//! The engine calls only the counterparties in the specification's list, and this run calls each kind that exists.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use bursar_tests::offers::{self, BASE};
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use serde_json::json;

use crate::chain::explorers::start_explorer;
use crate::chain::programs::{NODE, PYTHON};
use crate::chain::settlements::{assert_verified, report_settled};
use crate::chain::stage::{SMALL_PRICE, Stage, local_chain};

/// The value of `BURSAR_TEST_SKIP` that skips tests that need strace; otherwise a missing strace fails them.
const SKIP: &str = "strace";

fn traced_or_skip() -> bool {
    if let Ok(tried) = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output() {
        if !tried.status.success() {
            // A sandbox may forbid tracing another process.
            eprintln!("skipped: strace cannot be used here: {tried:?}");
        }
        return tried.status.success();
    }
    let skip = std::env::var("BURSAR_TEST_SKIP").unwrap_or_default();
    assert!(
        skip.split(',').any(|what| what == SKIP),
        "strace is missing: apt-get install -y strace, or BURSAR_TEST_SKIP={SKIP}"
    );
    eprintln!("skipped: strace is missing");
    false
}

/// Counts the lines with each address: connections, and writes that name their target.
fn connections(trace: &Path) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for line in std::fs::read_to_string(trace).expect("a trace").lines() {
        if let Some(address) = address(line) {
            *seen.entry(address).or_default() += 1;
        }
    }
    seen
}

/// Returns the address in one line of strace; a write on an open connection has none.
///
/// An example of a line: `connect(9, {sa_family=AF_INET, sin_port=htons(8545), sin_addr=inet_addr("127.0.0.1")}, 16)`.
fn address(line: &str) -> Option<String> {
    let between = |from: &str, to: &str| {
        let rest = line.split_once(from)?.1;
        Some(rest.split_once(to)?.0.to_owned())
    };
    if !line.contains("sa_family=") {
        return None;
    }
    let ip = between("inet_addr(\"", "\"").or_else(|| between("inet_pton(AF_INET6, \"", "\""));
    let port = between("htons(", ")");
    match (ip, port) {
        (Some(ip), Some(port)) => {
            let ip: IpAddr = ip.parse().expect("an address");
            Some(SocketAddr::new(ip, port.parse().expect("a port")).to_string())
        }
        _no_ip => Some(between("sa_family=", "}").expect("a family")),
    }
}

#[test]
fn addresses_are_read_from_a_trace() {
    for (line, read) in [
        (
            "71 connect(9, {sa_family=AF_INET, sin_port=htons(8545), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = -1 EINPROGRESS",
            Some("127.0.0.1:8545"),
        ),
        (
            "71 sendto(9, \"x\", 1, 0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr(\"9.9.9.9\")}, 16) = 1",
            Some("9.9.9.9:53"),
        ),
        (
            "71 connect(9, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, \"::1\", &sin6_addr), sin6_scope_id=0}, 28) = 0",
            Some("[::1]:80"),
        ),
        (
            "71 connect(9, {sa_family=AF_UNIX, sun_path=\"/run/nscd\"}, 110) = 0",
            Some("AF_UNIX, sun_path=\"/run/nscd\""),
        ),
        ("71 sendto(9, \"POST / HTTP/1.1\", 15, MSG_NOSIGNAL, NULL, 0) = 15", None),
    ] {
        assert_eq!(address(line).as_deref(), read, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_connects_only_to_its_counterparties() {
    if !traced_or_skip() {
        return;
    }
    let Some(chain) = local_chain(BASE).await else { return };
    let node = chain.url().to_owned();
    let (_tokens, explorer) = start_explorer().await;
    let traces = tempfile::tempdir().expect("a folder");
    let trace = traces.path().join("connections");
    let start = StartOptions {
        rpc: Some(node.clone()),
        trace: Some(trace.clone()),
        env: vec![("BURSAR_NETWORKS_8453_EXPLORER".to_owned(), explorer.clone())],
        ..StartOptions::default()
    };
    let mut stage = Stage::set_up(chain, start).await;

    // Makes automatic payments in both versions, which the engine then verifies on the chain.
    for case in [&PYTHON, &NODE] {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        for path in ["/small", "/v1/small"] {
            let reply = stage.send(case, &agent, path).finish().await;
            assert_eq!(reply.outcome(), ("paid", Some(0)), "{}", reply.line);
            let (_terms, tx_hash) = stage.latest_settlement(SMALL_PRICE).await;
            let id = reply.line["transaction_id"].as_str().expect("an id").to_owned();
            report_settled(&stage, &agent, &id, tx_hash).await;
            assert_verified(&mut stage, &id, tx_hash).await;
        }
        let (status, balances) = stage.post("/balances", &agent.read(stage.next_second())).await;
        assert_eq!((status, &balances["status"]), (200, &json!("ok")), "{balances}");
    }
    // Makes a payment that is approved, and one whose token domain is read from the chain.
    let agent = stage.add_agent("large", "bearer").await;
    let (status, answer) = stage.ask(&stage.ask_for(&agent, "/large").await).await;
    assert_eq!(status, 202, "{answer}");
    let request = stage.wait_for_only_held().await;
    stage.operator.must(&format!("approve {} --yes --confirm 1.5", request.id)).await;
    let mut challenge = offers::challenge(BASE, 10_000, "http://192.0.2.1/never-fetched");
    challenge["accepts"][0]["extra"]["name"] = json!("Another Name");
    let url = Some("http://192.0.2.2/never-fetched");
    let (status, answer) =
        stage.ask(&agent.ask(stage.next_second(), &offers::header(&challenge), url)).await;
    assert_eq!(status, 200, "{answer}");
    stage.operator.must("balances").await;

    let seen = connections(&trace);
    let of = |url: &str| {
        let url: reqwest::Url = url.parse().expect("a URL");
        format!("127.0.0.1:{}", url.port().expect("a port"))
    };
    // The run called a node and an explorer, so it covers both kinds of counterparty.
    let mut wanted = [of(&node), of(&explorer)];
    wanted.sort();
    assert_eq!(seen.keys().collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>(), "{seen:?}");
}
