//! Why there is no key. One sentence each, which says what to do; nothing of a file's content is in it.

use std::io;
use std::path::PathBuf;

use alloy_primitives::Address;

/// Why a key was not read or not made.
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
        "This platform cannot show who may read {}: run the facilitator on one with file modes.",
        file.display()
    )]
    Unshown { file: PathBuf },
    #[error("{} is not a keystore and not a key of 64 hex digits: use another file.", file.display())]
    NoKey { file: PathBuf },
    #[error("{} is an unsupported keystore ({why}): create a new one.", file.display())]
    NotKeystore { file: PathBuf, why: &'static str },
    #[error("{} is encrypted: set password_file to the file with its password.", file.display())]
    NoPassword { file: PathBuf },
    /// The two are one, because a keystore cannot tell them apart.
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
    Twice { file: PathBuf, address: Address },
}
