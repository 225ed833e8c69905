//! Answers are on disk when a customer receives them, and stay there when the price list changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bursar_chain::failpoints::NoFailpoints;
use bursar_proxy::answer_memory::AnswerMemory;
use bursar_proxy::book::ledger::Ledger;
use bursar_proxy::book::redb_store::RedbStore;
use bursar_proxy::book::store::{Change, Store, StoreError, StoreReply};
use bursar_proxy::book::{PaymentId, Record, SaleKey, Settlement, Stage as Progress, StoredAnswer};
use bursar_proxy::fault::Code;
use bursar_proxy::metrics::Metrics;
use bursar_proxy::offer::Challenge;
use bursar_proxy::payment::{Payment, PaymentIdentity};
use bursar_proxy::penalties::PayerPenalties;
use bursar_proxy::pricing::Pricing;
use bursar_proxy::sell::{ChargeStatus, Order, SaleOutcome, Seller, SellerDeps, StreamBudget};
use bursar_proxy::service::{clock, facilitator_of, nodes_of, upstream_of};
use bursar_proxy::tokens::Vocabulary;
use bursar_proxy::unpaid::UnpaidSales;
use bursar_tests::payer::{Payer, now_s};
use bursar_tests::proxy::{Customer, PaymentRequired, ProxyHome, chat, receipt, streaming_chat};
use bursar_tests::scripted_facilitator::{FacilitatorReply, ScriptedFacilitator};
use bursar_tests::upstream::{Behavior, Upstream, answer, frames};
use bursar_x402::Version;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::error::TryRecvError;
use tokio_util::task::TaskTracker;

use crate::proxy::stage::{Stage, refusal, status_and_json, wait_until};

/// A store that is full for some records, or waits for a gate before it stores them.
#[derive(Debug)]
struct TestStore {
    inner: RedbStore,
    applies_to: fn(&Record) -> bool,
    is_full: AtomicBool,
    is_reached: AtomicBool,
    gate: Semaphore,
}

impl TestStore {
    /// Creates a store that waits before it stores the end of a stream.
    fn with_gate(inner: RedbStore) -> Arc<Self> {
        let concerns = |record: &Record| record.stage == Progress::Paid;
        let (full, reached, gate) =
            (AtomicBool::new(false), AtomicBool::new(false), Semaphore::new(0));
        Arc::new(Self { inner, applies_to: concerns, is_full: full, is_reached: reached, gate })
    }

    /// Creates a store that rejects the end of a settlement while it is full.
    fn that_fills(inner: RedbStore) -> Arc<Self> {
        let concerns = |record: &Record| {
            matches!(record.settlement, Settlement::Settled { .. } | Settlement::Failed { .. })
        };
        let (full, reached) = (AtomicBool::new(true), AtomicBool::new(false));
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { inner, applies_to: concerns, is_full: full, is_reached: reached, gate })
    }
}

impl Store for TestStore {
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, ()> {
        let is_concerned =
            |change: &Change| matches!(change, Change::Put(record, _) if (self.applies_to)(record));
        let is_concerned = changes.iter().any(is_concerned);
        Box::pin(async move {
            if is_concerned && self.is_full.load(Ordering::SeqCst) {
                return Err(StoreError::DiskFull("the disk is full".to_owned()));
            }
            if is_concerned {
                self.is_reached.store(true, Ordering::SeqCst);
                self.gate.acquire().await.expect("open").forget();
            }
            self.inner.commit(changes).await
        })
    }

    fn get(&self, id: PaymentId) -> StoreReply<'_, Option<Record>> {
        self.inner.get(id)
    }

    fn answer(&self, id: PaymentId) -> StoreReply<'_, Option<StoredAnswer>> {
        self.inner.answer(id)
    }

    fn open(&self) -> StoreReply<'_, Vec<Record>> {
        self.inner.open()
    }

    fn deletable(&self, now_ms: i64, kept_ms: i64, most: usize) -> StoreReply<'_, Vec<PaymentId>> {
        self.inner.deletable(now_ms, kept_ms, most)
    }
}

/// A seller without HTTP in front of it.
struct TestSeller {
    seller: Seller,
    pricing: Pricing,
    upstream: Upstream,
    facilitator: ScriptedFacilitator,
    _home: ProxyHome,
}

