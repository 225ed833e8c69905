//! Reads the members that are common to the payloads of several methods.

use alloy_primitives::{B256, Bytes};
use bursar_core::json::Object;
use bursar_x402::error::X402Error;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Requirements;

use crate::payment::Terms;
use crate::reason::{Reason, Rejection};

/// Why a payload was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Malformed(#[from] X402Error),
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

/// The signature of a payload of any method.
///
/// # Errors
/// The signature is missing or not valid hex.
pub fn signature(payload: &Object) -> Result<Bytes, X402Error> {
    Fields::new(payload, "paymentPayload.payload.").bytes("signature")
}

/// Reads the member `authorization`, and rejects terms that differ from the requirements. Two methods use this member,
/// and only the format of their nonces differs.
pub(crate) fn read_authorization(
    payload: &Object,
    requirements: &Requirements,
    nonce: impl Fn(&Fields<'_>) -> Result<B256, X402Error>,
) -> Result<Terms, ReadError> {
    let fields = Fields::new(payload, "paymentPayload.payload.");
    let inner = fields.required("authorization", fields.object("authorization")?)?;
    let signed = Fields::new(inner, "paymentPayload.payload.authorization.");
    let number = |key| signed.required(key, signed.amount(key)?);
    let terms = Terms {
        // The payload does not name the token, but the signature covers it: as the verifying contract of the EIP-712
        // domain, or for Prism as a member.
        token: requirements.asset,
        payer: signed.address("from")?,
        payee: signed.address("to")?,
        authorized_amount: number("value")?,
        nonce: nonce(&signed)?,
        valid_after: number("validAfter")?,
        valid_before: number("validBefore")?,
        facilitator: None,
    };
    let reject = |reason: Reason| Rejection::from(reason).for_payer(terms.payer);
    if terms.payee != requirements.pay_to {
        return Err(reject(Reason::Recipient).into());
    }
    Ok(terms)
}
