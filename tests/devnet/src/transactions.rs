//! Transactions on the local chain, and contracts at chosen addresses.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::SolCall;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::call::{Call, Receipt};
use crate::error::DevnetError;
use crate::node::Devnet;

/// Timeout of a wait for a receipt: a block is mined within milliseconds of a transaction.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(10);
const RECEIPT_POLL_INTERVAL: Duration = Duration::from_millis(2);

impl Devnet {
    /// Runs a constructor *at* an address: places its code there, calls it once, and replaces the code with the
    /// result. The same call is sent as a transaction, so the storage is initialized as well.
    pub(crate) async fn deploy_at(&self, at: Address, init: Bytes) -> Result<(), DevnetError> {
        let set_code = |code: Bytes| self.rpc.call::<Value>("anvil_setCode", json!([at, code]));
        set_code(init).await?;
        let run = self.call_from_payer(at, Vec::new());
        let runtime = self.simulate(&run).await?;
        self.send(&run).await?;
        if runtime.is_empty() {
            return Err(DevnetError::Contract("the constructor returned no code".to_owned()));
        }
        set_code(runtime).await?;
        Ok(())
    }

    /// Deploys a contract at a random unused address.
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

    /// Returns the result of a call in the next block.
    ///
    /// The latest block is unsuitable: its time is that of the last mined transaction, so an authorization signed since
    /// then would not be valid yet.
    ///
    /// # Errors
    /// The call reverted, or the chain does not answer.
    pub async fn simulate(&self, call: &Call) -> Result<Bytes, DevnetError> {
        self.rpc.call("eth_call", json!([call.to_json(), "pending"])).await
    }

    /// Calls a view function of a contract and decodes its result.
    ///
    /// # Errors
    /// The call reverted, the answer cannot be decoded, or the chain does not answer.
    pub async fn read<C: SolCall>(
        &self,
        of: Address,
        question: C,
    ) -> Result<C::Return, DevnetError> {
        let answer = self.simulate(&Call::new(self.payer, of, &question)).await?;
        C::abi_decode_returns(&answer).map_err(|error| DevnetError::Contract(error.to_string()))
    }

    /// Sends a transaction from any account, without its key, and waits for the receipt.
    ///
    /// A call that would fail is not sent.
    ///
    /// # Errors
    /// The call would revert (the error contains the contract's reason), or the transaction failed.
    pub async fn send_as(&self, call: &Call) -> Result<Receipt, DevnetError> {
        self.request("anvil_impersonateAccount", json!([call.from])).await?;
        self.send(call).await
    }

    /// Queues a transaction from any account, without its key, and does not wait for a block.
    ///
    /// `tip` orders the transactions of a block, in wei per unit of gas.
    ///
    /// # Errors
    /// The chain does not accept it.
    pub async fn queue_as(&self, call: &Call, tip: u128) -> Result<B256, DevnetError> {
        self.request("anvil_impersonateAccount", json!([call.from])).await?;
        let mut sent = call.to_json();
        let (tip, most) = (U256::from(tip), U256::from(tip).saturating_mul(U256::from(10)));
        sent["maxPriorityFeePerGas"] = json!(tip);
        sent["maxFeePerGas"] = json!(most);
        let _one_at_a_time = self.send_lock.lock().await;
        self.rpc.call("eth_sendTransaction", json!([sent])).await
    }

    /// Sends a transaction from an account that anvil already signs for.
    pub(crate) async fn send(&self, call: &Call) -> Result<Receipt, DevnetError> {
        let hash: B256 = {
            let _one_at_a_time = self.send_lock.lock().await;
            self.simulate(call).await?;
            self.rpc.call("eth_sendTransaction", json!([call.to_json()])).await?
        };
        let late = |_elapsed| DevnetError::NoReceipt(hash);
        let receipt = timeout(RECEIPT_TIMEOUT, self.receipt(hash)).await.map_err(late)??;
        if receipt.status == U64::ONE {
            return Ok(receipt);
        }
        let message = format!("transaction {hash} was reverted");
        Err(DevnetError::Reverted { message, data: Bytes::new() })
    }

    /// Returns a call from anvil's own account.
    pub(crate) fn call_from_payer(&self, to: Address, data: Vec<u8>) -> Call {
        Call { from: self.payer, to, value: U256::ZERO, data: data.into() }
    }

    /// Polls for the receipt. Anvil mines asynchronously, so the first answers may be null.
    async fn receipt(&self, hash: B256) -> Result<Receipt, DevnetError> {
        loop {
            let found: Option<Receipt> =
                self.rpc.call("eth_getTransactionReceipt", json!([hash])).await?;
            match found {
                Some(receipt) => return Ok(receipt),
                None => sleep(RECEIPT_POLL_INTERVAL).await,
            }
        }
    }
}
