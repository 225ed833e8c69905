//! The book of payments over a real file.
#![expect(clippy::unwrap_used, reason = "a test: what goes wrong fails it")]

mod conformance;
mod ledger;
mod payments;
