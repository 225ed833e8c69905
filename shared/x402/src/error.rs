//! The reasons why a challenge cannot be paid. The comment of each variant names the code that the agent server
//! returns for it. `bursar-core` defines the codes.

use std::borrow::Cow;

/// The reason why a challenge or its chosen offer is refused.
///
/// The texts can be shown to the agent. They never quote the challenge, which may be long or hostile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum X402Error {
    /// The text is not base64 of JSON, or exceeds a bound: `INVALID_PAYMENT_REQUIRED`.
    #[error("payment_required cannot be read: {0}")]
    InvalidHeader(Cow<'static, str>),
    /// The JSON is not a payment challenge that this wallet supports: `INVALID_X402_FORMAT`.
    #[error("the payment challenge is not valid x402: {0}")]
    InvalidFormat(Cow<'static, str>),
    /// The asset or the payee of the chosen offer cannot be paid: `INVALID_PAYMENT_DATA`.
    #[error("the payment offer cannot be paid: {0}")]
    InvalidPayment(Cow<'static, str>),
    /// No offer has the scheme `exact`: `UNSUPPORTED_SCHEME`. The challenge itself is well formed.
    #[error("no offer has the scheme exact, the only one that this wallet supports")]
    NoExactOffer,
    /// Offers have the scheme `exact`, but none is on a network of the table: `UNKNOWN_NETWORK`.
    #[error("no offer is on a network that this wallet knows")]
    NoKnownNetwork,
}

impl X402Error {
    /// Returns the reason without its prefix, for errors in data other than a challenge.
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
