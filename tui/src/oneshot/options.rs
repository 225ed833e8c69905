//! The options of a command, and its input and output.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bursar_control::json_version::JsonVersion;
use bursar_control::wire::Asking;
use bursar_core::edition::EditionName;

use super::interrupt::{Interrupt, ctrl_c};
use super::layout::LocalTime;
use super::terminal::{ControllingTerminal, Terminal};
use crate::secret_source::{SecretSource, Stdin};

/// The options of a command.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the program, for the commands that texts name.
    pub program: &'static str,
    /// Print one JSON object on standard output instead of text, in this version.
    pub json: Option<JsonVersion>,
    /// Print no progress, and no subject of a question that `--yes` answers or that cannot be asked.
    pub quiet: bool,
    /// Also print the cause of a failure, if this program knows it.
    ///
    /// It has no effect with `json`.
    pub verbose: bool,
    /// Whether the engine may ask questions, and whether the operator has agreed in advance.
    pub asking: Asking,
    /// Whether this program may ask on the terminal for a secret that has no other source.
    pub may_ask: bool,
    /// The source of the password.
    pub password: SecretSource,
    /// The source of a seed phrase to import.
    pub seed: SecretSource,
    /// Show seed phrases and private keys even if the result does not go to a terminal.
    pub reveal: bool,
    /// Print texts with colours.
    pub color: bool,
    /// Show the cards of all waiting requests, however many there are.
    pub shows_cards: bool,
    /// Draw with ASCII only.
    pub ascii: bool,
    /// The columns of the terminal that shows the result; `None` if it goes elsewhere.
    pub width: Option<u16>,
    /// Shows times in the zone of a person who reads the result on a terminal; `None` for UTC.
    pub local_time: Option<LocalTime>,
    /// The data folder, into which an export is refused.
    pub data: Option<PathBuf>,
    /// Whether the result goes to a terminal.
    pub out_is_terminal: bool,
    /// Whether the engine ran before this command and keeps running after it.
    pub engine_running: bool,
}

impl Default for Options {
    /// Returns the options of an unattended command, which may not ask and has no source of secrets.
    fn default() -> Self {
        Self {
            program: EditionName::default().program(),
            json: None,
            quiet: false,
            verbose: false,
            asking: Asking::Silent,
            may_ask: false,
            password: SecretSource::Terminal,
            seed: SecretSource::Terminal,
            reveal: false,
            color: false,
            shows_cards: false,
            ascii: false,
            width: None,
            local_time: None,
            data: None,
            out_is_terminal: false,
            engine_running: false,
        }
    }
}

impl Options {
    pub(super) fn may_show_phrase(&self) -> bool {
        self.reveal || (self.out_is_terminal && self.json.is_none())
    }
}

/// Returns whether standard output is a terminal.
pub fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns the columns of the terminal that standard output goes to, if it is one.
pub fn out_width() -> Option<u16> {
    let columns = crossterm::terminal::size().ok().map(|(columns, _rows)| columns);
    columns.filter(|columns| out_is_terminal() && *columns >= 20)
}

/// The input and output of a command.
pub struct Streams<'a> {
    /// Receives the result.
    pub out: &'a mut (dyn Write + Send),
    /// Receives progress, warnings and failures.
    ///
    /// With `json`, the envelope in `out` contains warnings and failures.
    pub err: &'a mut (dyn Write + Send),
    /// Standard input, a possible source of secrets.
    pub stdin: Box<dyn Read + Send>,
    /// The terminal on which a person can be asked.
    pub terminal: Arc<dyn Terminal>,
    /// Ends the command early.
    pub interrupt: Interrupt,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl<'a> Streams<'a> {
    /// Returns the streams of this process.
    ///
    /// It must be called inside the runtime, for Ctrl-C.
    pub fn of_process(out: &'a mut io::Stdout, err: &'a mut io::Stderr) -> Self {
        let terminal = Arc::new(ControllingTerminal::default());
        Self { out, err, stdin: Box::new(Stdin), terminal, interrupt: ctrl_c() }
    }
}
