//! `cargo xtask devnet`: a short name for the `bursar-devnet` program.
//!
//! It installs the pinned local chain, builds the states of full chains, reports how long each step took, and prints
//! the path of the chain's binary last.

use std::env;
use std::process::Command;

use anyhow::{Context, bail, ensure};

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let order = match words.as_slice() {
        [] => "full",
        ["--light"] => "install",
        ["--recompile"] => "recompile",
        _ => bail!("usage: cargo xtask devnet [--light | --recompile]"),
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--package",
            "bursar-devnet",
            "--bin",
            "bursar-devnet",
            "--",
            order,
        ])
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the local chain kit ended with {status}");
    Ok(())
}
