//! The owner's transactions: pending ones, and those in blocks.

use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256};
use serde_json::{Value, json};

use crate::stage::{Stage, TIMEOUT};

/// A transaction of the owner.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) hash: String,
    pub(crate) to: Address,
    pub(crate) data: Bytes,
    pub(crate) nonce: U256,
}

impl Sent {
    fn read(transaction: &Value) -> Self {
        let field = |name: &str| transaction[name].clone();
        Self {
            hash: field("hash").as_str().expect("a hash").to_owned(),
            to: serde_json::from_value(field("to")).expect("an address"),
            data: serde_json::from_value(field("input")).expect("bytes"),
            nonce: serde_json::from_value(field("nonce")).expect("a number"),
        }
    }

    /// Returns whether this is an approval of a token.
    pub(crate) fn is_approval(&self) -> bool {
        self.approved().is_some()
    }

    /// Returns the amount that this transaction approves.
    pub(crate) fn approved(&self) -> Option<U256> {
        let arguments = self.data.strip_prefix(&[0x09, 0x5e, 0xa7, 0xb3])?;
        U256::try_from_be_slice(arguments.get(32..64)?)
    }
}

impl Stage {
    /// Returns the owner's transactions that no block contains yet, by nonce.
    pub(crate) async fn pending(&self) -> Vec<Sent> {
        let pool = self.chain.request("txpool_content", json!([])).await.expect("a pool");
        let pending = pool["pending"].as_object().expect("an object");
        let own = pending.iter().filter(|(sender, _all)| {
            sender.parse::<Address>().is_ok_and(|sender| sender == self.owner)
        });
        let all = own.flat_map(|(_sender, all)| all.as_object().expect("an object").values());
        let mut all: Vec<Sent> = all.map(Sent::read).collect();
        all.sort_by_key(|sent| sent.nonce);
        all
    }

    /// Waits for a pending transaction to `to` while no blocks are mined by themselves. With `mine`, other pending
    /// transactions are mined meanwhile.
    pub(crate) async fn await_pending(&self, to: Address, mine: bool) -> Sent {
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let pending = self.pending().await;
            if let Some(found) = pending.iter().find(|sent| sent.to == to) {
                return found.clone();
            }
            assert!(tokio::time::Instant::now() < end, "no transaction to {to}: {pending:?}");
            if mine {
                self.chain.mine(1).await.expect("mined");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the owner's transactions in blocks from `first` on, in their order.
    pub(crate) async fn mined_since(&self, first: u64) -> Vec<Sent> {
        let mut found = Vec::new();
        for number in first..=self.head().await {
            let block = json!([format!("{number:#x}"), true]);
            let block = self.chain.request("eth_getBlockByNumber", block).await.expect("a block");
            let all = block["transactions"].as_array().expect("transactions");
            let own = all.iter().filter(|one| {
                let sender = one["from"].as_str().and_then(|from| from.parse::<Address>().ok());
                sender == Some(self.owner)
            });
            found.extend(own.map(Sent::read));
        }
        found
    }

    /// Returns the number of the newest block.
    pub(crate) async fn head(&self) -> u64 {
        let head = self.chain.request("eth_blockNumber", json!([])).await.expect("a number");
        let head: U256 = serde_json::from_value(head).expect("a number");
        head.to()
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

    /// Returns what the agent's policy has left of the daily volume, in dollars.
    pub(crate) async fn volume_left(&mut self) -> f64 {
        let (_status, mandate) = self.mandate().await;
        let left = &mandate["policy"]["trading"]["remaining_today_usd"];
        left.as_f64().unwrap_or_else(|| panic!("{mandate}"))
    }
}
