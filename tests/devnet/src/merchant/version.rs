//! The two versions of x402 and their names for headers and networks.

use bursar_core::networks::Network;

/// The x402 version of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The offer is in the body.
    V1,
    /// The offer is in a header.
    V2,
}

impl Version {
    pub(super) fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// Returns the name of the payment header.
    pub(super) fn payment_header(self) -> &'static str {
        match self {
            Self::V1 => "x-payment",
            Self::V2 => "payment-signature",
        }
    }

    /// Returns the name of the receipt header.
    pub(super) fn receipt_header(self) -> &'static str {
        match self {
            Self::V1 => "x-payment-response",
            Self::V2 => "payment-response",
        }
    }

    /// Returns the name of the network in offers, payments and receipts: a short name, or CAIP-2.
    pub(super) fn name_of(self, network: &Network) -> String {
        match self {
            Self::V1 => network.v1_names.first().copied().unwrap_or_default().to_owned(),
            Self::V2 => network.caip2(),
        }
    }
}
