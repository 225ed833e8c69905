//! An input field that may hold a secret.

use std::fmt;

use zeroize::Zeroizing;

/// Typed text that may be a secret. It is wiped, and `Debug` does not show it.
#[derive(Default)]
pub(crate) struct Field(Zeroizing<String>);

/// Maximum length of the text. A seed phrase of 24 words has at most 215 characters.
const FIELD_BYTES_MAX: usize = 1024;

impl Field {
    pub(crate) fn push(&mut self, ch: char) {
        if self.0.capacity() < FIELD_BYTES_MAX {
            // Allocated at its full size, because a string that grows leaves copies of the secret behind.
            let mut roomy = Zeroizing::new(String::with_capacity(FIELD_BYTES_MAX));
            roomy.push_str(&self.0);
            self.0 = roomy;
        }
        if !ch.is_control() && self.0.len().saturating_add(ch.len_utf8()) <= FIELD_BYTES_MAX {
            self.0.push(ch);
        }
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.0 = Zeroizing::default();
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Takes the bytes and leaves the field empty.
    pub(crate) fn take(&mut self) -> Zeroizing<Vec<u8>> {
        let bytes = Zeroizing::new(self.0.as_bytes().to_vec());
        self.clear();
        bytes
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Field(…)")
    }
}
