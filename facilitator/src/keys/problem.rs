//! What is wrong with a keystore, before the name of its file is known.

use std::path::Path;

use crate::keys::fault::KeyFault;

/// Why a keystore was not opened or not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The format is not supported.
    Form(&'static str),
    /// The MAC does not match: the password is wrong, or the file was changed.
    WrongPassword,
}

impl Problem {
    pub(super) const TOO_DEAR: Self =
        Self::Form("its key derivation needs more than any usual keystore");

    pub(super) fn about(self, file: &Path) -> KeyFault {
        let file = file.to_owned();
        match self {
            Problem::Form(why) => KeyFault::NotKeystore { file, why },
            Problem::WrongPassword => KeyFault::WrongPassword { file },
        }
    }
}
