//! Owns the bytes on disk: where the copies of a wallet are, and the order in which one replaces another. From
//! creation to deletion, one complete copy exists at every instant. Does not interpret the bytes.
//!
//! A save writes the new text to a temporary file and flushes it. It writes the replaced text in the same way,
//! renames that file over the previous copy and flushes the folder. Then it renames the new file over the current
//! copy and flushes the folder. Every step passes a failpoint of [`Failpoints`] before the next one begins.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::ids::Name;

use super::disk;
use super::error::WalletFileError;
use crate::ports::Failpoints;

const CURRENT_SUFFIX: &str = ".wallet";
const PREVIOUS_SUFFIX: &str = ".wallet.previous";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The copies of one wallet on disk: the current and the previous save.
#[derive(Debug, Clone)]
pub(super) struct WalletCopies {
    folder: PathBuf,
    name: String,
    failpoints: Arc<dyn Failpoints>,
}

/// The failpoints of one temporary file.
struct WriteFailpoints {
    creating: &'static str,
    written: &'static str,
    synced: &'static str,
}

const CURRENT_POINTS: WriteFailpoints = WriteFailpoints {
    creating: "vault.tmp_creating",
    written: "vault.tmp_written",
    synced: "vault.tmp_synced",
};

const PREVIOUS_POINTS: WriteFailpoints = WriteFailpoints {
    creating: "vault.previous_creating",
    written: "vault.previous_written",
    synced: "vault.previous_synced",
};

