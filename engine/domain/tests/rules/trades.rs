//! The trade rules by example and by random histories. The tests follow the specification (wallet.md, decisions.md)
//! and the invariants of docs/register.md. They use only `decide`, `apply` and `check`.

pub(crate) mod asks;
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
mod repeats;
mod rules;
mod stops;
mod unattended;
mod unlocks;
mod workload;
