//! The vocabulary of Bursar: identifiers, money, time, networks, policies, codes, cards and JSON. Pure: no
//! clock, no disk, no network, no randomness.
//!
//! # Examples
//!
//! ```
//! use bursar_core::money::{Atoms, MoneyError, Round, TokenAmount, Usd};
//!
//! # fn main() -> Result<(), MoneyError> {
//! // A price of 12,500 units of a token with six decimals.
//! let price = TokenAmount { atoms: Atoms::parse("12500")?, decimals: 6 };
//! assert_eq!(price.to_string(), "0.012500");
//!
//! // An amount that counts against a limit is rounded up.
//! let cost = price.atoms.to_usd(price.decimals, Round::Up)?;
//! let limit = Usd::parse("10.00")?;
//! assert_eq!(limit.checked_sub(cost)?.to_string(), "9.9875");
//! assert_eq!(cost.checked_sub(limit), Err(MoneyError::Overflow));
//! # Ok(())
//! # }
//! ```

// This crate computes with money: an overflow is an error, and a `match` lists every variant.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod address;
pub mod amount;
pub mod auth;
pub mod canonical;
pub mod card;
pub mod change;
pub mod client;
mod code_table;
pub mod codes;
pub mod derivation;
pub mod digest;
pub mod edition;
pub mod fault;
mod hold_reason;
pub mod hosts;
pub mod ids;
pub mod json;
pub mod lane;
pub mod limits;
pub mod lock_cause;
pub mod money;
pub mod networks;
pub mod payee_label;
pub mod policy;
pub mod risk;
mod schema;
pub mod settings;
pub mod status;
pub mod stored;
pub mod text;
pub mod time;
