//! The errors of a wallet file. Each message names the remedy, and the file if the file is at fault, but no
//! secret. They are for the operator, never for an agent.

use std::io;
use std::path::{Path, PathBuf};

use crate::vault::kdf::KdfError;
use crate::vault::sealed::SealError;

/// Why a wallet file cannot be created, opened or saved.
#[derive(Debug, thiserror::Error)]
pub enum WalletFileError {
    #[error("there is already a wallet, {}: open it, or delete it first", .file.display())]
    AlreadyExists { file: PathBuf },

    #[error("there is no wallet file {}: restore a backup. Without one, `wallet delete` \
         removes the lost wallet from the journal; then create a new wallet and run `seed import`", .file.display())]
    NotFound { file: PathBuf },

    // Names no file: the operator knows which wallet the password is for, and a path would distract from the
    // advice.
    #[error(
        "The password does not open the wallet: try again. A forgotten password cannot be recovered, \
         but the seed phrase restores the addresses in a new wallet."
    )]
    WrongPassword { file: PathBuf },

    #[error("{} is damaged: {reason}. Restore a backup", .file.display())]
    Damaged { file: PathBuf, reason: &'static str },

    #[error(
        "{} has version {version} of the wallet format, but this program knows version 1 only: \
         use the program that saved it, or a newer one", .file.display()
    )]
    UnsupportedVersion { file: PathBuf, version: u64 },

    #[error(
        "the key derivation settings of {} are refused: {source}. If you did not change them, the \
         file was tampered with: restore a backup", .file.display()
    )]
    KdfOutOfBounds { file: PathBuf, source: KdfError },

    #[error("the key of {} cannot be derived: {source}", .file.display())]
    OutOfMemory { file: PathBuf, source: KdfError },

    #[error(
        "{} is open to other accounts (mode {mode:04o}). Run: chmod {wanted:o} '{}'",
        .file.display(), .file.display()
    )]
    TooOpen { file: PathBuf, mode: u32, wanted: u32 },

    #[error(
        "{name:?} cannot be the name of a wallet file: use up to 64 letters, digits, spaces, '-', \
         '_' and '.', and start and end with a letter or digit"
    )]
    BadName { name: String },

    #[error("{} would exceed the maximum size of a wallet file: delete agents", .file.display())]
    TooLarge { file: PathBuf },

    #[error("{} could not be encrypted and was not changed: {source}. Try again", .file.display())]
    NotSealed { file: PathBuf, source: SealError },

    #[error(
        "cannot {action} {}: {source}. Check that the disk is neither full nor read-only and that \
         the folder belongs to this account, then try again", .file.display()
    )]
    Io { file: PathBuf, action: &'static str, source: io::Error },
}

impl WalletFileError {
    pub(super) fn of_kdf(file: &Path, source: KdfError) -> Self {
        let file = file.to_owned();
        match source {
            KdfError::OutOfBounds { .. } | KdfError::TooMuchWork => {
                Self::KdfOutOfBounds { file, source }
            }
            KdfError::OutOfMemory { .. } => Self::OutOfMemory { file, source },
        }
    }

    pub(super) fn damaged(file: &Path, reason: &'static str) -> Self {
        Self::Damaged { file: file.to_owned(), reason }
    }

    pub(super) fn not_sealed(file: &Path, source: SealError) -> Self {
        Self::NotSealed { file: file.to_owned(), source }
    }

    /// Returns a closure for `map_err` that adds the file and the action that failed.
    pub(super) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, action, source }
    }
}
