//! `/settle` on a chain with one block a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::Bytes;
use alloy_sol_types::{SolCall, sol};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::post as route;
use bursar_devnet::Devnet;
use bursar_tests::facilitator::FacilitatorHome;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::{Run, post, run_load};
use crate::process::Process;
use crate::stage::{chain, fund, payers, payments, start_facilitator};

sol! {
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
}

/// Number of callers in a run. [`RunLoad`] has the payments in flight of each caller, and the number of signers.
const CALLERS: usize = 256;
const RUNS: [RunLoad; 2] = [
    // With one payment in flight per caller, one block per second limits the rate to the number of callers.
    RunLoad { in_flight_per_caller: 1, signers: 1, payments: 256 * 24 },
    RunLoad { in_flight_per_caller: 4, signers: 4, payments: 6_000 },
];
const BLOCK_GAS: u64 = 120_000_000;

#[derive(Clone, Copy)]
struct RunLoad {
    in_flight_per_caller: usize,
    signers: u8,
    payments: usize,
}

pub async fn measure() {
    for load in RUNS {
        run(load).await;
    }
}

async fn run(load: RunLoad) {
    let RunLoad { in_flight_per_caller: each, signers, payments: count } = load;
    let chain = chain().await;
    chain.request("evm_setBlockGasLimit", json!([BLOCK_GAS])).await.expect("set");
    let payers = payers(&chain, CALLERS).await;
    let (proxy, node_calls) = counting_node(chain.url()).await;
    let home = FacilitatorHome::new(
        chain.network(),
        &format!("http://{proxy}"),
        signers,
        "",
        "poll_ms = 100\n",
    );
    fund(&chain, &home).await;
    chain.mine(12).await.expect("mined");
    let process = start_facilitator(&home);
    println!(
        "/settle: blocks of {BLOCK_GAS} gas each second, {CALLERS} callers with {each} payments each in flight, {signers} signers"
    );

    chain.set_block_time(1).await.expect("set");
    measure_lone_payment(&chain, &process, &payers).await;

    let paid = payments(&chain, &payers, count);
    let bodies = paid.iter().map(|paid| post("/settle", &paid.body(2).to_string()));
    let bodies = Arc::new(bodies.collect::<Vec<_>>());
    let rpc = node_calls.load(Ordering::Relaxed);
    let cpu = process.processor_time();
    let run = run_load(&process.address, CALLERS * each, count, bodies, true).await;
    let rpc = node_calls.load(Ordering::Relaxed) - rpc;
    let cpu = (process.processor_time() - cpu).as_secs_f64() * 1_000.0 / count as f64;
    let hashes = payments_by_transaction(&run);
    println!(
        "{:.0} payments a second, {:.2} of one payment a block for each in flight; p50 {:.0} ms, p99 {:.0} ms; {:.2} RPC round trips and {cpu:.2} ms CPU a payment; {} transactions",
        run.rate(),
        run.rate() / (CALLERS * each) as f64,
        run.quantile(0.5),
        run.quantile(0.99),
        rpc as f64 / count as f64,
        hashes.len(),
    );
    let (now, most) = process.memory_mib();
    println!("memory: {now:.1} MiB, at most {most:.1} MiB");
    print_gas_per_payment(&chain, &hashes).await;
}

/// Returns the number of payments in each transaction.
pub fn payments_by_transaction(run: &Run) -> BTreeMap<String, usize> {
    let mut hashes = BTreeMap::new();
    for (_at, body) in &run.answers {
        let answer: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(answer["success"], true, "{answer}");
        let hash = answer["transaction"].as_str().expect("a hash").to_owned();
        *hashes.entry(hash).or_default() += 1;
    }
    hashes
}

/// Prints the time between a lone payment's block and its answer.
async fn measure_lone_payment(
    chain: &Devnet,
    process: &Process,
    payers: &[bursar_tests::payer::Payer],
) {
    let mut late = Vec::new();
    for paid in payments(chain, payers, 6) {
        let body = Arc::new(vec![post("/settle", &paid.body(2).to_string())]);
        let run = run_load(&process.address, 1, 1, body, true);
        // Reads the latest block, because the devnet kit itself reads the pending one.
        let data = authorizationStateCall { authorizer: paid.terms.from, nonce: paid.terms.nonce };
        let call = json!([{
            "to": chain.network().stablecoin.address, "data": Bytes::from(data.abi_encode()),
        }, "latest"]);
        let mined = async {
            loop {
                let used = chain.request("eth_call", call.clone()).await.expect("answered");
                if used.as_str().expect("text").ends_with('1') {
                    return Instant::now();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let answered = async {
            let run = run.await;
            payments_by_transaction(&run);
            Instant::now()
        };
        let (answered, mined) = tokio::join!(answered, mined);
        late.push(answered.saturating_duration_since(mined).as_secs_f64() * 1_000.0);
    }
    late.sort_by(f64::total_cmp);
    println!(
        "a lone payment is answered {:.0} ms after its block (worst of 6: {:.0} ms)",
        late[3], late[5]
    );
}

/// Prints the gas per payment, by the size of the batch.
pub async fn print_gas_per_payment(chain: &Devnet, hashes: &BTreeMap<String, usize>) {
    let mut by_size: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (hash, payments) in hashes {
        let used = gas_of(chain, hash).await as f64;
        by_size.entry(*payments).or_default().push(used / *payments as f64);
    }
    let mut line = Vec::new();
    for (size, each) in &by_size {
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        line.push(format!("{size}: {mean:.0}"));
    }
    println!("gas a payment, by the size of the batch: {}", line.join(", "));
}

/// Returns the gas that a transaction used.
pub async fn gas_of(chain: &Devnet, hash: &str) -> u64 {
    let receipt = chain.request("eth_getTransactionReceipt", json!([hash])).await;
    let receipt = receipt.expect("answered");
    let used = receipt["gasUsed"].as_str().expect("text").trim_start_matches("0x").to_owned();
    u64::from_str_radix(&used, 16).expect("hex")
}

/// Starts a proxy in front of the node that counts exchanges.
pub async fn counting_node(url: &str) -> (String, Arc<AtomicUsize>) {
    #[derive(Clone)]
    struct CountingState(String, reqwest::Client, Arc<AtomicUsize>);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let count = Arc::new(AtomicUsize::new(0));
    let pass = |State(CountingState(url, client, count)): State<CountingState>,
                body: axum::body::Bytes| async move {
        count.fetch_add(1, Ordering::Relaxed);
        let node_calls = client.post(url).header("content-type", "application/json").body(body);
        let answer = node_calls.send().await.expect("answered");
        Body::from(answer.bytes().await.expect("bytes"))
    };
    let state = CountingState(url.to_owned(), client, Arc::clone(&count));
    let app = Router::new().route("/", route(pass)).with_state(state);
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, count)
}
