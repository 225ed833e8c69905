//! A wallet in a world of its own: clocks, disk, chain, signer, agents and operators move by one seed, in one
//! thread and in one order, and an auditor who knows only the specification judges what he sees. The wallet is the
//! production engine, from the bytes of a request to the bytes of its answer; only sockets are left out.

mod calls;
mod chain;
mod coverage;
mod disk;
mod draw;
mod faults;
mod image;
mod life;
mod lives;
mod many;
mod orders;
mod plan;
mod random;
mod run;
mod shrink;
mod signer;
mod steps;
mod store;
mod tape;
mod weather;
mod wire;
mod world;

/// Worlds make and drop small things all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use coverage::Coverage;
pub use faults::Plant;
pub use many::run_all;
pub use plan::{Plan, Step, Swarm};
pub use run::{Failure, Outcome, run, run_telling};
pub use shrink::shrink;
