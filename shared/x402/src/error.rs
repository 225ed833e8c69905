//! Why a challenge cannot be paid as it stands. Owns no wire codes: each variant says which one the agent
//! server gives.

use std::borrow::Cow;

/// A refusal that rests on the challenge alone. The texts name the field and are fit for the agent; they
/// never repeat what the challenge said, which may be long or hostile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum X402Error {
    /// The text is not base64 of JSON, or is beyond a bound: `INVALID_PAYMENT_REQUIRED`.
    #[error("payment_required cannot be read: {0}")]
    InvalidHeader(Cow<'static, str>),
    /// The JSON is not a payment challenge that we serve: `INVALID_X402_FORMAT`.
    #[error("the payment challenge is not valid x402: {0}")]
    InvalidFormat(Cow<'static, str>),
    /// The chosen offer names an address that nothing can be paid to or in: `INVALID_PAYMENT_DATA`.
    #[error("the payment offer cannot be paid: {0}")]
    InvalidPayment(Cow<'static, str>),
    /// No offer has scheme `exact`: `UNSUPPORTED_SCHEME`. The challenge itself is well formed.
    #[error("no offer has the scheme exact, the only one that this wallet pays")]
    NoExactOffer,
    /// There are offers of scheme `exact`, and none on a network of the table: `UNKNOWN_NETWORK`.
    #[error("no offer is on a network that this wallet knows")]
    NoKnownNetwork,
}

impl X402Error {
    /// The reason alone, for what is read by the same rules and is no challenge.
    pub fn reason(&self) -> String {
        match self {
            Self::InvalidHeader(why) | Self::InvalidFormat(why) | Self::InvalidPayment(why) => {
                why.to_string()
            }
            Self::NoExactOffer | Self::NoKnownNetwork => self.to_string(),
        }
    }

    pub(crate) fn header(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidHeader(reason.into())
    }

    pub(crate) fn format(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidFormat(reason.into())
    }

    pub(crate) fn payment(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidPayment(reason.into())
    }
}
