use super::*;
use std::collections::BTreeSet;

use alloy_primitives::Address;
use axum::body::Body;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::failpoints::NoFailpoints;
use bursar_core::time::Utc;
use bursar_serve::access::IpRanges;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::answer_memory::AnswerMemory;
use crate::book::ledger::Ledger;
use crate::book::redb_store::RedbStore;
use crate::book::{SaleKey, Settlement};
use crate::config::Config;
use crate::penalties::PayerPenalties;
use crate::sell::{SellerDeps, StreamBudget};
use crate::service::{clock, facilitator_of, nodes_of, upstream_of};

/// openapi.json lists the routes of `api.rs` and every code.
#[test]
fn openapi_document_lists_every_route_and_every_code() {
    let document: Value = serde_json::from_str(include_str!("../../openapi.json")).unwrap();
    let documented: BTreeSet<String> =
        document["paths"].as_object().unwrap().keys().cloned().collect();
    let source = include_str!("../api.rs");
    let routes = source.split(".route(\"").skip(1);
    let routed: BTreeSet<String> = routes
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .filter(|path| path != "/metrics")
        .collect();
    assert_eq!(documented, routed);
    let codes = document["components"]["schemas"]["Code"]["enum"].as_array().unwrap();
    let codes: Vec<&str> = codes.iter().map(|code| code.as_str().unwrap()).collect();
    assert_eq!(codes, Code::ALL.iter().map(|code| code.text()).collect::<Vec<_>>());
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

/// A service whose upstream and facilitator are unreachable.
async fn api(folder: &TempDir) -> Arc<Api> {
    let file = folder.path().join("proxy.toml");
    let settings = "wallet_address = \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"\nrpc = \"off\"\n\
                    upstream_url = \"http://127.0.0.1:9/v1\"\nfacilitator_url = \"http://127.0.0.1:9\"\n";
    std::fs::write(&file, settings).unwrap();
    let (config, clock) = (Config::load(Some(&file), &|_none| None).unwrap(), clock().unwrap());
    let store = RedbStore::open_file(&config.store).unwrap();
    let ledger = Ledger::load(Arc::new(store), &TaskTracker::new()).await.unwrap();
    let seller = Seller::new(SellerDeps {
        ledger,
        facilitator: facilitator_of(&config, &clock).unwrap(),
        nodes: nodes_of(&config, &clock).unwrap(),
        unpaid: crate::unpaid::UnpaidSales::new(config.unpaid),
        upstream: upstream_of(&config, &clock).unwrap(),
        metrics: Arc::new(Metrics::default()),
        clock: Arc::clone(&clock),
        failpoints: Arc::new(NoFailpoints),
        repeat_wait_ms: 0,
        budget: StreamBudget::of(1 << 20),
        answers: AnswerMemory::with_bytes(0),
        sale_permits: Arc::new(Semaphore::new(4)),
        penalties: PayerPenalties::default(),
        tasks: TaskTracker::new(),
    });
    let access = Access::new(Vec::new(), IpRanges::default(), 0, clock);
    let terms = config.terms().unwrap();
    let (clocks, stopping) = (Arc::default(), CancellationToken::new());
    Arc::new(Api::new(Pricing::new(config, terms), seller, access, clocks, stopping))
}

/// A payment header, and the record of the stream that is owed for it.
fn owed_stream(api: &Api, body: &Bytes) -> (String, Record) {
    let payer = "0x1111111111111111111111111111111111111111";
    let payment = json!({
        "x402Version": 1, "scheme": "exact", "network": "base",
        "payload": { "signature": "0x00", "authorization": {
            "from": payer, "to": payer, "value": "500", "validAfter": "0", "validBefore": "1500",
            "nonce": format!("0x{}", "07".repeat(32)),
        } },
    });
    let header = bursar_x402::header::encode(&payment.to_string());
    let named = PaymentIdentity::read(&header, Version::V1, api.pricing.terms()).unwrap();
    let record = Record {
        id: named.id,
        body: Quote::unpriced(body).digest,
        payment: named.digest,
        taken_at_ms: 0,
        expires_at: 1_500,
        stage: Stage::Owed,
        settlement: Settlement::Settled { receipt: "{}".to_owned() },
        facilitator_request: "{}".to_owned(),
        model: None,
        amount: "500".to_owned(),
        usd: "0.0005".to_owned(),
        network: 8453,
        asset: Address::ZERO,
        payer: payer.parse().unwrap(),
        usage: None,
        answer_stored: false,
        key: Some(SaleKey([1; 16])),
        answer_tokens_max: Some(9),
    };
    (header, record)
}

/// If pricing is busy, the request is refused regardless of its body. This refusal must not end an owed stream.
#[tokio::test]
async fn an_owed_stream_stays_owed_while_long_bodies_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let api = api(&folder).await;
    let text = "hello ".repeat(SHORT_BODY_BYTES_MAX / 6);
    let body = json!({ "stream": true, "messages": [{ "role": "user", "content": text }] });
    let body = Bytes::from(body.to_string());
    assert!(body.len() > SHORT_BODY_BYTES_MAX);
    let (header, record) = owed_stream(&api, &body);
    api.seller.deps().ledger.put(&record, None).await.unwrap();
    let send = async || {
        let mut headers = HeaderMap::new();
        headers.insert("x-payment", header.parse().unwrap());
        let request = Request::new(Body::from(body.clone()));
        let answer = chat(State(Arc::clone(&api)), headers, request).await;
        let after = answer.headers().contains_key(header::RETRY_AFTER);
        let text = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let error: Value = serde_json::from_slice(&text).unwrap();
        (error["error"]["code"].as_str().unwrap().to_owned(), after)
    };
    let all = u32::try_from(api.long_body_permits.available_permits()).unwrap();
    let full = api.long_body_permits.try_acquire_many(all).unwrap();
    assert_eq!(send().await, ("busy".to_owned(), true));
    drop(full);
    // The body is priced, and the proxy calls the upstream, which is unreachable.
    assert_eq!(send().await, ("answer_owed".to_owned(), false));
    api.pricing_permits.close();
    assert_eq!(send().await, ("stopping".to_owned(), true));
}

#[tokio::test]
async fn a_client_refused_by_the_rate_limit_learns_when_it_is_admitted_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut api = Arc::into_inner(api(&folder).await).unwrap();
    let clock = Arc::new(ManualClock::new(Utc(0)));
    api.access = Access::new(Vec::new(), IpRanges::default(), 2, Arc::clone(&clock) as _);
    let routes = router(Arc::new(api));
    // An empty body is refused only after the rate limit, so status 400 shows that the request was admitted.
    let send = async || {
        let request = Request::post("/v1/chat/completions").body(Body::empty()).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        let after = answer.headers().get(header::RETRY_AFTER);
        (answer.status().as_u16(), after.map(|value| value.to_str().unwrap().to_owned()))
    };
    let refused = |seconds: &str| (429, Some(seconds.to_owned()));
    assert_eq!([send().await, send().await], [(400, None), (400, None)]);
    assert_eq!(send().await, refused("30"));
    clock.advance(12_001);
    assert_eq!(send().await, refused("18"), "17.999 seconds are left");
    clock.advance(17_998);
    assert_eq!(send().await, refused("1"), "a millisecond is left");
    clock.advance(1);
    assert_eq!(send().await, (400, None));
    assert_eq!(send().await, refused("30"));
}
