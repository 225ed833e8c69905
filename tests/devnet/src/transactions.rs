//! Transactions on the local chain, and contracts at addresses of our choice.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::SolCall;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::call::{Call, Receipt};
use crate::error::DevnetError;
use crate::node::Devnet;

/// A block is mined within milliseconds of a transaction.
const RECEIPT: Duration = Duration::from_secs(10);
const RECEIPT_POLL: Duration = Duration::from_millis(2);

impl Devnet {
    /// Runs a constructor *at* an address: its code is put there, one call runs it, and what it returns
    /// becomes the code. Storage is right because a transaction made the same run.
    pub(crate) async fn deploy_at(&self, at: Address, init: Bytes) -> Result<(), DevnetError> {
        let set_code = |code: Bytes| self.rpc.call::<Value>("anvil_setCode", json!([at, code]));
        set_code(init).await?;
        let run = self.ours(at, Vec::new());
        let runtime = self.look_as(&run).await?;
        self.send(&run).await?;
        if runtime.is_empty() {
            return Err(DevnetError::Contract("the constructor returned no code".to_owned()));
        }
        set_code(runtime).await?;
        Ok(())
    }

    /// Puts a contract at an address that nothing else has.
    pub(crate) async fn deploy(&self, init: Bytes) -> Result<Address, DevnetError> {
        let mut chosen = [0; 20];
        getrandom::fill(&mut chosen).map_err(|error| DevnetError::Start(error.to_string()))?;
        let at = Address::from(chosen);
        self.deploy_at(at, init).await?;
        Ok(at)
    }

    pub(crate) async fn has_code(&self, at: Address) -> Result<bool, DevnetError> {
        let code: Bytes = self.rpc.call("eth_getCode", json!([at, "latest"])).await?;
        Ok(!code.is_empty())
    }

    /// What a call would return in the next block. Not in the latest: its time is when something was last
    /// mined, and an authorization signed since would not be valid yet.
    pub async fn look_as(&self, call: &Call) -> Result<Bytes, DevnetError> {
        self.rpc.call("eth_call", json!([call.to_json(), "pending"])).await
    }

    /// What a contract answers to a question.
    pub async fn read<C: SolCall>(
        &self,
        of: Address,
        question: C,
    ) -> Result<C::Return, DevnetError> {
        let answer = self.look_as(&Call::new(self.payer, of, &question)).await?;
        C::abi_decode_returns(&answer).map_err(|error| DevnetError::Contract(error.to_string()))
    }

    /// Sends a transaction in anybody's name, whose key nobody needs, and waits for its receipt. A call that
    /// would fail is not sent: the error says why in the contract's words.
    pub async fn send_as(&self, call: &Call) -> Result<Receipt, DevnetError> {
        self.request("anvil_impersonateAccount", json!([call.from])).await?;
        self.send(call).await
    }

    /// The same for accounts that anvil signs for already.
    pub(crate) async fn send(&self, call: &Call) -> Result<Receipt, DevnetError> {
        let hash: B256 = {
            let _one_at_a_time = self.sending.lock().await;
            self.look_as(call).await?;
            self.rpc.call("eth_sendTransaction", json!([call.to_json()])).await?
        };
        let late = |_elapsed| DevnetError::NoReceipt(hash);
        let receipt = timeout(RECEIPT, self.receipt(hash)).await.map_err(late)??;
        if receipt.status == U64::ONE {
            return Ok(receipt);
        }
        let message = format!("transaction {hash} was reverted");
        Err(DevnetError::Reverted { message, data: Bytes::new() })
    }

    /// A call from anvil's own account.
    pub(crate) fn ours(&self, to: Address, data: Vec<u8>) -> Call {
        Call { from: self.payer, to, value: U256::ZERO, data: data.into() }
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
