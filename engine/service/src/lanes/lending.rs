//! Lending: which venues can be trusted with a stablecoin, the positions of an address in them, and the plans of loans.
//!
//! The rules are in `bursar-domain`, and the call data in `bursar-morpho`. This module reads the chain: every figure of
//! one network is from the same block. The background [`scan`] finds venues that are not in our table.

mod allowances;
mod forced_effects;
mod forced_exit;
mod forced_read;
mod foreign;
mod hints;
mod input;
mod known;
mod lane;
mod list_venues;
mod listing;
mod markets;
mod measure;
mod measured;
mod network_read;
mod operator;
mod own_venues;
mod position_read;
mod positions;
mod propose;
mod rehearse;
pub mod scan;
mod steps;
mod survey;
mod vault_list;
mod vault_read;
mod venue_read;

pub use input::{LoanInput, POSITION_FIELDS, network_of};
pub use known::KnownVenues;
pub use lane::Lending;
pub use listing::{ListedMarket, Listing};
pub use measured::Measured;
pub use operator::{ForcedCost, OwnWithdrawal, WithdrawalOrder};
pub use own_venues::OwnVenue;
pub use positions::{OwnerPositions, Position};
pub use propose::Proposal;
pub(super) use steps::approved_token_and_spender;
pub use survey::Survey;
pub use vault_read::VaultFacts;
