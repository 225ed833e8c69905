//! Payments from the request to their final block, over real files and desks, on a chain in memory. Time jumps
//! while everybody waits, so that minutes and days are reached.
#![expect(clippy::unwrap_used, reason = "a test: what goes wrong fails it")]
#![expect(clippy::expect_used, clippy::panic, clippy::arithmetic_side_effects, reason = "a test")]

mod bounds;
mod ends;
mod senders;
mod stage;
mod verdicts;
mod withdrawals;
mod world;
