//! When the local chain makes blocks. It begins with one for each transaction, at once. What the kit sends
//! waits for its receipt, so nothing is to be placed or minted while nobody makes blocks.

use serde_json::json;

use crate::error::DevnetError;
use crate::node::Devnet;

impl Devnet {
    /// Whether a transaction is in a block at once, or waits for [`Devnet::mine`].
    pub async fn set_automine(&self, on: bool) -> Result<(), DevnetError> {
        self.request("evm_setAutomine", json!([on])).await?;
        Ok(())
    }

    /// Makes a block every so many seconds and none between; 0 makes none at all.
    pub async fn set_block_time(&self, seconds: u64) -> Result<(), DevnetError> {
        self.request("evm_setIntervalMining", json!([seconds])).await?;
        Ok(())
    }

    /// Makes so many blocks now.
    pub async fn mine(&self, blocks: u64) -> Result<(), DevnetError> {
        self.request("anvil_mine", json!([blocks])).await?;
        Ok(())
    }
}
