//! A chain that executes signed bytes: tokens, allowances, Permit2, pools, routers and quoters, vaults and markets.
//!
//! It is not a real EVM. Each contract is a few lines of Rust that decode the call data with their own ABI, so that an
//! error in the wallet's encoder is not hidden by the same error in the decoder.

#[expect(clippy::too_many_arguments, reason = "an event of the pools has eight fields")]
mod abi;
mod adapters;
mod blue;
mod contracts;
pub(crate) mod forge;
mod ledger;
mod loan_moves;
pub(crate) mod loan_notes;
mod loan_terms;
mod machine;
mod math;
mod named;
pub(crate) mod notes;
mod outsiders;
mod permit2;
mod raw;
pub(crate) mod rehearsal;
mod routers;
mod setting;
mod state;
mod tokens;
mod vault_calls;
mod vaults;
pub(crate) mod venues;
mod views;

pub(crate) use contracts::{Contracts, HookKind, hook};
pub(crate) use ledger::{Included, Ledger};
pub(crate) use loan_moves::{loan_move, prices};
pub(crate) use loan_terms::approval;
pub(crate) use named::{OTHERS, PoolName, pools};
pub(crate) use outsiders::VenueChange;
pub(crate) use raw::{SwapTerms, Transaction, decode, swap_terms};
pub(crate) use setting::{ETH_DOLLARS, feed_answer, initial, leave_allowances};
pub(crate) use state::State;
pub(crate) use venues::VenueName;
