//! False settlement reports next to those of an honest agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{Chain, ChainFault, ChainReply, Clock, Log, Receipt, TxStatus};
use bursar_core::limits::{SETTLEMENT_CHECK_MS_MAX, SETTLEMENT_CHECKS_PER_AGENT_MAX};
use bursar_core::networks::by_chain;
use bursar_tests::agent::Agent;
use bursar_tests::engine::TestEngine;
use bursar_tests::offers::{BASE, offer};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::threats::node::unavailable;
use crate::threats::stage::{POLICY, engine_with, terms, unlimited_in_memory};

const FALSE_REPORTS: u64 = 400;
/// One honest report follows this many false ones.
const FALSE_REPORTS_PER_HONEST: u64 = 20;
/// Timeout of a wait for a status; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A chain that knows mined transactions and counts the queries for each.
#[derive(Debug, Default)]
struct MinedTransactionsChain {
    receipts: Mutex<BTreeMap<B256, Receipt>>,
    queries: Mutex<BTreeMap<B256, u64>>,
}

impl MinedTransactionsChain {
    /// Mines the payment of an answer to `/sign`.
    fn mine_payment(&self, tx_hash: B256, answer: &Value) {
        let terms = terms(answer);
        let text = |name: &str| terms[name].as_str().expect("text");
        let word = |name: &str| text(name).parse::<Address>().expect("an address").into_word();
        let value: U256 = text("value").parse().expect("a number");
        let log = |event: &str, topics: [B256; 2], data: Bytes| Log {
            address: by_chain(BASE).expect("a network").stablecoin.address,
            topics: vec![keccak256(event), topics[0], topics[1]],
            data,
        };
        let nonce = text("nonce").parse().expect("32 bytes");
        let (from, to) = (word("from"), word("to"));
        let logs = vec![
            log("AuthorizationUsed(address,bytes32)", [from, nonce], Bytes::new()),
            log("Transfer(address,address,uint256)", [from, to], value.to_be_bytes_vec().into()),
        ];
        let (block_number, block_hash, paid) = (7, B256::repeat_byte(7), None);
        let status = TxStatus::Succeeded;
        let receipt = Receipt { tx_hash, block_number, block_hash, status, logs, paid_fee: paid };
        self.receipts.lock().unwrap().insert(tx_hash, receipt);
    }

    /// Returns the query count of each transaction that was never mined.
    fn failed_queries(&self) -> Vec<u64> {
        let mined = self.receipts.lock().unwrap();
        let queries = self.queries.lock().unwrap();
        queries.iter().filter(|(hash, _)| !mined.contains_key(*hash)).map(|(_, n)| *n).collect()
    }
}

impl Chain for MinedTransactionsChain {
    fn missing(&self, _method: &'static str) -> ChainFault {
        unavailable()
    }

    fn receipt(&self, hash: B256) -> ChainReply<'_, Option<Receipt>> {
        *self.queries.lock().unwrap().entry(hash).or_default() += 1;
        let found = self.receipts.lock().unwrap().get(&hash).cloned();
        Box::pin(async move { Ok(found) })
    }
}

/// Pays, and reports the payment as settled by `tx_hash`; returns the answer to `/sign`.
async fn pay_and_report(engine: &TestEngine, agent: &Agent, n: u64, tx_hash: B256) -> Value {
    let body = agent.ask(engine.now_s(), &offer(12_000, n), None);
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!(status, 200, "{answer}");
    let id = answer["transaction_id"].as_str().expect("an id");
    let report = agent.report(engine.now_s(), id, "settled", Some(&tx_hash.to_string()));
    let (status, reply) = engine.post("/callback", &report).await;
    assert_eq!((status, &reply["new_status"]), (200, &json!("settled")), "{reply}");
    answer
}

/// Returns how many of these payments have each receipt status.
async fn statuses(engine: &TestEngine, payments: &[String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for id in payments {
        let (status, receipt) = engine.get(&format!("/receipt/{id}")).await;
        assert_eq!(status, 200, "{receipt}");
        let answer = receipt["status"].as_str().expect("a status").to_owned();
        *counts.entry(answer).or_default() += 1;
    }
    counts
}

/// Advances the clock by half seconds until `count` of the payments have this status.
async fn wait_until(engine: &TestEngine, payments: &[String], wanted: &str, count: usize) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let found = statuses(engine, payments).await;
        if found.get(wanted) == Some(&count) {
            return;
        }
        assert!(Instant::now() < end, "not {count} of {wanted}: {found:?}");
        engine.clock.advance(500);
        tokio::task::yield_now().await;
    }
}

/// Returns the maximum number of queries for one transaction in this many seconds. The first query comes after one
/// second; the pauses then double, up to ten minutes.
fn max_queries(seconds: u64) -> u64 {
    u64::from((seconds + 1).ilog2()) + seconds / 600 + 1
}

#[tokio::test]
async fn t_46_false_settlement_reports_do_not_delay_honest_ones() {
    let chain = Arc::new(MinedTransactionsChain::default());
    let mut setup = unlimited_in_memory();
    setup.chains.insert(BASE, Arc::clone(&chain) as _);
    let clock: Arc<ManualClock> = Arc::clone(&setup.clock);
    let (engine, liar) = engine_with(setup, POLICY, "hmac").await;
    let honest = engine.add_agent("honest", "hmac").await;
    let (mut false_ones, mut true_ones) = (Vec::new(), Vec::new());
    let id = |answer: &Value| answer["transaction_id"].as_str().expect("an id").to_owned();
    for n in 0..FALSE_REPORTS {
        let made_up = B256::from(U256::from(1_000_000 + n));
        false_ones.push(id(&pay_and_report(&engine, &liar, n, made_up).await));
        if n % FALSE_REPORTS_PER_HONEST == FALSE_REPORTS_PER_HONEST - 1 {
            let tx_hash = B256::from(U256::from(2_000_000 + n));
            let answer = pay_and_report(&engine, &honest, 1_000_000 + n, tx_hash).await;
            chain.mine_payment(tx_hash, &answer);
            true_ones.push(id(&answer));
        }
    }
    // The honest agent's payments are checked, whatever another agent reports before and after them.
    wait_until(&engine, &true_ones, "payment-completed", true_ones.len()).await;
    let seconds = || clock.now().mono_ms / 1_000;
    while seconds() < 3_600 {
        clock.advance(1_000);
        tokio::task::yield_now().await;
    }
    // False reports cause few queries at the node: few transactions are checked, with growing pauses.
    let failed = chain.failed_queries();
    assert_eq!(failed.len(), SETTLEMENT_CHECKS_PER_AGENT_MAX);
    let most = failed.iter().max().copied().unwrap_or_default();
    assert!((2..=max_queries(seconds())).contains(&most), "{most} in {} s", seconds());
    // After a day the checks stop, and none of these payments ever counted as paid.
    clock.advance(u64::try_from(SETTLEMENT_CHECK_MS_MAX).unwrap());
    wait_until(&engine, &false_ones, "payment-refuted", SETTLEMENT_CHECKS_PER_AGENT_MAX).await;
    let found = statuses(&engine, &false_ones).await;
    let unchecked = false_ones.len() - SETTLEMENT_CHECKS_PER_AGENT_MAX;
    assert_eq!(found.get("payment-submitted"), Some(&unchecked), "{found:?}");
    assert_eq!(found.get("payment-completed"), None, "{found:?}");
}
