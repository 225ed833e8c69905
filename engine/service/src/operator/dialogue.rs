//! The connection from a running command to its operator.

use bursar_chain::ports::BoxFuture;
use bursar_control::answers::ActivityRow;
use bursar_control::wire::{Asking, SecretPrompt};
use bursar_core::client::Client;
use bursar_core::fault::Fault;
use secrecy::SecretString;
use zeroize::Zeroizing;

/// The questions and data that a running command may send. The control channel implements it.
///
/// Questions and `entries` fail with `CANCELLED` if the program cancels the command or goes away. `part` and
/// `send_secret` fail only if the program goes away.
pub(crate) trait Dialogue: Send + Sync {
    /// Whether the program can answer questions.
    fn asking(&self) -> Asking;

    /// The program that sent the command.
    fn client(&self) -> Client;

    /// Reports progress. Does nothing if the program has gone away.
    fn progress<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()>;

    /// Sends the next piece of a file.
    fn part(&self, text: String) -> BoxFuture<'_, Result<(), Fault>>;

    /// Sends journal entries. Waits for a slow reader until the program cancels the command.
    fn entries(&mut self, entries: Vec<ActivityRow>) -> BoxFuture<'_, Result<(), Fault>>;

    /// Completes when the program cancels the command or has gone away. Cancel-safe.
    fn cancelled(&mut self) -> BoxFuture<'_, ()>;

    /// Asks for a secret, also without a terminal: the program may read it from a file.
    fn secret(&mut self, what: SecretPrompt) -> BoxFuture<'_, Result<SecretString, Fault>>;

    /// Shows lines and asks a yes-or-no question. "No" is `DECLINED`.
    fn confirm<'a>(
        &'a mut self,
        lines: Vec<String>,
        question: &'a str,
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Asks the operator to type an amount; returns the typed text.
    fn ask_amount<'a>(
        &'a mut self,
        lines: Vec<String>,
        amount: &'a str,
    ) -> BoxFuture<'a, Result<String, Fault>>;

    /// Asks the operator to type a name; returns the typed text.
    fn ask_name<'a>(
        &'a mut self,
        lines: Vec<String>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, Fault>>;

    /// Sends a secret to the operator; the reply that follows names its field.
    fn send_secret(&self, bytes: Zeroizing<Vec<u8>>) -> BoxFuture<'_, Result<(), Fault>>;
}
