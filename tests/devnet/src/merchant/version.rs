//! The two versions of x402: how each calls its headers and the network.

use bursar_core::networks::Network;

/// The version in which something is sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Asks in the body.
    V1,
    /// Asks in a header.
    V2,
}

impl Version {
    pub(super) fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The header that carries a payment.
    pub(super) fn payment_header(self) -> &'static str {
        match self {
            Self::V1 => "x-payment",
            Self::V2 => "payment-signature",
        }
    }

    /// The header that says what became of it.
    pub(super) fn receipt_header(self) -> &'static str {
        match self {
            Self::V1 => "x-payment-response",
            Self::V2 => "payment-response",
        }
    }

    /// What offers, payments and receipts call the network: a short name, or CAIP-2.
    pub(super) fn name_of(self, network: &Network) -> String {
        match self {
            Self::V1 => network.v1_names.first().copied().unwrap_or_default().to_owned(),
            Self::V2 => network.caip2(),
        }
    }
}
