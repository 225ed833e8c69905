//! Answers what the engine asks in the middle of a command: from a source that the operator named, else
//! from the terminal, else not at all. Never guesses a yes.

mod secret;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::wire::{Asking, Prompt};
use zeroize::Zeroizing;

use super::interrupt::Interrupt;
use super::report::Failure;
use super::terminal::Terminal;
use super::{Options, sheet};
use crate::link::Secret;

/// How long an abandoned question may take to give the terminal its echo back by itself.
const TERMINAL_RETURN_MS: u64 = 200;

/// What goes back to the engine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Yes(bool),
    Secret(Secret),
}

/// Why nothing goes back.
#[derive(Debug)]
pub(super) enum Stop {
    Interrupted,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Failed(fault.into())
    }
}

/// The one who answers during a command.
pub(super) struct Prompter<'a> {
    pub(super) options: &'a Options,
    pub(super) err: &'a mut (dyn Write + Send),
    pub(super) terminal: Arc<dyn Terminal>,
    pub(super) interrupt: Interrupt,
    /// Lent to a blocking thread while it reads, and gone if that is interrupted.
    stdin: Option<Box<dyn Read + Send>>,
    /// What the password source gave, for an engine that asks for the same password again.
    password: Option<Zeroizing<Vec<u8>>>,
    /// How often it was given.
    given: u8,
}

impl<'a> Prompter<'a> {
    pub(super) fn new(
        options: &'a Options,
        err: &'a mut (dyn Write + Send),
        terminal: Arc<dyn Terminal>,
        interrupt: Interrupt,
        stdin: Box<dyn Read + Send>,
    ) -> Self {
        let stdin = Some(stdin);
        Self { options, err, terminal, interrupt, stdin, password: None, given: 0 }
    }

    pub(super) async fn answer(&mut self, prompt: Prompt) -> Result<Answered, Stop> {
        match prompt {
            Prompt::Secret { what } => self.secret(what).await.map(Answered::Secret),
            Prompt::Confirm { lines, question } => {
                self.show(&lines);
                match self.options.asking {
                    Asking::Agreed => Ok(Answered::Yes(true)),
                    Asking::Interactive if self.terminal.is_there() => {
                        let asked = format!("{} [y/N] ", sheet::plain(&question));
                        let typed = self.ask(move |terminal| terminal.ask_line(&asked)).await?;
                        let yes = ["y", "yes"].iter().any(|yes| typed.eq_ignore_ascii_case(yes));
                        Ok(Answered::Yes(yes))
                    }
                    Asking::Interactive | Asking::Silent => Err(nobody(
                        "This needs a yes and nobody can be asked here: add --yes.",
                        "--yes",
                    )),
                }
            }
            Prompt::TypeAmount { lines, amount } => {
                self.show(&lines);
                match self.options.asking {
                    Asking::Interactive if self.terminal.is_there() => {
                        let asked =
                            format!("Type the amount to approve it ({}): ", sheet::plain(&amount));
                        let typed = self.ask(move |terminal| terminal.ask_line(&asked)).await?;
                        Ok(Answered::Secret(Secret(Zeroizing::new(typed.into_bytes()))))
                    }
                    // `--yes` answers ordinary questions; this one exists because it is not ordinary.
                    Asking::Interactive | Asking::Silent | Asking::Agreed => Err(nobody(
                        "This payment is approved by its amount and nobody can be asked here: add \
                         --confirm <amount>.",
                        "--confirm <amount>",
                    )),
                }
            }
        }
    }

    /// How far the command is.
    pub(super) fn tell(&mut self, text: &str) {
        if !self.options.quiet {
            // A closed stderr is no reason to stop.
            let _unseen = writeln!(self.err, "{}", sheet::plain(text));
        }
    }

    /// Shows what a decision is about, also where an option decides: the log then tells what it was.
    fn show(&mut self, lines: &[String]) {
        if self.options.quiet && self.options.asking != Asking::Interactive {
            return;
        }
        for line in lines {
            // A closed stderr must not stop a decision that was given by option.
            let _unseen = writeln!(self.err, "{}", sheet::plain(line));
        }
    }

    /// Asks on the terminal from a thread that may block.
    async fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&dyn Terminal) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Stop> {
        let terminal = self.terminal.clone();
        let mut asking = tokio::task::spawn_blocking(move || question(&*terminal));
        // cancel-safe: a join handle, and the interrupt is not polled again.
        tokio::select! {
            answered = &mut asking => match answered {
                Ok(Ok(typed)) => Ok(typed),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Err(Stop::Interrupted),
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Err(Fault::new(Code::Declined).into())
                }
                Ok(Err(error)) => Err(unreadable(error).into()),
                Err(error) => Err(unreadable(error).into()),
            },
            () = &mut self.interrupt => {
                let limit = Duration::from_millis(TERMINAL_RETURN_MS);
                let _stuck_in_the_read = tokio::time::timeout(limit, asking).await;
                self.terminal.restore();
                Err(Stop::Interrupted)
            }
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> Fault {
    Fault::because(Code::ConfirmationNeeded, "The terminal cannot be read.").with_detail(error)
}

fn nobody(message: &str, option: &str) -> Stop {
    Stop::Failed(Failure {
        fault: Fault::because(Code::ConfirmationNeeded, message),
        hint: Some(option.to_owned()),
    })
}
