//! What is on disk when a customer learns of it, and what stays there when the price list changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bursar_chain::points::NoPoints;
use bursar_chain::ports::BoxFuture;
use bursar_proxy::book::keeper::Keeper;
use bursar_proxy::book::redb_store::RedbStore;
use bursar_proxy::book::store::{Change, Store, StoreFault, StoreReply};
use bursar_proxy::book::{Answer, PaymentId, Record, Stage as Progress};
use bursar_proxy::metrics::Metrics;
use bursar_proxy::offer::Challenge;
use bursar_proxy::payment::{Named, Payment};
use bursar_proxy::sell::{Budget, Order, Parts, Seller, Sold};
use bursar_proxy::service::{clock, facilitator_of, nodes_of, upstream_of};
use bursar_proxy::shop::Shop;
use bursar_proxy::strikes::Strikes;
use bursar_proxy::unpaid::Unpaid;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Asked, Customer, Home, chat, receipt, streaming};
use bursar_tests::settling::{Says, Settling};
use bursar_tests::upstream::{Does, Upstream, answer, frames};
use bursar_x402::Version;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::error::TryRecvError;
use tokio_util::task::TaskTracker;

use crate::stage::{Stage, refusal, told, until};

/// A store that waits for the gate before it keeps the end of a stream.
#[derive(Debug)]
struct Gated {
    inner: RedbStore,
    reached: AtomicBool,
    gate: Semaphore,
}

impl Store for Gated {
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, ()> {
        let is_end = |change: &Change| matches!(change, Change::Put(record, _) if record.stage == Progress::Paid);
        let waits = changes.iter().any(is_end);
        Box::pin(async move {
            if waits {
                self.reached.store(true, Ordering::SeqCst);
                self.gate.acquire().await.expect("open").forget();
            }
            self.inner.commit(changes).await
        })
    }

    fn get(&self, id: PaymentId) -> BoxFuture<'_, Result<Option<Record>, StoreFault>> {
        self.inner.get(id)
    }

    fn answer(&self, id: PaymentId) -> StoreReply<'_, Option<Answer>> {
        self.inner.answer(id)
    }

    fn open(&self) -> StoreReply<'_, Vec<Record>> {
        self.inner.open()
    }

    fn over(&self, now_ms: i64, kept_ms: i64, most: usize) -> StoreReply<'_, Vec<PaymentId>> {
        self.inner.over(now_ms, kept_ms, most)
    }
}

/// Whoever has seen the end of a stream and asks again must find it.
#[tokio::test]
async fn a_stream_ends_for_its_reader_when_its_end_is_on_disk() {
    let upstream = Upstream::serve(Does::Stream(frames(&["hello", " world"]))).await;
    let settling = Settling::serve().await;
    let home = Home::new(&upstream.url, &settling.url, "");
    let (config, clock) = (home.config(), clock().unwrap());
    let inner = RedbStore::open_file(&config.store).unwrap();
    let store = Gated { inner, reached: AtomicBool::new(false), gate: Semaphore::new(0) };
    let store = Arc::new(store);
    let keeper = Keeper::load(store.clone(), &TaskTracker::new()).await.unwrap();
    let seller = Seller::new(Parts {
        keeper,
        facilitator: facilitator_of(&config, &clock).unwrap(),
        nodes: nodes_of(&config, &clock).unwrap(),
        unpaid: Unpaid::new(config.unpaid),
        upstream: upstream_of(&config, &clock).unwrap(),
        metrics: Arc::new(Metrics::default()),
        clock: clock.clone(),
        points: Arc::new(NoPoints),
        patience_ms: 60_000,
        budget: Budget::of(1 << 20),
        places: Arc::new(Semaphore::new(4)),
        strikes: Strikes::default(),
        tasks: TaskTracker::new(),
    });
    let terms = config.terms().unwrap();
    let shop = Shop::new(config, terms);
    let body = Bytes::from(streaming("hello").to_string());
    let quote = shop.quote(&body, &"http://a.test/v1/chat/completions".into()).unwrap();
    let challenge = Challenge::new(&quote.offers, &quote.estimate, "");
    let second = STANDARD.decode(&challenge.header).unwrap();
    let asked = Asked {
        first: serde_json::from_str(&challenge.body).unwrap(),
        second: serde_json::from_slice(&second).unwrap(),
    };
    let header = Customer::of("", Payer::random()).sign_with(2, &asked, |_due| {});
    let payment =
        Payment::read(&header.value, Version::V2, &quote.offers, &(0..=u64::MAX)).unwrap();
    let named = Named { id: payment.id, digest: payment.digest };
    let sold = seller.sell(Order { quote, named, payment: Some(payment) }).await;
    let Sold::Stream(mut streamed) = sold else { panic!("{sold:?}") };
    let mut text = Vec::new();
    while !text.ends_with(b"[DONE]\n\n") {
        text.extend_from_slice(&streamed.chunks.recv().await.expect("a piece"));
    }
    until(|| store.reached.load(Ordering::SeqCst)).await;
    assert_eq!(streamed.chunks.try_recv(), Err(TryRecvError::Empty), "it has no end yet");
    assert!(!streamed.complete.load(Ordering::SeqCst));
    store.gate.add_permits(1);
    assert_eq!(streamed.chunks.recv().await, None);
    assert!(streamed.complete.load(Ordering::SeqCst));
    let record = store.get(named.id).await.unwrap().unwrap();
    assert_eq!((record.stage, record.kept), (Progress::Paid, true));
    assert_eq!(store.answer(named.id).await.unwrap().unwrap().body, text);
}

