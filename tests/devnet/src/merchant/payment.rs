//! Decodes a payment header and checks whether it pays the price. Deliberately strict: tests should see
//! anything that a real merchant might refuse.

use alloy_primitives::{Address, B256, Bytes, U256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::digest;
use super::shop::{PricedResource, Shop};
use super::version::Version;
use crate::stable::Authorization;

/// Shortest remaining validity on arrival, in seconds: enough for one or two blocks.
const VALIDITY_S_MIN: u64 = 6;

/// The reason for which a payment is refused. The text begins with the error code of x402
/// facilitators, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("invalid_payload: the header is not base64 of JSON")]
    NotJson,
    #[error("invalid_payload: {0}")]
    Malformed(String),
    #[error("invalid_x402_version: {found} is not {wanted}")]
    Version { found: u64, wanted: u64 },
    #[error("unsupported_scheme: {0} is not exact")]
    Scheme(Value),
    #[error("invalid_network: {found} is not {wanted}")]
    Network { found: Value, wanted: Value },
    #[error("invalid_payment_requirements: `accepted` is not what was offered")]
    Accepted,
    #[error("invalid_exact_evm_recipient_mismatch: the money would go to {0}")]
    Recipient(Address),
    #[error("invalid_exact_evm_payload_authorization_value: {found} is not {wanted}")]
    Value { found: U256, wanted: U256 },
    #[error("invalid_exact_evm_payload_authorization_valid_before: {0} is past or too near")]
    ValidBefore(U256),
    #[error("invalid_exact_evm_payload_authorization_valid_after: {0} is not past")]
    ValidAfter(U256),
    #[error("invalid_exact_evm_signature: not of {0}")]
    Signature(Address),
    #[error("invalid_exact_evm_nonce_already_used: {0}")]
    Nonce(B256),
    #[error("settlement failed: {0}")]
    Settlement(String),
}

/// A payment that pays the price.
#[derive(Debug, Clone)]
pub(super) struct Payment {
    pub(super) terms: Authorization,
    pub(super) signature: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePayment {
    x402_version: u64,
    payload: Payload,
    /// The offer that the payer accepted, as version 2 repeats it.
    #[serde(default)]
    accepted: Value,
    /// Version 1 repeats only these two fields of the offer.
    #[serde(default)]
    scheme: Value,
    #[serde(default)]
    network: Value,
}

#[derive(Deserialize)]
struct Payload {
    signature: Bytes,
    authorization: TextTerms,
}

/// The terms as text: numbers are decimal strings, the only form in the official types.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextTerms {
    from: Address,
    to: Address,
    value: String,
    valid_after: String,
    valid_before: String,
    nonce: B256,
}

/// Decodes the JSON of a payment header.
pub(super) fn decode(header: &[u8]) -> Result<Value, Refusal> {
    let text = STANDARD.decode(header).map_err(|_not_base64| Refusal::NotJson)?;
    serde_json::from_slice(&text).map_err(|_not_json| Refusal::NotJson)
}

/// Performs every check that needs neither a chain nor the record of used authorizations.
pub(super) fn check(
    shop: &Shop,
    (path, item): (&str, PricedResource),
    payload: Value,
    now_s: u64,
) -> Result<Payment, Refusal> {
    let written: WirePayment =
        serde_json::from_value(payload).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let (found, wanted) = (written.x402_version, item.version.number());
    if found != wanted {
        return Err(Refusal::Version { found, wanted });
    }
    let offered = shop.requirement(path, item);
    match item.version {
        Version::V1 => check_scheme_and_network(&offered, &written.scheme, &written.network)?,
        Version::V2 => check_accepted(&offered, &written.accepted)?,
    }
    let terms = written.payload.authorization.parse()?;
    check_terms(shop, item.price, &terms, now_s)?;
    let signature = written.payload.signature;
    let digest = digest::digest(shop.network, &terms);
    if digest::signer(&digest, &signature) != Some(terms.from) {
        return Err(Refusal::Signature(terms.from));
    }
    Ok(Payment { terms, signature })
}

/// The payer must repeat our offer exactly. The two usual mistakes have their own errors.
fn check_accepted(offered: &Value, accepted: &Value) -> Result<(), Refusal> {
    let field = |name: &str| accepted.get(name).unwrap_or(&Value::Null);
    check_scheme_and_network(offered, field("scheme"), field("network"))?;
    if accepted == offered { Ok(()) } else { Err(Refusal::Accepted) }
}

fn check_scheme_and_network(
    offered: &Value,
    scheme: &Value,
    network: &Value,
) -> Result<(), Refusal> {
    if *scheme != offered["scheme"] {
        return Err(Refusal::Scheme(scheme.clone()));
    }
    if *network != offered["network"] {
        let (found, wanted) = (network.clone(), offered["network"].clone());
        return Err(Refusal::Network { found, wanted });
    }
    Ok(())
}

fn check_terms(shop: &Shop, price: U256, terms: &Authorization, now_s: u64) -> Result<(), Refusal> {
    if terms.to != shop.pay_to {
        return Err(Refusal::Recipient(terms.to));
    }
    if terms.value != price {
        return Err(Refusal::Value { found: terms.value, wanted: price });
    }
    if terms.valid_before < U256::from(now_s.saturating_add(VALIDITY_S_MIN)) {
        return Err(Refusal::ValidBefore(terms.valid_before));
    }
    // The comparison is strict, as in the contract: an authorization that becomes valid this very second is refused.
    if terms.valid_after >= U256::from(now_s) {
        return Err(Refusal::ValidAfter(terms.valid_after));
    }
    Ok(())
}

impl TextTerms {
    fn parse(self) -> Result<Authorization, Refusal> {
        Ok(Authorization {
            from: self.from,
            to: self.to,
            value: decimal("value", &self.value)?,
            valid_after: decimal("validAfter", &self.valid_after)?,
            valid_before: decimal("validBefore", &self.valid_before)?,
            nonce: self.nonce,
        })
    }
}

fn decimal(name: &str, text: &str) -> Result<U256, Refusal> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| U256::from_str_radix(text, 10).ok())
        .flatten()
        .ok_or_else(|| Refusal::Malformed(format!("{name} is not a decimal number")))
}
