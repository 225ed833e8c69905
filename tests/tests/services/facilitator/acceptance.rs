//! A stress test: concurrent callers, repeated requests, bad signatures, a frozen node, and two kills of the process.
//!
//! Every payment that moved is reported as a success, and every other one as a failure. No transaction of the
//! facilitator reverts, and no nonce is missing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy_primitives::{B256, U256};
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::{FacilitatorHome, ask};
use bursar_tests::lying_rpc::LyingRpc;
use bursar_tests::payer::{Payer, SignedPayment, TransferMethod};
use bursar_tests::service::ServiceProcess;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::facilitator::kills::assert_no_gap_and_empty_pool;
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, prepared_home};

const PAYERS: usize = 64;
const CALLERS: usize = 96;
/// Number of payments, unless `BURSAR_PAYMENTS` overrides it.
const PAYMENTS: usize = 480;
const TIMEOUT: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One request of a caller.
#[derive(Debug, Clone)]
struct Job {
    payment: usize,
    body: Value,
    good: bool,
}

/// The facilitator's settings and its current process.
struct RunningService {
    home: FacilitatorHome,
    process: Mutex<ServiceProcess>,
}

impl RunningService {
    fn url(&self) -> String {
        self.process.lock().expect("not poisoned").url.clone()
    }

    fn kill(&self) {
        let mut process = self.process.lock().expect("not poisoned");
        process.signal(Signal::KILL);
        process.wait();
        *process = self.home.start_process(None);
    }
}

/// Repeats the request until the answer is final.
async fn final_answer(service: &RunningService, job: &Job) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < end, "no end: {job:?}");
        match ask(&service.url(), "/settle", &job.body).await {
            Some((200, answer))
                if ["settlement_pending", "settlement_withdrawn"]
                    .contains(&answer["errorReason"].as_str().unwrap_or_default()) => {}
            Some((200, answer)) => return answer,
            // The node is frozen, or the process is starting.
            Some((503, _)) | None => sleep(POLL_INTERVAL).await,
            Some(other) => panic!("{other:?}"),
        }
    }
}

fn jobs(paid: &[SignedPayment]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (payment, paid) in paid.iter().enumerate() {
        let good = payment % 50 != 7;
        let mut body = paid.body(2);
        if !good {
            let signature = format!("0x{}1b", "17".repeat(64));
            body["paymentPayload"]["payload"]["signature"] = json!(signature);
        }
        let job = Job { payment, body, good };
        if payment % 10 == 3 {
            jobs.push(job.clone());
        }
        jobs.push(job);
    }
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load_and_kills_each_payment_settles_once_and_is_reported_truthfully() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let count = std::env::var("BURSAR_PAYMENTS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(PAYMENTS);
    let node = LyingRpc::in_front_of(chain.url()).await;
    let home = prepared_home(&chain, &node.url, 3, "wait_ms = 4000", "").await;
    let mut payers = Vec::new();
    for _one in 0..PAYERS {
        let payer = Payer::random();
        chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        payers.push(payer);
    }
    let one = |at: usize| {
        let mut terms = payers[at % PAYERS].terms(chain.network(), SHOP, 1_000);
        terms.valid_before_s += 3_600;
        payers[at % PAYERS].pay(TransferMethod::Eip3009, &terms)
    };
    let paid: Vec<SignedPayment> = (0..count).map(one).collect();
    let jobs = Arc::new(jobs(&paid));
    let before = chain.balance_of(SHOP).await.expect("answered");
    chain.set_block_time(1).await.expect("set");
    let process = Mutex::new(home.start_process(None));
    let service = Arc::new(RunningService { home, process });
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers = (0..CALLERS).map(|_caller| {
        let (service, jobs) = (Arc::clone(&service), Arc::clone(&jobs));
        let (next, done) = (Arc::clone(&next), Arc::clone(&done));
        tokio::spawn(async move {
            let mut answer = Vec::new();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) {
                answer.push((job.clone(), final_answer(&service, job).await));
                done.fetch_add(1, Ordering::SeqCst);
            }
            answer
        })
    });
    let callers: Vec<_> = callers.collect();
    let reached = async |share: usize| {
        while done.load(Ordering::SeqCst) * 100 < jobs.len() * share {
            sleep(POLL_INTERVAL).await;
        }
    };
    reached(20).await;
    node.freeze(Duration::from_secs(5));
    reached(35).await;
    service.kill();
    reached(60).await;
    service.kill();
    let mut by_payment: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    let mut good = BTreeMap::new();
    for caller in callers {
        for (job, answer) in caller.await.expect("a caller") {
            good.insert(job.payment, job.good);
            by_payment.entry(job.payment).or_default().push(answer);
        }
    }
    let mut moved = U256::ZERO;
    for (payment, answers) in &by_payment {
        for answer in answers {
            assert_eq!(answer["success"], good[payment], "{payment}: {answer}");
            assert_eq!(answer["transaction"], answers[0]["transaction"], "{payment}: one hash");
            if !good[payment] {
                assert_eq!(answer["errorReason"], "invalid_signature", "{answer}");
            }
        }
        let terms = &paid[*payment].terms;
        let used = chain.is_authorization_used(terms.from, terms.nonce).await.expect("answered");
        assert_eq!(used, good[payment], "{payment}: {answers:?}");
        moved += if used { terms.amount } else { U256::ZERO };
    }
    assert_eq!(by_payment.len(), count);
    assert_eq!(chain.balance_of(SHOP).await.expect("answered") - before, moved);
    chain.set_automine(true).await.expect("set");
    assert_no_gap_and_empty_pool(&chain, &service.home, "the end of the day").await;
    assert_nothing_reverted(&chain, &by_payment).await;
}

/// Asserts that every transaction named in an answer succeeded.
async fn assert_nothing_reverted(
    chain: &bursar_devnet::Devnet,
    answer: &BTreeMap<usize, Vec<Value>>,
) {
    let hashes = answer.values().flatten().filter_map(|answer| answer["transaction"].as_str());
    let hashes: std::collections::BTreeSet<B256> =
        hashes.filter_map(|text| text.parse().ok()).collect();
    for hash in hashes {
        let receipt = chain.request("eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!(receipt.expect("answered")["status"], "0x1", "{hash}");
    }
}
