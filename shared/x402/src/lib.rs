//! The x402 payment protocol as values: challenges of resource servers, their offers, the EIP-3009 authorization that
//! pays an offer, its EIP-712 digest, the signature, and the payment header. Pure: no clock, disk, network, randomness
//! or keys. A payment's nonce, time and signature arrive from outside.
//!
//! A payment passes through these modules:
//!
//! 1. [`header::decode`] turns the `PAYMENT-REQUIRED` text into a JSON value within bounds.
//! 2. [`required::PaymentRequired::parse`] reads that value, or the `x402_data` an agent sent instead.
//! 3. [`requirements::choose`] picks the offer; [`requirements::Choice`] holds its terms as typed values.
//! 4. [`authorization::Authorization`] fixes the terms to sign, [`typed_data`] hashes them, and
//!    [`signature::recover`] returns the signer of a hash.
//! 5. [`payment::payment_header`] writes the `PAYMENT-SIGNATURE` or `X-PAYMENT` text from stored pieces
//!    ([`payment::Echo`]), so that a restarted wallet gives the same answer again.

// Amounts and foreign bytes are read here: an overflow is an error, and no input panics.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod authorization;
pub mod bounds;
pub mod error;
pub mod fields;
pub mod header;
pub mod offer;
pub mod payment;
pub mod required;
pub mod requirements;
pub mod settlement;
pub mod signature;
pub mod typed_data;
mod version;

pub use authorization::{Authorization, Validity, validity};
pub use error::X402Error;
pub use offer::{Extra, Offer};
pub use payment::{Echo, payment_header};
pub use required::{PaymentRequired, Version};
pub use requirements::{Choice, DomainClaim, choose};
pub use signature::{Signature65, SignatureError, recover};
pub use typed_data::TokenDomain;
