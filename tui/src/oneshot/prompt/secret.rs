//! Passwords and seed phrases: selects the source for each prompt, and asks twice for a new password.

use std::io;

use bursar_control::wire::SecretPrompt;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::PASSWORD_CHARS_MIN;
use zeroize::Zeroizing;

use super::{NoAnswer, Prompter, unreadable, without_terminal};
use crate::link::Secret;
use crate::oneshot::terminal::Terminal;
use crate::secret_source::SecretSource;

/// How often the known password is sent. If the engine asks again after that, it has refused the password.
const PASSWORD_SENDS_MAX: u8 = 3;
/// Maximum number of attempts to enter a new password.
const TRIES: u8 = 3;

/// The result of asking for a secret on the terminal.
pub(crate) enum SecretEntry {
    Entered(Zeroizing<String>),
    /// No valid new password was entered in any attempt.
    Rejected(Fault),
}

impl Prompter<'_> {
    pub(super) async fn secret(&mut self, what: SecretPrompt) -> Result<Secret, NoAnswer> {
        let options = self.options;
        let from_source = match what {
            SecretPrompt::Password => self.password_again(&options.password).await?,
            SecretPrompt::NewPassword => self.new_password(&options.password).await?,
            SecretPrompt::SeedPhrase => self.read(&options.seed).await?,
        };
        match from_source {
            Some(secret) => Ok(secret),
            None if options.may_ask && self.terminal.is_present() => {
                let text = match self.ask(move |terminal| ask_secret(terminal, what)).await? {
                    SecretEntry::Entered(text) => text,
                    SecretEntry::Rejected(fault) => return Err(fault.into()),
                };
                let typed = Zeroizing::new(text.as_bytes().to_vec());
                if what == SecretPrompt::Password {
                    self.password = Some(typed.clone());
                    self.password_sends = self.password_sends.saturating_add(1);
                }
                Ok(Secret(typed))
            }
            None => Err(missing(what, self.password.is_some())),
        }
    }

    /// Returns the current password. Its source is read only once.
    ///
    /// A command without a running engine may need the password twice: to open the wallet, and to confirm an action of
    /// the operator.
    async fn password_again(&mut self, source: &SecretSource) -> Result<Option<Secret>, NoAnswer> {
        if self.password.is_none() {
            self.password = self.read(source).await?.map(|secret| secret.0);
        }
        if self.password_sends >= PASSWORD_SENDS_MAX {
            return Ok(None);
        }
        self.password_sends = self.password_sends.saturating_add(1);
        Ok(self.password.clone().map(Secret))
    }

    /// Reads the new password. Standard input gives it on the next line.
    ///
    /// `None` if another source has already given the current password, because it would give the same password again.
    async fn new_password(&mut self, source: &SecretSource) -> Result<Option<Secret>, NoAnswer> {
        if self.password.is_some() && *source != SecretSource::Stdin {
            return Ok(None);
        }
        self.read(source).await
    }

    /// Reads a source in a blocking thread, because standard input may be a person or a slow program.
    async fn read(&mut self, source: &SecretSource) -> Result<Option<Secret>, NoAnswer> {
        let Some(mut stdin) = self.stdin.take() else { return Ok(None) };
        let source = source.clone();
        let reading = tokio::task::spawn_blocking(move || (source.read(&mut *stdin), stdin));
        // cancel-safe: the first future is a join handle, and the interrupt is not polled again.
        tokio::select! {
            read = reading => {
                let (secret, stdin) = read.map_err(unreadable)?;
                self.stdin = Some(stdin);
                Ok(secret?)
            }
            () = &mut self.interrupt => Err(NoAnswer::Interrupted),
        }
    }
}

/// Asks for a secret on the terminal, and for a new password twice.
pub(crate) fn ask_secret(terminal: &dyn Terminal, what: SecretPrompt) -> io::Result<SecretEntry> {
    let question = match what {
        SecretPrompt::Password => "Password of the wallet: ",
        SecretPrompt::SeedPhrase => "Seed phrase (not shown while you type): ",
        SecretPrompt::NewPassword => return ask_new_password(terminal),
    };
    terminal.ask_secret(question).map(SecretEntry::Entered)
}

/// Asks for a new password twice. The input is hidden, so a typing error would lock the operator out.
fn ask_new_password(terminal: &dyn Terminal) -> io::Result<SecretEntry> {
    let question = format!("New password, at least {PASSWORD_CHARS_MIN} characters: ");
    let mut ask = question.clone();
    let mut fault = Fault::new(Code::PasswordTooShort);
    for _ in 0..TRIES {
        let first = terminal.ask_secret(&ask)?;
        if first.chars().count() < PASSWORD_CHARS_MIN {
            fault = Fault::new(Code::PasswordTooShort);
            ask = format!("That is too short. {question}");
            continue;
        }
        let second = terminal.ask_secret("Repeat the password: ")?;
        if first == second {
            return Ok(SecretEntry::Entered(first));
        }
        fault = Fault::because(Code::BadInput, "The two passwords differ.");
        ask = format!("The passwords differ. {question}");
    }
    Ok(SecretEntry::Rejected(fault))
}

fn missing(what: SecretPrompt, password_given: bool) -> NoAnswer {
    match what {
        SecretPrompt::NewPassword if password_given => without_terminal(
            "A new password is needed, and the command cannot ask on a terminal: give --password-stdin two \
             lines, the current password and the new one.",
            "--password-stdin",
        ),
        SecretPrompt::Password | SecretPrompt::NewPassword => without_terminal(
            "A password is needed, and the command cannot ask on a terminal: add --password-file, \
             --password-fd or --password-stdin.",
            "--password-file <path>",
        ),
        SecretPrompt::SeedPhrase => without_terminal(
            "A seed phrase is needed, and the command cannot ask on a terminal: add --seed-file or --seed-stdin.",
            "--seed-file <path>",
        ),
    }
}
