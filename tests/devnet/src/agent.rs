//! An agent that signs its requests to the wallet. It shares no code with the wallet. Its HMAC covers
//! the message as `serde_json` writes it, with sorted keys and with `\uXXXX` for characters outside ASCII. For the
//! numbers used here this equals the canonical JSON that the wallet computes.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

/// An agent's credentials.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    /// The bearer token: `AT_` and 64 hex digits.
    pub token: String,
    pub uses_bearer: bool,
    /// The field that names the agent, which depends on the wallet's edition.
    pub field: &'static str,
}

impl Agent {
    /// Returns an agent of the full edition.
    pub fn new(id: String, token: String, uses_bearer: bool) -> Self {
        Self { id, token, uses_bearer, field: "agent_id" }
    }

    /// Returns a body that asks for a trade.
    pub fn trade(&self, timestamp: i64, trade: &Value) -> Value {
        let mut fields = Map::new();
        fields.insert("trade".into(), trade.clone());
        self.body(timestamp, fields)
    }

    /// Returns a body that asks to supply or to withdraw, or for the venues.
    pub fn position(&self, timestamp: i64, position: &Value) -> Value {
        let mut fields = Map::new();
        fields.insert("position".into(), position.clone());
        self.body(timestamp, fields)
    }

    /// Returns the `signature` field for a message.
    pub fn sign(&self, timestamp: i64, fields: &Map<String, Value>) -> String {
        if self.uses_bearer {
            return self.token.clone();
        }
        let mut message = fields.clone();
        message.insert(self.field.into(), json!(self.id));
        message.insert("timestamp".into(), json!(timestamp));
        // The default map of `serde_json` is sorted.
        let text = escape_non_ascii(&Value::Object(message).to_string());
        let key = self.token.strip_prefix("AT_").and_then(|digits| hex::decode(digits).ok());
        let digest = Hmac::<Sha256>::new_from_slice(&key.unwrap_or_default())
            .map(|mac| hex::encode(mac.chain_update(text).finalize().into_bytes()));
        format!("SIG:{timestamp}:{}", digest.unwrap_or_default())
    }

    /// Returns a `/sign` body.
    pub fn ask(&self, timestamp: i64, header: &str, request_url: Option<&str>) -> Value {
        let mut fields = Map::new();
        fields.insert("payment_required".into(), json!(header));
        if let Some(url) = request_url {
            fields.insert("request_url".into(), json!(url));
        }
        self.body(timestamp, fields)
    }

    /// Returns a `/sign` body for version 1 of x402, whose offer is an object.
    pub fn ask_v1(&self, timestamp: i64, offer: &Value, request_url: Option<&str>) -> Value {
        let mut fields = Map::new();
        fields.insert("x402_data".into(), offer.clone());
        if let Some(url) = request_url {
            fields.insert("request_url".into(), json!(url));
        }
        self.body(timestamp, fields)
    }

    /// Returns a `/callback` body: flat, although its signed message nests the three fields.
    pub fn report(&self, timestamp: i64, id: &str, event: &str, tx_hash: Option<&str>) -> Value {
        let fields = json!({ "transaction_id": id, "event": event, "tx_hash": tx_hash });
        let signature =
            self.sign(timestamp, &Map::from_iter([("callback".into(), fields.clone())]));
        let mut body = fields;
        body[self.field] = json!(self.id);
        body["signature"] = json!(signature);
        body
    }

    /// Returns the body for an endpoint that only reads.
    pub fn read(&self, timestamp: i64) -> Value {
        let mut fields = Map::new();
        fields.insert("action".into(), json!("agent_read"));
        let mut body = self.body(timestamp, fields);
        if let Value::Object(fields) = &mut body {
            fields.remove("action");
        }
        body
    }

    fn body(&self, timestamp: i64, mut fields: Map<String, Value>) -> Value {
        let signature = self.sign(timestamp, &fields);
        fields.insert(self.field.into(), json!(self.id));
        fields.insert("signature".into(), json!(signature));
        Value::Object(fields)
    }
}

/// Escapes every non-ASCII character of a JSON text.
fn escape_non_ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='~' => escaped.push(character),
            _non_ascii => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    escaped
}
