//! The x402 payment protocol as values: what a resource server asks for, which of its offers this wallet
//! can pay, the EIP-3009 authorization that pays it, its EIP-712 digest, the signature, and the header
//! that goes back. Pure: no clock, no disk, no network, no randomness, and no keys; a payment's nonce, its
//! time and its signature arrive from outside.
//!
//! The way of a payment through these modules:
//!
//! 1. [`header::decode`] turns the `PAYMENT-REQUIRED` text into a JSON value within bounds.
//! 2. [`required::PaymentRequired::parse`] reads that value, or the `x402_data` an agent sent instead.
//! 3. [`requirements::choose`] picks the offer; [`requirements::Choice`] holds its terms as typed values.
//! 4. [`authorization::Authorization`] fixes what is signed, [`typed_data`] hashes it,
//!    [`signature::recover`] proves who signed.
//! 5. [`payment::payment_header`] writes the `PAYMENT-SIGNATURE` or `X-PAYMENT` text from stored pieces
//!    ([`payment::Echo`]), so that a wallet that was restarted gives the same answer again.

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

pub use authorization::{Authorization, Validity, validity};
pub use error::X402Error;
pub use offer::{Extra, Offer};
pub use payment::{Echo, payment_header};
pub use required::{PaymentRequired, Version};
pub use requirements::{Choice, DomainClaim, choose};
pub use signature::{Signature65, SignatureError, recover};
pub use typed_data::TokenDomain;
