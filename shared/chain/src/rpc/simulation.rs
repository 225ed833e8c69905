//! `eth_simulateV1`: parameters and answer.

use alloy_primitives::{Address, U256, address};
use bursar_submit::Call;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ports::{
    Log, NextBlock, ReadCall, SimulatedBlock, SimulatedCall, SimulationRequest, Transfer,
};
use crate::rpc::event::WireEvent;
use crate::rpc::quantity::{Unusable, bytes_of, decode_as, quantity, u64_of};
use crate::token;

/// The address under which nodes report transfers of the native coin, as if it were a token.
const NATIVE_COIN: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");

/// Returns the parameters: one block of calls on top of the newest block.
///
/// Nonces and funds for gas are not validated: other transactions of the account may be in flight.
pub(super) fn params(request: &SimulationRequest) -> Value {
    let from = request.from;
    let calls = request.calls.iter().map(|call| call_json(from, call, request.block.as_ref()));
    let read = |read: &ReadCall| json!({ "from": from, "to": read.to, "input": read.data });
    let calls: Vec<Value> = calls.chain(request.reads.iter().map(read)).collect();
    let mut block = json!({ "calls": calls });
    if let Some(next) = &request.block {
        let mut overrides = json!({
            "number": quantity(next.number),
            "time": quantity(next.timestamp),
        });
        if let Some(base_fee) = next.base_fee {
            overrides["baseFeePerGas"] = json!(U256::from(base_fee));
        }
        block["blockOverrides"] = overrides;
    }
    json!([
        { "blockStateCalls": [block], "validation": false, "traceTransfers": true },
        "latest",
    ])
}

fn call_json(from: Address, call: &Call, block: Option<&NextBlock>) -> Value {
    let mut json = json!({ "from": from, "to": call.to, "value": call.value, "input": call.data });
    if call.gas_limit > 0 {
        json["gas"] = json!(quantity(call.gas_limit));
    }
    // Set the effective gas price, not the fees of a type 2 transaction: a node that simulates without a base fee would
    // count only the tip.
    if let Some(next) = block {
        json["gasPrice"] = json!(U256::from(next.gas_price));
    }
    json
}

#[derive(Deserialize)]
struct WireBlock {
    calls: Vec<WireCall>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCall {
    status: String,
    gas_used: String,
    return_data: String,
    #[serde(default)]
    logs: Vec<WireEvent>,
    error: Option<WireError>,
}

#[derive(Deserialize)]
struct WireError {
    data: Option<String>,
}

/// Decodes one outcome for each call and each read, or fails as a whole.
pub(super) fn simulated_block(
    raw: &RawValue,
    calls: usize,
    reads: usize,
) -> Result<SimulatedBlock, Unusable> {
    let blocks: Vec<WireBlock> = decode_as(raw)?;
    let [block] = blocks.as_slice() else {
        return Err(Unusable("it has results for the wrong number of blocks"));
    };
    if Some(block.calls.len()) != calls.checked_add(reads) {
        return Err(Unusable("it has results for the wrong number of calls"));
    }
    let mut outcomes: Vec<SimulatedCall> =
        block.calls.iter().map(simulated_call).collect::<Result<_, _>>()?;
    let reads = outcomes.split_off(calls);
    Ok(SimulatedBlock { calls: outcomes, reads })
}

fn simulated_call(wire: &WireCall) -> Result<SimulatedCall, Unusable> {
    let ok = match u64_of(&wire.status)? {
        0 => false,
        1 => true,
        _other => return Err(Unusable("a call has an unknown status")),
    };
    let returned = bytes_of(&wire.return_data)?;
    // Nodes put the reason of a revert into either of these fields.
    let reason = wire.error.as_ref().and_then(|error| bytes_of(error.data.as_deref()?).ok());
    let data = if !ok && returned.is_empty() { reason.unwrap_or_default() } else { returned };
    let logs: Vec<Log> = wire.logs.iter().map(WireEvent::read).collect::<Result<_, _>>()?;
    let (native, logs): (Vec<Log>, Vec<Log>) =
        logs.into_iter().partition(|log| log.address == NATIVE_COIN);
    let native_transfers = native.iter().map(native_transfer).collect::<Result<_, _>>()?;
    let gas_used = Some(u64_of(&wire.gas_used)?);
    Ok(SimulatedCall { ok, data, gas_used, logs, native_transfers })
}

fn native_transfer(log: &Log) -> Result<Transfer, Unusable> {
    token::transfer_of(log).ok_or(Unusable("it reports an invalid transfer of the native coin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_reverts_keep_their_data_in_either_field() {
        let call = |status: &str, data: &str, error: Value| json!({"status": status, "gasUsed": "0x5208", "returnData": data, "logs": [], "error": error});
        let read = |calls: Value, count| {
            let raw = RawValue::from_string(json!([{ "calls": calls }]).to_string()).unwrap();
            simulated_block(&raw, count, 0).map(|block| block.calls)
        };
        let calls = read(
            json!([
                call("0x1", "0x01", Value::Null),
                call("0x0", "0x02", json!({"code": 3, "message": "reverted"})),
                call("0x0", "0x", json!({"code": 3, "message": "reverted", "data": "0x03"})),
            ]),
            3,
        );
        let outcomes: Vec<(bool, Vec<u8>)> =
            calls.unwrap().into_iter().map(|call| (call.ok, call.data.to_vec())).collect();
        assert_eq!(outcomes, [(true, vec![1]), (false, vec![2]), (false, vec![3])]);
        assert!(read(json!([call("0x1", "0x", Value::Null)]), 2).is_err());
        assert!(read(json!([call("0x2", "0x", Value::Null)]), 1).is_err());
    }
}