fn priced(model: &str, price: &str) -> String {
    format!("[models.{model}]\ninput_per_1k = \"{price}\"\noutput_per_1k = \"{price}\"")
}

#[tokio::test]
async fn a_stored_answer_outlives_the_price_and_the_row_of_its_model() {
    for (version, does, body) in [
        (1, Does::Whole(answer("hello world")), chat("hello")),
        (2, Does::Whole(answer("hello world")), chat("hello")),
        (2, Does::Stream(frames(&["hello", " world"])), streaming("hello")),
    ] {
        let mut stage = Stage::with(does, &priced("toy", "0.001")).await;
        let header = stage.customer.sign(version, &body).await;
        let first = stage.customer.send(&body, &header).await;
        let paid = receipt(&first);
        let text = first.text().await.unwrap();
        for settings in [
            priced("toy", "0.5"),
            priced("other", "0.001"),
            format!(
                "max_prompt_tokens = 1\nmax_completion_tokens = 9\ncompletion_tokens = 1\n{}",
                priced("toy", "0.001")
            ),
            format!("network = \"eip155:4663\"\n{}", priced("toy", "0.001")),
        ] {
            stage = stage.restart_with(&settings).await;
            let again = stage.customer.send(&body, &header).await;
            assert_eq!(
                (again.status().as_u16(), receipt(&again)),
                (200, paid.clone()),
                "{settings}"
            );
            assert_eq!(again.text().await.unwrap(), text);
        }
        stage = stage.restart_with(&priced("other", "0.001")).await;
        // Only what was paid: not the same body unpaid, nor another body with the payment.
        let got = stage.customer.request(&body).send().await.unwrap();
        assert_eq!(refusal(got).await, (404, "model_not_found".to_owned()));
        let got = stage.customer.send(&chat("olleh"), &header).await;
        assert_eq!(refusal(got).await, (404, "model_not_found".to_owned()));
        let stranger = Customer::of(&stage.proxy.url, Payer::random());
        let mut forged = header.clone();
        forged.value = forged.value.replacen(&header.value[200..204], "AAAA", 1);
        assert_ne!(stranger.send(&body, &forged).await.status(), 200);
        assert_eq!(stage.counts(), (1, 1));
    }
}

#[tokio::test]
async fn what_is_owed_is_settled_and_given_although_its_model_is_no_longer_sold() {
    for (does, body, calls) in [
        (Does::Whole(answer("hello world")), chat("hello"), 1),
        (Does::Stream(frames(&["hello", " world"])), streaming("hello"), 2),
    ] {
        let stage = Stage::with(does, &priced("toy", "0.001")).await;
        stage.settling.settle_says(Says::Mute);
        let header = stage.customer.sign(2, &body).await;
        assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
        stage.settling.settle_says(Says::Good);
        let stage = stage.restart_with(&priced("other", "0.001")).await;
        let got = stage.customer.send(&body, &header).await;
        assert_eq!(receipt(&got)["success"], json!(true));
        assert!(got.text().await.unwrap().contains("world"));
        assert_eq!(stage.counts(), (calls, 1));
        let (_, sent) = stage.upstream.last();
        assert_eq!((&sent["model"], &sent["max_completion_tokens"]), (&json!("toy"), &json!(100)));
        let again = stage.customer.send(&body, &header).await;
        assert_eq!(again.status(), 200);
        assert_eq!(stage.counts(), (calls, 1));
    }
}

/// The upstream did not answer, so the price of now counts.
#[tokio::test]
async fn a_payment_that_bought_nothing_yet_needs_the_price_of_now() {
    let stage = Stage::with(Does::Status(500, "{}".to_owned()), &priced("toy", "0.001")).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    assert_eq!(stage.customer.send(&body, &header).await.status(), 500);
    let stage = stage.restart_with(&priced("toy", "0.5")).await;
    let (status, _challenge) = told(stage.customer.send(&body, &header).await).await;
    assert_eq!((status, stage.settling.moved()), (402, 0));
}
