//! Errors of a keystore, before the name of its file is known.

use std::path::Path;

use crate::keys::fault::KeyFault;

/// Why a keystore was not opened or not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeystoreError {
    /// The format is not supported.
    Format(&'static str),
    /// The MAC does not match: the password is wrong, or the file was changed.
    WrongPassword,
}

impl KeystoreError {
    pub(super) const KDF_OUT_OF_BOUNDS: Self =
        Self::Format("its key derivation parameters are invalid or too expensive");

    pub(super) fn into_fault(self, file: &Path) -> KeyFault {
        let file = file.to_owned();
        match self {
            KeystoreError::Format(why) => KeyFault::NotKeystore { file, why },
            KeystoreError::WrongPassword => KeyFault::WrongPassword { file },
        }
    }
}
