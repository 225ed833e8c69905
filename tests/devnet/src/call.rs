//! A call and its receipt.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::{SolCall, SolEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stable::IStable;

/// Gas limit of every call: more than any call here needs, and less than a block holds. So no gas is estimated.
const CALL_GAS_LIMIT: &str = "0x989680";

/// A call from a given account, to simulate or to send.
#[derive(Debug, Clone)]
pub struct Call {
    pub from: Address,
    pub to: Address,
    /// The native coin sent along, in its smallest unit.
    pub value: U256,
    pub data: Bytes,
}

impl Call {
    /// Creates a call without native coin.
    pub fn new(from: Address, to: Address, call: &impl SolCall) -> Self {
        Self { from, to, value: U256::ZERO, data: call.abi_encode().into() }
    }

    /// Sets the native coin that is sent along.
    pub fn with_value(self, value: U256) -> Self {
        Self { value, ..self }
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self { from, to, value, data } = self;
        json!({ "from": from, "to": to, "value": value, "gas": CALL_GAS_LIMIT, "data": data })
    }
}

/// The receipt of a transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    #[serde(rename = "transactionHash")]
    pub hash: B256,
    pub(crate) status: U64,
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
    /// Returns the fee that the sender paid, in the native coin's smallest unit.
    pub fn fee(&self) -> U256 {
        self.gas_used.saturating_mul(self.effective_gas_price)
    }

    /// Returns whether the coin emitted exactly this transfer.
    pub(crate) fn has_transfer(
        &self,
        coin: Address,
        from: Address,
        to: Address,
        value: U256,
    ) -> bool {
        let topics = [IStable::Transfer::SIGNATURE_HASH, from.into_word(), to.into_word()];
        let data = value.to_be_bytes::<32>();
        self.logs
            .iter()
            .any(|log| log.address == coin && log.topics == topics && log.data.as_ref() == data)
    }
}
