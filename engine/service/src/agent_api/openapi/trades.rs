//! The JSON Schemas of trades.

use bursar_core::codes::Code;
use bursar_core::networks::{DEFAULT_TRADING, NETWORKS};
use serde_json::{Map, Value, json};

use super::schemas::{closed_object, identity, object, reference};

/// The codes that `reason_code` of a trade's result may have.
const TRADE_REASONS: &[Code] = &[
    Code::TradingDisabled,
    Code::UnknownNetwork,
    Code::NetworkDisabled,
    Code::NetworkNotAllowed,
    Code::UnknownToken,
    Code::InvalidRequest,
    Code::NoPool,
    Code::PoolTooSmall,
    Code::QuoteFailed,
    Code::WouldFail,
    Code::DeadlinePassed,
    Code::ExceedsMaxSlippage,
    Code::ExceedsPerTradeMax,
    Code::ExceedsDailyVolume,
    Code::BelowMinNative,
    Code::InsufficientFunds,
    Code::TooManyPending,
    Code::PriceMoved,
    Code::PlanExpired,
    Code::RequestDenied,
    Code::RequestExpired,
    Code::AgentsFrozen,
    Code::AgentSuspended,
    Code::AgentNotCommissioned,
    Code::WalletLocked,
    Code::ExecutionError,
];

/// Descriptions of a trade's fields.
const TOKEN_DESCRIPTION: &str = "A token's address; ETH or the zero address for the native coin.";
const FEE_DESCRIPTION: &str = "v3: 100, 500, 3000 or 10000, and 0 for wrapping and unwrapping; v4: 0 to 1000000, \
    or 8388608 for a dynamic fee.";

/// Returns the schemas, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let reasons = TRADE_REASONS.iter().map(|code| code.text().into());
    let reasons: Vec<Value> = reasons.chain([Value::Null]).collect();
    let traded = NETWORKS.iter().filter(|network| network.exchange.is_some());
    let chains: Vec<u64> = traded.map(|network| network.chain.0).collect();
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let maybe = |kind: &str| json!({ "type": [kind, "null"] });
    let uuid = json!({ "type": "string", "format": "uuid" });
    let atoms = json!({ "type": "integer", "minimum": 0,
        "description": "In atomic units; may exceed 2^53." });
    let schemas = json!({
        "Trade": closed_object(json!({
            "token_in": { "type": "string", "description": TOKEN_DESCRIPTION },
            "token_out": { "type": "string", "description": TOKEN_DESCRIPTION },
            "amount_in": { "type": ["string", "number"],
                "description": "In whole coins of token_in, such as \"1.5\"." },
            "chain_id": { "type": "integer", "enum": chains, "default": DEFAULT_TRADING.0 },
            "fee_tier": { "type": "integer", "minimum": 0, "default": 3000, "description": FEE_DESCRIPTION },
            "tick_spacing": { "type": "integer", "minimum": 1, "description": "v4 pools only." },
            "hooks": { "type": "string",
                "description": "v4 pools only; the zero address for none." },
            "dex_version": { "type": "string", "enum": ["v3", "v4"],
                "description": "v4 if tick_spacing or hooks is sent, otherwise v3." },
            "route": { "type": "string", "enum": ["best"], "description": "The wallet takes the route \
                with the best output after gas; send no field of a pool." },
            "max_slippage_bps": { "type": "integer", "minimum": 0, "maximum": 5000,
                "description": "Without it the smaller of 50 and the policy's maximum." },
            "deadline": { "type": "integer", "description": "Unix seconds." },
        }), &["token_in", "token_out", "amount_in"]),
        "TradeQuote": object(json!({
            "token_in": text, "token_out": text, "fee_tier": count,
            "pool": { "type": "string",
                "description": "A v3 pool's address, several with commas, V4: and a v4 pool's id, WRAP or \
                    UNWRAP." },
            "amount_in_atomic": atoms, "amount_out_expected": atoms, "amount_out_min": atoms,
            "token_in_decimals": count, "token_out_decimals": count,
            "effective_slippage_bps": count, "gas_estimate": count,
            "notional_usdg": { "type": ["number", "null"],
                "description": "The value of the input in dollars; null if unknown." },
            "price_impact_pct": { "type": ["number", "null"],
                "description": "In percent, pool fee included; null if unknown." },
            "symbol_in": text, "symbol_out": text,
            "dex_version": { "type": "string", "enum": ["v3", "v4"] },
            "tick_spacing": maybe("integer"), "hooks": maybe("string"),
            "route": { "type": "array", "items": object(json!({
                "pool": text, "fee_tier": count, "token_out": text,
            }), &["pool", "fee_tier", "token_out"]),
                "description": "The pools in the order of the swap; empty for wrapping." },
            "effects": object(json!({
                "proven": { "type": "boolean", "description": "A simulation of the whole plan showed that \
                    exactly the input leaves, at least the minimum arrives, and nothing else changes." },
                "amount_in": atoms,
                "amount_out": { "type": ["integer", "null"], "minimum": 0, "description": "What arrived in \
                    the simulation, in atomic units; null if it did not show it." },
                "transactions": { "type": "integer", "minimum": 0,
                    "description": "Each needs a confirmation by the network." },
                "calls": { "type": "array", "items": object(json!({
                    "kind": { "type": "string",
                        "enum": ["approve", "permit", "wrap", "unwrap", "swap", "unknown"] },
                    "text": { "type": "string", "description": "The decoded call in words." },
                }), &["kind", "text"]), "description": "The decoded calls of the plan in their order. A \
                    permit is a signature within the swap." },
            }), &["proven", "amount_in", "amount_out", "transactions", "calls"]),
        }), &["token_in", "token_out", "pool", "amount_in_atomic", "amount_out_expected",
            "amount_out_min"]),
        "TradeResult": object(json!({
            "request_id": { "type": "string",
                "description": "A UUID; empty if the trade was refused before it was recorded." },
            "status": { "type": "string",
                "enum": ["executed", "pending", "executing", "rejected", "failed"] },
            "reason": maybe("string"),
            "tx_hash": maybe("string"),
            "amount_out": { "type": ["integer", "null"], "minimum": 0,
                "description": "Received, in atomic units; null if the receipt does not show it." },
            "amount_out_quoted": { "type": ["integer", "null"], "minimum": 0 },
            "quote": { "anyOf": [reference("TradeQuote"), { "type": "null" }] },
            "code": { "type": ["string", "null"],
                "enum": ["UNKNOWN_AGENT", "AGENT_SUSPENDED", "REQUOTE_FAILED", "POLICY_REJECTED",
                    "PRICE_MOVED", "EXECUTION_ERROR", null] },
            "approval_tx_hash": maybe("string"),
            "reason_code": { "type": ["string", "null"], "enum": reasons },
            "identity": identity(),
        }), &["request_id", "status", "reason", "tx_hash", "amount_out", "amount_out_quoted",
            "quote", "code", "approval_tx_hash", "reason_code", "identity"]),
        "TradeOpen": object(json!({
            "status": { "type": "string", "enum": ["pending", "executing"] },
            "request_id": uuid, "quote": reference("TradeQuote"),
            "expires_in_seconds": count, "identity": identity(),
        }), &["status", "request_id", "quote", "identity"]),
        "TradePolled": { "oneOf": [reference("TradeOpen"), reference("TradeResult")] },
    });
    match schemas {
        Value::Object(schemas) => schemas,
        _other => Map::new(),
    }
}
