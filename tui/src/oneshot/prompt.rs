//! Answers the engine's prompts while a command runs: from the operator's options, or on the terminal. A prompt that
//! neither answers remains unanswered. Only `--yes` answers yes without a question.

pub(super) mod secret;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bursar_control::wire::{Asking, Prompt};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use zeroize::Zeroizing;

use super::failure::Failure;
use super::interrupt::Interrupt;
use super::options::Options;
use super::sheet;
use super::terminal::Terminal;
use crate::link::Secret;

/// How long an abandoned question may take to restore the terminal's echo. After that, this program restores it.
const TERMINAL_RETURN_MS: u64 = 200;

/// The answer to a prompt of the engine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptAnswer {
    Confirmed(bool),
    Secret(Secret),
}

/// Why a prompt has no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    Interrupted,
    Failed(Failure),
}

impl From<Failure> for NoAnswer {
    fn from(failure: Failure) -> Self {
        NoAnswer::Failed(failure)
    }
}

impl From<Fault> for NoAnswer {
    fn from(fault: Fault) -> Self {
        NoAnswer::Failed(fault.into())
    }
}

/// Answers prompts during a command.
pub(super) struct Prompter<'a> {
    pub(super) options: &'a Options,
    pub(super) err: &'a mut (dyn Write + Send),
    pub(super) terminal: Arc<dyn Terminal>,
    pub(super) interrupt: Interrupt,
    /// Standard input; `None` while a blocking thread reads it, and after an interrupted read.
    stdin: Option<Box<dyn Read + Send>>,
    /// The password that was read or typed. It also answers later prompts for the same password.
    password: Option<Zeroizing<Vec<u8>>>,
    /// How often the password was sent.
    password_sends: u8,
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
        Self { options, err, terminal, interrupt, stdin, password: None, password_sends: 0 }
    }

    pub(super) async fn answer(&mut self, prompt: Prompt) -> Result<PromptAnswer, NoAnswer> {
        match prompt {
            Prompt::Secret { what } => self.secret(what).await.map(PromptAnswer::Secret),
            Prompt::Confirm { lines, question } => self.confirm(&lines, &question).await,
            Prompt::TypeAmount { lines, amount } => {
                let question = format!("Type the amount to confirm it ({amount}): ");
                let message =
                    "This payment needs its amount as a confirmation: add --confirm <amount>.";
                self.ask_typed(&lines, &question, (message, "--confirm <amount>")).await
            }
            Prompt::TypeName { lines, name } => {
                let question = format!("Type its name to continue ({name}): ");
                let message = "This cannot be undone and needs the name as a confirmation: add \
                     --confirm <name>.";
                self.ask_typed(&lines, &question, (message, "--confirm <name>")).await
            }
        }
    }

    async fn confirm(
        &mut self,
        lines: &[String],
        question: &str,
    ) -> Result<PromptAnswer, NoAnswer> {
        match self.options.asking {
            Asking::Agreed => {
                self.show(lines);
                Ok(PromptAnswer::Confirmed(true))
            }
            Asking::Interactive if self.terminal.is_present() => {
                let typed = self.ask_about(lines, &format!("{question} [y/N] ")).await?;
                let yes = ["y", "yes"].iter().any(|yes| typed.eq_ignore_ascii_case(yes));
                Ok(PromptAnswer::Confirmed(yes))
            }
            Asking::Interactive | Asking::Silent | Asking::DryRun => {
                self.show(lines);
                let message = "This needs your approval, and the command cannot ask on a terminal: \
                     add --yes.";
                Err(without_terminal(message, "--yes"))
            }
        }
    }

    /// Asks for a typed amount or name. `--yes` does not answer this prompt, because it guards large amounts and
    /// permanent deletions.
    async fn ask_typed(
        &mut self,
        lines: &[String],
        question: &str,
        (message, hint): (&'static str, &'static str),
    ) -> Result<PromptAnswer, NoAnswer> {
        match self.options.asking {
            Asking::Interactive if self.terminal.is_present() => {
                let typed = self.ask_about(lines, question).await?;
                Ok(PromptAnswer::Secret(Secret(Zeroizing::new(typed.into_bytes()))))
            }
            Asking::Interactive | Asking::Silent | Asking::Agreed | Asking::DryRun => {
                self.show(lines);
                Err(without_terminal(message, hint))
            }
        }
    }

    /// Shows the subject of a question on the terminal and asks there. On stderr, which may be redirected, the operator
    /// might not see the subject, and would see "Approve?" without the card.
    async fn ask_about(&mut self, lines: &[String], question: &str) -> Result<String, NoAnswer> {
        let shown: Vec<String> =
            lines.iter().map(String::as_str).chain([question]).map(sheet::escape).collect();
        let shown = shown.join("\n");
        self.ask(move |terminal| terminal.ask_line(&shown)).await
    }

    /// Prints progress or the subject of a question to stderr, unless `--quiet` is set.
    pub(super) fn print(&mut self, text: &str) {
        if !self.options.quiet {
            // A closed stderr is no reason to stop.
            let _unseen = writeln!(self.err, "{}", sheet::escape(text));
        }
    }

    /// Prints the subject of a question that is not asked on the terminal, so that the log contains the subject.
    fn show(&mut self, lines: &[String]) {
        for line in lines {
            self.print(line);
        }
    }

    /// Asks on the terminal from a thread that may block.
    async fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&dyn Terminal) -> io::Result<T> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let terminal = self.terminal.clone();
        let mut asking = tokio::task::spawn_blocking(move || question(&*terminal));
        // cancel-safe: the first future is a join handle, and the interrupt is not polled again.
        tokio::select! {
            answered = &mut asking => match answered {
                Ok(Ok(typed)) => Ok(typed),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Err(NoAnswer::Interrupted),
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
                Err(NoAnswer::Interrupted)
            }
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> Fault {
    Fault::because(Code::ConfirmationNeeded, "The terminal cannot be read.").with_detail(error)
}

fn without_terminal(message: &str, option: &str) -> NoAnswer {
    NoAnswer::Failed(Failure {
        fault: Fault::because(Code::ConfirmationNeeded, message),
        hint: Some(option.to_owned()),
    })
}
