//! Transactions on the local chain, and contracts at addresses of our choice.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U64, U256, hex};
use alloy_sol_types::SolEvent;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::stable::IStable;
use super::{Devnet, DevnetError};

/// More than any call here needs and less than a block holds: the same for all, so nothing is estimated.
const GAS: &str = "0x989680";

/// A block is mined within milliseconds of a transaction.
const RECEIPT: Duration = Duration::from_secs(10);
const RECEIPT_POLL: Duration = Duration::from_millis(2);

/// What a transaction did.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    #[serde(rename = "transactionHash")]
    pub(super) hash: B256,
    status: U64,
    logs: Vec<Log>,
}

#[derive(Debug, Deserialize)]
struct Log {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
}

impl Receipt {
    /// Whether the coin reported exactly that transfer.
    pub(super) fn moved(&self, coin: Address, from: Address, to: Address, value: U256) -> bool {
        let topics = [IStable::Transfer::SIGNATURE_HASH, from.into_word(), to.into_word()];
        let data = value.to_be_bytes::<32>();
        self.logs
            .iter()
            .any(|log| log.address == coin && log.topics == topics && log.data.as_ref() == data)
    }
}

impl Devnet {
    /// Runs a constructor *at* an address: its code is put there, one call runs it, and what it returns
    /// becomes the code. Storage is right because a transaction made the same run.
    pub(super) async fn deploy_at(&self, at: Address, init: Bytes) -> Result<(), DevnetError> {
        let set_code = |code: Bytes| self.rpc.call::<Value>("anvil_setCode", json!([at, code]));
        set_code(init).await?;
        let runtime = self.look(at, Vec::new()).await?;
        self.transact(at, Vec::new()).await?;
        if runtime.is_empty() {
            return Err(DevnetError::Contract("the constructor returned no code".to_owned()));
        }
        set_code(runtime).await?;
        Ok(())
    }

    /// What a call would return in the next block. Not in the latest: its time is when something was last
    /// mined, and an authorization signed since would not be valid yet.
    pub(super) async fn look(&self, to: Address, data: Vec<u8>) -> Result<Bytes, DevnetError> {
        self.rpc.call("eth_call", json!([self.transaction(to, &data), "pending"])).await
    }

    /// Sends a transaction from anvil's account and waits for its receipt. A call that would fail is not
    /// sent: the error says why in the contract's words.
    pub(super) async fn transact(
        &self,
        to: Address,
        data: Vec<u8>,
    ) -> Result<Receipt, DevnetError> {
        let hash: B256 = {
            let _one_at_a_time = self.sending.lock().await;
            self.look(to, data.clone()).await?;
            self.rpc.call("eth_sendTransaction", json!([self.transaction(to, &data)])).await?
        };
        let late = |_elapsed| DevnetError::NoReceipt(hash);
        let receipt = timeout(RECEIPT, self.receipt(hash)).await.map_err(late)??;
        if receipt.status == U64::ONE {
            Ok(receipt)
        } else {
            Err(DevnetError::Reverted(format!("transaction {hash} was reverted")))
        }
    }

    fn transaction(&self, to: Address, data: &[u8]) -> Value {
        let data = hex::encode_prefixed(data);
        json!({ "from": self.payer, "to": to, "gas": GAS, "data": data })
    }

    /// Asks until there is one: anvil mines on its own, so the first answers may be null.
    async fn receipt(&self, hash: B256) -> Result<Receipt, DevnetError> {
        loop {
            let found: Option<Receipt> =
                self.rpc.call("eth_getTransactionReceipt", json!([hash])).await?;
            match found {
                Some(receipt) => return Ok(receipt),
                None => sleep(RECEIPT_POLL).await,
            }
        }
    }
}
