//! Trades with a node 20 ms away, on the real contracts of a local chain.
//!
//! The bench measures a quote with its policy decision, the time from a request to its broadcast, and
//! `/sign` with fifty open trades.
//!
//! The lower bound is the number of round trips to the node, which the bench counts. Run it with `cargo bench -p
//! bursar-tests --bench trading`.

#[path = "lanes/far_node.rs"]
#[expect(dead_code, reason = "only one of the benches counts searches")]
mod far_node;
#[path = "lanes/figures.rs"]
mod figures;
#[path = "services/http.rs"]
mod http;
#[path = "lanes/stage.rs"]
mod stage;

use std::sync::Arc;
use std::time::Duration;

use bursar_core::networks::by_chain;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::offers::{BASE, offer};
use serde_json::{Value, json};

use crate::figures::Figures;
use crate::stage::Stage;

const POLICY: &str = "--day 1000000 --txn 10 --auto 5 --trading --trade-daily 100000 --trade-max 500 --trade-auto 200";

/// Delay of a round trip to the node.
const NODE_DELAY: Duration = Duration::from_millis(20);

/// Number of requests in each measurement.
const REQUESTS_PER_MEASUREMENT: usize = 60;

/// Number of open trades during the payments.
const OPEN_TRADES: usize = 50;

/// Number of pairs of rounds, one round of each engine; it must be odd.
const ROUND_PAIRS: usize = 9;

/// Number of payments in a round.
const PAYMENTS: usize = 4_000;

fn main() {
    bursar_tests::bench::runtime().block_on(async {
        latencies().await;
        payments_next_to_trades().await;
    });
}

/// Starts the scene; `None` if tests with a chain are skipped.
async fn set_up() -> Option<Stage> {
    Some(Stage::on(full_chain_or_skip(BASE).await?, POLICY, NODE_DELAY).await.0)
}

/// Returns a request that sells about this many dollars of ETH, different for each `at`.
fn swap(stage: &Stage, dollars: &str, at: usize) -> Value {
    let dollars: f64 = dollars.parse().expect("a number");
    let amount = format!("{:.12}", dollars / 3_000.0 + at as f64 * 1e-12);
    let token_out = by_chain(BASE).expect("a network").stablecoin.address;
    let trade = json!({
        "chain_id": 8453, "token_in": "ETH", "token_out": token_out, "amount_in": amount,
        "fee_tier": 500, "max_slippage_bps": 100,
    });
    stage.agent.trade(stage.engine.now_s(), &trade)
}

async fn latencies() {
    let Some(mut stage) = set_up().await else { return };
    stage.mine_blocks();
    // The amount exceeds the policy's largest trade, so the request is measured, judged and then refused.
    let quoted = |stage: &Stage, at: usize| swap(stage, "600", at);
    for warm in 0..3 {
        stage.post("/trade", &quoted(&stage, warm)).await;
    }
    let mut figures = Figures::default();
    for at in 3..REQUESTS_PER_MEASUREMENT + 3 {
        let body = quoted(&stage, at);
        let answer = stage.measure("/trade", &body, &mut figures).await;
        assert_eq!(answer["reason_code"], "EXCEEDS_PER_TRADE_MAX", "{answer}");
    }
    figures.print("quote and judgement");

    let mut figures = Figures::default();
    for at in 0..REQUESTS_PER_MEASUREMENT {
        let body = swap(&stage, "1", at);
        stage.measure_broadcast("/trade", &body, &mut figures).await;
    }
    figures.print("request to broadcast");
    stage.engine.kill();
}

/// Two engines of the same age take turns, so that neither the machine nor the length of
/// the journal affects the ratio.
async fn payments_next_to_trades() {
    let Some(mut alone) = set_up().await else { return };
    let Some(mut beside) = set_up().await else { return };
    beside.chain.set_automine(false).await.expect("set");
    rate(&alone, 0).await;
    rate(&beside, 0).await;
    let bodies: Vec<_> = (0..OPEN_TRADES).map(|at| swap(&beside, "1", at)).collect();
    let asked = bodies.iter().map(|body| beside.post("/trade", body));
    for answer in futures::future::join_all(asked).await {
        assert_eq!(answer["status"], "executing", "{answer}");
    }
    let mut ratios = Vec::new();
    for round in 1..=ROUND_PAIRS {
        // An engine still works on its last round after it answered, so each engine waits for the other's round.
        let (one, other) = (rate(&alone, round).await, rate(&beside, round).await);
        println!(
            "/sign, 8 connections: alone {:.0}/s (p99 {:.1} ms), next to {OPEN_TRADES} open trades {:.0}/s (p99 {:.1} ms)",
            one.0, one.1, other.0, other.1
        );
        ratios.push(100.0 * other.0 / one.0);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "/sign next to {OPEN_TRADES} open trades, of alone: median {:.0} % of {ROUND_PAIRS} pairs ({:.0} to {:.0} %)",
        ratios[ROUND_PAIRS / 2],
        ratios[0],
        ratios[ROUND_PAIRS - 1]
    );
    alone.engine.kill();
    beside.engine.kill();
}

/// Returns the number of payments signed per second, and their p99 latency in milliseconds.
async fn rate(stage: &Stage, round: usize) -> (f64, f64) {
    let now = stage.engine.now_s();
    let requests = (0..PAYMENTS).map(|at| {
        let body = stage.agent.ask(now, &offer(10, (round * PAYMENTS + at) as u64), None);
        http::post("/sign", &body.to_string())
    });
    let requests = Arc::new(requests.collect::<Vec<_>>());
    let run = http::run_load(
        stage.engine.url.trim_start_matches("http://"),
        8,
        requests.len(),
        Arc::clone(&requests),
        true,
    )
    .await;
    let good = |body: &Vec<u8>| body.windows(7).any(|seven| seven == b"success");
    assert!(run.answers.iter().all(|(_at, body)| good(body)), "every payment is signed");
    (run.rate(), run.quantile(0.99))
}
