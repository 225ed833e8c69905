//! Tests control when the local chain mines a block.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_devnet::Devnet;
use bursar_devnet::install::chain_or_skip;
use serde_json::{Value, json};

async fn number(devnet: &Devnet) -> u64 {
    let number = devnet.request("eth_blockNumber", json!([])).await.unwrap();
    serde_json::from_value::<U256>(number).unwrap().to()
}

async fn start() -> Option<Devnet> {
    let anvil = chain_or_skip()?;
    Some(Devnet::start_at(&anvil, ChainId(8453)).await.unwrap())
}

#[tokio::test]
async fn a_transaction_waits_for_a_block() {
    let Some(devnet) = start().await else { return };
    devnet.set_automine(false).await.unwrap();
    let accounts = devnet.request("eth_accounts", json!([])).await.unwrap();
    let nothing = json!([{ "from": accounts[0], "to": Address::repeat_byte(1) }]);
    let hash = devnet.request("eth_sendTransaction", nothing).await.unwrap();
    let receipt = async || devnet.request("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(receipt().await.unwrap(), Value::Null);
    let before = number(&devnet).await;
    devnet.mine(3).await.unwrap();
    assert_eq!(number(&devnet).await, before + 3);
    let in_block: U256 =
        serde_json::from_value(receipt().await.unwrap()["blockNumber"].clone()).unwrap();
    assert_eq!(in_block, U256::from(before + 1));
    devnet.set_automine(true).await.unwrap();
    devnet.mint(Address::repeat_byte(2), 5).await.unwrap();
    assert_eq!(number(&devnet).await, before + 4);
}

#[tokio::test]
async fn blocks_are_mined_at_the_set_interval() {
    let Some(devnet) = start().await else { return };
    devnet.set_block_time(1).await.unwrap();
    let before = number(&devnet).await;
    let next = async {
        while number(&devnet).await == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), next).await.unwrap();
    devnet.mint(Address::repeat_byte(2), 5).await.unwrap();
    devnet.set_automine(true).await.unwrap();
    // One block of the old interval may still be in flight when the mode changes.
    let mut mined_alone = false;
    for _attempt in 0..3 {
        let before = number(&devnet).await;
        devnet.mint(Address::repeat_byte(2), 5).await.unwrap();
        mined_alone |= number(&devnet).await == before + 1;
    }
    assert!(mined_alone);
}
