//! Settles payments: each accepted payment is carried out at most once, even if the process crashes in between.
//!
//! A valid payment is stored and waits in its network's [`queue`], which a payment with an approval of Permit2 enters
//! once that approval is mined (`approve`). `dispatch` puts it into a transaction of one of
//! the signers, and `watch` follows that transaction. The outbox stores the raw bytes before they are broadcast. The
//! verdict on each payment is read from the events of the mined transaction. [`intake`] takes requests and returns their
//! answers.

// Money is counted here: an overflow is an error, and a new outcome must be handled everywhere.
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
