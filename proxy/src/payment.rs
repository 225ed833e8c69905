//! Reads a payment header and checks it against the offers. The facilitator decides whether the payment is valid.
//! This module checks network, scheme, payee, token, amount and expiry, so that a faulty or dishonest facilitator
//! cannot make the proxy sell for less.

use std::ops::RangeInclusive;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_core::json::Object;
use bursar_core::networks::{Network, by_id_or_v1_name};
use bursar_x402::Version;
use bursar_x402::error::X402Error;
use bursar_x402::fields::Fields;
use bursar_x402::header;
use sha2::{Digest as _, Sha256};

use crate::book::{Digest, PaymentId};
use crate::fault::{Code, Fault};
use crate::offer::{Method, Offer, Terms};

/// An unverified payment for one of the offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    pub id: PaymentId,
    /// Digest of the signed payload.
    pub digest: Digest,
    pub version: Version,
    pub payer: Address,
    /// When the payment expires and can no longer be settled, in Unix seconds.
    pub expires_at: u64,
    /// The facilitator request, as JSON.
    pub facilitator_request: String,
    /// The offer that the payment accepts.
    pub offer: Offer,
    /// Why the payment cannot buy an answer now.
    ///
    /// An answer that it bought before is still returned.
    pub rejection: Option<Rejection>,
}

/// The identity of the payment in a header.
///
/// The payment's terms are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentIdentity {
    pub id: PaymentId,
    /// Digest of the signed payload.
    pub digest: Digest,
}

/// The reason why a payment buys nothing.
///
/// The proxy returns this reason to the client and requests another payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Code of the reason, as facilitators name it.
    pub reason: String,
    pub message: String,
}

impl Rejection {
    /// Creates a reason from a code and a message.
    pub fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// Why a header contains no usable payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentError {
    /// The header is malformed, so the request is refused.
    Unreadable(Fault),
    /// The payment is for another network, scheme or version.
    Rejected(Rejection),
}

impl From<Rejection> for PaymentError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<X402Error> for PaymentError {
    fn from(fault: X402Error) -> Self {
        Self::Unreadable(Fault::of(Code::InvalidPaymentHeader).with_detail(fault.reason()))
    }
}

impl Payment {
    /// Reads a header of `version` and checks it against `offers`.
    ///
    /// `span` is the allowed range of expiry, in Unix seconds. A payment must not expire before the longest answer can
    /// be ready, nor too far ahead.
    ///
    /// # Errors
    /// [`PaymentError`]: the header is malformed, or for another network, scheme or version.
    pub fn read(
        text: &str,
        version: Version,
        offers: &[Offer],
        span: &RangeInclusive<u64>,
    ) -> Result<Self, PaymentError> {
        let value = header::decode(text)?;
        let object = value
            .as_object()
            .ok_or_else(|| X402Error::InvalidHeader("it is not an object".into()))?;
        let top = Fields::new(object, "");
        let claimed = top.required("x402Version", top.count("x402Version")?)?;
        if claimed != version.number() {
            let message = "the header and x402Version belong to different versions of x402";
            return Err(Rejection::new("invalid_x402_version", message).into());
        }
        let accepted = match version {
            Version::V1 => None,
            Version::V2 => Some(top.required("accepted", top.object("accepted")?)?),
        };
        let accepted_terms = accepted.map_or(top, |object| Fields::new(object, "accepted."));
        let offer = offer_for(&accepted_terms, offers)?;
        let payload = top.required("payload", top.object("payload")?)?;
        let signed = UnverifiedPayment::read(payload, offer.terms.method)?;
        let terms = &offer.terms;
        let terms_differ = accepted.is_some() && !matches_offer(&accepted_terms, offer)?;
        let rejection =
            if terms_differ { Some(wrong_amount()) } else { signed.rejection(offer, span) };
        Ok(Self {
            id: signed.id(terms.network, terms.method, terms.asset),
            digest: Sha256::digest(payload.to_compact()).into(),
            version,
            payer: signed.from,
            expires_at: signed.expires_at,
            facilitator_request: offer.facilitator_request(version, &value),
            offer: offer.clone(),
            rejection,
        })
    }
}

