//! Creates, opens and deletes the wallet files of a data folder. [`OpenWallet`] holds the contents of an open
//! wallet; this module keeps no secret.
//!
//! A wallet is `wallets/<name>.wallet`. The save before it is `<name>.wallet.previous`: a complete encrypted copy,
//! under the same password unless a password change was interrupted. That file does not exist before the second save
//! or after a password change. The engine's lock on the data folder excludes a second writer; this module does not.

mod contents;
mod disk;
mod error;
mod format;
mod keys;
mod open_wallet;
mod opening;
mod save;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::ids::Name;
use secrecy::SecretString;

use super::kdf::{KdfBounds, KdfParams};
use crate::ports::Failpoints;

pub use contents::{AgentSecret, JournalNote, SeedIdTaken, box_secret};
pub use error::WalletFileError;
pub use open_wallet::OpenWallet;
pub use opening::{Fallback, OpenedFrom};

use format::WalletText;
use keys::Keys;
use opening::OpenAttempt;
use save::WalletCopies;
use zeroize::Zeroizing;

/// The wallet files of one data folder.
#[derive(Debug, Clone)]
pub struct WalletFiles {
    folder: PathBuf,
    bounds: KdfBounds,
    failpoints: Arc<dyn Failpoints>,
}

impl WalletFiles {
    /// Returns the wallet files of `data_folder`.
    ///
    /// A caller that writes must hold the folder's lock.
    pub fn new(data_folder: &Path, bounds: KdfBounds, failpoints: Arc<dyn Failpoints>) -> Self {
        Self { folder: data_folder.join("wallets"), bounds, failpoints }
    }

    /// Returns the names of all wallets, sorted.
    ///
    /// A wallet with only its previous save counts, because it can be opened.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<Name>, WalletFileError> {
        // The map uses `Name::key`, because names that differ only in case are the same name.
        let mut names = BTreeMap::new();
        for file in disk::files_in(&self.folder)? {
            if let Some(name) = save::wallet_of(&file) {
                names.insert(name.key(), name);
            }
        }
        Ok(names.into_values().collect())
    }

    /// Creates an empty wallet and leaves it open.
    ///
    /// # Errors
    /// The folder contains a wallet of any name, even if only its previous save is left, which may be the last copy
    /// of its seeds. The name or the key derivation is refused, or the disk fails.
    pub fn create(
        &self,
        name: &Name,
        password: &SecretString,
        kdf: KdfParams,
    ) -> Result<OpenWallet, WalletFileError> {
        let copies = self.copies_of(name)?;
        if let Some(other) = self.names()?.first() {
            return Err(WalletFileError::AlreadyExists { file: self.copies_of(other)?.current() });
        }
        copies.make_folder()?;
        OpenWallet::create(copies, self.bounds, password, kdf)
    }

    /// Returns the path of a wallet's current save.
    pub fn file(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("{}.wallet", name.as_str()))
    }

    /// Opens the current save, or the previous one if the current one is missing, damaged or under another
    /// password.
    ///
    /// # Errors
    /// Neither copy opens, another account can access one of them, or the current save must not be passed over, for
    /// example because a later version wrote it.
    pub fn open(
        &self,
        name: &Name,
        password: &SecretString,
    ) -> Result<(OpenWallet, OpenedFrom), WalletFileError> {
        OpenAttempt::prepare(self.copies_of(&self.stored_name(name)?)?, self.bounds)?.run(password)
    }

    /// Returns the name of the wallet in a backup, and the backup's key.
    ///
    /// `text` is the wallet file inside the backup; `file` is the backup's path, for errors.
    ///
    /// # Errors
    /// The password is wrong, or the text is not a valid wallet file of this version.
    pub fn backup_key(
        file: &Path,
        text: &[u8],
        password: &SecretString,
        bounds: &KdfBounds,
        salt: &[u8; 32],
    ) -> Result<(String, Zeroizing<[u8; 32]>), WalletFileError> {
        let text = WalletText::parse(text).map_err(|why| why.into_error(file))?;
        let name = text.lock.name.parse().ok().filter(save::is_file_name);
        let name: Name =
            name.ok_or_else(|| WalletFileError::damaged(file, "its name is not valid"))?;
        bounds.check(&text.lock.kdf).map_err(|source| WalletFileError::of_kdf(file, source))?;
        let keys = Keys::unlock(file, &text.lock, password, bounds)?;
        keys.open(file, &text)?;
        Ok((name.as_str().to_owned(), keys.backup_key(salt)))
    }

    /// Checks that the current save is a wallet file, as far as possible without its password.
    ///
    /// # Errors
    /// The file is missing, damaged, readable by other accounts, or of another version.
    pub fn check(&self, name: &Name) -> Result<(), WalletFileError> {
        let copies = self.copies_of(&self.stored_name(name)?)?;
        opening::load(&copies, &copies.current(), &self.bounds).map(|_locked| ())
    }

    /// Removes every copy of a wallet: the current save, the previous one and leftovers of a crash.
    ///
    /// The caller must have dropped the open wallet, whose next save would write the file again.
    ///
    /// # Errors
    /// There is no such wallet, or a file cannot be removed.
    pub fn delete(&self, name: &Name) -> Result<(), WalletFileError> {
        let copies = self.copies_of(&self.stored_name(name)?)?;
        copies.check_folder()?;
        copies.delete()
    }

    /// Returns the name as the files spell it, so that the operator need not remember capital letters. Returns `name`
    /// itself if there is no such file.
    fn stored_name(&self, name: &Name) -> Result<Name, WalletFileError> {
        let found = self.names()?.into_iter().find(|known| known.key() == name.key());
        Ok(found.unwrap_or_else(|| name.clone()))
    }

    fn copies_of(&self, name: &Name) -> Result<WalletCopies, WalletFileError> {
        WalletCopies::new(&self.folder, name, Arc::clone(&self.failpoints))
    }
}
