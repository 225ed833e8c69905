//! Passwords and seed phrases: which source answers which prompt, and how a new password is chosen.

use std::io;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::PASSWORD_CHARS;
use bursar_core::wire::SecretPrompt;
use zeroize::Zeroizing;

use super::{Prompter, Stop, nobody, unreadable};
use crate::link::Secret;
use crate::oneshot::terminal::Terminal;
use crate::secret_source::SecretSource;

/// How often one command sends the same password from its source. An engine that keeps asking has refused it.
const GIVEN_MAX: u8 = 3;
/// How often a new password may be mistyped.
const TRIES: u8 = 3;

impl Prompter<'_> {
    pub(super) async fn secret(&mut self, what: SecretPrompt) -> Result<Secret, Stop> {
        let options = self.options;
        let given = match what {
            SecretPrompt::Password => self.password_again(&options.password).await?,
            SecretPrompt::NewPassword => self.new_password(&options.password).await?,
            SecretPrompt::SeedPhrase => self.read(&options.seed).await?,
        };
        match given {
            Some(secret) => Ok(secret),
            None if options.may_ask && self.terminal.is_there() => {
                let typed = self.ask(move |terminal| typed(terminal, what)).await??;
                let typed = Zeroizing::new(typed.as_bytes().to_vec());
                if what == SecretPrompt::Password {
                    self.password = Some(typed.clone());
                    self.given = self.given.saturating_add(1);
                }
                Ok(Secret(typed))
            }
            None => Err(missing(what, self.password.is_some())),
        }
    }

    /// Returns the current password, read only once. A command that is its own engine opens the wallet and may then
    /// ask for the operator's proof: the same password answers both.
    async fn password_again(&mut self, source: &SecretSource) -> Result<Option<Secret>, Stop> {
        if self.password.is_none() {
            self.password = self.read(source).await?.map(|secret| secret.0);
        }
        if self.given >= GIVEN_MAX {
            return Ok(None);
        }
        self.given = self.given.saturating_add(1);
        Ok(self.password.clone().map(Secret))
    }

    /// Reads the new password, unless the source has just given the current one. Otherwise `wallet passwd` would
    /// change nothing and report success. Only standard input has a second line.
    async fn new_password(&mut self, source: &SecretSource) -> Result<Option<Secret>, Stop> {
        if self.password.is_some() && *source != SecretSource::Stdin {
            return Ok(None);
        }
        self.read(source).await
    }

    /// Reads a source in a thread that may block. Standard input may be a person or a slow program.
    async fn read(&mut self, source: &SecretSource) -> Result<Option<Secret>, Stop> {
        let Some(mut stdin) = self.stdin.take() else { return Ok(None) };
        let source = source.clone();
        let reading = tokio::task::spawn_blocking(move || (source.read(&mut *stdin), stdin));
        // cancel-safe: a join handle, and the interrupt is not polled again.
        tokio::select! {
            read = reading => {
                let (secret, stdin) = read.map_err(unreadable)?;
                self.stdin = Some(stdin);
                Ok(secret?)
            }
            () = &mut self.interrupt => Err(Stop::Interrupted),
        }
    }
}

fn typed(
    terminal: &dyn Terminal,
    what: SecretPrompt,
) -> io::Result<Result<Zeroizing<String>, Fault>> {
    match what {
        SecretPrompt::Password => terminal.ask_secret("Password of the wallet: ").map(Ok),
        SecretPrompt::SeedPhrase => {
            terminal.ask_secret("Seed phrase (not shown while you type): ").map(Ok)
        }
        SecretPrompt::NewPassword => chosen(terminal),
    }
}

/// Asks for a new password twice. The input is hidden, so a slip would lock its owner out.
fn chosen(terminal: &dyn Terminal) -> io::Result<Result<Zeroizing<String>, Fault>> {
    let question = format!("New password, at least {PASSWORD_CHARS} characters: ");
    let mut ask = question.clone();
    let mut fault = Fault::new(Code::PasswordTooShort);
    for _ in 0..TRIES {
        let first = terminal.ask_secret(&ask)?;
        if first.chars().count() < PASSWORD_CHARS {
            fault = Fault::new(Code::PasswordTooShort);
            ask = format!("That is too short. {question}");
            continue;
        }
        let second = terminal.ask_secret("Repeat the password: ")?;
        if first == second {
            return Ok(Ok(first));
        }
        fault = Fault::because(Code::BadInput, "The two passwords differ.");
        ask = format!("The passwords differ. {question}");
    }
    Ok(Err(fault))
}

fn missing(what: SecretPrompt, password_given: bool) -> Stop {
    match what {
        SecretPrompt::NewPassword if password_given => nobody(
            "A new password is needed, and there is no terminal to ask on: give --password-stdin two lines, \
             the current password and the new one.",
            "--password-stdin",
        ),
        SecretPrompt::Password | SecretPrompt::NewPassword => nobody(
            "A password is needed, and there is no terminal to ask on: add --password-file, --password-fd \
             or --password-stdin.",
            "--password-file <path>",
        ),
        SecretPrompt::SeedPhrase => nobody(
            "A seed phrase is needed, and there is no terminal to ask on: add --seed-file or --seed-stdin.",
            "--seed-file <path>",
        ),
    }
}
