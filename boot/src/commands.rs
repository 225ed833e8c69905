//! Runs the commands of the operating system, without a terminal.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use zeroize::Zeroizing;

/// Buffer for the secret output of a command, longer than any password.
const SECRET_BYTES_MAX: usize = 8_192;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    pub(crate) exit: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// Returns the line that explains a failure: the last one, because warnings come before it.
    pub(crate) fn reason(&self) -> String {
        let lines = self.out.lines().chain(self.err.lines());
        let last = lines.map(str::trim).rfind(|line| !line.is_empty());
        last.map_or_else(|| format!("it ended with {:?}", self.exit), str::to_owned)
    }
}

/// Runs a command to its end. Returns `None` if the program is not installed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<Option<Outcome>, Fault> {
    run_with(program, arguments, None)
}

/// Runs a command, and passes `input` to its standard input.
pub(crate) fn run_with(
    program: &str,
    arguments: &[&str],
    input: Option<&[u8]>,
) -> Result<Option<Outcome>, Fault> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env("SYSTEMD_PAGER", "").env("SYSTEMD_COLORS", "0");
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error: io::Error| {
        let message = format!("The command {program} could not be run: {error}.");
        Fault::because(Code::ServiceFailed, message)
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // If the command ended early, its output explains why.
        let _closed = pipe.write_all(input);
    }
    let output = child.wait_with_output().map_err(failed)?;
    Ok(Some(Outcome {
        succeeded: output.status.success(),
        exit: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }))
}

/// Runs a command whose output is a secret; `None` if it fails.
pub(crate) fn run_secret(
    program: &str,
    arguments: &[&str],
    input: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(input).ok()?;
    // Reserves the maximum length at once: a growing buffer would leave parts of the secret in freed memory.
    let mut secret = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX));
    let most = u64::try_from(SECRET_BYTES_MAX).unwrap_or(u64::MAX);
    child.stdout.take()?.take(most).read_to_end(&mut secret).ok()?;
    child.wait().ok().filter(|status| status.success())?;
    Some(secret)
}