impl PaymentIdentity {
    /// Reads the identity of a payment without checking its terms.
    ///
    /// A paid answer is found even if its price, model or network is no longer offered. A version 1 payment names no
    /// asset, so the asset is taken from `terms`, or else from the network.
    ///
    /// # Errors
    /// [`PaymentError`]: the header is malformed, or its network is unknown.
    pub fn read(text: &str, version: Version, terms: &[Arc<Terms>]) -> Result<Self, PaymentError> {
        let value = header::decode(text)?;
        let object = value
            .as_object()
            .ok_or_else(|| X402Error::InvalidHeader("it is not an object".into()))?;
        let top = Fields::new(object, "");
        let accepted = match version {
            Version::V1 => None,
            Version::V2 => Some(top.required("accepted", top.object("accepted")?)?),
        };
        let accepted_terms = accepted.map_or(top, |object| Fields::new(object, "accepted."));
        let network = by_id_or_v1_name(
            accepted_terms.required("network", accepted_terms.digits("network")?)?,
        );
        let unknown =
            || Rejection::new("unsupported_network", "the payment is on an unknown network");
        let network = network.ok_or_else(unknown)?;
        let payload = top.required("payload", top.object("payload")?)?;
        let method = match payload.get("permit2Authorization") {
            Some(_) => Method::Permit2,
            None => Method::Eip3009,
        };
        let asset = match accepted {
            Some(_) => accepted_terms.address("asset")?,
            None => {
                let offered = terms.iter().find(|terms| terms.network == network);
                offered.map_or(network.stablecoin.address, |terms| terms.asset)
            }
        };
        let signed = UnverifiedPayment::read(payload, method)?;
        Ok(Self {
            id: signed.id(network, method, asset),
            digest: Sha256::digest(payload.to_compact()).into(),
        })
    }
}

/// Returns the offer for the network that a payment names.
fn offer_for<'a>(
    accepted_terms: &Fields<'_>,
    offers: &'a [Offer],
) -> Result<&'a Offer, PaymentError> {
    let scheme = accepted_terms.required("scheme", accepted_terms.text("scheme")?)?;
    if scheme != "exact" {
        return Err(Rejection::new("unsupported_scheme", "only scheme exact is offered").into());
    }
    let network =
        by_id_or_v1_name(accepted_terms.required("network", accepted_terms.digits("network")?)?);
    let offer = offers.iter().find(|offer| Some(offer.terms.network) == network);
    offer.ok_or_else(|| {
        let message = "the payment is on a network that was not offered";
        Rejection::new("unsupported_network", message).into()
    })
}

/// Whether asset, payee and amount are those of the offer. `extra` is not compared.
fn matches_offer(accepted_terms: &Fields<'_>, offer: &Offer) -> Result<bool, X402Error> {
    Ok(accepted_terms.address("asset")? == offer.terms.asset
        && accepted_terms.address("payTo")? == offer.terms.pay_to
        && accepted_terms.required("amount", accepted_terms.amount("amount")?)? == offer.amount)
}

fn wrong_amount() -> Rejection {
    let message =
        "the payment is for another price: the price depends on the body, so sign for this body";
    Rejection::new("invalid_exact_evm_payload_authorization_value", message)
}

const EIP3009_MEMBERS: [&str; 6] = ["from", "to", "value", "validAfter", "validBefore", "nonce"];
const PERMIT2_MEMBERS: [&str; 6] = ["from", "permitted", "spender", "nonce", "deadline", "witness"];
const PERMITTED_MEMBERS: [&str; 2] = ["token", "amount"];
const WITNESS_MEMBERS: [&str; 2] = ["to", "validAfter"];

/// Refuses members that are not signed. Otherwise a facilitator might use such a member as the payment, and one
/// payment could have any number of digests.
fn reject_unsigned_members(object: &Object, prefix: &str, known: &[&str]) -> Result<(), X402Error> {
    match object.iter().find(|(key, _value)| !known.contains(key)) {
        None => Ok(()),
        Some(_other) => {
            Err(Fields::new(object, prefix).error("", "has a field that is not signed"))
        }
    }
}

