//! Reads a payment header and checks it against the offers. The facilitator decides whether the payment is valid.
//! What can be checked without it is checked here, so that a faulty or dishonest facilitator cannot sell for less.

use std::ops::RangeInclusive;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_core::json::Object;
use bursar_core::networks::{Network, by_text};
use bursar_x402::Version;
use bursar_x402::error::X402Error;
use bursar_x402::fields::Fields;
use bursar_x402::header;
use sha2::{Digest as _, Sha256};

use crate::book::{Digest, PaymentId};
use crate::fault::{Code, Fault};
use crate::offer::{Method, Offer, Terms};

/// A payment for one of the offers. It is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    pub id: PaymentId,
    /// Digest of the signed payload.
    pub digest: Digest,
    pub version: Version,
    pub payer: Address,
    /// When the payment expires and can no longer be settled, in Unix seconds.
    pub ends: u64,
    /// The facilitator request, as JSON.
    pub question: String,
    /// The offer that it accepts.
    pub offer: Offer,
    /// Why it buys nothing now. It may have bought something before: that answer is returned at any current price.
    pub unfit: Option<Unfit>,
}

/// The identity of the payment in a header, without any check of its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    pub id: PaymentId,
    /// Digest of the signed payload.
    pub digest: Digest,
}

/// Why a payment buys nothing. The client is asked for another payment, with this reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The facilitators' code for the reason, if there is one.
    pub reason: String,
    pub message: String,
}

impl Unfit {
    /// Creates a reason from a code and a message.
    pub fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// Why a header contains no usable payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unpaid {
    /// The header is malformed, so the request is refused.
    Unreadable(Fault),
    /// The payment is for another network, scheme or version.
    Unfit(Unfit),
}

impl From<Unfit> for Unpaid {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

impl From<X402Error> for Unpaid {
    fn from(fault: X402Error) -> Self {
        Self::Unreadable(Fault::of(Code::InvalidPaymentHeader).because(fault.reason()))
    }
}

impl Payment {
    /// Reads a header of `version` and checks it against `offers`. `span` is the allowed range of expiry, in Unix
    /// seconds. A payment must not expire before the longest answer can be ready, nor too far ahead.
    ///
    /// # Errors
    /// [`Unpaid`]: the header is malformed, or for another network, scheme or version.
    pub fn read(
        text: &str,
        version: Version,
        offers: &[Offer],
        span: &RangeInclusive<u64>,
    ) -> Result<Self, Unpaid> {
        let value = header::decode(text)?;
        let object = value
            .as_object()
            .ok_or_else(|| X402Error::InvalidHeader("it is not an object".into()))?;
        let top = Fields::new(object, "");
        let told = top.required("x402Version", top.count("x402Version")?)?;
        if told != version.number() {
            let message = "the header and x402Version belong to different versions of x402";
            return Err(Unfit::new("invalid_x402_version", message).into());
        }
        let accepted = match version {
            Version::V1 => None,
            Version::V2 => Some(top.required("accepted", top.object("accepted")?)?),
        };
        let named = accepted.map_or(top, |object| Fields::new(object, "accepted."));
        let offer = chosen(&named, offers)?;
        let payload = top.required("payload", top.object("payload")?)?;
        let signed = Signed::read(payload, offer.terms.method)?;
        let terms = &offer.terms;
        let named_otherwise = accepted.is_some() && !is_named(&named, offer)?;
        let unfit =
            if named_otherwise { Some(priced_otherwise()) } else { signed.unfit(offer, span) };
        Ok(Self {
            id: signed.id(terms.network, terms.method, terms.asset),
            digest: Sha256::digest(payload.to_compact()).into(),
            version,
            payer: signed.from,
            ends: signed.before,
            question: offer.question(version, &value),
            offer: offer.clone(),
            unfit,
        })
    }
}

impl Named {
    /// Reads the identity of a payment from its header alone. So a paid answer is found even if its price, model or
    /// network is no longer offered. Version 1 names no asset, so `terms` supply it.
    ///
    /// # Errors
    /// [`Unpaid`]: the header is malformed, or its network is unknown.
    pub fn read(text: &str, version: Version, terms: &[Arc<Terms>]) -> Result<Self, Unpaid> {
        let value = header::decode(text)?;
        let object = value
            .as_object()
            .ok_or_else(|| X402Error::InvalidHeader("it is not an object".into()))?;
        let top = Fields::new(object, "");
        let accepted = match version {
            Version::V1 => None,
            Version::V2 => Some(top.required("accepted", top.object("accepted")?)?),
        };
        let named = accepted.map_or(top, |object| Fields::new(object, "accepted."));
        let network = by_text(named.required("network", named.digits("network")?)?);
        let unknown = || Unfit::new("unsupported_network", "the payment is on an unknown network");
        let network = network.ok_or_else(unknown)?;
        let payload = top.required("payload", top.object("payload")?)?;
        let method = match payload.get("permit2Authorization") {
            Some(_) => Method::Permit2,
            None => Method::Eip3009,
        };
        let asset = match accepted {
            Some(_) => named.address("asset")?,
            None => {
                let offered = terms.iter().find(|terms| terms.network == network);
                offered.map_or(network.stablecoin.address, |terms| terms.asset)
            }
        };
        let signed = Signed::read(payload, method)?;
        Ok(Self {
            id: signed.id(network, method, asset),
            digest: Sha256::digest(payload.to_compact()).into(),
        })
    }
}

/// Returns the offer for the network that a payment names.
fn chosen<'a>(named: &Fields<'_>, offers: &'a [Offer]) -> Result<&'a Offer, Unpaid> {
    let scheme = named.required("scheme", named.text("scheme")?)?;
    if scheme != "exact" {
        return Err(Unfit::new("unsupported_scheme", "only scheme exact is offered").into());
    }
    let network = by_text(named.required("network", named.digits("network")?)?);
    let offer = offers.iter().find(|offer| Some(offer.terms.network) == network);
    offer.ok_or_else(|| {
        let message = "the payment is on a network that was not offered";
        Unfit::new("unsupported_network", message).into()
    })
}

/// Whether the accepted terms match the offer. `extra` may contain more than was offered.
fn is_named(named: &Fields<'_>, offer: &Offer) -> Result<bool, X402Error> {
    Ok(named.address("asset")? == offer.terms.asset
        && named.address("payTo")? == offer.terms.pay_to
        && named.required("amount", named.amount("amount")?)? == offer.amount)
}

fn priced_otherwise() -> Unfit {
    let message =
        "the payment is for another price: the price depends on the body, so sign for this body";
    Unfit::new("invalid_exact_evm_payload_authorization_value", message)
}

const EIP3009: [&str; 6] = ["from", "to", "value", "validAfter", "validBefore", "nonce"];
const PERMIT2: [&str; 6] = ["from", "permitted", "spender", "nonce", "deadline", "witness"];

/// Refuses members that are not signed. A facilitator might use such a member as the payment, and one payment could
/// have any number of digests.
fn known_alone(object: &Object, place: &str, known: &[&str]) -> Result<(), X402Error> {
    match object.iter().find(|(key, _value)| !known.contains(key)) {
        None => Ok(()),
        Some(_other) => {
            Err(Fields::new(object, place).refuse("", "has a field that is not signed"))
        }
    }
}

/// The fields of a signed payment that can be read without verifying it.
struct Signed {
    from: Address,
    to: Address,
    value: U256,
    before: u64,
    nonce: U256,
    asset: Option<Address>,
}

impl Signed {
    fn read(payload: &Object, method: Method) -> Result<Self, Unpaid> {
        let key = match method {
            Method::Eip3009 => "authorization",
            Method::Permit2 => "permit2Authorization",
        };
        known_alone(payload, "payload.", &["signature", key])?;
        let payload = Fields::new(payload, "payload.");
        let object = payload.required(key, payload.object(key)?)?;
        Ok(match method {
            Method::Eip3009 => {
                known_alone(object, "payload.authorization.", &EIP3009)?;
                let signed = object;
                let signed = Fields::new(signed, "payload.authorization.");
                let nonce = signed.required("nonce", signed.word("nonce")?)?;
                Self {
                    from: signed.address("from")?,
                    to: signed.address("to")?,
                    value: signed.required("value", signed.amount("value")?)?,
                    before: seconds(&signed, "validBefore")?,
                    nonce: U256::from_be_bytes(nonce.0),
                    asset: None,
                }
            }
            Method::Permit2 => {
                known_alone(object, "payload.permit2Authorization.", &PERMIT2)?;
                let signed = object;
                let signed = Fields::new(signed, "payload.permit2Authorization.");
                let permitted = signed.required("permitted", signed.object("permitted")?)?;
                let permitted = Fields::new(permitted, "payload.permit2Authorization.permitted.");
                let witness = signed.required("witness", signed.object("witness")?)?;
                let witness = Fields::new(witness, "payload.permit2Authorization.witness.");
                Self {
                    from: signed.address("from")?,
                    to: witness.address("to")?,
                    value: permitted.required("amount", permitted.amount("amount")?)?,
                    before: seconds(&signed, "deadline")?,
                    nonce: signed.required("nonce", signed.amount("nonce")?)?,
                    asset: Some(permitted.address("token")?),
                }
            }
        })
    }

