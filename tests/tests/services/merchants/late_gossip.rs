//! Another node keeps the transaction of a refused payment, and broadcasts it later.

use std::iter::repeat_n;

use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::sdk::Framework;
use serde_json::json;
use tokio::time::sleep;

use crate::merchants::market::{BASE, Market, POLL_INTERVAL, wait_within_deadline};

/// The reason for which a payment is refused after its broadcast.
#[derive(Debug, Clone, Copy)]
enum RefusalCause {
    Drained,
    Lied(Lie),
}

/// Refuses a payment after its broadcast. The signer's next transaction then takes the nonce, so the refused
/// transaction can no longer be mined.
async fn refuse_and_reuse_nonce(cause: RefusalCause) {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let node = LyingRpc::in_front_of(chain.url()).await;
    let url = node.url.clone();
    let market = Market::with_node(chain, &url, &[Framework::Hono], "wait_ms = 1500").await;
    let merchant = &market.merchants[0];
    let paid = market.payment().await;
    let header = merchant.header(&paid).await;
    market.chain.set_automine(false).await.expect("set");
    let mined = market.mined_count().await;
    if let RefusalCause::Lied(lie) = cause {
        node.queue_lies(repeat_n(lie, 1_000));
    }
    let drain = async {
        if matches!(cause, RefusalCause::Drained) {
            market.wait_for_broadcast(mined).await;
            market.drain_signer().await;
            // The node drops a transaction that its sender cannot pay for.
            market.chain.mine(2).await.expect("mined");
        }
    };
    let (answer, ()) = tokio::join!(merchant.pay(&header), drain);
    assert!(!answer.delivered, "{cause:?}");
    let kept = node.broadcast_transactions()[0].clone();
    node.be_honest();
    market.chain.set_automine(true).await.expect("set");
    market.fund_signer().await;
    let used = async {
        while market.mined_count().await <= mined {
            market.chain.mine(1).await.expect("mined");
            sleep(POLL_INTERVAL).await;
        }
    };
    wait_within_deadline("use of the nonce", used).await;
    let gossiped = market.chain.request("eth_sendRawTransaction", json!([kept])).await;
    assert!(gossiped.is_err(), "{cause:?}: the chain takes {gossiped:?}");
    market.mine_until_quiet().await;
    assert_eq!(market.charges().await, 0, "{cause:?}: {answer:?}");
    market.recorder.assert_truthful();
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_transaction_of_a_drained_signer_is_worthless_once_its_nonce_is_used() {
    refuse_and_reuse_nonce(RefusalCause::Drained).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_transaction_that_the_node_lost_is_worthless_once_its_nonce_is_used() {
    refuse_and_reuse_nonce(RefusalCause::Lied(Lie::Drop)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_transaction_that_the_node_forgot_is_worthless_once_its_nonce_is_used() {
    refuse_and_reuse_nonce(RefusalCause::Lied(Lie::Forget)).await;
}
