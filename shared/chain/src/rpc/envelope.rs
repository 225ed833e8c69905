//! The JSON-RPC 2.0 envelope. An answer must have the id of its request and either a result or an error. Pure:
//! bytes in, bytes out.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::rpc::quantity::Unusable;

/// A method with its parameters.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) params: Value,
    pub(super) kind: MethodKind,
}

/// What a method does, which determines the meaning of its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MethodKind {
    /// Reads data. Another node may have data that this one lacks.
    Read,
    /// Reads data that even a healthy node may refuse to return: a wide range of blocks, or a block tag that it does
    /// not know.
    Refusable,
    /// Runs a contract, which may revert.
    Execute,
    /// Submits a transaction. An error is about the transaction itself.
    Broadcast,
}

/// An error object, as the node wrote it.
#[derive(Debug, Deserialize)]
pub(super) struct WireError {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

/// The content of a valid envelope.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Result(&'a RawValue),
    Error(WireError),
}

#[derive(Serialize)]
struct WireRequest<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a Value,
}

/// Unknown members are ignored, because nodes add their own. Duplicates of known members are rejected.
#[derive(Deserialize)]
struct WireAnswer<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: Value,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<WireError>,
}

/// Distinguishes `"result": null`, which is an answer (there is no such receipt), from a missing result.
fn present<'de, D: Deserializer<'de>>(wire: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(wire).map(Some)
}

/// Encodes one request.
pub(super) fn request(id: u64, call: &Call) -> Result<Vec<u8>, Unusable> {
    let wire = WireRequest { jsonrpc: "2.0", id, method: call.method, params: &call.params };
    serde_json::to_vec(&wire)
        .map_err(|_never_for_such_values| Unusable("the request cannot be written as JSON"))
}

/// Encodes several requests as one batch; their ids count from `first`.
pub(super) fn batch_request(first: u64, calls: &[Call]) -> Result<Vec<u8>, Unusable> {
    let wire: Vec<WireRequest<'_>> = calls
        .iter()
        .zip(first..)
        .map(|(Call { method, params, .. }, id)| WireRequest { jsonrpc: "2.0", id, method, params })
        .collect();
    serde_json::to_vec(&wire)
        .map_err(|_never_for_such_values| Unusable("the request cannot be written as JSON"))
}

/// Decodes the answers to a batch in the order of the requests: nodes may answer in any order.
pub(super) fn answers(
    bytes: &[u8],
    first: u64,
    count: usize,
) -> Result<Vec<Content<'_>>, Unusable> {
    let wire: Vec<WireAnswer<'_>> = serde_json::from_slice(bytes).map_err(not_an_answer)?;
    if wire.len() != count {
        return Err(Unusable("it has the wrong number of answers"));
    }
    let mut sorted: Vec<Option<Content<'_>>> = Vec::new();
    sorted.resize_with(count, || None);
    for answer in wire {
        let id = answer.id.as_u64().and_then(|id| id.checked_sub(first));
        let slot = id.and_then(|at| sorted.get_mut(usize::try_from(at).ok()?));
        match slot {
            Some(slot) if slot.is_none() => {
                let id = id.and_then(|at| at.checked_add(first)).unwrap_or(first);
                *slot = Some(content(answer, id)?);
            }
            _unasked_or_twice => return Err(Unusable("it has the id of another request")),
        }
    }
    // There are as many answers as slots, and no duplicates.
    sorted.into_iter().map(|slot| slot.ok_or(Unusable("an answer is missing"))).collect()
}

/// Returns the error that a node sends instead of the answers to a batch. The node sends either one error object or a
/// list of errors only, of which this is the first.
pub(super) fn batch_error(bytes: &[u8]) -> Option<WireError> {
    #[derive(Deserialize)]
    struct Refusal {
        error: WireError,
    }
    if let Ok(refusal) = serde_json::from_slice::<Refusal>(bytes) {
        return Some(refusal.error);
    }
    let each = serde_json::from_slice::<Vec<Refusal>>(bytes).ok()?;
    each.into_iter().next().map(|refusal| refusal.error)
}