impl TestSeller {
    /// Sets up a seller; `store` wraps the file's store, and its result is returned as well.
    async fn with<S: Store + 'static>(
        behavior: Behavior,
        repeat_wait_ms: u64,
        store: impl FnOnce(RedbStore) -> Arc<S>,
    ) -> (Self, Arc<S>) {
        let upstream = Upstream::serve(behavior).await;
        let facilitator = ScriptedFacilitator::serve().await;
        let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
        let (config, clock) = (home.config(), clock().unwrap());
        let store = store(RedbStore::open_file(&config.store).unwrap());
        let seller = Ledger::load(store.clone(), &TaskTracker::new()).await.unwrap();
        let seller = Seller::new(SellerDeps {
            ledger: seller,
            facilitator: facilitator_of(&config, &clock).unwrap(),
            nodes: nodes_of(&config, &clock).unwrap(),
            unpaid: UnpaidSales::new(config.unpaid),
            upstream: upstream_of(&config, &clock).unwrap(),
            metrics: Arc::new(Metrics::default()),
            clock: clock.clone(),
            failpoints: Arc::new(NoFailpoints),
            repeat_wait_ms,
            budget: StreamBudget::of(1 << 20),
            answers: AnswerMemory::with_bytes(0),
            sale_permits: Arc::new(Semaphore::new(4)),
            penalties: PayerPenalties::default(),
            tasks: TaskTracker::new(),
        });
        let terms = config.terms().unwrap();
        let pricing = Pricing::new(config, terms);
        (Self { seller, pricing, upstream, facilitator, _home: home }, store)
    }

    /// Returns an order: a body with a payment for it.
    fn order(&self, body: &Value) -> Order {
        let body = Bytes::from(body.to_string());
        let quote = self.pricing.quote(&body, &"http://a.test/v1/chat/completions".into()).unwrap();
        let challenge = Challenge::new(&quote.offers, &quote.estimate, "");
        let second = STANDARD.decode(&challenge.header).unwrap();
        let challenge = PaymentRequired {
            v1: serde_json::from_str(&challenge.body).unwrap(),
            v2: serde_json::from_slice(&second).unwrap(),
        };
        let header = Customer::of("", Payer::random()).sign_with(2, &challenge, |_due| {});
        let span = 0..=u64::MAX;
        let payment = Payment::read(&header.value, Version::V2, &quote.offers, &span).unwrap();
        let identity = PaymentIdentity { id: payment.id, digest: payment.digest };
        Order { quote, identity, payment: Some(payment) }
    }
}

#[tokio::test]
async fn a_repeat_waits_for_the_first_request_and_then_gets_payment_in_use() {
    let (seller, _store) = TestSeller::with(Behavior::Late(answer("late")), 0, Arc::new).await;
    let order = seller.order(&chat("hello"));
    let first = tokio::spawn({
        let (seller, order) = (seller.seller.clone(), order.clone());
        async move { seller.sell(order).await }
    });
    wait_until(|| seller.upstream.calls() > 0).await;
    let SaleOutcome::Refused(refused) = seller.seller.sell(order.clone()).await else { panic!() };
    assert_eq!((refused.fault.code, refused.charged), (Code::PaymentInUse, ChargeStatus::Unknown));
    assert_eq!(refused.fault.retry_after(), Some(2));
    seller.upstream.open_gate(1);
    assert!(matches!(first.await.unwrap(), SaleOutcome::Whole { .. }));
    assert!(matches!(seller.seller.sell(order).await, SaleOutcome::Whole { .. }));
    assert_eq!((seller.upstream.calls(), seller.facilitator.settled()), (1, 1));
}

/// Returns the record of an order's pending sale.
fn pending_record(order: Order, stage: Progress) -> Record {
    let payment = order.payment.expect("a payment");
    Record {
        id: payment.id,
        body: order.quote.digest,
        payment: payment.digest,
        taken_at_ms: 0,
        expires_at: payment.expires_at,
        stage,
        settlement: Settlement::Pending { receipt: "{}".to_owned() },
        facilitator_request: payment.facilitator_request,
        model: None,
        amount: payment.offer.amount.to_string(),
        usd: payment.offer.usd(),
        network: 8453,
        asset: payment.offer.terms.asset,
        payer: payment.payer,
        usage: None,
        answer_stored: false,
        key: Some(SaleKey([1; 16])),
        answer_tokens_max: order.quote.answer_tokens_max,
    }
}