    fn unfit(&self, offer: &Offer, span: &RangeInclusive<u64>) -> Option<Unfit> {
        if self.to != offer.terms.pay_to {
            let message = "the payment goes to another payee";
            return Some(Unfit::new("invalid_exact_evm_recipient_mismatch", message));
        }
        if self.asset.is_some_and(|asset| asset != offer.terms.asset) {
            return Some(Unfit::new("permit2_token_mismatch", "the payment is in another token"));
        }
        if self.value != offer.amount {
            return Some(priced_otherwise());
        }
        if !span.contains(&self.before) {
            let message = "the payment expires too early for an answer, or more than a day ahead: sign for \
                 maxTimeoutSeconds";
            let reason = "invalid_exact_evm_payload_authorization_valid_before";
            return Some(Unfit::new(reason, message));
        }
        None
    }

    /// Returns the id. It hashes numbers and addresses, not their texts, so each payment has one id.
    fn id(&self, network: &Network, method: Method, asset: Address) -> PaymentId {
        let mut hash = Sha256::new();
        hash.update(network.chain.0.to_be_bytes());
        // Permit2 keeps nonces per payer, an EIP-3009 token keeps its own.
        match method {
            Method::Eip3009 => hash.update(asset),
            Method::Permit2 => hash.update([0; 20]),
        }
        hash.update(self.from);
        hash.update(self.nonce.to_be_bytes::<32>());
        PaymentId(hash.finalize().into())
    }
}

/// Reads a time in Unix seconds. A time beyond 64 bits counts as never.
fn seconds(fields: &Fields<'_>, key: &str) -> Result<u64, X402Error> {
    let at = fields.required(key, fields.amount(key)?)?;
    Ok(u64::try_from(at).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
