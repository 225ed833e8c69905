//! Controls when the local chain mines. By default it mines a block for each transaction at once. The kit waits
//! for receipts of its own transactions, so deploy and mint only while blocks are mined.

use serde_json::json;

use crate::error::DevnetError;
use crate::node::Devnet;

impl Devnet {
    /// Sets whether a transaction is mined at once, or waits for [`Devnet::mine`].
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn set_automine(&self, on: bool) -> Result<(), DevnetError> {
        self.request("evm_setAutomine", json!([on])).await?;
        Ok(())
    }

    /// Mines a block every `seconds` seconds and none in between; 0 turns mining off.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn set_block_time(&self, seconds: u64) -> Result<(), DevnetError> {
        self.request("evm_setIntervalMining", json!([seconds])).await?;
        Ok(())
    }

    /// Mines this many blocks now.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn mine(&self, blocks: u64) -> Result<(), DevnetError> {
        self.request("anvil_mine", json!([blocks])).await?;
        Ok(())
    }
}
