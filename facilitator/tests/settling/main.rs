//! Payments from the request to their final block, over real files and outboxes, on an in-memory chain.
//!
//! While all tasks wait, time jumps forward. So tests can cover minutes and days.
#![expect(clippy::unwrap_used, reason = "a test: what goes wrong fails it")]
#![expect(clippy::expect_used, clippy::panic, clippy::arithmetic_side_effects, reason = "a test")]

mod approvals;
mod bad_nodes;
mod bounds;
mod contracts;
mod ends;
mod foreign_nonces;
mod log;
mod pending;
mod senders;
mod stage;
mod verdicts;
mod withdrawals;
mod world;
