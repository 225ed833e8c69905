//! `cargo xtask devnet`: a short name for the `bursar-devnet` program.
//!
//! Without options it installs the pinned local chain, builds the states of full chains, and prints how long each
//! step took. `--light` only installs the chain; `--recompile` compiles the contracts of the tests. The last line of
//! the output is the path of the chain's binary, or of the folder with the compiled contracts.

use anyhow::{Context, bail, ensure};

use crate::cargo;

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let order = match words.as_slice() {
        [] => "full",
        ["--light"] => "install",
        ["--recompile"] => "recompile",
        _ => bail!("usage: cargo xtask devnet [--light | --recompile]"),
    };
    let run =
        ["run", "--quiet", "--package", "bursar-devnet", "--bin", "bursar-devnet", "--", order];
    let status = cargo(&run).status().context("cannot run cargo")?;
    ensure!(status.success(), "bursar-devnet ended with {status}");
    Ok(())
}