/// A settlement ends when it is settled, failed, or past the time in which it could settle.
#[tokio::test]
async fn a_delivered_answer_counts_as_unpaid_until_its_settlement_ends() {
    for (reply, over, settlement, left, unpaid_answers) in [
        (FacilitatorReply::Pending(true), false, "pending", true, 0),
        (FacilitatorReply::Pending(true), true, "failed", false, 1),
        (FacilitatorReply::SettlesThenFails, false, "pending", true, 0),
        (FacilitatorReply::SettlesThenFails, true, "failed", false, 1),
        (FacilitatorReply::Good, false, "settled", false, 0),
        (FacilitatorReply::Good, true, "settled", false, 0),
        (
            FacilitatorReply::Refuses("invalid_exact_evm_transaction_failed"),
            false,
            "failed",
            false,
            1,
        ),
        (FacilitatorReply::DuplicateSettlement, false, "failed", false, 1),
    ] {
        let (seller, store) = TestSeller::with(Behavior::Nothing, 0, Arc::new).await;
        let record = pending_record(seller.order(&chat("hello")), Progress::Paid);
        let deps = seller.seller.deps();
        deps.ledger.put(&record, None).await.unwrap();
        deps.unpaid.load(&record);
        seller.facilitator.set_settle_reply(reply.clone());
        seller.seller.reconcile(record.clone(), over).await;
        let stored = match store.get(record.id).await.unwrap().unwrap().settlement {
            Settlement::Pending { .. } => "pending",
            Settlement::Failed { .. } => "failed",
            Settlement::Settled { .. } => "settled",
            other => panic!("{other:?}"),
        };
        assert_eq!(stored, settlement, "{reply:?} {over}");
        assert_eq!(!deps.unpaid.total().is_zero(), left, "{reply:?} {over}");
        assert_eq!(deps.ledger.pending().is_empty(), !left);
        assert_eq!(deps.metrics.unpaid_answers.get(), unpaid_answers, "{reply:?} {over}");
        let revenue = deps.metrics.text().contains("revenue_atoms_total{");
        assert_eq!(revenue, settlement == "settled");
    }
}

/// Nothing was delivered, so the customer may ask again, and money that has moved by then pays for the answer.
#[tokio::test]
async fn a_stream_stays_owed_while_its_settlement_is_unknown() {
    for stage in [Progress::Owed, Progress::Streaming] {
        let behavior = Behavior::Stream(frames(&["hello", " world"]));
        let (seller, store) = TestSeller::with(behavior, 0, Arc::new).await;
        let order = seller.order(&streaming_chat("hello"));
        let record = pending_record(order.clone(), stage);
        let deps = seller.seller.deps();
        deps.ledger.put(&record, None).await.unwrap();
        deps.unpaid.load(&record);
        seller.facilitator.set_settle_reply(FacilitatorReply::Pending(false));
        seller.seller.reconcile(record.clone(), false).await;
        assert_eq!(store.get(record.id).await.unwrap(), Some(record.clone()));
        seller.seller.reconcile(record.clone(), true).await;
        let stored = store.get(record.id).await.unwrap().unwrap();
        assert_eq!((stored.stage, stored.settlement), (stage, Settlement::Requested));
        assert!(deps.ledger.pending().is_empty() && deps.unpaid.total().is_zero());
        assert_eq!(deps.metrics.unpaid_answers.get(), 0);
        // An earlier request of ours, whose answer was lost, has settled the payment.
        seller.facilitator.set_settle_reply(FacilitatorReply::Repeated);
        let sold = seller.seller.sell(order).await;
        assert!(matches!(sold, SaleOutcome::Stream(_)), "{sold:?}");
    }
}

