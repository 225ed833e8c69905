//! The time of a paid request in addition to the times of its upstream and its facilitator.

use std::sync::Arc;

use serde_json::json;

use crate::http::{post, run_load};
use crate::stage::{Stage, body, upstream};

const REQUESTS_PER_ROUND: usize = 1_500;

pub async fn measure() {
    let upstream = upstream().await;
    let stage = Stage::in_front_of(&format!("http://{upstream}/v1")).await;
    let body = body(false);
    let plain = Arc::new(vec![post("/v1/chat/completions", &body.to_string())]);
    let facilitator = stage.facilitator.url.trim_start_matches("http://").to_owned();
    let from = stage.customer.payer.address();
    let facilitator_request = json!({
        "x402Version": 2,
        "paymentRequirements": { "network": "eip155:8453" },
        "paymentPayload": { "payload": { "authorization": { "from": from, "nonce": "0x0" } } },
    });
    println!(
        "paid: a body of {} bytes; upstream and facilitator answer at once",
        body.to_string().len()
    );
    println!(
        "{:>5}  {:>8} {:>8} {:>8}  {:>9} {:>9} {:>9}  {:>9} {:>8}",
        "conns",
        "paid /s",
        "p50 ms",
        "p99 ms",
        "upstream",
        "verify",
        "settle",
        "added p50",
        "CPU ms"
    );
    for connections in [1, 8, 32] {
        let requests = Arc::new(stage.paid_requests(&body, REQUESTS_PER_ROUND).await);
        let bare =
            run_load(&upstream, connections, REQUESTS_PER_ROUND, Arc::clone(&plain), false).await;
        let side = |path: &str| {
            let (facilitator_request, facilitator) =
                (post(path, &facilitator_request.to_string()), facilitator.clone());
            async move {
                let facilitator_request = Arc::new(vec![facilitator_request]);
                run_load(&facilitator, connections, REQUESTS_PER_ROUND, facilitator_request, false)
                    .await
            }
        };
        let (verify, settle) = (side("/verify").await, side("/settle").await);
        let before = stage.process.processor_time();
        let moved = stage.facilitator.settled();
        let run =
            run_load(&stage.process.address, connections, REQUESTS_PER_ROUND, requests, true).await;
        let cpu = (stage.process.processor_time() - before).as_secs_f64() * 1_000.0
            / REQUESTS_PER_ROUND as f64;
        let good = |answer: &(usize, Vec<u8>)| answer.1.windows(13).any(|w| w == b"It will rain.");
        assert!(run.answers.iter().all(good), "all are answered");
        assert_eq!(stage.facilitator.settled() - moved, REQUESTS_PER_ROUND, "all are charged once");
        let parts = [&bare, &verify, &settle].map(|run| run.quantile(0.5));
        println!(
            "{connections:>5}  {:>8.0} {:>8.2} {:>8.2}  {:>9.2} {:>9.2} {:>9.2}  {:>9.2} {cpu:>8.3}",
            run.rate(),
            run.quantile(0.5),
            run.quantile(0.99),
            parts[0],
            parts[1],
            parts[2],
            run.quantile(0.5) - parts.iter().sum::<f64>(),
        );
    }
    println!("one commit to a similar store: p50 {:.2} ms", median_commit_ms());
}

/// Returns the median time of a small commit to a store like the proxy's, in milliseconds.
fn median_commit_ms() -> f64 {
    use bursar_proxy::book::PaymentId;
    use bursar_proxy::book::redb_store::RedbStore;
    use bursar_proxy::book::store::{Change, Store};
    let folder = tempfile::tempdir().expect("a folder");
    let store = RedbStore::open_file(&folder.path().join("floor.redb")).expect("a store");
    let mut took: Vec<f64> = (0..200u8)
        .map(|n| {
            let begun = std::time::Instant::now();
            let change = Change::Delete(PaymentId([n; 32]));
            let commit = store.commit(vec![change]);
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(commit).expect("committed");
            });
            begun.elapsed().as_secs_f64() * 1_000.0
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}
