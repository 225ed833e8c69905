//! Classifies a node's error object. Either the contract reverted, the node rejected the transaction, or only this
//! node cannot answer. Pure.

use alloy_primitives::Bytes;
use serde_json::Value;

use crate::ports::ChainFault;
use crate::rpc::envelope::{MethodKind, WireError};
use crate::rpc::quantity::bytes_of;
use crate::rpc::setback::Setback;

/// geth and its descendants: execution reverted, with data.
const REVERTED: i64 = 3;

/// Codes that reject a submitted transaction. In order: geth's code for every mempool error (known, nonce too low,
/// underpriced, no funds), EIP-1474 "transaction rejected", Parity's transaction error, and a revert.
const REJECTION_CODES: [i64; 4] = [-32000, -32003, -32010, REVERTED];

/// Interprets an error. `scrub` makes the node's text safe for errors and logs.
pub(super) fn classify(
    kind: MethodKind,
    error: WireError,
    scrub: impl Fn(&str) -> String,
) -> Setback {
    let WireError { code, message, data } = error;
    match kind {
        MethodKind::Execute if is_revert(code, &message, data.as_ref()) => {
            let data = data.as_ref().and_then(revert_data).unwrap_or_default();
            Setback::Final(ChainFault::Reverted { data })
        }
        MethodKind::Broadcast if REJECTION_CODES.contains(&code) => {
            Setback::Final(ChainFault::Rejected { code, message: scrub(&message) })
        }
        MethodKind::Refusable => Setback::Declined { code, message: scrub(&message) },
        MethodKind::Read | MethodKind::Execute | MethodKind::Broadcast => {
            Setback::Rejected { code, message: scrub(&message) }
        }
    }
}

/// Returns whether an error reports a revert. The text decides only if the code does not: for a revert without data,
/// geth uses its general code, and hardhat uses the code of an internal error. Parity reports a "VM execution error"
/// and puts the word "Reverted" into the data.
fn is_revert(code: i64, message: &str, data: Option<&Value>) -> bool {
    let mentions_revert = |text: &str| text.to_ascii_lowercase().contains("revert");
    code == REVERTED
        || mentions_revert(message)
        || data.and_then(Value::as_str).is_some_and(mentions_revert)
}

/// Extracts the revert data: a hex string (geth, anvil), a hex string after "Reverted " (Parity), or the member
/// `data` (hardhat).
fn revert_data(data: &Value) -> Option<Bytes> {
    let text = data.as_str().or_else(|| data.get("data").and_then(Value::as_str))?;
    bytes_of(text.strip_prefix("Reverted ").unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn classified(kind: MethodKind, error: Value) -> Setback {
        classify(kind, serde_json::from_value(error).unwrap(), str::to_owned)
    }

    #[test]
    fn reverts_of_every_node_dialect_keep_their_data() {
        let data = Bytes::from_static(&[8, 195, 121, 160]);
        for (error, expected) in [
            (json!({"code": 3, "message": "execution reverted", "data": "0x08c379a0"}), &data),
            (
                json!({"code": -32015, "message": "VM execution error.", "data": "Reverted 0x08c379a0"}),
                &data,
            ),
            (
                json!({"code": -32603, "message": "VM Exception: reverted", "data": {"data": "0x08c379a0"}}),
                &data,
            ),
            (json!({"code": -32000, "message": "execution reverted"}), &Bytes::new()),
            (json!({"code": 3, "message": "", "data": "0xnothex"}), &Bytes::new()),
        ] {
            let Setback::Final(ChainFault::Reverted { data }) =
                classified(MethodKind::Execute, error.clone())
            else {
                panic!("{error} is a revert")
            };
            assert_eq!(data, *expected, "{error}");
        }
    }

    #[test]
    fn errors_of_a_single_node_are_not_final() {
        for (kind, code, message) in [
            (MethodKind::Execute, -32000, "header not found"),
            (MethodKind::Read, -32000, "missing trie node"),
            (MethodKind::Read, 3, "execution reverted"),
            (MethodKind::Execute, -32005, "limit exceeded"),
            (MethodKind::Broadcast, -32005, "limit exceeded"),
            (MethodKind::Broadcast, -32601, "the method does not exist"),
        ] {
            let setback = classified(kind, json!({"code": code, "message": message}));
            assert!(matches!(setback, Setback::Rejected { .. }), "{kind:?} {code} {message}");
        }
        let wide = json!({"code": -32005, "message": "limit exceeded"});
        assert!(matches!(classified(MethodKind::Refusable, wide), Setback::Declined { .. }));
        for code in [-32000, -32003, -32010] {
            let setback = classified(
                MethodKind::Broadcast,
                json!({"code": code, "message": "nonce too low"}),
            );
            assert!(matches!(setback, Setback::Final(ChainFault::Rejected { .. })), "{code}");
        }
    }
}