/// A definite failure is stored, and the customer may still pay. Nothing was delivered, so no answer is unpaid.
#[tokio::test]
async fn an_owed_stream_whose_settlement_failed_does_not_count_as_unpaid() {
    let (seller, store) = TestSeller::with(Behavior::Nothing, 0, Arc::new).await;
    let record = pending_record(seller.order(&streaming_chat("hello")), Progress::Owed);
    let deps = seller.seller.deps();
    deps.ledger.put(&record, None).await.unwrap();
    deps.unpaid.load(&record);
    seller.facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
    seller.seller.reconcile(record.clone(), false).await;
    let stored = store.get(record.id).await.unwrap().unwrap();
    assert!(matches!(stored.settlement, Settlement::Failed { .. }), "{stored:?}");
    assert!(deps.ledger.pending().is_empty() && deps.unpaid.total().is_zero());
    assert_eq!(deps.metrics.unpaid_answers.get(), 0);
}

/// After a restart only the record of a sale remains.
#[tokio::test]
async fn a_sale_is_kept_as_it_was_paid() {
    let (seller, store) = TestSeller::with(Behavior::Whole(answer("hello")), 0, Arc::new).await;
    let order = seller.order(&chat("hello"));
    let before = seller.seller.deps().clock.now().utc.0;
    assert!(matches!(seller.seller.sell(order.clone()).await, SaleOutcome::Whole { .. }));
    let stored = store.get(order.identity.id).await.unwrap().unwrap();
    assert!((before..before + 60_000).contains(&stored.taken_at_ms), "{}", stored.taken_at_ms);
    let model = pending_record(order.clone(), Progress::Paid);
    assert!(stored.key.is_some() && stored.usage.is_some() && stored.settlement.allows_delivery());
    let rest = Record {
        taken_at_ms: 0,
        settlement: model.settlement.clone(),
        usage: None,
        key: model.key,
        ..stored.clone()
    };
    let paid = Record { model: Some("toy".to_owned()), answer_stored: true, ..model };
    assert_eq!((rest, stored.answer_tokens_max), (paid, Some(100)));
    // A sale is found by its body together with its payment, and by no other pair.
    let (identity, body) = (order.identity, order.quote.digest);
    assert_eq!(
        seller.seller.find_charged_repeat(identity, &body).await.unwrap(),
        Some(stored.clone())
    );
    assert_eq!(seller.seller.find_charged_repeat(identity, &[0; 32]).await.unwrap(), None);
    let forged = PaymentIdentity { digest: [0; 32], ..identity };
    assert_eq!(seller.seller.find_charged_repeat(forged, &body).await.unwrap(), None);
    // A payment that was only taken has bought nothing, so the current price applies.
    let taken = Record { stage: Progress::Taken, ..stored };
    seller.seller.deps().ledger.put(&taken, None).await.unwrap();
    assert_eq!(seller.seller.find_charged_repeat(identity, &body).await.unwrap(), None);
}

#[tokio::test]
async fn an_owed_stream_refused_for_lack_of_a_slot_reports_whether_it_is_paid() {
    for (settlement, code, charged) in [
        (Settlement::Settled { receipt: "{}".to_owned() }, Code::AnswerOwed, ChargeStatus::Yes),
        (Settlement::Requested, Code::Busy, ChargeStatus::Unknown),
    ] {
        let (seller, _store) = TestSeller::with(Behavior::Nothing, 0, Arc::new).await;
        let order = seller.order(&streaming_chat("hello"));
        let record = Record { settlement, ..pending_record(order.clone(), Progress::Owed) };
        let deps = seller.seller.deps();
        deps.ledger.put(&record, None).await.unwrap();
        let _all = deps.sale_permits.try_acquire_many(4).unwrap();
        let SaleOutcome::Refused(refused) = seller.seller.sell(order).await else { panic!() };
        assert_eq!((refused.fault.code, refused.charged), (code, charged));
        assert_eq!((seller.upstream.calls(), seller.facilitator.settle_calls()), (0, 0));
    }
}

