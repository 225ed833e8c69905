//! Chooses between the two copies of a wallet. Reports accidental damage and a wrong password as different errors.

use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::disk;
use super::error::WalletFileError;
use super::format::{Lock, WalletText};
use super::keys::Keys;
use super::open_wallet::OpenWallet;
use super::save::WalletCopies;
use crate::vault::kdf::KdfBounds;

/// The copy from which a wallet was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedFrom {
    Current,
    /// The save before the last one. The operator must see `why`: the changes of the last save are missing.
    Previous {
        why: Fallback,
    },
}

/// Why the previous save was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    CurrentMissing,
    CurrentDamaged {
        reason: &'static str,
    },
    /// The current save is intact, but under another password or with an altered lock.
    CurrentLockedOtherwise,
}

impl Fallback {
    /// Returns the reason to try the previous save, if the failure allows it. Only a missing, damaged or
    /// differently locked current save is passed over. A later version or a refused key derivation is not: the
    /// next save would overwrite it with the older copy.
    fn after_failure(failure: &WalletFileError) -> Option<Self> {
        match failure {
            WalletFileError::NotFound { .. } => Some(Self::CurrentMissing),
            WalletFileError::Damaged { reason, .. } => Some(Self::CurrentDamaged { reason }),
            WalletFileError::WrongPassword { .. } => Some(Self::CurrentLockedOtherwise),
            WalletFileError::AlreadyExists { .. }
            | WalletFileError::UnsupportedVersion { .. }
            | WalletFileError::KdfOutOfBounds { .. }
            | WalletFileError::OutOfMemory { .. }
            | WalletFileError::TooOpen { .. }
            | WalletFileError::BadName { .. }
            | WalletFileError::TooLarge { .. }
            | WalletFileError::NotSealed { .. }
            | WalletFileError::Io { .. } => None,
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrentMissing => f.write_str("The wallet file is missing.")?,
            Self::CurrentDamaged { reason } => write!(f, "The wallet file is damaged: {reason}.")?,
            Self::CurrentLockedOtherwise => f.write_str(
                "This password opens only the previous save: a password change did not finish, or \
                 the wallet file was altered.",
            )?,
        }
        f.write_str(" The previous save was opened instead: check your seeds and agents.")
    }
}

/// One attempt to open a wallet: both copies, checked as far as possible without the password.
pub(super) struct OpenAttempt {
    copies: WalletCopies,
    bounds: KdfBounds,
    current: Result<WalletText, WalletFileError>,
    previous: Result<WalletText, WalletFileError>,
}

impl OpenAttempt {
    pub(super) fn prepare(
        copies: WalletCopies,
        bounds: KdfBounds,
    ) -> Result<Self, WalletFileError> {
        copies.check_folder()?;
        let current = load(&copies, &copies.current(), &bounds);
        let previous = load(&copies, &copies.previous(), &bounds);
        match (current, previous) {
            // This fails even if one copy is safe, because other accounts can access the other copy.
            (Err(open @ WalletFileError::TooOpen { .. }), _)
            | (_, Err(open @ WalletFileError::TooOpen { .. })) => Err(open),
            (current, previous) => Ok(Self { copies, bounds, current, previous }),
        }
    }

    pub(super) fn run(
        self,
        password: &SecretString,
    ) -> Result<(OpenWallet, OpenedFrom), WalletFileError> {
        let Self { copies, bounds, current, previous } = self;
        let unlock = |file: PathBuf, text: WalletText| {
            let keys = Keys::unlock(&file, &text.lock, password, &bounds)?;
            let contents = keys.open(&file, &text)?;
            Ok(OpenWallet::of(copies.clone(), bounds, keys, contents, &text))
        };
        let tried = current.as_ref().ok().map(|text| (text.lock.clone(), text.generation));

        let failure = match current.and_then(|text| unlock(copies.current(), text)) {
            Ok(wallet) => {
                tidy_up(&copies, tried, previous.ok());
                return Ok((wallet, OpenedFrom::Current));
            }
            Err(failure) => failure,
        };
        let Some(why) = Fallback::after_failure(&failure) else {
            return Err(failure);
        };
        // Unless a password change was interrupted, both copies have the same lock. The password has just failed on
        // it, so another attempt would only cost time.
        let lock_failed =
            |text: &WalletText| tried.as_ref().is_some_and(|(lock, _)| *lock == text.lock);
        if why == Fallback::CurrentLockedOtherwise && previous.as_ref().is_ok_and(lock_failed) {
            return Err(failure);
        }
        match previous.and_then(|text| unlock(copies.previous(), text)) {
            Ok(wallet) => Ok((wallet, OpenedFrom::Previous { why })),
            Err(second) => Err(error_to_report(failure, tried.is_some(), second)),
        }
    }
}

/// Chooses the error to report if neither copy opens. `was_tried` means that the current save could be parsed, so
/// that the password was tried on its lock.
fn error_to_report(
    failure: WalletFileError,
    was_tried: bool,
    second: WalletFileError,
) -> WalletFileError {
    let nothing_there = matches!(second, WalletFileError::NotFound { .. });
    let locked = matches!(second, WalletFileError::WrongPassword { .. });
    match failure {
        WalletFileError::NotFound { .. } if !nothing_there => second,
        // The password fails on the intact previous save, so the operator should first try another one.
        WalletFileError::Damaged { .. } if locked && !was_tried => second,
        failure => failure,
    }
}

/// Reads a copy and checks everything that needs no password.
pub(super) fn load(
    copies: &WalletCopies,
    file: &Path,
    bounds: &KdfBounds,
) -> Result<WalletText, WalletFileError> {
    let text = WalletText::parse(&disk::read(file)?).map_err(|why| why.into_error(file))?;
    bounds.check(&text.lock.kdf).map_err(|source| WalletFileError::of_kdf(file, source))?;
    if text.lock.name != copies.name() {
        return Err(WalletFileError::damaged(
            file,
            "it belongs to a wallet with another name; if you renamed it, give it back its old \
             name",
        ));
    }
    Ok(text)
}

/// Removes leftovers of a crash, including a copy under an old password. Errors are ignored: a disk that has
/// become read-only must not keep the operator from the seeds. The next save overwrites that copy, and a change
/// of the password sweeps again and reports errors.
fn tidy_up(copies: &WalletCopies, current: Option<(Lock, u64)>, previous: Option<WalletText>) {
    drop(copies.remove_temporaries());
    if let (Some((lock, generation)), Some(previous)) = (current, previous) {
        // An older previous save under another lock is left over from a password change that stopped half-way. If the
        // operator put a backup in place of the current save, the previous save is newer, and stays.
        let same_wallet = previous.lock.wallet_id == lock.wallet_id;
        if same_wallet && previous.lock != lock && previous.generation < generation {
            drop(copies.remove_previous());
        }
    }
}
