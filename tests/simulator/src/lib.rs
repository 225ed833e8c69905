//! Simulated worlds: deterministic tests of the wallet, one seed per world.
//!
//! Clocks, disk, chain, signer, agents and operators follow one seed, in one thread and in one order. An auditor that
//! knows only the specification judges everything that is visible from outside. The wallet is the production engine,
//! from the bytes of a request to the bytes of its response; only sockets are left out.

mod auditor_facts;
mod calls;
mod chain;
mod clock_steps;
mod contents;
mod coverage;
mod device;
mod device_entries;
mod device_faults;
mod device_steps;
mod device_trades;
mod disk;
mod draw;
mod draw_loans;
mod draw_trades;
mod evm;
mod faults;
mod image;
mod invariants;
mod lending_policy;
mod loan_book;
mod loan_checks;
mod loan_faults;
mod loan_orders;
mod loans;
mod many;
mod market_steps;
mod orders;
mod patience;
mod plan;
mod prices;
mod process;
mod process_lifecycle;
mod random;
mod record;
mod replay;
mod run;
mod shrink;
mod signer;
mod steps;
mod store;
mod tape;
mod trade_faults;
mod trades;
mod trading_policy;
mod wire;
mod world;

/// Worlds allocate and free many small objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use coverage::Coverage;
pub use faults::PlantedBug;
pub use many::run_all;
pub use plan::{Plan, Step, Swarm};
pub use record::record;
pub use run::{Failure, Outcome, run, run_with_tail};
pub use shrink::shrink;