/// An upstream may stream once and send a whole answer the next time.
#[tokio::test]
async fn an_owed_stream_answered_in_one_piece_is_delivered_and_not_charged_again() {
    let (seller, _store) = TestSeller::with(Behavior::Half, 0, Arc::new).await;
    let order = seller.order(&streaming_chat("hello"));
    let record = Record {
        settlement: Settlement::Settled { receipt: "{}".to_owned() },
        ..pending_record(order.clone(), Progress::Owed)
    };
    let deps = seller.seller.deps();
    deps.ledger.put(&record, None).await.unwrap();
    let SaleOutcome::Refused(refused) = seller.seller.sell(order.clone()).await else { panic!() };
    assert_eq!((refused.fault.code, refused.charged), (Code::AnswerOwed, ChargeStatus::Yes));
    seller.upstream.set_behavior(Behavior::Whole(answer("hello")));
    for _again in 0..2 {
        let SaleOutcome::Whole { body, .. } = seller.seller.sell(order.clone()).await else {
            panic!()
        };
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), answer("hello"));
    }
    assert_eq!((seller.upstream.calls(), seller.facilitator.settle_calls()), (2, 0));
    // Revenue was counted when the sale was settled.
    assert!(!deps.metrics.text().contains("revenue_atoms_total{"));
}

