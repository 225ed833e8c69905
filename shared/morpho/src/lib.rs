//! Morpho Blue and its vaults as values: interest, shares, withdrawable amounts, call data of reads and writes, their
//! answers and events, and whether a venue is trusted. Pure: no clock, disk, network, randomness or keys.
//!
//! A supply passes through these modules:
//!
//! 1. [`events`] reads which vaults the factories created; [`views`] reads the present state of these vaults.
//! 2. [`trust`] judges those readings; [`caps`] computes the ids of the caps that endorse a market.
//! 3. [`market`] and [`vault`] compute what a position is worth and what can be withdrawn; [`gates`] and [`worth`]
//!    detect a deposit that could not be withdrawn, or not in full.
//!    [`forced`] plans an exit that is possible only with forced deallocations.
//! 4. [`calls`] encodes the transaction, [`decode`] shows what its call data does.
//! 5. [`fill`] reads what moved from the [`events`] of the receipt; [`errors`] turns a revert into a sentence.
//!
//! # Examples
//!
//! ```
//! use alloy_primitives::U256;
//! use bursar_morpho::{BorrowRate, Market};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A market of a token with 6 decimals: a million lent to it, a tenth of it borrowed.
//! let read = Market {
//!     total_supply_assets: 1_000_000_000_000,
//!     total_supply_shares: 1_000_000_000_000_000_000,
//!     total_borrow_assets: 100_000_000_000,
//!     total_borrow_shares: 100_000_000_000_000_000,
//!     last_update: 1_767_225_600,
//!     fee_e18: 0,
//! };
//!
//! // A day later at about 5 % a year.
//! let rate = BorrowRate::PerSecond(U256::from(1_585_489_599_u64));
//! let market = read.accrue(rate, 1_767_225_600 + 86_400)?;
//! let shares = U256::from(1_000_000_000_000_000_u64);
//! assert_eq!(market.assets_floor(shares), Some(U256::from(1_000_013_699_u64)));
//! assert_eq!(market.liquidity(), U256::from(900_000_000_000_u64));
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

pub mod abi;
pub mod calls;
pub mod caps;
pub mod decode;
pub mod errors;
pub mod events;
pub mod fill;
pub mod forced;
pub mod gates;
pub mod market;
pub mod share_price;
pub mod trust;
pub mod vault;
pub mod venue;
pub mod views;
pub mod worth;

pub use calls::{CallFault, ForcedPart, LoanAmount};
pub use decode::Decoded;
pub use errors::RevertReason;
pub use fill::{Log, MovedAmounts};
pub use forced::{ForcedDeallocation, ForcedPlan, ForcedSource, NoForcedPlan, VaultFunds};
pub use gates::{Gate, GateKind, Gates};
pub use market::{AccrualFault, AccruedMarket, BorrowRate, Market, MarketParams};
pub use share_price::SharePrice;
pub use trust::{MarketReading, Trust, TrustList, UntrustedReason, VaultReading};
pub use vault::LiquiditySource;
pub use venue::{InvalidVenueId, VenueId};
