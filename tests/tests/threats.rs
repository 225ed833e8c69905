//! The threats of the specification, each tested the way its attacker would try it. Most tests call the HTTP server;
//! where the disk, memory, another user or raw bytes matter, they start a separate process. Each test name carries the
//! number of its threat; [`listed`] fails when a threat has no test.

#[path = "threats/amounts.rs"]
mod amounts;
#[path = "threats/audits.rs"]
mod audits;
#[path = "threats/authority.rs"]
mod authority;
#[path = "threats/bound_cases.rs"]
mod bound_cases;
#[path = "threats/bounds.rs"]
mod bounds;
#[path = "threats/canonical.rs"]
mod canonical;
#[path = "threats/chains.rs"]
mod chains;
#[path = "threats/clocks.rs"]
mod clocks;
#[path = "threats/contacts.rs"]
mod contacts;
#[path = "threats/credentials.rs"]
mod credentials;
#[path = "threats/domains.rs"]
mod domains;
#[path = "threats/forgetting.rs"]
mod forgetting;
#[path = "threats/ids.rs"]
mod ids;
#[path = "threats/limits.rs"]
mod limits;
#[path = "threats/listed.rs"]
mod listed;
#[path = "threats/memory.rs"]
mod memory;
#[path = "threats/node.rs"]
mod node;
#[path = "threats/padding.rs"]
mod padding;
#[path = "threats/proofs.rs"]
mod proofs;
#[path = "threats/replay.rs"]
mod replay;
#[path = "threats/secrets.rs"]
mod secrets;
#[path = "threats/settlements.rs"]
mod settlements;
#[path = "threats/stage.rs"]
mod stage;
#[path = "threats/structure.rs"]
mod structure;
#[path = "threats/swaps.rs"]
mod swaps;
#[path = "threats/tokens.rs"]
mod tokens;
#[path = "threats/users.rs"]
mod users;
#[path = "threats/wire.rs"]
mod wire;
