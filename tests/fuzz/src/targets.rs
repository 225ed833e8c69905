//! The targets, in the order in which they run.

mod health;
mod http_engine;
mod wallet;

use crate::programs::Programs;
use crate::scene::Scene;

type Open = fn(&Programs, u64) -> Result<Box<dyn Scene>, String>;

/// A target: what is mutated, and the programs that receive it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// The number of inputs in a run without `--inputs`.
    pub(crate) inputs: u64,
    /// Starts the programs.
    pub(crate) open: Open,
}

const fn target(name: &'static str, inputs: u64, open: Open) -> Target {
    Target { name, inputs, open }
}

/// All targets. The first part of a name is the kind of input.
pub(crate) static TARGETS: &[Target] = &[
    target("http-engine", 400, http_engine::open),
];
