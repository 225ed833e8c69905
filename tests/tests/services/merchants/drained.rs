//! A signer that loses its coin during a payment: a refused payment is not charged when the signer gets coin again.

use bursar_tests::payer::SignedPayment;
use bursar_tests::sdk::Framework;

use crate::merchants::market::Market;

/// The wait is short enough for a test, and long enough for many blocks.
const SETTINGS: &str = "wait_ms = 2000";

/// Funds the signer: merchants must deliver again, and refused payments stay uncharged.
async fn assert_recovers(market: Market, mut refused: Vec<SignedPayment>, mut deliveries: u64) {
    assert_eq!(market.charges().await, deliveries);
    market.fund_signer().await;
    for merchant in &market.merchants {
        refused.extend(market.buy_until_delivered(merchant).await);
        deliveries += 1;
    }
    market.mine_until_quiet().await;
    market.assert_none_charged(&refused).await;
    assert_eq!(market.charges().await, deliveries);
    market.recorder.assert_truthful();
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_without_coin_delivers_nothing_and_charges_nothing_later() {
    let Some(market) = Market::open(&Framework::ALL, SETTINGS).await else { return };
    market.drain_signer().await;
    let mut refused = Vec::new();
    for merchant in &market.merchants {
        for _payment in 0..2 {
            let (paid, answer) = market.buy(merchant).await;
            assert!(!answer.delivered, "{:?}", merchant.framework);
            refused.push(paid);
        }
    }
    assert_recovers(market, refused, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_drained_between_verify_and_settle_charges_nothing_later() {
    let Some(market) = Market::open(&Framework::ALL, SETTINGS).await else { return };
    let mut refused = Vec::new();
    for merchant in &market.merchants {
        market.fund_signer().await;
        refused.extend(market.buy_until_delivered(merchant).await);
        market.recorder.hold_settles();
        let drain = async {
            market.recorder.wait_until_held(1).await;
            market.drain_signer().await;
            market.recorder.release_settles();
        };
        let ((paid, answer), ()) = tokio::join!(market.buy(merchant), drain);
        assert!(!answer.delivered, "{:?}", merchant.framework);
        refused.push(paid);
    }
    assert_recovers(market, refused, Framework::ALL.len() as u64).await;
}

/// The facilitator may still use the balance that it read before the drain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_drained_after_a_settlement_charges_nothing_later() {
    let Some(market) = Market::open(&Framework::ALL, SETTINGS).await else { return };
    let mut refused = Vec::new();
    for merchant in &market.merchants {
        market.fund_signer().await;
        refused.extend(market.buy_until_delivered(merchant).await);
        market.drain_signer().await;
        for _payment in 0..2 {
            let (paid, answer) = market.buy(merchant).await;
            assert!(!answer.delivered, "{:?}", merchant.framework);
            refused.push(paid);
        }
    }
    assert_recovers(market, refused, Framework::ALL.len() as u64).await;
}

/// Drains the signer while the transaction is in the pool; after `settlement_pending`, a repeat returns the outcome.
async fn drain_after_broadcast(blocks: u64) {
    let Some(market) = Market::open(&Framework::ALL, SETTINGS).await else { return };
    let (mut refused, mut deliveries) = (Vec::new(), 0);
    for merchant in &market.merchants {
        let paid = market.payment().await;
        let header = merchant.header(&paid).await;
        market.chain.set_automine(false).await.expect("set");
        let mined = market.mined_count().await;
        let drain = async {
            market.wait_for_broadcast(mined).await;
            market.drain_signer().await;
            market.chain.mine(blocks).await.expect("mined");
        };
        let (answer, ()) = tokio::join!(merchant.pay(&header), drain);
        market.fund_signer().await;
        market.chain.set_automine(true).await.expect("set");
        market.chain.mine(1).await.expect("mined");
        let answer = market.repeat_until_final(merchant, &header, answer).await;
        if answer.delivered {
            deliveries += 1;
        } else {
            refused.push(paid);
        }
        market.mine_until_quiet().await;
        assert_eq!(market.charges().await, deliveries, "{:?}", merchant.framework);
        refused.extend(market.buy_until_delivered(merchant).await);
        deliveries += 1;
    }
    assert_recovers(market, refused, deliveries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_drained_between_broadcast_and_block_charges_only_what_is_delivered() {
    drain_after_broadcast(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_drained_while_no_block_comes_charges_only_what_is_delivered() {
    drain_after_broadcast(0).await;
}
