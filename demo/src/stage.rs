//! The processes of the demonstration and its output to the user.

use std::io::{IsTerminal, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use bursar_core::settings::keys::Key;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Timeout for the start or the end of a process. It is long because the wallet's key derivation is deliberately
/// slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process of the demonstration. [`Actor::end`] stops it cleanly; a drop kills it.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) url: String,
    child: Child,
}

/// Returns the command that starts this program in another role.
pub(crate) fn role_command(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("the path of this program is unknown")?);
    // Remove the user's own settings, which may name other endpoints.
    for key in Key::all() {
        command.env_remove(key.variable());
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

impl Actor {
    /// Starts a role and waits until it is ready.
    pub(crate) async fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = role_command(arguments)?.spawn()?;
        let stdout = child.stdout.take().context("the program has no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(TIMEOUT, lines.next_line())
            .await
            .context("the program did not start in time")??;
        let Some(url) = line.as_deref().and_then(|line| line.strip_prefix("READY ")) else {
            bail!("{} did not start", arguments.first().unwrap_or(&"?"));
        };
        Ok(Self { url: url.to_owned(), child })
    }

    /// Closes the standard input of the process, which makes it stop, and waits for its end.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        timeout(TIMEOUT, self.child.wait()).await.context("the program did not end in time")??;
        Ok(())
    }
}

/// Prints a line to stdout.
pub(crate) fn print_line(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints the title of a numbered step.
pub(crate) fn print_step(number: u32, text: &str) -> anyhow::Result<()> {
    print_line(&format!("\n{number}. {text}"))
}

/// Waits for Enter. Without a terminal it fails and suggests `--yes`.
pub(crate) async fn wait_for_key() -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to press a key on: start with --yes");
    }
    let mut line = String::new();
    let read = BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;
    if read == 0 {
        bail!("the terminal closed")
    }
    Ok(())
}

/// Returns a new private key in hex. It never controls anything of value.
pub(crate) fn new_key() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}

/// Returns a random password. It is not shown, because the wallet is deleted with its folder.
pub(crate) fn password() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}