/// Within an hour of its expiry, a payment with a pending settlement may still settle.
#[tokio::test]
async fn a_pending_settlement_is_abandoned_an_hour_after_its_payment_expired() {
    for (minutes_ago, pending, unpaid) in [(59, 1, 0), (61, 0, 1)] {
        let stage = Stage::with_answer().await;
        stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
        assert_eq!(stage.customer.buy(2, &chat("hello")).await.status(), 200);
        let Stage { proxy, home, facilitator: _facilitator, .. } = stage;
        proxy.stop().await;
        let opened = async {
            loop {
                // A child process of another test may hold the file for a moment.
                match RedbStore::open_file(&home.config().store) {
                    Ok(store) => break store,
                    Err(_held) => tokio::task::yield_now().await,
                }
            }
        };
        let store = tokio::time::timeout(Duration::from_secs(30), opened).await.unwrap();
        let mut all = store.open().await.unwrap();
        let mut record = all.pop().unwrap();
        record.expires_at = now_s() - minutes_ago * 60;
        store.commit(vec![Change::Put(Box::new(record), None)]).await.unwrap();
        drop(store);
        let proxy = home.start().await;
        let lines = [
            format!("bursar_proxy_pending_settlements {pending}\n"),
            format!("bursar_proxy_unpaid_answers_total {unpaid}\n"),
            "bursar_proxy_settlements_total{result=\"pending\"} 1\n".to_owned(),
        ];
        let counted = async {
            loop {
                let text = proxy.metrics().await;
                if lines.iter().all(|line| text.contains(line)) {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), counted).await.expect("it is counted");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn the_end_of_a_settlement_is_counted_once_it_is_on_disk() {
    for (reply, unpaid_answers) in
        [(FacilitatorReply::Good, 0), (FacilitatorReply::Refuses("insufficient_balance"), 1)]
    {
        let (seller, store) = TestSeller::with(Behavior::Nothing, 0, TestStore::that_fills).await;
        let record = pending_record(seller.order(&chat("hello")), Progress::Paid);
        let deps = seller.seller.deps();
        deps.ledger.put(&record, None).await.unwrap();
        deps.unpaid.load(&record);
        seller.facilitator.set_settle_reply(reply.clone());
        let count = || {
            let revenue = format!(
                "revenue_atoms_total{{network=\"eip155:8453\",asset=\"{}\"}} ",
                record.asset
            );
            let text = deps.metrics.text();
            let revenue =
                text.lines().find_map(|line| line.split(&revenue).nth(1).map(str::to_owned));
            (revenue, deps.metrics.unpaid_answers.get(), deps.unpaid.total().is_zero())
        };
        for _time in 0..12 {
            seller.seller.reconcile(record.clone(), false).await;
        }
        assert_eq!(count(), (None, 0, false), "{reply:?}");
        assert_eq!(deps.penalties.lockout_ms(record.payer, deps.clock.mono_ms()), None);
        store.is_full.store(false, Ordering::SeqCst);
        seller.seller.reconcile(record.clone(), false).await;
        let revenue = (unpaid_answers == 0).then(|| record.amount.clone());
        assert_eq!(count(), (revenue, unpaid_answers, true), "{reply:?}");
    }
}

/// A customer waits for a settlement that fails, first while the store is full.
#[tokio::test]
async fn a_failed_settlement_is_counted_against_its_payer_once_it_is_on_disk() {
    let (seller, store) =
        TestSeller::with(Behavior::Whole(answer("hello")), 0, TestStore::that_fills).await;
    seller.facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
    let order = seller.order(&chat("hello"));
    let payer = order.payment.as_ref().unwrap().payer;
    let deps = seller.seller.deps();
    let sell = async || match seller.seller.sell(order.clone()).await {
        SaleOutcome::Refused(refused) => refused.fault.code,
        other => panic!("{other:?}"),
    };
    for _time in 0..12 {
        assert_eq!(sell().await, Code::StoreFailed);
    }
    assert_eq!(deps.penalties.lockout_ms(payer, deps.clock.mono_ms()), None);
    store.is_full.store(false, Ordering::SeqCst);
    for _time in 0..10 {
        assert_eq!(sell().await, Code::SettlementFailed);
    }
    assert!(deps.penalties.lockout_ms(payer, deps.clock.mono_ms()).is_some());
}

/// A customer that has seen the end of a stream must get the stored stream when it repeats the request.
#[tokio::test]
async fn a_stream_ends_for_its_reader_once_its_end_is_on_disk() {
    let behavior = Behavior::Stream(frames(&["hello", " world"]));
    let (seller, store) = TestSeller::with(behavior, 60_000, TestStore::with_gate).await;
    let order = seller.order(&streaming_chat("hello"));
    let (seller, identity) = (&seller.seller, order.identity);
    let sold = seller.sell(order).await;
    let SaleOutcome::Stream(mut streamed) = sold else { panic!("{sold:?}") };
    let mut text = Vec::new();
    while !text.ends_with(b"[DONE]\n\n") {
        text.extend_from_slice(&streamed.chunks.recv().await.expect("a piece"));
    }
    wait_until(|| store.is_reached.load(Ordering::SeqCst)).await;
    assert_eq!(streamed.chunks.try_recv(), Err(TryRecvError::Empty), "it has no end yet");
    assert!(!streamed.complete.load(Ordering::SeqCst));
    store.gate.add_permits(1);
    assert_eq!(streamed.chunks.recv().await, None);
    assert!(streamed.complete.load(Ordering::SeqCst));
    let record = store.get(identity.id).await.unwrap().unwrap();
    assert_eq!((record.stage, record.answer_stored), (Progress::Paid, true));
    assert_eq!(store.answer(identity.id).await.unwrap().unwrap().body, text);
}

fn model_settings(model: &str, price: &str) -> String {
    format!("[models.{model}]\ninput_per_1k = \"{price}\"\noutput_per_1k = \"{price}\"")
}

#[tokio::test]
async fn a_stored_answer_outlives_the_price_and_the_row_of_its_model() {
    for (version, behavior, body) in [
        (1, Behavior::Whole(answer("hello world")), chat("hello")),
        (2, Behavior::Whole(answer("hello world")), chat("hello")),
        (2, Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        let mut stage = Stage::with(behavior, &model_settings("toy", "0.001")).await;
        let header = stage.customer.sign(version, &body).await;
        let first = stage.customer.send(&body, &header).await;
        let paid = receipt(&first);
        let text = first.text().await.unwrap();
        for settings in [
            model_settings("toy", "0.5"),
            model_settings("other", "0.001"),
            format!(
                "max_prompt_tokens = 1\nmax_completion_tokens = 9\ncompletion_tokens = 1\n{}",
                model_settings("toy", "0.001")
            ),
            format!("network = \"eip155:4663\"\n{}", model_settings("toy", "0.001")),
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
        stage = stage.restart_with(&model_settings("other", "0.001")).await;
        // Only the paid request is answered: neither the same body unpaid, nor another body with the payment.
        let response = stage.customer.request(&body).send().await.unwrap();
        assert_eq!(refusal(response).await, (404, "model_not_found".to_owned()));
        let response = stage.customer.send(&chat("olleh"), &header).await;
        assert_eq!(refusal(response).await, (404, "model_not_found".to_owned()));
        let stranger = Customer::of(&stage.proxy.url, Payer::random());
        let mut forged = header.clone();
        forged.value = forged.value.replacen(&header.value[200..204], "AAAA", 1);
        assert_ne!(stranger.send(&body, &forged).await.status(), 200);
        assert_eq!(stage.counts(), (1, 1));
    }
}

#[tokio::test]
async fn an_owed_answer_is_settled_and_delivered_after_its_model_is_removed() {
    for (behavior, body, calls) in [
        (Behavior::Whole(answer("hello world")), chat("hello"), 1),
        (Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello"), 2),
    ] {
        let stage = Stage::with(behavior, &model_settings("toy", "0.001")).await;
        stage.facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
        let header = stage.customer.sign(2, &body).await;
        assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
        stage.facilitator.set_settle_reply(FacilitatorReply::Good);
        let stage = stage.restart_with(&model_settings("other", "0.001")).await;
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(receipt(&response)["success"], json!(true));
        assert!(response.text().await.unwrap().contains("world"));
        assert_eq!(stage.counts(), (calls, 1));
        let (_, sent) = stage.upstream.last_request();
        assert_eq!((&sent["model"], &sent["max_completion_tokens"]), (&json!("toy"), &json!(100)));
        let again = stage.customer.send(&body, &header).await;
        assert_eq!(again.status(), 200);
        assert_eq!(stage.counts(), (calls, 1));
    }
}

/// Uses the bound that was paid for, although the body's fields are no longer sold.
#[tokio::test]
async fn an_owed_stream_keeps_the_bound_that_was_paid_for() {
    let behavior = Behavior::Stream(frames(&["hello", " world"]));
    let settings = "completion_tokens = 50\nextra_fields = [\"mirostat\"]";
    let mut stage = Stage::with(behavior.clone(), settings).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
    let mut body = streaming_chat("hello");
    body.as_object_mut().unwrap().remove("max_completion_tokens");
    body["mirostat"] = json!(1);
    let header = stage.customer.sign(2, &body).await;
    assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    stage.upstream.set_behavior(Behavior::Status(500, "{}".to_owned()));
    for settings in ["completion_tokens = 5000\nextra_fields = [\"mirostat\"]", ""] {
        stage = stage.restart_with(settings).await;
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(refusal(response).await, (503, "answer_owed".to_owned()));
        let (_, sent) = stage.upstream.last_request();
        assert_eq!(sent["max_completion_tokens"], 50, "{settings}");
    }
    stage.upstream.set_behavior(behavior);
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(response.text().await.unwrap(), frames(&["hello", " world"]).concat());
    assert_eq!(stage.counts(), (4, 1));
}

/// The upstream did not answer, so the payment has bought nothing and the current price applies.
#[tokio::test]
async fn a_payment_that_bought_nothing_yet_needs_the_current_price() {
    let stage =
        Stage::with(Behavior::Status(500, "{}".to_owned()), &model_settings("toy", "0.001")).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    assert_eq!(stage.customer.send(&body, &header).await.status(), 500);
    let stage = stage.restart_with(&model_settings("toy", "0.5")).await;
    let (status, _challenge) = status_and_json(stage.customer.send(&body, &header).await).await;
    assert_eq!((status, stage.facilitator.settled()), (402, 0));
}

/// The first request that needs the vocabulary loads it on a blocking thread. No other test of this
/// program uses this vocabulary.
#[tokio::test]
async fn a_vocabulary_is_loaded_when_a_model_needs_it() {
    let models = format!(
        "{}\ntokenizer = \"cl100k_base\"\n{}",
        model_settings("old", "0.001"),
        model_settings("toy", "0.001")
    );
    let stage = Stage::with(Behavior::Whole(answer("hello world")), &models).await;
    assert!(!Vocabulary::Cl100k.is_loaded());
    assert_eq!(stage.customer.buy(2, &chat("hello")).await.status(), 200);
    assert!(!Vocabulary::Cl100k.is_loaded(), "no model needed it yet");
    let mut old = chat("hello");
    old["model"] = json!("old");
    let all = futures::future::join_all((0..20).map(|_n| stage.customer.ask(&old))).await;
    assert!(all.iter().all(|challenge| challenge.v1["price"] == all[0].v1["price"]));
    assert!(Vocabulary::Cl100k.is_loaded());
    assert_eq!(stage.customer.buy(2, &old).await.status(), 200);
}
