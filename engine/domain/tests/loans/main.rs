//! The lending rules by example and by random histories. Written from the specification (wallet.md, decisions.md,
//! reliability.md 3.2) and run through `decide`, `apply` and `check` alone.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers stand outside #[test]"
)]

mod asks;
mod bench;
mod cards;
mod case;
mod current;
mod exits;
mod exposure;
mod gas;
mod histories;
mod holds;
mod ledger;
mod operations;
mod outcomes;
mod plans;
#[path = "../properties/quiet.rs"]
mod quiet;
mod reservations;
mod rules;
#[expect(dead_code, reason = "each test program uses a part of the harness")]
#[path = "../support/mod.rs"]
mod support;
#[expect(dead_code, reason = "each test program uses a part of these trades")]
#[path = "../trades/asks.rs"]
mod trades;
mod venues;
mod workload;
mod write_offs;
