//! The `trade` and `position` objects in request bodies.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{Object, Value};

use super::admit::Incoming;

/// Fields that only the operator decides, under every name that other wallets, our answers or the contracts use.
const OPERATOR_FIELDS: &[&str] = &[
    "agent_id",
    "agent_code",
    "wallet_address",
    "wallet",
    "recipient",
    "receiver",
    "to",
    "from",
    "owner",
    "on_behalf",
    "on_behalf_of",
    "onBehalf",
    "policy",
    "max_price_impact",
    "max_price_impact_percent",
    "max_slippage_percent",
    "min_reserve_eth",
    "per_trade_max_usd",
    "daily_volume_limit_usd",
    "auto_approve",
    "auto_approve_below_usd",
    "max_deposit_usd",
    "max_total_deployed_usd",
    "max_deployed_percent",
    "max_ops_per_day",
    "restrict_to_curated",
    "curators",
];

/// Refuses a trade or position that contains a field that only the operator decides.
///
/// # Errors
/// `FIELD_NOT_PERMITTED`.
pub(super) fn check_fields(object: &Object) -> Result<(), Fault> {
    let named = OPERATOR_FIELDS.iter().find(|name| object.get(name).is_some());
    named.map_or(Ok(()), |name| {
        let message = format!("Only the operator sets {name}: leave it out.");
        Err(Fault::because(Code::FieldNotPermitted, message))
    })
}

/// Returns the object that a body must contain.
///
/// # Errors
/// `missing` if the field is absent or not an object.
pub(super) fn required_object<'a>(
    incoming: &'a Incoming,
    name: &str,
    missing: Code,
) -> Result<&'a Object, Fault> {
    match incoming.body.get(name) {
        Some(Value::Object(object)) => Ok(object),
        _missing => Err(Fault::new(missing)),
    }
}
