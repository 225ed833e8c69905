//! The trade rules by example and by random histories. Written from the specification (wallet.md, decisions.md,
//! reliability.md 3.2) and run through `decide`, `apply` and `check` alone.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers stand outside #[test]"
)]

mod asks;
mod bench;
mod case;
mod days;
mod deadlines;
mod devices;
mod gas;
mod histories;
mod ledger;
mod leftovers;
mod lines;
mod operators;
mod outcomes;
mod permits;
mod plans;
#[path = "../properties/quiet.rs"]
mod quiet;
mod repeats;
mod rules;
mod stops;
#[expect(dead_code, reason = "each test program uses a part of the harness")]
#[path = "../support/mod.rs"]
mod support;
mod unattended;
mod unlocks;
mod workload;
