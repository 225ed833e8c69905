//! `/verify` of payers that are known to have no code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, Bytes, keccak256};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::post as route;
use bursar_facilitator::signature;
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::payer::digest;
use serde_json::json;
use tokio::net::TcpListener;

use crate::http::{Run, post, run_load};
use crate::stage::{chain, fund, payers, payments, start_facilitator};

const REQUESTS_PER_ROUND: usize = 6_000;
const ROUNDS: usize = 3;
/// A part of the answer to a valid payment.
const VALID: &[u8] = b"\"isValid\":true";

pub async fn measure() {
    let chain = chain().await;
    let payers = payers(&chain, 64).await;
    let paid = payments(&chain, &payers, 512);
    let bodies: Vec<String> = paid.iter().map(|paid| paid.body(2).to_string()).collect();
    let requests = Arc::new(bodies.iter().map(|body| post("/verify", body)).collect::<Vec<_>>());
    println!("/verify, v2, eip3009, plain keys; bodies of {} bytes", bodies[0].len());

    let recoveries = recoveries_per_second(&paid);
    println!("floor: recover and digest {recoveries:.0} a second on one core");

    let home = FacilitatorHome::new(chain.network(), chain.url(), 1, "", "");
    fund(&chain, &home).await;
    let process = start_facilitator(&home);
    let echo = echo().await;
    let node = chain.url().trim_start_matches("http://").to_owned();
    let simulation = simulation(&chain, &paid[0]);
    // After this run, the facilitator knows all payers.
    run_load(&process.address, 8, 512, Arc::clone(&requests), false).await;

    println!(
        "{:>5}  {:>10} {:>7} {:>7}  {:>10} {:>10} {:>9}  {:>9} {:>10}",
        "conns",
        "verify /s",
        "p50 ms",
        "p99 ms",
        "echo /s",
        "eth_call",
        "floor /s",
        "of floor",
        "CPU ms"
    );
    for connections in [1, 8, 32] {
        let mut best: Option<(Run, f64)> = None;
        let (mut echoes, mut calls): (f64, f64) = (0.0, 0.0);
        let load = async |address: &str, requests: &Arc<Vec<Vec<u8>>>, keep: bool| {
            run_load(address, connections, REQUESTS_PER_ROUND, Arc::clone(requests), keep).await
        };
        let good = |(_n, body): &(usize, Vec<u8>)| body.windows(VALID.len()).any(|w| w == VALID);
        for _round in 0..ROUNDS {
            echoes = echoes.max(load(&echo, &requests, false).await.rate());
            calls = calls.max(load(&node, &simulation, false).await.rate());
            let before = process.processor_time();
            let run = load(&process.address, &requests, true).await;
            assert!(run.answers.iter().all(good), "all are good");
            let cpu = (process.processor_time() - before).as_secs_f64() * 1_000.0
                / REQUESTS_PER_ROUND as f64;
            if best.as_ref().is_none_or(|(known, _cpu)| run.rate() > known.rate()) {
                best = Some((run, cpu));
            }
        }
        let (run, cpu) = best.expect("rounds");
        let floor = 1.0 / (1.0 / echoes + 1.0 / recoveries + 1.0 / calls);
        println!(
            "{connections:>5}  {:>10.0} {:>7.2} {:>7.2}  {echoes:>10.0} {calls:>10.0} {floor:>9.0}  {:>8.0}% {cpu:>10.3}",
            run.rate(),
            run.quantile(0.5),
            run.quantile(0.99),
            100.0 * run.rate() / floor,
        );
    }
    let (now, most) = process.memory_mib();
    println!("memory under load: {now:.1} MiB, at most {most:.1} MiB");
    drop(process);

    let far = far_node(chain.url(), Duration::from_millis(20)).await;
    let home = FacilitatorHome::new(chain.network(), &format!("http://{far}"), 1, "", "");
    let process = start_facilitator(&home);
    run_load(&process.address, 8, 512, Arc::clone(&requests), false).await;
    for connections in [1, 8, 32] {
        let run = run_load(&process.address, connections, 600, Arc::clone(&requests), false).await;
        println!(
            "a node 20 ms away, {connections} connections: p50 {:.1} ms, p99 {:.1} ms",
            run.quantile(0.5),
            run.quantile(0.99)
        );
    }
}

/// Returns how many signers of payments one core recovers per second.
fn recoveries_per_second(paid: &[bursar_tests::payer::SignedPayment]) -> f64 {
    let signed: Vec<(B256, Vec<u8>)> = paid
        .iter()
        .map(|paid| {
            let text = paid.payload["signature"].as_str().expect("text");
            (digest(paid.method, &paid.terms), hex::decode(&text[2..]).expect("hex"))
        })
        .collect();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        for (digest, signature) in &signed {
            // This hash costs as much as the hash of the terms, which is computed in addition to the recovery.
            std::hint::black_box(keccak256([digest.as_slice(); 8].concat()));
            assert!(signature::signer(digest, signature).is_some());
            count += 1;
        }
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// Starts a server that answers every request with the same bytes.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answer = || async {
        let body = r#"{"isValid":true,"payer":"0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"}"#;
        ([("content-type", "application/json")], body)
    };
    let app = Router::new().route("/verify", route(move |_body: axum::body::Bytes| answer()));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Returns the facilitator's simulation, as a request to the node itself.
fn simulation(
    chain: &bursar_devnet::Devnet,
    paid: &bursar_tests::payer::SignedPayment,
) -> Arc<Vec<Vec<u8>>> {
    use alloy_sol_types::{SolCall, sol};
    sol! {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
    let signature = paid.payload["signature"].as_str().expect("text");
    let terms = &paid.terms;
    let data = transferWithAuthorizationCall {
        from: terms.from,
        to: terms.to,
        value: terms.amount,
        validAfter: alloy_primitives::U256::from(terms.valid_after_s),
        validBefore: alloy_primitives::U256::from(terms.valid_before_s),
        nonce: terms.nonce,
        signature: Bytes::from(hex::decode(&signature[2..]).expect("hex")),
    };
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_call",
        "params": [{ "to": chain.network().stablecoin.address, "data": Bytes::from(data.abi_encode()) }, "latest"],
    });
    Arc::new(vec![post("/", &body.to_string())])
}

/// Starts a proxy that delays the node's answers by `away`.
pub async fn far_node(url: &str, away: Duration) -> String {
    #[derive(Clone)]
    struct FarNodeState(String, reqwest::Client, Duration);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let pass = |State(FarNodeState(url, client, away)): State<FarNodeState>,
                body: axum::body::Bytes| async move {
        tokio::time::sleep(away).await;
        let request = client.post(url).header("content-type", "application/json").body(body);
        let answer = request.send().await.expect("answered");
        Body::from(answer.bytes().await.expect("bytes"))
    };
    let app = Router::new().route("/", route(pass)).with_state(FarNodeState(
        url.to_owned(),
        client,
        away,
    ));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
