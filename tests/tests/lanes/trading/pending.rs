//! The owner's transactions: pending ones, and those in blocks.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_tests::sent::{self, AccountTransaction};
use serde_json::json;

use crate::trading::stage::{Stage, TIMEOUT};

impl Stage {
    /// Returns the owner's transactions that no block contains yet, by nonce.
    pub(crate) async fn pending(&self) -> Vec<AccountTransaction> {
        sent::pending(&self.chain, self.owner).await
    }

    /// Waits for a pending transaction to `to` while blocks are held. If `mine` is set, mines other pending
    /// transactions, and exactly the blocks that settle them: one more block could contain the awaited transaction.
    pub(crate) async fn await_pending(&self, to: Address, mine: bool) -> AccountTransaction {
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let pending = self.pending().await;
            if let Some(found) = pending.iter().find(|sent| sent.to == to) {
                return found.clone();
            }
            assert!(tokio::time::Instant::now() < end, "no transaction to {to}: {pending:?}");
            if mine && !pending.is_empty() {
                let blocks = self.chain.network().gas.confirmations;
                self.chain.mine(blocks).await.expect("mined");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for a pending transaction of any account to `to` while blocks are held.
    pub(crate) async fn await_any_pending(&self, to: Address) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        while !sent::is_any_pending_to(&self.chain, to).await {
            assert!(tokio::time::Instant::now() < end, "no transaction to {to}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the owner's transactions in blocks from `first` on, in their order.
    pub(crate) async fn mined_since(&self, first: u64) -> Vec<AccountTransaction> {
        sent::mined_since(&self.chain, self.owner, first).await
    }

    /// Returns the number of the newest block.
    pub(crate) async fn head(&self) -> u64 {
        sent::head(&self.chain).await
    }

    /// Returns how many transactions of the owner are in blocks.
    pub(crate) async fn nonce(&self) -> u64 {
        let asked = json!([self.owner, "latest"]);
        let count = self.chain.request("eth_getTransactionCount", asked).await.expect("a count");
        let count: U256 = serde_json::from_value(count).expect("a number");
        count.to()
    }

    /// Waits until a block contains more than `count` transactions of the owner.
    pub(crate) async fn await_nonce_above(&self, count: u64) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        while self.nonce().await <= count {
            assert!(tokio::time::Instant::now() < end, "nothing is sent");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the daily volume that the agent's policy has left, in dollars.
    pub(crate) async fn volume_left(&mut self) -> f64 {
        let (_status, mandate) = self.mandate().await;
        let left = &mandate["policy"]["trading"]["remaining_today_usd"];
        left.as_f64().unwrap_or_else(|| panic!("{mandate}"))
    }
}
