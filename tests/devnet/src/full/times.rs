//! Prepares full chains and measures each step; `cargo xtask devnet` prints the result.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use bursar_core::networks::{self, ChainId};

use super::addresses::CHAINS;
use super::packages::Packages;
use super::state;
use crate::error::DevnetError;
use crate::install;
use crate::node::Devnet;
use crate::surroundings::Surroundings;

/// How long each step took. Steps that were already done take next to no time.
#[derive(Debug)]
pub struct Times {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    /// Whether the step did its work, rather than finding it done.
    done: bool,
}

/// Prepares everything and measures it.
///
/// # Errors
/// A tool or package is missing, or a chain cannot be built.
pub async fn measure() -> Result<Times, DevnetError> {
    let around = Surroundings::read();
    let mut times = Times { steps: Vec::new() };
    let there = install::find_anvil().is_ok();
    let anvil = times.note("install anvil", !there, install::anvil_binary)?;
    let there = Packages::installed(&around);
    times.note("install packages", !there, || Packages::install(&around))?;
    let there = Packages::compiled(&around);
    times.note("compile", !there, || Packages::ready(&around))?;
    for chain in CHAINS {
        times.chain(&anvil, chain).await?;
    }
    Ok(times)
}

impl Times {
    fn note<T, E>(
        &mut self,
        name: &str,
        done: bool,
        step: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let made = step()?;
        self.steps.push(Step { name: name.to_owned(), took: started.elapsed(), done });
        Ok(made)
    }

    async fn chain(&mut self, anvil: &Path, chain: ChainId) -> Result<(), DevnetError> {
        let network = networks::by_chain(chain).ok_or(DevnetError::UnknownChain(chain))?;
        let there = state::is_there(anvil, network)?;
        let started = Instant::now();
        state::ready(anvil, network).await?;
        let build = Step { name: format!("build {chain}"), took: started.elapsed(), done: !there };
        let started = Instant::now();
        Devnet::start_full_at(anvil, chain).await?;
        let load = Step { name: format!("reload {chain}"), took: started.elapsed(), done: true };
        self.steps.extend([build, load]);
        Ok(())
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { name, took, done } in &self.steps {
            let note = if *done { "" } else { "  was there" };
            let (s, ms) = (took.as_secs(), took.subsec_millis());
            writeln!(f, "{name:<18}{s:>5}.{ms:03} s{note}")?;
        }
        Ok(())
    }
}
