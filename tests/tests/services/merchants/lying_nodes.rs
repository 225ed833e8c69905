//! Nodes that lie about broadcasts: a payment is charged only if its merchant delivers, and the chain knows every hash
//! that the facilitator returns.

use std::iter::repeat_n;
use std::time::Duration;

use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::payer::SignedPayment;
use bursar_tests::sdk::Framework;
use tokio::time::sleep;

use crate::merchants::market::{BASE, Market, PENDING, POLL_INTERVAL, wait_within_deadline};
use crate::merchants::merchant::MerchantAnswer;

/// Time between blocks: about the facilitator's polling interval.
const BLOCK_INTERVAL: Duration = Duration::from_millis(50);
/// More broadcasts than a payment can have.
const ALL_BROADCASTS: usize = 1_000;

/// The outcome of the payments.
#[derive(Debug, Default)]
struct Outcome {
    deliveries: u64,
    refused: Vec<SignedPayment>,
}

impl Outcome {
    fn add(&mut self, paid: SignedPayment, answer: &MerchantAnswer) {
        if answer.delivered {
            self.deliveries += 1;
        } else {
            self.refused.push(paid);
        }
    }

    /// Asserts that the chain charged exactly the deliveries, and that new payments work.
    async fn assert_matches_the_chain(mut self, market: Market) {
        for merchant in &market.merchants {
            self.refused.extend(market.buy_until_delivered(merchant).await);
            self.deliveries += 1;
        }
        market.mine_until_quiet().await;
        market.assert_none_charged(&self.refused).await;
        assert_eq!(market.charges().await, self.deliveries);
        market.recorder.assert_truthful();
        market.close().await;
    }
}

async fn market_behind(settings: &str) -> Option<(LyingRpc, Market)> {
    let chain = full_chain_or_skip(BASE).await?;
    let node = LyingRpc::in_front_of(chain.url()).await;
    let url = node.url.clone();
    Some((node, Market::with_node(chain, &url, &Framework::ALL, settings).await))
}

/// The node lies about the first broadcast of each payment; blocks follow before the answer is due.
async fn lie_once(lie: Lie) {
    let Some((node, market)) = market_behind("").await else { return };
    let mut outcome = Outcome::default();
    for merchant in &market.merchants {
        let paid = market.payment().await;
        let header = merchant.header(&paid).await;
        market.chain.set_automine(false).await.expect("set");
        let lies = node.lies_told();
        node.queue_lies([lie]);
        let blocks = async {
            let lied = async {
                while node.lies_told() == lies {
                    sleep(POLL_INTERVAL).await;
                }
            };
            wait_within_deadline("lie", lied).await;
            loop {
                market.chain.mine(1).await.expect("mined");
                sleep(BLOCK_INTERVAL).await;
            }
        };
        let answer = tokio::select! {
            answer = merchant.pay(&header) => answer,
            () = blocks => unreachable!("blocks come until the answer does"),
        };
        market.chain.set_automine(true).await.expect("set");
        assert_ne!(answer.reason, PENDING, "{lie:?}, {:?}: blocks came", merchant.framework);
        outcome.add(paid, &answer);
    }
    outcome.assert_matches_the_chain(market).await;
}

/// The node lies about all broadcasts until the merchant has answered; no block is mined before that. A
/// payment may be charged later only if the answer was `settlement_pending` with a hash that the chain
/// knows. A repeat then delivers.
async fn lie_always(lie: Lie) {
    let Some((node, market)) = market_behind("wait_ms = 1500").await else { return };
    let mut outcome = Outcome::default();
    for merchant in &market.merchants {
        let paid = market.payment().await;
        let header = merchant.header(&paid).await;
        market.chain.set_automine(false).await.expect("set");
        let lies = node.lies_told();
        node.queue_lies(repeat_n(lie, ALL_BROADCASTS));
        let answer = merchant.pay(&header).await;
        assert!(!answer.delivered, "{lie:?}, {:?}: there was no block", merchant.framework);
        assert!(node.lies_told() > lies, "{lie:?}");
        node.be_honest();
        market.chain.set_automine(true).await.expect("set");
        market.chain.mine(1).await.expect("mined");
        let answer = market.repeat_until_final(merchant, &header, answer).await;
        outcome.add(paid, &answer);
    }
    outcome.assert_matches_the_chain(market).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_broadcast_charges_only_what_is_delivered() {
    lie_once(Lie::Drop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_timed_out_broadcast_charges_only_what_is_delivered() {
    lie_once(Lie::TimeoutAfterAccept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_forgotten_broadcast_charges_only_what_is_delivered() {
    lie_once(Lie::Forget).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_broadcasts_return_no_unknown_hash_and_charge_nothing_later() {
    lie_always(Lie::Drop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_out_broadcasts_return_no_unknown_hash_and_charge_nothing_later() {
    lie_always(Lie::TimeoutAfterAccept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_broadcasts_return_no_unknown_hash_and_charge_nothing_later() {
    lie_always(Lie::Forget).await;
}
