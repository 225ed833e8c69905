//! The JSON Schemas of loans: venues, positions, and a policy's limits of lending.

use bursar_core::codes::Code;
use bursar_core::networks::{DEFAULT_TRADING, NETWORKS};
use serde_json::{Map, Value, json};

use super::schemas::{closed_object, identity, object, reference};

/// The codes that `reason_code` of a loan's result may have.
const LOAN_REASONS: &[Code] = &[
    Code::DefiDisabled,
    Code::UnsupportedNetwork,
    Code::NetworkDisabled,
    Code::NetworkNotAllowed,
    Code::InvalidRequest,
    Code::DeadlinePassed,
    Code::QuoteFailed,
    Code::VenueNotPermitted,
    Code::DailyOpsExceeded,
    Code::PerDepositExceeded,
    Code::ExposureUnreadable,
    Code::ExposureExceeded,
    Code::InsufficientFunds,
    Code::InsufficientLiquidity,
    Code::WouldFail,
    Code::TooManyPending,
    Code::RequestNoLongerValid,
    Code::PlanExpired,
    Code::RequestDenied,
    Code::RequestExpired,
    Code::AgentsFrozen,
    Code::AgentSuspended,
    Code::AgentNotCommissioned,
    Code::WalletLocked,
    Code::ExecutionError,
];

/// The values that `code` of a loan's result may have: the texts of the original wallet.
const LOAN_CODES: &[&str] = &[
    "UNSUPPORTED_NETWORK",
    "VENUE_NOT_PERMITTED",
    "DEADLINE_PASSED",
    "DAILY_OPS_EXCEEDED",
    "PER_DEPOSIT_EXCEEDED",
    "EXPOSURE_UNREADABLE",
    "EXPOSURE_EXCEEDED",
    "TOO_MANY_PENDING",
    "INSUFFICIENT_LIQUIDITY",
    "REQUEST_NO_LONGER_VALID",
    "EXPIRED",
    "AGENT_SUSPENDED",
    "UNKNOWN_AGENT",
    "REQUOTE_FAILED",
    "POLICY_REJECTED",
    "REVERTED",
    "APPROVAL_REVERTED",
    "EXECUTION_ERROR",
];

/// Descriptions of a loan's fields.
const VENUE_DESCRIPTION: &str = "A vault's address, or a market's id: 0x and 64 hex digits.";
const AMOUNT_DESCRIPTION: &str = "In whole coins of the stablecoin, such as \"25.5\"; needed unless withdraw_all is \
    true. With denomination shares: whole shares of a vault, or the integer shares of a market.";
const PROVEN_DESCRIPTION: &str = "A simulation of the whole plan showed that exactly the quoted amount moves, and \
    that nothing else changes.";
const WITHDRAWABLE_DESCRIPTION: &str =
    "What of the position can be withdrawn now; null if that is not known.";

/// Returns the schemas, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let mut schemas = requests();
    schemas.extend(results());
    schemas.extend(venues());
    schemas
}

fn text_schema() -> Value {
    json!({ "type": "string" })
}

