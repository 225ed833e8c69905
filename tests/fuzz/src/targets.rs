//! The targets, in the order in which they run.

mod answers;
mod args;
mod control;
mod health;
mod http_engine;
mod http_facilitator;
mod http_proxy;
mod settings;
mod stores;
mod wallet;

use crate::programs::Programs;
use crate::scene::Scene;

type OpenScene = fn(&Programs, u64) -> Result<Box<dyn Scene>, String>;

/// A target: a kind of mutated input, and the programs that receive it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// The number of inputs in a run without `--inputs`.
    pub(crate) inputs: u64,
    /// Starts the programs.
    pub(crate) open: OpenScene,
}

const fn target(name: &'static str, inputs: u64, open: OpenScene) -> Target {
    Target { name, inputs, open }
}

/// All targets. The first part of a name is the kind of input.
pub(crate) static TARGETS: &[Target] = &[
    target("http-engine", 400, http_engine::open),
    target("http-facilitator", 400, http_facilitator::open),
    target("http-proxy", 400, http_proxy::open),
    target("answers-engine", 80, answers::open_engine),
    target("answers-facilitator", 80, answers::open_facilitator),
    target("answers-proxy", 120, answers::open_proxy),
    target("control-proven", 200, control::open_proven),
    target("control-unproven", 100, control::open_unproven),
    target("args-bursar", 60, args::open_bursar),
    target("args-facilitator", 40, args::open_facilitator),
    target("args-proxy", 40, args::open_proxy),
    target("settings-bursar", 40, settings::open_bursar),
    target("settings-facilitator", 30, settings::open_facilitator),
    target("settings-proxy", 30, settings::open_proxy),
    target("stores-engine", 25, stores::open_engine),
    target("stores-facilitator", 20, stores::open_facilitator),
    target("stores-proxy", 25, stores::open_proxy),
];
