//! Prepares full chains and measures each step; `cargo xtask devnet` prints the result.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use bursar_core::networks::{self, ChainId};

use super::addresses::CHAINS;
use super::packages::Packages;
use super::state::{self, Chain};
use crate::error::DevnetError;
use crate::install;
use crate::kit_environment::KitEnvironment;
use crate::node::Devnet;

/// The duration of each step. A step that was already done takes almost no time.
#[derive(Debug)]
pub struct StepTimes {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    /// Whether the step did its work now; false if the work was already done.
    is_done_now: bool,
}

/// Prepares everything and measures it.
///
/// # Errors
/// A tool or package is missing, or a chain cannot be built.
pub async fn measure() -> Result<StepTimes, DevnetError> {
    let environment = KitEnvironment::read();
    let mut times = StepTimes { steps: Vec::new() };
    let exists = install::find_anvil().is_ok();
    let anvil = times.measure_step("install anvil", !exists, install::anvil_binary)?;
    let exists = Packages::installed(&environment);
    times.measure_step("install packages", !exists, || Packages::install(&environment))?;
    let exists = Packages::compiled(&environment);
    times.measure_step("compile", !exists, || Packages::install_and_compile(&environment))?;
    for chain in CHAINS {
        times.chain(&anvil, chain).await?;
    }
    Ok(times)
}

impl StepTimes {
    fn measure_step<T, E>(
        &mut self,
        name: &str,
        done: bool,
        step: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let result = step()?;
        self.steps.push(Step { name: name.to_owned(), took: started.elapsed(), is_done_now: done });
        Ok(result)
    }

    async fn chain(&mut self, anvil: &Path, chain: ChainId) -> Result<(), DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let recorded = Chain { network, from_block: 0 };
        let exists = state::is_recorded(anvil, recorded)?;
        let started = Instant::now();
        state::recorded_state(anvil, recorded).await?;
        let build =
            Step { name: format!("build {chain}"), took: started.elapsed(), is_done_now: !exists };
        let started = Instant::now();
        Devnet::start_full_at(anvil, chain).await?;
        let load =
            Step { name: format!("reload {chain}"), took: started.elapsed(), is_done_now: true };
        self.steps.extend([build, load]);
        Ok(())
    }
}

impl fmt::Display for StepTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { name, took, is_done_now: done } in &self.steps {
            let note = if *done { "" } else { "  was there" };
            let (s, ms) = (took.as_secs(), took.subsec_millis());
            writeln!(f, "{name:<18}{s:>5}.{ms:03} s{note}")?;
        }
        Ok(())
    }
}