fn count_schema() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn nullable_schema(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn kinds_schema() -> Value {
    json!({ "type": "string", "enum": ["vault", "market"] })
}

fn atoms_schema(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn nullable_atoms_schema(description: &str) -> Value {
    json!({ "type": ["integer", "null"], "minimum": 0, "description": description })
}

/// The networks on which a stablecoin is lent.
fn chain_id() -> Value {
    let lent = NETWORKS.iter().filter(|network| network.lending.is_some());
    let chains: Vec<u64> = lent.map(|network| network.chain.0).collect();
    json!({ "type": "integer", "enum": chains, "default": DEFAULT_TRADING.0 })
}

fn schema_map(schemas: Value) -> Map<String, Value> {
    match schemas {
        Value::Object(schemas) => schemas,
        _other => Map::new(),
    }
}

fn requests() -> Map<String, Value> {
    schema_map(json!({
        "VenuesQuery": object(json!({ "chain_id": chain_id() }), &[]),
        "Position": closed_object(json!({
            "action": { "type": "string", "enum": ["supply", "withdraw"] },
            "venue": { "type": "string", "pattern": "^0x([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$",
                "description": VENUE_DESCRIPTION },
            "venue_kind": { "type": "string", "enum": ["vault", "market"],
                "description": "vault for an address, market for an id." },
            "amount": { "type": ["string", "number"], "description": AMOUNT_DESCRIPTION },
            "withdraw_all": { "type": "boolean", "default": false,
                "description": "Withdraw by all shares of the address; `amount` then has no effect." },
            "denomination": { "type": "string", "enum": ["assets", "shares"], "default": "assets",
                "description": "shares only for withdrawals." },
            "protocol": { "type": "string", "enum": ["morpho"], "default": "morpho" },
            "chain_id": chain_id(),
            "deadline": { "type": "integer", "description": "Unix seconds." },
        }), &["action", "venue", "venue_kind"]),
    }))
}

fn results() -> Map<String, Value> {
    let reasons = LOAN_REASONS.iter().map(|code| code.text().into());
    let reasons: Vec<Value> = reasons.chain([Value::Null]).collect();
    let codes = LOAN_CODES.iter().map(|code| (*code).into());
    let codes: Vec<Value> = codes.chain([Value::Null]).collect();
    schema_map(json!({
        "PositionQuote": object(json!({
            "venue": text_schema(), "venue_kind": kinds_schema(), "protocol": { "const": "morpho" },
            "action": { "type": "string", "enum": ["supply", "withdraw"] },
            "asset": nullable_schema("string"), "asset_decimals": nullable_schema("integer"),
            "share_decimals": nullable_schema("integer"),
            "assets": atoms_schema("What moves, in atomic units of the stablecoin; may exceed 2^53."),
            "shares": atoms_schema("The shares that a supply gets or a withdrawal gives back, in atomic \
                units; may exceed 2^53."),
            "by_shares": { "type": "boolean",
                "description": "The number of shares is fixed, and `assets` is what they redeem for." },
            "notional_usd": { "type": ["number", "null"],
                "description": "The value in dollars, rounded up." },
            "current_position_assets": atoms_schema("What the address has in the venue before it."),
            "venue_withdrawable":
                nullable_atoms_schema("What all lenders together can withdraw now; null if unknown."),
            "withdrawable_now": nullable_atoms_schema(WITHDRAWABLE_DESCRIPTION),
            "asset_symbol": nullable_schema("string"),
            "venue_name": { "type": ["string", "null"],
                "description": "The venue's own text: it can claim anything." },
            "curator": nullable_schema("string"), "gas_estimate": count_schema(),
            "approvals_needed": { "type": "integer", "minimum": 0,
                "description": "Transactions before the supply or withdrawal itself." },
            "effects": object(json!({
                "proven": { "type": "boolean", "description": PROVEN_DESCRIPTION },
                "transactions": { "type": "integer", "minimum": 0,
                    "description": "Each needs a confirmation by the network." },
                "calls": { "type": "array", "items": text_schema(),
                    "description": "The decoded calls of the plan in words, in their order." },
            }), &["proven", "transactions", "calls"]),
        }), &["venue", "venue_kind", "protocol", "action", "assets", "shares", "by_shares",
            "notional_usd", "current_position_assets", "venue_withdrawable", "withdrawable_now",
            "effects"]),
        "PositionResult": object(json!({
            "request_id": { "type": "string",
                "description": "A UUID; empty if the request was refused before it was recorded." },
            "status": { "type": "string",
                "enum": ["executed", "pending", "executing", "rejected", "failed"] },
            "reason": nullable_schema("string"),
            "tx_hash": nullable_schema("string"),
            "assets_moved": nullable_atoms_schema("What the receipt shows, in atomic units of the stablecoin; \
                null if it does not show it."),
            "assets_quoted": nullable_atoms_schema("By the newest quote; null if nothing was measured."),
            "position_after": nullable_atoms_schema("What the address has in the venue after the transaction; \
                null if it could not be read."),
            "quote": { "anyOf": [reference("PositionQuote"), { "type": "null" }] },
            "code": { "type": ["string", "null"], "enum": codes },
            "retryable": { "type": "boolean",
                "description": "True only for INSUFFICIENT_LIQUIDITY: the same may succeed later." },
            "approval_tx_hash": nullable_schema("string"),
            "reason_code": { "type": ["string", "null"], "enum": reasons },
            "retry_after": { "type": "integer", "minimum": 0,
                "description": "In seconds; only if retryable." },
            "identity": identity(),
        }), &["request_id", "status", "reason", "tx_hash", "assets_moved", "assets_quoted",
            "position_after", "quote", "code", "retryable", "approval_tx_hash", "reason_code",
            "identity"]),
        "PositionOpen": object(json!({
            "status": { "type": "string", "enum": ["pending", "executing"] },
            "request_id": { "type": "string", "format": "uuid" },
            "quote": reference("PositionQuote"),
            "expires_in_seconds": count_schema(), "identity": identity(),
        }), &["status", "request_id", "quote", "identity"]),
        "PositionPolled": { "oneOf": [reference("PositionOpen"), reference("PositionResult")] },
    }))
}

fn venues() -> Map<String, Value> {
    let dollars = json!({ "type": ["number", "null"], "minimum": 0,
        "description": "In dollars; null if a part of what is lent cannot be read." });
    let limit = json!({ "type": "number", "minimum": 0, "description": "In dollars." });
    schema_map(json!({
        "Venue": object(json!({
            "kind": kinds_schema(), "protocol": { "const": "morpho" },
            "venue": { "type": "string", "description": VENUE_DESCRIPTION },
            "name": { "type": "string", "description": "The venue's own text, or a market's collateral \
                and loan-to-value limit; empty if curated is false." },
            "asset": text_schema(), "asset_decimals": count_schema(),
            "curated": { "type": "boolean", "description": "Bursar or the operator trusts it. Others are \
                listed because the address has something there." },
            "your_position_assets": nullable_atoms_schema("In atomic units of the stablecoin; null if unknown."),
            "withdrawable_now": nullable_atoms_schema(WITHDRAWABLE_DESCRIPTION),
            "symbol": { "type": "string", "description": "Curated vaults only." },
            "curator": { "type": "string", "description": "Curated vaults only." },
            "total_assets": atoms_schema("Curated vaults only."),
            "venue_withdrawable": nullable_atoms_schema("Curated vaults only: what all lenders together can \
                withdraw now; null if unknown."),
            "collateral": { "type": "string", "description": "Curated markets only." },
            "collateral_symbol": { "type": "string",
                "description": "Curated markets only: the token's own text." },
            "lltv_percent": { "type": "number", "description": "Curated markets only." },
            "endorsed_by": { "type": "string",
                "description": "Curated markets only: the name of a trusted vault that lends there." },
        }), &["kind", "protocol", "venue", "name", "asset", "asset_decimals", "curated",
            "your_position_assets", "withdrawable_now"]),
        "Venues": object(json!({
            "status": { "const": "ok" },
            "restricted": { "type": "boolean",
                "description": "The policy permits supplies to curated venues only." },
            "chain_id": count_schema(),
            "venues": { "type": "array", "items": reference("Venue") },
            "policy": reference("LendingPolicy"),
            "exposure_complete": { "type": "boolean", "description": "False if a part of what the \
                address has lent cannot be read: every supply is then refused (EXPOSURE_UNREADABLE)." },
            "scan": object(json!({
                "complete": { "type": "boolean",
                    "description": "False until everything up to last_block is searched, and if something found was ignored." },
                "next_block": { "type": ["integer", "null"], "minimum": 0,
                    "description": "The first block that is not searched; null if nothing is searched." },
                "last_block": { "type": ["integer", "null"], "minimum": 0,
                    "description": "The last block to search; null before the network named one." },
            }), &["complete", "next_block", "last_block"]),
        }), &["status", "restricted", "chain_id", "venues", "policy", "exposure_complete", "scan"]),
        "LendingPolicy": object(json!({
            "enabled": { "type": "boolean" },
            "restricted_to_curated": { "type": "boolean" },
            "restricted_to_steakhouse": { "type": "boolean",
                "description": "The original wallet's name of restricted_to_curated." },
            "max_deposit_usd": limit, "max_total_deployed_usd": limit,
            "max_deployed_percent": { "type": ["number", "null"], "minimum": 0,
                "description": "Of liquid and lent funds together; null for no such limit." },
            "auto_approve_below_usd": { "type": ["number", "null"], "minimum": 0,
                "description": "In dollars; null if the operator approves every request." },
            "max_ops_per_day": count_schema(), "ops_today": count_schema(), "ops_remaining_today": count_schema(),
            "deployed_usd": dollars,
            "reserved_usd": { "type": "number", "minimum": 0,
                "description": "In dollars: the open supplies of all agents of the address." },
            "liquid_usdg": { "type": ["number", "null"], "minimum": 0, "description": "The stablecoins \
                of the address on all networks on which the agent may lend, in dollars." },
            "exposure_limit_usd": { "type": ["number", "null"], "minimum": 0,
                "description": "The lower of the two ceilings, in dollars." },
            "remaining_deployable_usd": dollars,
        }), &["enabled", "restricted_to_curated", "restricted_to_steakhouse", "max_deposit_usd",
            "max_total_deployed_usd", "max_deployed_percent", "auto_approve_below_usd",
            "max_ops_per_day", "ops_today", "ops_remaining_today", "deployed_usd", "reserved_usd",
            "liquid_usdg", "exposure_limit_usd", "remaining_deployable_usd"]),
    }))
}
