//! `cargo xtask pictures`: draws the pictures of the console in `docs/pictures`.
//!
//! A test of `bursar-tui` draws them. Without `BURSAR_BLESS` it compares them with the files.

use std::process::Stdio;

use anyhow::{Context, bail, ensure};

use crate::cargo;

/// The test that draws the pictures.
const TEST: &str = "console::tests::pictures::pictures_show_the_screens_as_they_are_drawn_now";

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    if !arguments.is_empty() {
        bail!("usage: cargo xtask pictures");
    }
    let mut test = cargo(&["test", "--quiet", "--locked", "--package", "bursar-tui", "--lib"]);
    test.args(["--", "--exact", TEST]).env("BURSAR_BLESS", "1").stderr(Stdio::inherit());
    let output = test.output().context("cannot run cargo")?;
    let shown = String::from_utf8_lossy(&output.stdout);
    // Cargo also succeeds if there is no test of this name.
    ensure!(
        output.status.success() && shown.contains(" 1 passed;"),
        "the pictures were not drawn: {}\n{shown}",
        output.status
    );
    eprintln!("pictures: written to docs/pictures");
    Ok(())
}
