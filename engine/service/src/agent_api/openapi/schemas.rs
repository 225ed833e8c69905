//! The JSON Schemas of bodies and answers.

use std::collections::BTreeSet;

use bursar_core::codes::Code;
use serde_json::{Map, Value, json};

use super::routes;
use crate::edition::Edition;

/// The path of the schemas in the document.
pub(super) const SCHEMAS: &str = "#/components/schemas/";

/// Returns every schema that a route names, except those of trades and loans.
pub(super) fn all(edition: &Edition) -> Map<String, Value> {
    let field = edition.wire.field;
    // List only the codes of this server: the table of codes also has those of the operator's commands.
    let codes: BTreeSet<Code> =
        routes::of(edition).flat_map(|route| route.all_codes(edition)).collect();
    let codes: Vec<Value> =
        codes.iter().map(|code| code.text().into()).chain([Value::Null]).collect();
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let maybe = |kind: &str| json!({ "type": [kind, "null"] });
    let uuid = json!({ "type": "string", "format": "uuid" });
    let micro = json!({ "type": ["integer", "null"], "minimum": 0,
        "description": "Millionths of a dollar; null if unknown." });
    let agent = json!({ "type": "string", "pattern": "^[A-Z]{3}[0-9]{3}$" });
    let signature = json!({ "type": "string",
        "description": "hmac: SIG:<unix seconds>:<64 hex digits>; bearer: AT_<64 hex digits>." });
    let proven = |more: Value, required: &[&str]| {
        let mut properties = json!({ field: agent, "signature": signature });
        if let (Some(all), Some(more)) = (properties.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        let required: Vec<&str> = [field, "signature"].iter().chain(required).copied().collect();
        json!({ "type": "object", "required": required, "properties": properties })
    };
    let schemas = json!({
        "Text": text,
        "Object": { "type": "object" },
        "Error": object(json!({
            "status": { "type": "string", "enum": ["error", "rejected"] },
            "error": text,
            "code": { "type": ["string", "null"], "enum": codes },
            "reason": text,
            "retry_after": count,
            "transaction_id": uuid,
            "previous_transaction_id": uuid,
            "hint": text,
            "requested_micro": micro,
            "max_micro": micro,
            "remaining_micro": micro,
            "agent_name": text,
            "recorded": { "const": false, "description": "Present if it is certain that the call recorded \
                nothing: a repeat cannot be a second request." },
        }), &["code"]),
        "Health": object(json!({ "status": { "const": "ok" } }), &["status"]),
        "Status": object(json!({
            "service": text, "version": text, "status": { "const": "ready" },
            "signed": count, "rejected": count, "traded": count, "trade_rejected": count,
            "started_at": text, "agent": { "type": "object" },
        }), &["service", "version", "status"]),
        "PingRequest": object(json!({ field: agent }), &[field]),
        "Ping": object(json!({
            "status": { "const": "ready" }, "agent_name": text,
            "agent_status": { "type": "string", "enum": ["active", "limit_reached"] },
        }), &["status", "agent_name", "agent_status"]),
        "ReadRequest": proven(json!({}), &[]),
        "SignRequest": exactly_one_of(proven(json!({
            "payment_required": { "type": "string",
                "description": "The value of the 402 answer's PAYMENT-REQUIRED header, unchanged." },
            "x402_data": { "type": "object",
                "description": "The JSON of the 402 answer, instead of payment_required." },
            "request_url": text,
            "idempotency_key": { "type": "string", "minLength": 1, "maxLength": 128,
                "description": "Bearer mode: a new one for each purchase of the same offer." },
        }), &[]), &["payment_required", "x402_data"]),
        "Signed": object(json!({
            "status": { "const": "success" }, "x402_version": { "type": "integer", "enum": [1, 2] },
            "header_name": { "type": "string", "enum": ["PAYMENT-SIGNATURE", "X-PAYMENT"] },
            "header_value": text, "transaction_id": uuid,
        }), &["status", "x402_version", "header_name", "header_value", "transaction_id"]),
        "Pending": object(json!({
            "status": { "type": "string", "enum": ["pending", "executing"] },
            "request_id": uuid, "message": text, "code": { "const": "APPROVAL_REQUIRED" },
            "waits_for": { "type": "string", "enum": ["operator", "device"] },
            "amount_micro": micro, field: agent, "created_at": text,
        }), &["status", "request_id"]),
        "Polled": { "oneOf": [reference("Signed"), object(json!({
            "status": { "type": "string", "enum": ["success", "rejected"] },
            "message": text, "reason": text, "code": text, "transaction_id": uuid,
        }), &["status", "transaction_id"])] },
        "CallbackRequest": proven(json!({
            "transaction_id": uuid,
            "event": { "type": "string", "enum": ["submitted", "settled", "failed"] },
            "tx_hash": { "type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{64}$" },
            "error": text,
        }), &["transaction_id", "event"]),
        "Reported": object(json!({
            "status": { "const": "ok" }, "transaction_id": uuid,
            "new_status": { "type": "string", "enum": ["submitted", "failed", "settled", "verified"] },
        }), &["status", "transaction_id", "new_status"]),
        "Receipt": object(json!({
            "type": { "const": "AP2Receipt" }, "version": text, "transactionId": uuid,
            "status": text, "timestamp": text, "intent": { "type": "object" },
            "authorization": { "type": "object" },
            "payment": { "type": ["object", "null"], "description": "Null for a trade." },
            "settlement": maybe("object"), "rejection": { "type": "object" },
            "failure": { "type": "object" },
            "trade": { "type": "object", "description": "Only for a trade: its tokens, amounts, pool and \
                transaction." },
        }), &["type", "version", "transactionId", "status", "timestamp", "payment"]),
        "Mandate": object(json!({
            "status": { "const": "ok" }, "agent_name": text, field: agent,
            "wallet_address": maybe("string"), "wallet_id": maybe("string"),
            "spent_today_micro": count, "reserved_micro": count, "remaining_today_micro": micro,
            "renews_at": maybe("string"), "renews_at_unknown_reason": maybe("string"), "policy": { "anyOf": [reference("MandatePolicy"), { "type": "null" }] }, "networks": { "type": "array", "items": text },
            "mandate": maybe("object"), "mandate_note": text, "mandate_id": uuid, "mandate_registry_id": maybe("string"), "mandate_stale": { "type": "boolean" }, "mandate_stale_reason": text,
        }), &["status", field, "spent_today_micro", "policy"]),
        "MandatePolicy": object(json!({
            "name": text, "daily_limit_micro": count, "per_request_max_micro": count,
            "auto_approve_below_micro": count, "allowed_domains": maybe("array"),
            "blocked_domains": maybe("array"), "trading": { "type": "object" },
            "morpho": { "anyOf": [reference("LendingPolicy"), { "type": "null" }],
                "description": "Null if the policy does not allow lending." },
        }), &["name", "daily_limit_micro", "trading", "morpho"]),
        "Balances": object(json!({
            "status": { "const": "ok" }, "wallet_address": maybe("string"),
            "wallet_id": maybe("string"), "balances_error": text,
            "balances": { "type": ["array", "null"], "items": object(json!({
                "symbol": text, "token_address": maybe("string"), "decimals": maybe("integer"),
                "raw": maybe("string"), "formatted": maybe("number"),
                "is_native": { "type": "boolean" }, "usd_value": maybe("number"),
                "network": text, "verified": { "type": "boolean" }, "error": text,
            }), &["symbol", "token_address", "raw", "is_native"]) },
        }), &["status", "balances"]),
        "TradeRequest": proven(json!({
            "trade": reference("Trade"),
            "idempotency_key": { "type": "string", "minLength": 1, "maxLength": 128,
                "description": "Bearer mode: a new one for each trade." },
        }), &["trade"]),
        "VenuesRequest": proven(json!({ "position": reference("VenuesQuery") }), &[]),
        "PositionRequest": proven(json!({
            "position": reference("Position"),
            "idempotency_key": { "type": "string", "minLength": 1, "maxLength": 128,
                "description": "Bearer mode: a new one for each supply or withdrawal." },
        }), &["position"]),
    });
    let mut schemas = schemas.as_object().cloned().unwrap_or_default();
    adapt(&mut schemas, edition);
    schemas
}

/// Removes from the schemas what the edition does not read or answer.
fn adapt(schemas: &mut Map<String, Value>, edition: &Edition) {
    if !edition.has_trades_or_loans() {
        leave_out(schemas, "MandatePolicy", &["trading", "morpho"]);
        leave_out(schemas, "Status", &["traded", "trade_rejected"]);
        leave_out(schemas, "Receipt", &["trade"]);
    }
    if !edition.wire.names_version {
        leave_out(schemas, "Signed", &["x402_version"]);
    }
    if edition.wire.unsigned_callback {
        make_optional(schemas, "CallbackRequest", &["signature"]);
    }
}

/// Removes fields from a schema.
fn leave_out(schemas: &mut Map<String, Value>, schema: &str, fields: &[&str]) {
    make_optional(schemas, schema, fields);
    let properties = schemas.get_mut(schema).and_then(|schema| schema.get_mut("properties"));
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        properties.retain(|name, _schema| !fields.contains(&name.as_str()));
    }
}

fn make_optional(schemas: &mut Map<String, Value>, schema: &str, fields: &[&str]) {
    let required = schemas.get_mut(schema).and_then(|schema| schema.get_mut("required"));
    if let Some(required) = required.and_then(Value::as_array_mut) {
        required.retain(|name| !fields.iter().any(|field| name == field));
    }
}

/// Returns the schema of the field `identity`.
pub(super) fn identity() -> Value {
    json!({
        "type": ["string", "null"],
        "description": "What a repeat of the request is recognised by: `signature`, `idempotency_key` or `content`, a colon, \
            and the first digits of a hash. Null if the request was refused before it was recorded.",
    })
}

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

/// Returns the schema of an object that has no other fields than `properties`.
pub(super) fn closed_object(properties: Value, required: &[&str]) -> Value {
    let mut schema = object(properties, required);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// Returns `schema` with the condition that exactly one of the fields `names` is present.
fn exactly_one_of(mut schema: Value, names: &[&str]) -> Value {
    let choices: Vec<Value> = names.iter().map(|name| json!({ "required": [name] })).collect();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("oneOf".to_owned(), choices.into());
    }
    schema
}

/// Returns a reference to a schema of the document.
pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{schema}") })
}
