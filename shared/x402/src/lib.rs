//! The x402 payment protocol as values: challenges of resource servers, their offers, the EIP-3009 authorization that
//! pays an offer, its EIP-712 digest, the signature, and the payment header. Pure: no clock, disk, network, randomness
//! or keys. The caller passes a payment's nonce, time and signature.
//!
//! A payment passes through these modules:
//!
//! 1. [`header::decode`] turns the `PAYMENT-REQUIRED` text into a JSON value within bounds.
//! 2. [`required::PaymentRequired::parse`] reads that value, or the `x402_data` that an agent sent instead.
//! 3. [`requirements::choose`] picks the offer; [`requirements::Choice`] holds its terms as typed values.
//! 4. [`authorization::Authorization`] fixes the terms to sign, [`typed_data`] hashes them, and
//!    [`signature::recover`] returns the signer of a hash.
//! 5. [`payment::payment_header`] writes the `PAYMENT-SIGNATURE` or `X-PAYMENT` text from stored pieces
//!    ([`payment::Echo`]), so that a restarted wallet gives the same answer again.
//!
//! [`channel`] has the payloads and digests of payment channels, which are the scheme `batch-settlement`. [`upto`] has
//! the digest of the scheme `upto`. [`sponsoring`] reads the extensions for payers without an allowance.
//!
//! # Examples
//!
//! ```
//! use alloy_primitives::{B256, address};
//! use bursar_x402::{Authorization, Echo, PaymentRequired, TokenDomain};
//! use bursar_x402::{choose, header, payment_header, validity};
//! # use bursar_x402::{Signature65, SignatureError};
//! # fn sign(_digest: B256) -> Result<Signature65, SignatureError> {
//! #     Signature65::new(B256::with_last_byte(1), B256::with_last_byte(1), 27)
//! # }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let json = r#"{"x402Version":2,"accepts":[{"scheme":"exact","network":"eip155:8453",
//!     "amount":"10000","asset":"0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
//!     "payTo":"0x209693bc6afc0c5328ba36faf03c514ef312287c","maxTimeoutSeconds":60}]}"#;
//! let challenge = PaymentRequired::parse(&header::decode(&header::encode(json))?)?;
//! let choice = choose(&challenge.offers, |_chain| true)?;
//! let validity = validity(challenge.version, 1_767_225_600, choice.offer.max_timeout_seconds)?;
//! let terms = Authorization {
//!     from: address!("0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a"),
//!     to: choice.payee,
//!     value: choice.offer.amount,
//!     valid_after: validity.after,
//!     valid_before: validity.before,
//!     nonce: B256::repeat_byte(0xcd),
//! };
//! // `sign` signs with the payer's key.
//! let signature = sign(TokenDomain::of_stablecoin(choice.network).digest(&terms))?;
//! let echo = Echo::new(&challenge, choice.offer)?;
//! assert_eq!(echo.header_name(), "PAYMENT-SIGNATURE");
//! assert!(header::decode(&payment_header(&echo, &terms, &signature)).is_ok());
//! # Ok(())
//! # }
//! ```

// This crate reads amounts and untrusted bytes: an overflow is an error, and no input panics.
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
pub mod channel;
pub mod error;
pub mod fields;
pub mod header;
pub mod offer;
pub mod payment;
pub mod required;
pub mod requirements;
pub mod settlement;
pub mod signature;
pub mod sponsoring;
pub mod typed_data;
pub mod upto;
mod version;

pub use authorization::{Authorization, Validity, validity};
pub use error::X402Error;
pub use offer::{Extra, Offer};
pub use payment::{Echo, payment_header};
pub use required::{PaymentRequired, Version};
pub use requirements::{Choice, DomainClaim, choose};
pub use signature::{Signature65, SignatureError, recover};
pub use typed_data::TokenDomain;
