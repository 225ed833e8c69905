//! The lending rules by example and by random histories. The tests follow the specification (wallet.md, decisions.md)
//! and the invariants of docs/register.md. They use only `decide`, `apply` and `check`.

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
mod reservations;
mod rules;
mod venues;
mod workload;
mod write_offs;
