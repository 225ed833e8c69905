//! The smallest service that sends transactions: an outbox in a redb file, and a key in the arguments.
//!
//! It submits the given number of transactions, each to its own address, and prints the outcome of each. A test may
//! kill it at any time; the next start resumes. It is never part of a release.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::clock::SystemClock;
use bursar_chain::failpoints::NoFailpoints;
use bursar_chain::ports::Clock;
use bursar_chain::rpc::{RpcChain, RpcConfig, RpcLimits};
use bursar_core::networks::{ChainId, Gas, by_chain};
use bursar_outbox::redb_store::RedbStore;
use bursar_outbox::service::{OutboxDeps, ServiceOutbox, SubmitFault};
use bursar_outbox::store::StoreFault;
use bursar_submit::{Call, OutboxKey, SubmissionId};
use bursar_tests::service_key::ServiceKey;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The receiver of the nth submission, which no other submission pays.
fn payee(n: u8) -> Address {
    Address::repeat_byte(0xc0 | n)
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_program, store, rpc, key, count] = args.as_slice() else {
        panic!("a file, an endpoint, a key and a count")
    };
    let chain = ChainId(8453);
    let row = by_chain(chain).expect("a row");
    let key = ServiceKey::from_hex(key);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new().expect("a zone"));
    let mut config = RpcConfig::new(chain, [rpc.clone()]);
    // A failed endpoint is retried soon, because a test has less time than a service.
    config.limits =
        RpcLimits { identity_retry_ms: 200, breaker_cool_down_ms: 200, ..config.limits };
    let node = RpcChain::new(config, Arc::clone(&clock)).expect("an endpoint");
    let outbox = OutboxKey { chain, signer: key.address() };
    let deps = OutboxDeps {
        store: Arc::new(RedbStore::open(Path::new(store)).expect("a store")),
        chain: Arc::new(node),
        signer: Arc::new(key),
        clock,
        // Short times let a test see rising gas bids.
        gas: Gas { patience_ms: 400, poll_ms: 20, ..row.gas },
        window: 4,
        follower: Arc::default(),
        failpoints: Arc::new(NoFailpoints),
    };
    let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
    let outbox = ServiceOutbox::open(outbox, deps, tasks, stopping).await.expect("an outbox");
    outbox.ensure_running();
    let count: u8 = count.parse().expect("a count");
    for n in 0..count {
        let call = Call {
            to: payee(n),
            value: U256::from(1_000 + u64::from(n)),
            data: Default::default(),
            gas_limit: 21_000,
        };
        match outbox.submit(SubmissionId([n + 1; 16]), call, row.gas.ceiling, None).await {
            // The previous process has already finished this submission.
            Ok(()) | Err(SubmitFault::Store(StoreFault::Ended(_))) => {}
            Err(fault) => panic!("{fault}"),
        }
    }
    for n in 0..count {
        let outcome = outbox.outcome(SubmissionId([n + 1; 16])).await.expect("a store");
        println!("{n} {outcome:?}");
    }
    println!("END");
    std::io::stdout().flush().expect("flushed");
}
