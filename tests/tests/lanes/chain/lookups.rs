//! Balance reads: one at a time per address, cached for two seconds, and bounded in time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy_primitives::Address;
use bursar_chain::ports::Chain;
use bursar_core::networks::by_chain;
use bursar_tests::doubles::funds::FixedBalances;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::BASE;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Returns a chain with 7 wei, 8 units of the dollar token and 9 of the other token.
pub(crate) fn fixed_balance_chain() -> FixedBalances {
    let base = by_chain(BASE).expect("a network");
    let tokens: Vec<(Address, u64)> =
        vec![(base.stablecoin.address, 8), (base.tokens[0].address, 9)];
    FixedBalances::new(7, &tokens)
}

pub(crate) fn base_setup(chain: &Arc<FixedBalances>) -> Setup {
    let chains = BTreeMap::from([(BASE, Arc::clone(chain) as Arc<dyn Chain>)]);
    Setup { chains, ..Setup::default() }
}

const POLICY: &str = "--day 10 --txn 5 --networks 8453";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balance_reads_of_an_address_are_shared_and_cached_for_two_seconds() {
    let chain = Arc::new(FixedBalances { gate: Semaphore::new(0), ..fixed_balance_chain() });
    let engine = TestEngine::start(base_setup(&chain)).await;
    engine.set_up_wallet(POLICY).await;
    // Both agents use the same address.
    let agents = [engine.add_agent("one", "hmac").await, engine.add_agent("two", "bearer").await];
    let lookups = || chain.lookups.load(Ordering::SeqCst);
    let ask = |index: usize| engine.post_read("/balances", &agents[index % 2]);

    let all =
        async { tokio::join!(ask(0), ask(1), ask(2), ask(3), ask(4), ask(5), ask(6), ask(7)) };
    let open = async {
        while lookups() == 0 {
            tokio::task::yield_now().await;
        }
        chain.gate.add_permits(1);
    };
    let (answer, ()) = tokio::join!(all, open);
    assert_eq!(lookups(), 1);
    for answer in [&answer.1, &answer.7] {
        assert_eq!(answer["balances"][0]["raw"], "7", "{answer}");
        assert_eq!(answer["balances"][1]["raw"], "8");
    }
    // One read answered all requests, so the same agent's answers are equal byte by byte.
    assert_eq!((answer.1, answer.5), (answer.3, answer.7));

    chain.gate.add_permits(9);
    engine.clock.advance(1_999);
    ask(0).await;
    assert_eq!(lookups(), 1);
    engine.clock.advance(1);
    ask(1).await;
    ask(0).await;
    assert_eq!(lookups(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_agent_does_not_block_balance_reads() {
    let chain = Arc::new(FixedBalances { gate: Semaphore::new(0), ..fixed_balance_chain() });
    let engine = TestEngine::start(base_setup(&chain)).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let gone =
        tokio::time::timeout(Duration::from_millis(50), engine.post_read("/balances", &agent));
    assert!(gone.await.is_err());
    chain.gate.add_permits(1);
    assert_eq!(engine.post_read("/balances", &agent).await["balances"][0]["raw"], "7");
    assert_eq!(chain.lookups.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_17_a_node_that_never_answers_is_unknown_after_ten_seconds() {
    let chain = Arc::new(FixedBalances { gate: Semaphore::new(0), ..fixed_balance_chain() });
    let engine = TestEngine::start(base_setup(&chain)).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let asked = tokio::time::Instant::now();
    let (first, second) =
        tokio::join!(engine.post_read("/balances", &agent), engine.post_read("/balances", &agent));
    let took = asked.elapsed();
    assert!((10..15).contains(&took.as_secs()), "{took:?}");
    for answer in [first, second] {
        let why = "eip155:8453: The network did not answer in time.";
        assert_eq!((&answer["balances"], &answer["balances_error"]), (&Value::Null, &json!(why)));
    }
}
