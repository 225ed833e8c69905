//! How a command is run, and what it reads and writes.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bursar_core::wire::Asking;

use super::interrupt::{Interrupt, ctrl_c};
use super::terminal::{ControllingTerminal, Terminal};
use crate::secret_source::{SecretSource, Stdin};

/// How a command is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// One JSON object on standard output instead of text.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
    /// The cause of a failure too, where this program knows it.
    pub verbose: bool,
    /// How much the engine may ask.
    pub asking: Asking,
    /// Whether a secret without a source may be asked for on the terminal.
    pub may_ask: bool,
    pub password: SecretSource,
    pub seed: SecretSource,
    /// Show a seed phrase wherever the result goes.
    pub reveal: bool,
    /// The wallet's own folder: nothing is exported into it.
    pub data: Option<PathBuf>,
    /// Whether the result goes to a terminal.
    pub out_is_terminal: bool,
    /// Whether the engine was there before this command and stays after it.
    pub engine_running: bool,
}

impl Default for Options {
    /// Nobody is there and nothing is given.
    fn default() -> Self {
        Self {
            json: false,
            quiet: false,
            verbose: false,
            asking: Asking::Silent,
            may_ask: false,
            password: SecretSource::Terminal,
            seed: SecretSource::Terminal,
            reveal: false,
            data: None,
            out_is_terminal: false,
            engine_running: false,
        }
    }
}

impl Options {
    pub(super) fn may_show_phrase(&self) -> bool {
        self.reveal || (self.out_is_terminal && !self.json)
    }
}

/// Whether standard output is a terminal.
pub fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// What a command reads and writes.
pub struct Streams<'a> {
    pub out: &'a mut (dyn Write + Send),
    pub err: &'a mut (dyn Write + Send),
    pub stdin: Box<dyn Read + Send>,
    pub terminal: Arc<dyn Terminal>,
    pub interrupt: Interrupt,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl<'a> Streams<'a> {
    /// Those of this process. Must be called inside the runtime, for Ctrl-C.
    pub fn of_process(out: &'a mut io::Stdout, err: &'a mut io::Stderr) -> Self {
        let terminal = Arc::new(ControllingTerminal::default());
        Self { out, err, stdin: Box::new(Stdin), terminal, interrupt: ctrl_c() }
    }
}
