//! `eth_getLogs`: parameters and answer.

use alloy_primitives::B256;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ports::{FoundLog, LogFilter};
use crate::rpc::event::WireEvent;
use crate::rpc::quantity::{Unusable, decode_as, hash_of, quantity, u64_of};

pub(super) fn params(wanted: &LogFilter) -> Value {
    let mut filter = json!({
        "fromBlock": quantity(wanted.from_block), "toBlock": quantity(wanted.to_block),
    });
    if !wanted.addresses.is_empty() {
        filter["address"] = json!(wanted.addresses);
    }
    if !wanted.events.is_empty() || !wanted.indexed.is_empty() {
        // A topic of null matches any event.
        let first = Some(&wanted.events).filter(|events| !events.is_empty());
        let mut topics = vec![json!(first)];
        topics.extend(wanted.indexed.iter().map(|values| topic_json(values)));
        filter["topics"] = json!(topics);
    }
    json!([filter])
}

/// Returns the filter for one indexed argument: null matches any value, and a list matches any of its values.
fn topic_json(values: &[B256]) -> Value {
    match values {
        [] => Value::Null,
        [only] => json!(only),
        several => json!(several),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireLog {
    #[serde(flatten)]
    event: WireEvent,
    transaction_hash: Option<String>,
    block_number: Option<String>,
    block_hash: Option<String>,
    log_index: Option<String>,
    #[serde(default)]
    removed: bool,
}

/// Decodes all events. An event that does not match the filter invalidates the whole answer: a node that ignores the
/// filter may also omit events.
pub(super) fn decode_logs(raw: &RawValue, wanted: &LogFilter) -> Result<Vec<FoundLog>, Unusable> {
    let wire: Vec<WireLog> = decode_as(raw)?;
    let mut found = Vec::with_capacity(wire.len());
    for one in wire.iter().filter(|one| !one.removed) {
        // A log without these fields belongs to a pending block.
        let (Some(tx_hash), Some(number), Some(block_hash), Some(index)) =
            (&one.transaction_hash, &one.block_number, &one.block_hash, &one.log_index)
        else {
            continue;
        };
        let log = FoundLog {
            log: one.event.read()?,
            tx_hash: hash_of(tx_hash)?,
            block_number: u64_of(number)?,
            block_hash: hash_of(block_hash)?,
            index: u64_of(index)?,
        };
        if !wanted.matches(&log) {
            return Err(Unusable("it contains a log that was not asked for"));
        }
        found.push(log);
    }
    found.sort_by_key(|one| (one.block_number, one.index));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;

    fn account_filter() -> LogFilter {
        LogFilter {
            from_block: 5,
            to_block: 9,
            addresses: vec![Address::repeat_byte(0xab)],
            events: vec![B256::repeat_byte(1)],
            indexed: vec![vec![B256::repeat_byte(2)]],
        }
    }

    fn wire(block: &str, index: &str) -> Value {
        json!({
            "address": format!("0x{}", "ab".repeat(20)), "data": "0x",
            "topics": [B256::repeat_byte(1), B256::repeat_byte(2)],
            "transactionHash": B256::repeat_byte(7), "blockHash": B256::repeat_byte(8),
            "blockNumber": block, "logIndex": index, "removed": false,
        })
    }

    fn read(wire: &Value) -> Result<Vec<FoundLog>, Unusable> {
        decode_logs(&RawValue::from_string(wire.to_string()).unwrap(), &account_filter())
    }

    #[test]
    fn events_are_read_in_the_order_of_the_chain() {
        let mut gone = wire("0x6", "0x0");
        gone["removed"] = json!(true);
        let mut waiting = wire("0x6", "0x0");
        waiting["blockNumber"] = Value::Null;
        let events = read(&json!([
            wire("0x7", "0x1"),
            gone,
            wire("0x6", "0x3"),
            waiting,
            wire("0x7", "0x0")
        ]));
        let positions: Vec<(u64, u64)> =
            events.unwrap().iter().map(|one| (one.block_number, one.index)).collect();
        assert_eq!(positions, [(6, 3), (7, 0), (7, 1)]);
    }

    #[test]
    fn an_argument_without_a_value_matches_any() {
        let mut filter = account_filter();
        filter.indexed = vec![Vec::new(), vec![B256::repeat_byte(3)]];
        let topics = &params(&filter)[0]["topics"];
        assert_eq!(*topics, json!([filter.events, Value::Null, B256::repeat_byte(3)]));
        let read = |second: u8, third: u8| {
            let mut one = wire("0x6", "0x0");
            one["topics"] =
                json!([B256::repeat_byte(1), B256::repeat_byte(second), B256::repeat_byte(third)]);
            decode_logs(&RawValue::from_string(json!([one]).to_string()).unwrap(), &filter).is_ok()
        };
        assert!(read(7, 3) && read(8, 3));
        assert!(!read(3, 7), "the second value is not that of the first argument");
    }

    #[test]
    fn an_argument_may_have_one_of_several_values() {
        let mut filter = account_filter();
        filter.indexed = vec![[2, 3].map(B256::repeat_byte).to_vec()];
        assert_eq!(params(&filter)[0]["topics"], json!([filter.events, filter.indexed[0]]));
        let read = |value: u8| {
            let mut one = wire("0x6", "0x0");
            one["topics"][1] = json!(B256::repeat_byte(value));
            decode_logs(&RawValue::from_string(json!([one]).to_string()).unwrap(), &filter).is_ok()
        };
        assert!(read(2) && read(3) && !read(4));
    }

    #[test]
    fn a_log_outside_the_filter_rejects_the_answer() {
        for (pointer, value) in [
            ("/0/blockNumber", json!("0x4")),
            ("/0/blockNumber", json!("0xa")),
            ("/0/address", json!(format!("0x{}", "ac".repeat(20)))),
            ("/0/topics", json!([B256::repeat_byte(2)])),
            ("/0/topics", json!([])),
            ("/0/topics", json!([B256::repeat_byte(1)])),
            ("/0/topics", json!([B256::repeat_byte(1), B256::repeat_byte(3)])),
            ("/0/data", json!("0x1")),
        ] {
            let mut odd = json!([wire("0x6", "0x0")]);
            *odd.pointer_mut(pointer).unwrap() = value.clone();
            assert!(read(&odd).is_err(), "{pointer} = {value}");
        }
    }
}
