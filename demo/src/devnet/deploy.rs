//! Transactions on the local chain, and contracts at addresses of our choice.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::{SolCall, SolEvent};
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

/// A call in somebody's name, to be looked at or to be sent.
#[derive(Debug, Clone)]
pub struct Call {
    pub from: Address,
    pub to: Address,
    /// Native coin that goes with it.
    pub value: U256,
    pub data: Bytes,
}

impl Call {
    /// A call that carries no coin.
    pub fn new(from: Address, to: Address, call: &impl SolCall) -> Self {
        Self { from, to, value: U256::ZERO, data: call.abi_encode().into() }
    }

    /// The same with coin.
    pub fn with_value(self, value: U256) -> Self {
        Self { value, ..self }
    }

    fn to_json(&self) -> Value {
        let Self { from, to, value, data } = self;
        json!({ "from": from, "to": to, "value": value, "gas": GAS, "data": data })
    }
}

/// What a transaction did.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    #[serde(rename = "transactionHash")]
    pub hash: B256,
    status: U64,
    gas_used: U256,
    effective_gas_price: U256,
    logs: Vec<Log>,
}

#[derive(Debug, Deserialize)]
struct Log {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
}

impl Receipt {
    /// What its sender paid for it, in the native coin's smallest units.
    pub fn fee(&self) -> U256 {
        self.gas_used.saturating_mul(self.effective_gas_price)
    }

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
    pub(super) async fn deploy(&self, init: Bytes) -> Result<Address, DevnetError> {
        let mut chosen = [0; 20];
        getrandom::fill(&mut chosen).map_err(|error| DevnetError::Start(error.to_string()))?;
        let at = Address::from(chosen);
        self.deploy_at(at, init).await?;
        Ok(at)
    }

    pub(super) async fn has_code(&self, at: Address) -> Result<bool, DevnetError> {
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
    pub(super) async fn send(&self, call: &Call) -> Result<Receipt, DevnetError> {
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
    pub(super) fn ours(&self, to: Address, data: Vec<u8>) -> Call {
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