/// Decodes the answer to one request.
pub(super) fn answer(bytes: &[u8], id: u64) -> Result<Content<'_>, Unusable> {
    content(serde_json::from_slice(bytes).map_err(not_an_answer)?, id)
}

fn not_an_answer(error: serde_json::Error) -> Unusable {
    Unusable(match error.classify() {
        Category::Data => "it is not a JSON-RPC answer",
        Category::Eof => "it ends too early",
        Category::Syntax | Category::Io => "it is not JSON",
    })
}

fn content(wire: WireAnswer<'_>, id: u64) -> Result<Content<'_>, Unusable> {
    if wire.jsonrpc != "2.0" {
        return Err(Unusable("it is not JSON-RPC 2.0"));
    }
    if wire.id != id {
        return Err(Unusable("it has the id of another request"));
    }
    match (wire.result, wire.error) {
        (Some(result), None) => Ok(Content::Result(result)),
        (None, Some(error)) => Ok(Content::Error(error)),
        (Some(_), Some(_)) => Err(Unusable("it has both a result and an error")),
        (None, None) => Err(Unusable("it has no result and no error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_reason(text: &str) -> &'static str {
        answer(text.as_bytes(), 3).unwrap_err().0
    }

    #[test]
    fn batch_answers_may_come_in_any_order_but_only_once() {
        let text =
            br#"[{"jsonrpc":"2.0","id":8,"result":"b"},{"jsonrpc":"2.0","id":7,"result":"a"}]"#;
        let decoded = answers(text, 7, 2).unwrap();
        let text_of = |content: &Content<'_>| match content {
            Content::Result(raw) => raw.get().to_owned(),
            Content::Error(error) => error.message.clone(),
        };
        assert_eq!(decoded.iter().map(text_of).collect::<Vec<_>>(), ["\"a\"", "\"b\""]);
        for bad in [
            r#"[{"jsonrpc":"2.0","id":7,"result":1}]"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":1},{"jsonrpc":"2.0","id":7,"result":1}]"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":1},{"jsonrpc":"2.0","id":9,"result":1}]"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":1},{"jsonrpc":"2.0","id":"8","result":1}]"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":1},{"jsonrpc":"2.0","id":8}]"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}"#,
            "[]",
        ] {
            assert!(answers(bad.as_bytes(), 7, 2).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_answer_with_another_id_or_envelope_is_rejected() {
        let good = br#" {"jsonrpc":"2.0","id":3,"result":null,"extra":1} "#;
        let Ok(Content::Result(result)) = answer(good, 3) else { panic!("an answer") };
        assert_eq!(result.get(), "null");
        for (text, why) in [
            (r#"{"jsonrpc":"2.0","id":4,"result":1}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":"3","result":1}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":3.0,"result":1}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#, "id"),
            (r#"{"jsonrpc":"2.0","result":1}"#, "JSON-RPC answer"),
            (r#"{"id":3,"result":1}"#, "JSON-RPC answer"),
            (r#"{"jsonrpc":"1.0","id":3,"result":1}"#, "2.0"),
            (r#"{"jsonrpc":"2.0","id":3}"#, "no result and no error"),
            (r#"{"jsonrpc":"2.0","id":3,"error":null}"#, "no result and no error"),
            (r#"{"jsonrpc":"2.0","id":3,"result":1,"error":{"code":1}}"#, "and an error"),
            (r#"{"jsonrpc":"2.0","id":3,"result":1,"result":2}"#, "JSON-RPC answer"),
            (r#"{"jsonrpc":"2.0","id":3,"error":"no"}"#, "JSON-RPC answer"),
            (r#"{"jsonrpc":"2.0","id":3,"error":{"code":"1"}}"#, "JSON-RPC answer"),
            (r#"{"jsonrpc":"2.0","id":3,"result":1} {}"#, "not JSON"),
            (r#"[{"jsonrpc":"2.0","id":3,"result":1}]"#, "JSON"),
            ("<html>", "not JSON"),
            (r#"{"jsonrpc":"2.0","id":3,"res"#, "too early"),
            ("", "too early"),
        ] {
            assert!(refusal_reason(text).contains(why), "{text}: {}", refusal_reason(text));
        }
    }
}
