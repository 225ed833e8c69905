//! The transactions of a trade: swaps, wrapping, approvals and their removal.
//!
//! The encoders do not subtract slippage: [`Terms::min_out`] already is the result of [`crate::price::floor_out`].

mod approval;
mod call;
mod v3;
mod v4;
mod wrap;

pub use approval::{approve, permit2_approve, permit2_lockdown};
pub use call::{Call, SwapFault, Terms};
pub use v3::{NativeSide, V3Swap, v3_exact_input};
pub use v4::{V4Swap, v4_exact_input};
pub use wrap::{unwrap, wrap};

#[cfg(test)]
mod tests;
