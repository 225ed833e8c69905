//! The threats of the specification, each tested the way its attacker would try it.
//!
//! Most tests call the HTTP server. Tests about the disk, memory, another user or raw bytes start a separate
//! process. Each test name contains the number of its threat; [`listed`] fails if a threat has no test, and
//! [`register`] if docs/register.md differs.

mod amounts;
mod audits;
mod authority;
mod bound_cases;
mod bounds;
mod canonical;
mod chains;
mod clocks;
mod contacts;
mod credentials;
mod domains;
mod forgetting;
mod ids;
mod limits;
mod listed;
mod memory;
mod node;
mod padding;
mod proofs;
mod register;
mod replay;
mod secrets;
mod settlements;
mod stage;
mod structure;
mod swaps;
mod tokens;
mod users;
mod wire;
