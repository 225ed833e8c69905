//! The outcome of a command, before it is printed.

use bursar_control::answers::{Answer, SecretField, Warning};
use zeroize::Zeroizing;

use super::failure::Failure;
use crate::link::Secret;

/// A secret that a command returned. `text` is `None` if the secret is missing, not printable or may not be shown.
pub(super) struct ReturnedSecret {
    pub(super) field: SecretField,
    pub(super) text: Option<Zeroizing<String>>,
}

impl ReturnedSecret {
    /// Keeps the text only if it is printable ASCII, as all tokens, seed phrases and keys are.
    pub(super) fn new(field: SecretField, secret: Option<Secret>) -> Self {
        let printable = |bytes: &[u8]| bytes.iter().all(|byte| (0x20..0x7f).contains(byte));
        let text = secret
            .as_ref()
            .filter(|secret| printable(&secret.0))
            .and_then(|secret| std::str::from_utf8(&secret.0).ok())
            .map(|text| Zeroizing::new(text.to_owned()));
        Self { field, text }
    }
}

/// The outcome of a command.
pub(super) struct Outcome {
    pub(super) result: Result<Answer, Failure>,
    pub(super) warnings: Vec<Warning>,
    pub(super) returned_secret: Option<ReturnedSecret>,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self { result: Err(failure), warnings: Vec::new(), returned_secret: None }
    }
}
