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
        "{} has mode {mode:03o}, so others may read or change it: run `chmod 600 {}`.",
        file.display(), file.display()
    )]
    TooOpen { file: PathBuf, mode: u32 },
    #[error(
        "This platform does not show who may read {}: run the facilitator where files have modes.",
        file.display()
    )]
    Unshown { file: PathBuf },
    #[error("{} is neither a keystore nor 64 hex digits of a key: name another file.", file.display())]
    NoKey { file: PathBuf },
    #[error("{} is a keystore that is not read here ({why}): make a new one.", file.display())]
    NotKeystore { file: PathBuf, why: &'static str },
    #[error("{} is encrypted: name the file of its password as password_file.", file.display())]
    NoPassword { file: PathBuf },
    /// The two are one, because a keystore cannot tell them apart.
    #[error(
        "{} was not opened (wrong password or damaged): check the password, or put the file's copy back.",
        file.display()
    )]
    WrongPassword { file: PathBuf },
    #[error("A keystore needs a password that is not empty: write one.")]
    EmptyPassword,
    #[error("{} is there already and is never written over: choose another name.", file.display())]
    Exists { file: PathBuf },
    #[error("{} cannot be written ({source}): choose another folder, or make room.", file.display())]
    Unwritable { file: PathBuf, source: io::Error },
    #[error("The system gives no random bytes: try again later.")]
    NoEntropy,
    #[error("{} holds the key of {address} a second time: name each key once.", file.display())]
    Twice { file: PathBuf, address: Address },
}
