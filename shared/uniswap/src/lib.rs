//! Uniswap v3 and v4 as values: pools, call data of reads, quotes and swaps, their answers, the cost of a trade and its
//! result in a receipt. Pure: no clock, disk, network, randomness or keys.
//!
//! A trade passes through these modules:
//!
//! 1. [`pool`] computes the keys of the pools, and [`route`] joins them into a path.
//! 2. [`read`] reads their state, and [`quote`] asks the quoter for the path's output.
//! 3. [`price`] computes the cost of that quote, and the minimum output below which the swap must revert.
//! 4. [`permit`] computes the Permit2 digest to sign, and [`swap`] encodes the transaction.
//! 5. [`decode`] shows the operator what the call data does.
//! 6. [`fill`] reads the amounts of the swap from the receipt; [`errors`] turns a revert into a sentence.
//!
//! # Examples
//!
//! ```
//! use alloy_primitives::{U256, address};
//! use bursar_core::money::Bps;
//! use bursar_core::networks::by_id_name_or_title;
//! use bursar_uniswap::{Currency, PoolKey, Terms, V4Path, V4Swap, price, quote, swap};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let network = by_id_name_or_title("robinhood").ok_or("no such network")?;
//! let exchange = network.exchange.ok_or("no exchange")?;
//! let dollars = Currency::Token(network.stablecoin.address);
//!
//! // One whole native coin for dollars, through the pool with a fee of 0.05 %.
//! let pool = PoolKey::new(Currency::Native, dollars, 500, 10, Default::default())?;
//! let path = V4Path::new(Currency::Native, &[pool])?;
//! let amount_in = U256::from(1_000_000_000_000_000_000_u64);
//! let _data_for_the_quoter = quote::v4_exact_input_call(&path, amount_in)?;
//!
//! // The quoter's answer was 3,000 dollars; accept at most 0.5 % less.
//! let min_out = price::floor_out(U256::from(3_000_000_000_u64), Bps(50)).ok_or("slippage")?;
//! assert_eq!(min_out, U256::from(2_985_000_000_u64));
//!
//! let terms = Terms { amount_in, min_out, deadline: 1_767_225_660 };
//! let call = swap::v4_exact_input(exchange, &V4Swap {
//!     path: &path, terms, hop_prices: &[], permit: None,
//! })?;
//! assert_eq!((call.to, call.value), (exchange.v4.router, amount_in));
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
pub mod currency;
pub mod decode;
pub mod errors;
pub mod fill;
pub mod hooks;
pub mod permit;
pub mod pool;
pub mod pool_state;
pub mod price;
pub mod quote;
pub mod read;
pub mod route;
pub mod swap;
pub mod tick;

pub use currency::Currency;
pub use decode::Decoded;
pub use fill::{Flow, Log};
pub use hooks::HookPermissions;
pub use permit::{Permit, SignedPermit};
pub use pool::{PoolFault, PoolKey, V3Pool};
pub use pool_state::PoolState;
pub use price::{Impact, TradeMeasurement};
pub use quote::{Quote, QuoteFault};
pub use read::ReadFault;
pub use route::{RouteFault, V3Path, V4Path};
pub use swap::{Call, NativeSide, SwapFault, Terms, V3Swap, V4Swap};