impl WalletCopies {
    pub(super) fn new(
        folder: &Path,
        name: &Name,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, WalletFileError> {
        if !is_file_name(name) {
            return Err(WalletFileError::BadName { name: name.as_str().to_owned() });
        }
        Ok(Self { folder: folder.to_owned(), name: name.as_str().to_owned(), failpoints })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn current(&self) -> PathBuf {
        self.folder.join(format!("{}{CURRENT_SUFFIX}", self.name))
    }

    pub(super) fn previous(&self) -> PathBuf {
        self.folder.join(format!("{}{PREVIOUS_SUFFIX}", self.name))
    }

    /// Creates the wallets' folder if it is missing.
    pub(super) fn make_folder(&self) -> Result<(), WalletFileError> {
        let folder = &self.folder;
        self.hit_failpoint("vault.folder_creating", folder)?;
        if !disk::create_folder(folder)? {
            return self.check_folder();
        }
        self.hit_failpoint("vault.folder_created", folder)?;
        folder.parent().map_or(Ok(()), disk::sync_folder)
    }

    pub(super) fn check_folder(&self) -> Result<(), WalletFileError> {
        if disk::check_folder(&self.folder)? {
            Ok(())
        } else {
            Err(WalletFileError::NotFound { file: self.current() })
        }
    }

    /// Makes `text` the current copy and leaves the previous one as it is.
    pub(super) fn put_current(&self, text: &[u8]) -> Result<(), WalletFileError> {
        let temporary = self.write_temporary(text, &CURRENT_POINTS)?;
        self.make_current(temporary)
    }

    /// Makes `text` the current copy and `before`, the save that it replaces, the previous one.
    pub(super) fn put_both(&self, text: &[u8], before: &[u8]) -> Result<(), WalletFileError> {
        // The new text first: if the disk is too full for it, the previous copy stays untouched.
        let temporary = self.write_temporary(text, &CURRENT_POINTS)?;
        self.put_previous(before)?;
        self.make_current(temporary)
    }

    /// Writes a copy instead of a hard link, so that one bad block cannot destroy both copies.
    fn put_previous(&self, text: &[u8]) -> Result<(), WalletFileError> {
        let temporary = self.write_temporary(text, &PREVIOUS_POINTS)?;
        temporary.replace(&self.previous())?;
        self.hit_failpoint("vault.previous_renamed", &self.previous())?;
        disk::sync_folder(&self.folder)?;
        self.hit_failpoint("vault.previous_dir_synced", &self.previous())
    }

    fn make_current(&self, temporary: TemporaryFile) -> Result<(), WalletFileError> {
        temporary.replace(&self.current())?;
        self.hit_failpoint("vault.renamed", &self.current())?;
        disk::sync_folder(&self.folder)?;
        self.hit_failpoint("vault.dir_synced", &self.current())
    }

    pub(super) fn remove_previous(&self) -> Result<(), WalletFileError> {
        self.hit_failpoint("vault.previous_removing", &self.previous())?;
        disk::remove(&self.previous())?;
        self.hit_failpoint("vault.previous_removed", &self.previous())?;
        disk::sync_folder(&self.folder)?;
        self.hit_failpoint("vault.removal_synced", &self.previous())
    }

    /// Removes every copy, the current one last: until then the wallet is complete.
    pub(super) fn delete(&self) -> Result<(), WalletFileError> {
        if !self.current().exists() && !self.previous().exists() {
            return Err(WalletFileError::NotFound { file: self.current() });
        }
        self.remove_temporaries()?;
        self.remove_previous()?;
        self.hit_failpoint("vault.current_removing", &self.current())?;
        disk::remove(&self.current())?;
        self.hit_failpoint("vault.current_removed", &self.current())?;
        disk::sync_folder(&self.folder)?;
        self.hit_failpoint("vault.deletion_synced", &self.current())
    }

    /// Removes temporary files that a crash left behind. They are never read.
    pub(super) fn remove_temporaries(&self) -> Result<(), WalletFileError> {
        for file in disk::files_in(&self.folder)? {
            if is_temporary(&file) {
                let path = self.folder.join(file);
                self.hit_failpoint("vault.sweeping", &path)?;
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    fn write_temporary(
        &self,
        text: &[u8],
        points: &WriteFailpoints,
    ) -> Result<TemporaryFile, WalletFileError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|system| {
            WalletFileError::io(&self.folder, "choose a file name in")(system.into())
        })?;
        let file =
            format!(".{}{CURRENT_SUFFIX}.{}{TEMPORARY_SUFFIX}", self.name, hex::encode(random));
        let path = self.folder.join(file);
        self.hit_failpoint(points.creating, &path)?;
        let mut opened = disk::create_file(&path).map_err(WalletFileError::io(&path, "create"))?;
        let temporary = TemporaryFile { path, renamed: false };
        let path = &temporary.path;
        opened.write_all(text).map_err(WalletFileError::io(path, "write"))?;
        self.hit_failpoint(points.written, path)?;
        opened.sync_all().map_err(WalletFileError::io(path, "flush"))?;
        self.hit_failpoint(points.synced, path)?;
        Ok(temporary)
    }

    fn hit_failpoint(&self, point: &'static str, file: &Path) -> Result<(), WalletFileError> {
        self.failpoints.hit(point).map_err(WalletFileError::io(file, "continue with"))
    }
}

/// A temporary file. It is removed on drop unless it was renamed into place.
struct TemporaryFile {
    path: PathBuf,
    renamed: bool,
}

impl TemporaryFile {
    fn replace(mut self, target: &Path) -> Result<(), WalletFileError> {
        fs::rename(&self.path, target).map_err(WalletFileError::io(target, "replace"))?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.renamed {
            // The save has already failed; a file that remains is swept later.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Whether `file` is `.<name>.wallet.<32 hex digits>.tmp`, for any wallet. The folder has one writer, so such a
/// file is left over.
fn is_temporary(file: &str) -> bool {
    let stem = file.strip_prefix('.').and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX));
    stem.and_then(|rest| rest.rsplit_once('.')).is_some_and(|(owner, random)| {
        let random_name = random.len() == 32 && random.bytes().all(|b| b.is_ascii_hexdigit());
        owner.ends_with(CURRENT_SUFFIX) && random_name
    })
}

/// Whether a wallet may have this name. The name becomes a file name on every platform, and must not lead out of its
/// folder or look like a temporary file.
pub(super) fn is_file_name(name: &Name) -> bool {
    let text = name.as_str();
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b" -_.".contains(&byte);
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 64
        && text.bytes().all(inner)
        && end(text.bytes().next())
        && end(text.bytes().next_back())
        && !is_device(text)
}

/// Whether Windows reserves the name for a device, whatever follows the first dot. A wallet created here must open on
/// Windows too.
fn is_device(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().any(|port| {
        stem.strip_prefix(port)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    numbered || matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
}

/// Returns the wallet to which a file of the folder belongs, as current or previous copy.
pub(super) fn wallet_of(file: &str) -> Option<Name> {
    let stem = file.strip_suffix(PREVIOUS_SUFFIX).or_else(|| file.strip_suffix(CURRENT_SUFFIX))?;
    stem.parse().ok().filter(is_file_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wallet_names_are_valid_file_names_on_every_platform() {
        let fits = |text: &str| is_file_name(&text.parse().unwrap());
        for good in
            ["main", "a", "console", "com", "com10", "nullable", "lpt", "x.con", "auxiliary"]
        {
            assert!(fits(good), "{good}");
        }
        for device in
            ["con", "CON", "nul", "Nul.txt", "aux.a.b", "prn", "com1", "COM9.x", "lpt0", "con .x"]
        {
            assert!(!fits(device), "{device}");
        }
        for bad in ["a/b", "..", ".a", "a.", "-a", "a:b", "a\\b", "a*"] {
            assert!(!fits(bad), "{bad}");
        }
    }
}
