//! The message that an agent signs at each endpoint (wallet specification, "Agent authentication"), and its
//! canonical text for the HMAC.

use bursar_core::canonical;
use bursar_core::json::{Object, Value};

use crate::edition::AgentWire;

/// The endpoints that accept a signed message.
///
/// Endpoints with the same message share a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Sign,
    Trade,
    Venues,
    Position,
    Callback,
    /// `/mandate`, `/balances` and `/status`, with a literal action: `agent_read`, or another of the edition.
    Read,
}

impl Endpoint {
    /// Returns the endpoint's name in the identity of a request.
    pub fn text(self) -> &'static str {
        match self {
            Endpoint::Sign => "sign",
            Endpoint::Trade => "trade",
            Endpoint::Venues => "venues",
            Endpoint::Position => "position",
            Endpoint::Callback => "callback",
            Endpoint::Read => "read",
        }
    }

    /// Returns the message objects of which an agent signs one; `None` if the body lacks a required field or names two
    /// payments.
    ///
    /// The handler acts on the same values, so the signed and the executed request cannot differ. Only
    /// `idempotency_key` and a callback's `error` are not signed.
    pub fn messages(
        self,
        wire: &AgentWire,
        agent: &str,
        timestamp: u64,
        body: &Object,
    ) -> Option<Vec<Object>> {
        let base = || Object::new().with(wire.field, agent).with("timestamp", timestamp);
        if self == Endpoint::Read {
            let actions = wire.read_actions.iter();
            return Some(actions.map(|action| base().with("action", *action)).collect());
        }
        self.message(base(), body).map(|message| vec![message])
    }

    fn message(self, base: Object, body: &Object) -> Option<Object> {
        match self {
            Endpoint::Sign => sign(base, body),
            Endpoint::Trade => copy(base, body, "trade"),
            Endpoint::Position => copy(base, body, "position"),
            Endpoint::Venues => Some(match body.get("position") {
                Some(position) => base.with("position", position.clone()),
                None => base.with("position", Object::new()),
            }),
            Endpoint::Callback => {
                let field = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
                let callback = Object::new()
                    .with("event", field("event"))
                    .with("transaction_id", field("transaction_id"))
                    .with("tx_hash", field("tx_hash"));
                Some(base.with("callback", callback))
            }
            Endpoint::Read => None,
        }
    }
}

fn sign(base: Object, body: &Object) -> Option<Object> {
    let message = match (body.get("payment_required"), body.get("x402_data")) {
        (Some(header), None) => base.with("payment_required", header.clone()),
        (None, Some(data)) => base.with("x402_data", data.clone()),
        // With both fields, the payment would be ambiguous.
        (Some(_), Some(_)) | (None, None) => return None,
    };
    // Agents of the original wallet sign `request_url` only if it is neither null nor empty.
    Some(match body.get("request_url") {
        Some(url) if url.as_str() != Some("") && *url != Value::Null => {
            message.with("request_url", url.clone())
        }
        Some(_empty) => message,
        None => message,
    })
}

fn copy(base: Object, body: &Object, field: &str) -> Option<Object> {
    Some(base.with(field, body.get(field)?.clone()))
}

/// Returns the text for the HMAC: CPython's `json.dumps(message, separators=(',', ':'), sort_keys=True)`.
pub fn canonical_text(message: Object) -> String {
    canonical::to_python(&Value::Object(message))
}
