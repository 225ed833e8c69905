//! The price quote for a body without a payment. It costs the seller processor time, so it must be fast.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::routing::post as route;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::{Run, post, run_load};
use crate::stage::{Stage, body, upstream};

const REQUESTS_PER_ROUND: usize = 20_000;
const ROUNDS: usize = 3;

pub async fn measure() {
    let upstream = upstream().await;
    let stage = Stage::in_front_of(&format!("http://{upstream}/v1")).await;
    let small = json!({ "model": "toy", "messages": [{ "role": "user", "content": "hello" }] });
    let long = "The quick brown fox jumps over the lazy dog. ".repeat(3_000);
    for (name, body, round) in [
        ("a word", small, REQUESTS_PER_ROUND),
        ("a kilobyte", body(false), REQUESTS_PER_ROUND),
        ("132 kilobytes", bursar_tests::proxy::chat(&long), REQUESTS_PER_ROUND / 20),
    ] {
        measure_body(&stage, name, &body, round).await;
    }
    let (now, most) = stage.process.memory_mib();
    println!("memory: {now:.1} MiB, at most {most:.1} MiB");
}

async fn measure_body(stage: &Stage, name: &str, body: &Value, round: usize) {
    let challenge = Arc::new(vec![post("/v1/chat/completions", &body.to_string())]);
    let floor = start_minimal_server(stage.customer.ask(body).await).await;
    println!("unpaid, {name}: a body of {} bytes", body.to_string().len());
    println!(
        "{:>5}  {:>9} {:>8} {:>8}  {:>9}  {:>8} {:>8}",
        "conns", "402 /s", "p50 ms", "p99 ms", "floor /s", "of floor", "CPU ms"
    );
    for connections in [1, 8, 32] {
        let mut best: Option<(Run, f64)> = None;
        let mut floors: f64 = 0.0;
        for _round in 0..ROUNDS {
            let run = run_load(&floor, connections, round, Arc::clone(&challenge), false).await;
            floors = floors.max(run.rate());
            let before = stage.process.processor_time();
            let address = &stage.process.address;
            let run = run_load(address, connections, round, Arc::clone(&challenge), false).await;
            let cpu =
                (stage.process.processor_time() - before).as_secs_f64() * 1_000.0 / round as f64;
            if best.as_ref().is_none_or(|(known, _cpu)| run.rate() > known.rate()) {
                best = Some((run, cpu));
            }
        }
        let (run, cpu) = best.expect("rounds");
        println!(
            "{connections:>5}  {:>9.0} {:>8.3} {:>8.3}  {floors:>9.0}  {:>7.0}% {cpu:>8.3}",
            run.rate(),
            run.quantile(0.5),
            run.quantile(0.99),
            100.0 * run.rate() / floors,
        );
    }
}

/// Starts a server that reads the body and answers every request with the same bytes.
async fn start_minimal_server(challenge: bursar_tests::proxy::PaymentRequired) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let body = Bytes::from(challenge.v1.to_string());
    let offer = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        challenge.v2.to_string(),
    );
    let answer = move |_body: Bytes| {
        let (body, offer) = (body.clone(), offer.clone());
        async move {
            let kind = (header::CONTENT_TYPE.as_str(), "application/json".to_owned());
            let headers = [kind, ("payment-required", offer)];
            (StatusCode::PAYMENT_REQUIRED, headers, body)
        }
    };
    let app = Router::new().route("/v1/chat/completions", route(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
