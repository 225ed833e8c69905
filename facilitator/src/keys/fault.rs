//! Errors of keys. Each is a sentence that says what to do, and none contains the contents of a file.

use std::io;
use std::path::PathBuf;

use alloy_primitives::Address;

/// Why a key could not be read or created.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    #[error("{} cannot be read ({source}): correct its name or its mode.", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error(
        "{} has mode {mode:03o}, so other accounts may read or change it: run `chmod 600 {}`.",
        file.display(), file.display()
    )]
    TooOpen { file: PathBuf, mode: u32 },
    #[error(
        "This platform cannot show who may read {}: use a platform with file modes.",
        file.display()
    )]
    NoFileModes { file: PathBuf },
    #[error("{} contains neither a keystore nor a key of 64 hex digits: use another file.", file.display())]
    NoKey { file: PathBuf },
    #[error("{} is an unsupported keystore ({why}): create a new one.", file.display())]
    NotKeystore { file: PathBuf, why: &'static str },
    #[error("{} is encrypted: set password_file to the file with its password.", file.display())]
    NoPassword { file: PathBuf },
    /// One error covers a wrong password and a damaged file, because they cannot be distinguished.
    #[error(
        "{} could not be decrypted (wrong password, or damaged): check the password, or restore a copy of \
         the file.",
        file.display()
    )]
    WrongPassword { file: PathBuf },
    #[error("A keystore needs a password that is not empty.")]
    EmptyPassword,
    #[error("{} already exists and is not overwritten: choose another name.", file.display())]
    Exists { file: PathBuf },
    #[error("{} cannot be written ({source}): choose another folder, or free space.", file.display())]
    Unwritable { file: PathBuf, source: io::Error },
    #[error("The system provides no random bytes: try again later.")]
    NoEntropy,
    #[error("{} contains the key of {address} a second time: list each key once.", file.display())]
    Duplicate { file: PathBuf, address: Address },
    #[error(
        "{} contains the key of {address}, which also pays gas: create another key for the authorizer.",
        file.display()
    )]
    AuthorizerSends { file: PathBuf, address: Address },
    #[error(
        "{} is used by another program, which would take nonces from this one: stop it, or create a key for each.",
        file.display()
    )]
    InUse { file: PathBuf },
}
