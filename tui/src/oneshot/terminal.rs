//! Asks on the controlling terminal, with or without echo. It does not use standard input, so that a command in a
//! pipeline can still ask. The input is never stored.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::sync::Mutex;

use bursar_core::limits::PASSWORD_BYTES_MAX;
use zeroize::Zeroizing;

#[cfg(unix)]
const PATHS: (&str, &str) = ("/dev/tty", "/dev/tty");
#[cfg(not(unix))]
const PATHS: (&str, &str) = ("CONIN$", "CONOUT$");

/// A terminal on which a person can be asked.
///
/// All calls block.
pub trait Terminal: Debug + Send + Sync {
    /// Returns whether there is a terminal to ask on.
    fn is_present(&self) -> bool;

    /// Asks for a secret and does not echo the input.
    ///
    /// # Errors
    /// Returns the errors of the terminal, and `UnexpectedEof` if its input ends.
    fn ask_secret(&self, question: &str) -> io::Result<Zeroizing<String>>;

    /// Asks for a line. Returns an empty line if the input ends.
    ///
    /// # Errors
    /// Returns the errors of the terminal.
    fn ask_line(&self, question: &str) -> io::Result<String>;

    /// Discards what was typed and not read yet.
    fn discard_typed(&self) {}

    /// Restores the terminal after a question was abandoned. Another thread may still block in that question.
    fn restore(&self);
}

/// The terminal that this process was started from.
#[derive(Debug, Default)]
pub struct ControllingTerminal {
    /// The open question. It is behind a mutex, because the asking thread blocks in a read and cannot receive messages.
    open_question: Mutex<Option<Question>>,
}

/// The terminal settings to restore when a question is abandoned.
#[derive(Debug)]
struct Question {
    /// The settings of the terminal before the echo was switched off.
    settings: Option<Settings>,
}

impl Terminal for ControllingTerminal {
    fn is_present(&self) -> bool {
        open().is_ok()
    }

    fn ask_secret(&self, question: &str) -> io::Result<Zeroizing<String>> {
        let (input, mut output) = open()?;
        self.remember(Some(Question { settings: Settings::of(&input) }));
        let typed = rpassword::prompt_password(question).map(Zeroizing::new);
        self.remember(None);
        if matches!(&typed, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof) {
            writeln!(output)?;
        }
        typed
    }

    fn ask_line(&self, question: &str) -> io::Result<String> {
        let (input, mut output) = open()?;
        write!(output, "{question}")?;
        output.flush()?;
        // Input that was typed before the question appeared must not answer it.
        discard_input(&input);
        let mut line = String::new();
        let limit = u64::try_from(PASSWORD_BYTES_MAX).unwrap_or(u64::MAX);
        self.remember(Some(Question { settings: None }));
        let read = BufReader::new(io::Read::take(input, limit)).read_line(&mut line);
        self.remember(None);
        // Ctrl-D leaves the cursor after the question.
        if read? == 0 {
            writeln!(output)?;
        }
        Ok(line.trim().to_owned())
    }

    fn discard_typed(&self) {
        if let Ok((input, _output)) = open() {
            discard_input(&input);
        }
    }

    fn restore(&self) {
        let abandoned = self.open_question.lock().map_or(None, |mut open| open.take());
        if let (Some(question), Ok((_, mut output))) = (abandoned, open()) {
            if let Some(settings) = question.settings {
                settings.restore(&output);
            }
            // The next output begins on a new line.
            let _unseen = writeln!(output);
        }
    }
}

impl ControllingTerminal {
    fn remember(&self, question: Option<Question>) {
        if let Ok(mut open) = self.open_question.lock() {
            *open = question;
        }
    }
}

fn open() -> io::Result<(File, File)> {
    let (input, output) = PATHS;
    Ok((OpenOptions::new().read(true).open(input)?, OpenOptions::new().write(true).open(output)?))
}

/// The settings of a terminal.
#[cfg(unix)]
#[derive(Debug)]
struct Settings(rustix::termios::Termios);

#[cfg(unix)]
impl Settings {
    fn of(terminal: &File) -> Option<Self> {
        rustix::termios::tcgetattr(terminal).ok().map(Settings)
    }

    fn restore(&self, terminal: &File) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // If this fails, there is no other way to restore the terminal, and the program is about to end.
        let _best_effort = tcsetattr(terminal, OptionalActions::Now, &self.0);
    }
}

#[cfg(unix)]
fn discard_input(input: &File) {
    use rustix::termios::{QueueSelector, tcflush};
    let _best_effort = tcflush(input, QueueSelector::IFlush);
}

/// There are no settings to restore: other platforms restore the console when the program ends.
#[cfg(not(unix))]
#[derive(Debug)]
struct Settings;

#[cfg(not(unix))]
impl Settings {
    fn of(_terminal: &File) -> Option<Self> {
        None
    }

    fn restore(&self, _terminal: &File) {}
}

#[cfg(not(unix))]
fn discard_input(_input: &File) {}
