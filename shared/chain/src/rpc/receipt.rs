//! Decodes a receipt, which must be complete and of the requested transaction.

use alloy_primitives::{B256, U256};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ports::{Log, PaidFee, Receipt, TxStatus};
use crate::rpc::event::WireEvent;
use crate::rpc::quantity::{Unusable, decode_as, hash_of, u64_of, u256_of};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireReceipt {
    transaction_hash: String,
    // A node may return a receipt without a block for a pending transaction; that counts as no receipt.
    block_number: Option<String>,
    block_hash: Option<String>,
    status: String,
    logs: Vec<WireLog>,
    gas_used: Option<String>,
    effective_gas_price: Option<String>,
    // OP stack: the data fee, on top of the gas.
    l1_fee: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireLog {
    #[serde(flatten)]
    event: WireEvent,
    transaction_hash: Option<String>,
    #[serde(default)]
    removed: bool,
}

/// Decodes a receipt. `null` means that the node does not know the transaction as mined.
pub(super) fn receipt_of(raw: &RawValue, asked: B256) -> Result<Option<Receipt>, Unusable> {
    let Some(wire) = decode_as::<Option<WireReceipt>>(raw)? else { return Ok(None) };
    let tx_hash = hash_of(&wire.transaction_hash)?;
    if tx_hash != asked {
        return Err(Unusable("the receipt is of another transaction"));
    }
    let (Some(number), Some(block_hash)) = (&wire.block_number, &wire.block_hash) else {
        return Ok(None);
    };
    let status = match u64_of(&wire.status)? {
        0 => TxStatus::Reverted,
        1 => TxStatus::Succeeded,
        _other => return Err(Unusable("the receipt has an unknown status")),
    };
    let logs = wire.logs.iter().map(|log| log_of(log, asked)).collect::<Result<_, _>>()?;
    Ok(Some(Receipt {
        tx_hash,
        block_number: u64_of(number)?,
        block_hash: hash_of(block_hash)?,
        status,
        logs,
        paid_fee: paid_fee(&wire),
    }))
}

/// Returns the fee that the sender paid. A malformed fee does not invalidate the receipt.
fn paid_fee(wire: &WireReceipt) -> Option<PaidFee> {
    let data_fee = match &wire.l1_fee {
        Some(fee) => u256_of(fee).ok()?,
        None => U256::ZERO,
    };
    Some(PaidFee {
        gas_used: u64_of(wire.gas_used.as_deref()?).ok()?,
        gas_price: u256_of(wire.effective_gas_price.as_deref()?).ok()?,
        data_fee,
    })
}

fn log_of(wire: &WireLog, asked: B256) -> Result<Log, Unusable> {
    if wire.removed {
        return Err(Unusable("the receipt holds a log of a removed block"));
    }
    if let Some(hash) = &wire.transaction_hash
        && hash_of(hash)? != asked
    {
        return Err(Unusable("the receipt holds a log of another transaction"));
    }
    wire.event.read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn word(byte: u8) -> String {
        format!("{}", B256::repeat_byte(byte))
    }

    fn wire() -> Value {
        json!({
            "transactionHash": word(7), "blockNumber": "0x10", "blockHash": word(9), "status": "0x1", "gasUsed": "0x5208",
            "logs": [{
                "address": format!("0x{}", "ab".repeat(20)), "topics": [word(1), word(2)],
                "data": "0x0102", "transactionHash": word(7), "logIndex": "0x0", "removed": false,
            }],
        })
    }

    fn read(wire: &Value) -> Result<Option<Receipt>, Unusable> {
        let raw = RawValue::from_string(wire.to_string()).unwrap();
        receipt_of(&raw, B256::repeat_byte(7))
    }

    #[test]
    fn a_complete_receipt_is_decoded() {
        let receipt = read(&wire()).unwrap().unwrap();
        assert_eq!((receipt.block_number, receipt.status), (16, TxStatus::Succeeded));
        let log = receipt.logs.first().unwrap();
        assert_eq!(log.topics, [B256::repeat_byte(1), B256::repeat_byte(2)]);
        assert_eq!(log.data.as_ref(), [1, 2]);
        let mut reverted = wire();
        reverted["status"] = json!("0x0");
        assert_eq!(read(&reverted).unwrap().unwrap().status, TxStatus::Reverted);
        assert_eq!(read(&Value::Null), Ok(None));
    }

    #[test]
    fn the_fee_includes_gas_and_the_data_fee() {
        let fee = |wire: &Value| read(wire).unwrap().unwrap().fee();
        assert_eq!(fee(&wire()), None, "without a price");
        let mut paid = wire();
        paid["effectiveGasPrice"] = json!("0x3");
        assert_eq!(fee(&paid), Some(U256::from(63_000)));
        paid["l1Fee"] = json!("0x7");
        assert_eq!(fee(&paid), Some(U256::from(63_007)));
        let found = read(&paid).unwrap().unwrap().paid_fee.unwrap();
        let parts = (found.gas_used, found.gas_price, found.data_fee);
        assert_eq!(parts, (21_000, U256::from(3), U256::from(7)));
        paid["l1Fee"] = json!("7");
        assert_eq!(fee(&paid), None);
    }

    #[test]
    fn a_malformed_receipt_is_rejected() {
        for (pointer, value) in [
            ("/transactionHash", json!(word(8))),
            ("/status", json!("0x2")),
            ("/status", json!("0x01")),
            ("/status", Value::Null),
            ("/status", json!(1)),
            ("/blockHash", json!("0x9")),
            ("/logs", Value::Null),
            ("/logs/0/transactionHash", json!(word(8))),
            ("/logs/0/removed", json!(true)),
            ("/logs/0/topics", json!([word(1), word(1), word(1), word(1), word(1)])),
            ("/logs/0/topics", json!(["0x01"])),
            ("/logs/0/data", json!("0x1")),
            ("/logs/0/address", json!(word(1))),
        ] {
            let mut odd = wire();
            *odd.pointer_mut(pointer).unwrap() = value.clone();
            assert!(read(&odd).is_err(), "{pointer} = {value}");
        }
        assert!(read(&json!("0x")).is_err());
        let mut waiting = wire();
        waiting["blockNumber"] = Value::Null;
        assert_eq!(read(&waiting), Ok(None), "it waits");
    }
}
