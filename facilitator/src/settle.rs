//! Settles payments: the facilitator executes each accepted payment at most once, even if the process crashes.
//!
//! A valid payment is stored and waits in its network's [`queue`]. A payment with an approval of Permit2 enters the
//! queue once that approval is mined (`approve`). `dispatch` puts queued payments into a transaction of one of the
//! signers, and `watch` follows that transaction. The outbox stores the raw bytes before it broadcasts them. The events
//! of the mined transaction decide the outcome of each payment. [`intake`] takes requests and returns their answers.

// Money is counted here, so arithmetic must report an overflow, and each match must handle a new variant.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

mod approve;
mod budget;
mod data_gas;
mod dispatch;
mod foreign_nonce;
pub mod intake;
mod paused_signers;
pub mod price;
mod price_lookup;
pub mod queue;
mod settlement_search;
pub mod settler;
mod submission_lock;
pub mod success_rights;
mod unfunded;
mod watch;
mod withdraw;
