//! The payment rules by example, each test named by its guarantee. Written from the specification (wallet.md,
//! decisions.md) and the invariants of docs/register.md, and run through `decide` and `apply` alone.

mod approvals;
mod asks;
mod device_histories;
mod devices;
mod domains;
mod endings;
mod foreign;
mod loosening;
mod repeats;
mod restores;
mod sends;
mod settings;
mod settlements;
mod standstill;
mod unattended;
