//! `eth_simulateV1`: parameters and answer.

use alloy_primitives::Address;
use bursar_submit::Call;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ports::SimulatedCall;
use crate::rpc::event::WireEvent;
use crate::rpc::quantity::{Unusable, bytes_of, decode_as, u64_of};

/// Returns the parameters: one block of calls on top of the newest.
///
/// Nonces and fees are not validated, because they do not matter here.
pub(super) fn params(from: Address, calls: &[Call]) -> Value {
    let one = |call: &Call| json!({ "from": from, "to": call.to, "value": call.value, "input": call.data });
    let calls: Vec<Value> = calls.iter().map(one).collect();
    json!([{ "blockStateCalls": [{ "calls": calls }], "validation": false }, "latest"])
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

/// Decodes one outcome for each call, or fails as a whole.
pub(super) fn simulated_calls(
    raw: &RawValue,
    count: usize,
) -> Result<Vec<SimulatedCall>, Unusable> {
    let blocks: Vec<WireBlock> = decode_as(raw)?;
    let [block] = blocks.as_slice() else {
        return Err(Unusable("it simulates another number of blocks"));
    };
    if block.calls.len() != count {
        return Err(Unusable("it simulates another number of calls"));
    }
    block.calls.iter().map(simulated_call).collect()
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
    let logs = wire.logs.iter().map(WireEvent::read).collect::<Result<_, _>>()?;
    Ok(SimulatedCall { ok, data, gas_used: Some(u64_of(&wire.gas_used)?), logs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_reverts_keep_their_data_in_either_field() {
        let call = |status: &str, data: &str, error: Value| json!({"status": status, "gasUsed": "0x5208", "returnData": data, "logs": [], "error": error});
        let read = |calls: Value, count| {
            let raw = RawValue::from_string(json!([{ "calls": calls }]).to_string()).unwrap();
            simulated_calls(&raw, count)
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
