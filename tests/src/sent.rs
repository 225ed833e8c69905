//! The transactions of an account: pending ones, and those in blocks.

use alloy_primitives::{Address, Bytes, U256};
use bursar_devnet::Devnet;
use serde_json::{Value, json};

/// Maximum number of walks along the chain; a reorganisation can interrupt a walk.
const WALKS_MAX: usize = 100;

/// A transaction of an account.
#[derive(Debug, Clone)]
pub struct AccountTransaction {
    pub hash: String,
    pub to: Address,
    pub data: Bytes,
    pub nonce: U256,
}

impl AccountTransaction {
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
    pub fn is_approval(&self) -> bool {
        self.approved_amount().is_some()
    }

    /// Returns the amount that this transaction approves.
    pub fn approved_amount(&self) -> Option<U256> {
        let arguments = self.data.strip_prefix(&[0x09, 0x5e, 0xa7, 0xb3])?;
        U256::try_from_be_slice(arguments.get(32..64)?)
    }
}

/// Returns an account's transactions that no block contains yet, by nonce.
pub async fn pending(chain: &Devnet, account: Address) -> Vec<AccountTransaction> {
    let pool = chain.request("txpool_content", json!([])).await.expect("a pool");
    let pending = pool["pending"].as_object().expect("an object");
    let own = pending
        .iter()
        .filter(|(sender, _all)| sender.parse::<Address>().is_ok_and(|sender| sender == account));
    let all = own.flat_map(|(_sender, all)| all.as_object().expect("an object").values());
    let mut all: Vec<AccountTransaction> = all.map(AccountTransaction::read).collect();
    all.sort_by_key(|sent| sent.nonce);
    all
}

/// Returns whether a transaction of any account to `to` waits for a block.
pub async fn is_any_pending_to(chain: &Devnet, to: Address) -> bool {
    let pool = chain.request("txpool_content", json!([])).await.expect("a pool");
    let senders = pool["pending"].as_object().expect("an object").values();
    let mut all = senders.flat_map(|all| all.as_object().expect("an object").values());
    all.any(|sent| AccountTransaction::read(sent).to == to)
}

/// Returns an account's transactions in blocks from `first` on, in block order.
///
/// If a reorganisation replaces the newest block meanwhile, the walk starts again.
pub async fn mined_since(chain: &Devnet, account: Address, first: u64) -> Vec<AccountTransaction> {
    for _attempt in 0..WALKS_MAX {
        if let Some(mut found) = walk_back(chain, account, first).await {
            found.reverse();
            return found;
        }
    }
    panic!("{}: the newest block is replaced again and again", chain.url());
}

/// Returns an account's transactions from the newest one back to block `first`; `None` if the newest block was
/// replaced meanwhile.
///
/// Reads blocks by number: a local chain that was reorganised may name a parent that it no longer has.
async fn walk_back(
    chain: &Devnet,
    account: Address,
    first: u64,
) -> Option<Vec<AccountTransaction>> {
    let newest = head(chain).await;
    let hash = block(chain, newest).await["hash"].clone();
    let mut found = Vec::new();
    for number in (first..=newest).rev() {
        let block = block(chain, number).await;
        let all = block.get("transactions")?.as_array().expect("transactions");
        let own = all.iter().rev().filter(|one| {
            let sender = one["from"].as_str().and_then(|from| from.parse::<Address>().ok());
            sender == Some(account)
        });
        found.extend(own.map(AccountTransaction::read));
    }
    (block(chain, newest).await["hash"] == hash).then_some(found)
}

/// Returns a block with its transactions; null if there is none with this number.
async fn block(chain: &Devnet, number: u64) -> Value {
    let asked = json!([format!("{number:#x}"), true]);
    chain.request("eth_getBlockByNumber", asked).await.expect("an answer")
}

/// Returns the number of the newest block.
pub async fn head(chain: &Devnet) -> u64 {
    let head = chain.request("eth_blockNumber", json!([])).await.expect("a number");
    let head: U256 = serde_json::from_value(head).expect("a number");
    head.to()
}
