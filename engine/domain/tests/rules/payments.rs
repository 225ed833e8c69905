//! The payment rules by example; the name of each test states its guarantee. The tests follow the specification
//! (wallet.md, decisions.md) and the invariants of docs/register.md. They use only `decide` and `apply`.

mod approvals;
mod asks;
mod device_histories;
mod devices;
mod domains;
mod endings;
mod foreign;
mod loosening;
mod mandates;
mod payees;
mod repeats;
mod restores;
mod sends;
mod settings;
mod settlements;
mod standstill;
mod unattended;