/// The fields of a signed payment that can be read without verifying it.
struct UnverifiedPayment {
    from: Address,
    to: Address,
    value: U256,
    expires_at: u64,
    nonce: U256,
    asset: Option<Address>,
}

impl UnverifiedPayment {
    fn read(payload: &Object, method: Method) -> Result<Self, PaymentError> {
        let key = match method {
            Method::Eip3009 => "authorization",
            Method::Permit2 => "permit2Authorization",
        };
        reject_unsigned_members(payload, "payload.", &["signature", key])?;
        let payload = Fields::new(payload, "payload.");
        let object = payload.required(key, payload.object(key)?)?;
        Ok(match method {
            Method::Eip3009 => {
                reject_unsigned_members(object, "payload.authorization.", &EIP3009_MEMBERS)?;
                let signed = Fields::new(object, "payload.authorization.");
                let nonce = signed.required("nonce", signed.word("nonce")?)?;
                Self {
                    from: signed.address("from")?,
                    to: signed.address("to")?,
                    value: signed.required("value", signed.amount("value")?)?,
                    expires_at: seconds(&signed, "validBefore")?,
                    nonce: U256::from_be_bytes(nonce.0),
                    asset: None,
                }
            }
            Method::Permit2 => {
                reject_unsigned_members(object, "payload.permit2Authorization.", &PERMIT2_MEMBERS)?;
                let signed = Fields::new(object, "payload.permit2Authorization.");
                let part = |name: &str, prefix: &'static str, known: &[&str]| {
                    let object = signed.required(name, signed.object(name)?)?;
                    reject_unsigned_members(object, prefix, known)?;
                    Ok::<_, X402Error>(Fields::new(object, prefix))
                };
                let permitted = part(
                    "permitted",
                    "payload.permit2Authorization.permitted.",
                    &PERMITTED_MEMBERS,
                )?;
                let witness =
                    part("witness", "payload.permit2Authorization.witness.", &WITNESS_MEMBERS)?;
                Self {
                    from: signed.address("from")?,
                    to: witness.address("to")?,
                    value: permitted.required("amount", permitted.amount("amount")?)?,
                    expires_at: seconds(&signed, "deadline")?,
                    nonce: signed.required("nonce", signed.amount("nonce")?)?,
                    asset: Some(permitted.address("token")?),
                }
            }
        })
    }

    fn rejection(&self, offer: &Offer, span: &RangeInclusive<u64>) -> Option<Rejection> {
        if self.to != offer.terms.pay_to {
            let message = "the payment goes to another payee";
            return Some(Rejection::new("invalid_exact_evm_recipient_mismatch", message));
        }
        if self.asset.is_some_and(|asset| asset != offer.terms.asset) {
            return Some(Rejection::new(
                "permit2_token_mismatch",
                "the payment is in another token",
            ));
        }
        if self.value != offer.amount {
            return Some(wrong_amount());
        }
        if !span.contains(&self.expires_at) {
            let message = "the payment expires too early for an answer, or more than a day ahead: sign for \
                 maxTimeoutSeconds";
            let reason = "invalid_exact_evm_payload_authorization_valid_before";
            return Some(Rejection::new(reason, message));
        }
        None
    }

    /// Returns the id. It hashes numbers and addresses, not their texts, so each payment has one id.
    fn id(&self, network: &Network, method: Method, asset: Address) -> PaymentId {
        let mut hash = Sha256::new();
        hash.update(network.chain.0.to_be_bytes());
        // Permit2 has one set of nonces per payer. Each EIP-3009 token has its own set.
        match method {
            Method::Eip3009 => hash.update(asset),
            Method::Permit2 => hash.update([0; 20]),
        }
        hash.update(self.from);
        hash.update(self.nonce.to_be_bytes::<32>());
        PaymentId(hash.finalize().into())
    }
}

/// Reads a time in Unix seconds, capped at [`u64::MAX`].
fn seconds(fields: &Fields<'_>, key: &str) -> Result<u64, X402Error> {
    let at = fields.required(key, fields.amount(key)?)?;
    Ok(u64::try_from(at).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
