//! The person who runs the command, as a port: the program asks on a terminal, and tests answer from a script.

use std::path::Path;

use bursar_core::fault::Fault;
use secrecy::SecretString;

/// Informs and asks the operator, and checks passwords of wallets.
pub trait Operator {
    /// Shows `lines` and asks a question. Returns whether the operator agrees.
    ///
    /// # Errors
    /// `CONFIRMATION_NEEDED` if there is no terminal to ask on.
    fn confirm(&self, lines: &[String], question: &str) -> Result<bool, Fault>;

    /// Asks for a line of text. `option` names the option that gives the answer without a question.
    ///
    /// # Errors
    /// `CONFIRMATION_NEEDED` if there is no terminal to ask on.
    fn line(&self, question: &str, option: &str) -> Result<String, Fault>;

    /// Shows the current step.
    fn progress(&self, text: &str);

    /// Reads the password of the wallet.
    ///
    /// # Errors
    /// The source of the password cannot be read, or no terminal can prompt for it.
    fn password(&self) -> Result<SecretString, Fault>;

    /// Checks a password against the wallet of a data folder without changing anything.
    ///
    /// # Errors
    /// `WRONG_PASSWORD`, `NO_WALLET`, or the wallet file cannot be read.
    fn verify(&self, data: &Path, password: &SecretString) -> Result<(), Fault>;
}
