//! Locks of key files. Two programs that send with one key use each other's nonces, so the second program does not
//! start.
//!
//! A lock belongs to a file. Programs with different copies of a file both start, and `settle/foreign_nonce` detects
//! their transactions.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::keys::fault::KeyFault;

/// The locked key files of a program.
///
/// The operating system releases the locks whenever the program ends, even after a crash.
#[derive(Debug, Default)]
pub struct KeyLocks {
    files: Vec<File>,
}

impl KeyLocks {
    /// Locks key files.
    ///
    /// A file that is listed several times, for several networks, is locked once.
    ///
    /// # Errors
    /// [`KeyFault::InUse`], [`KeyFault::Unreadable`].
    pub fn lock_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<Self, KeyFault> {
        let mut locks = Self::default();
        let mut seen = Vec::new();
        for file in files {
            let unreadable = |source| KeyFault::Unreadable { file: file.to_owned(), source };
            let open = bursar_files::open(file).map_err(unreadable)?;
            let identity = identity_of(file, &open).map_err(unreadable)?;
            if seen.contains(&identity) {
                continue;
            }
            seen.push(identity);
            match open.try_lock() {
                Ok(()) => locks.files.push(open),
                Err(TryLockError::WouldBlock) => {
                    return Err(KeyFault::InUse { file: file.to_owned() });
                }
                // Some file systems have no locks. `settle/foreign_nonce` still detects another program by its nonces
                // on the chain.
                Err(TryLockError::Error(fault)) => {
                    tracing::warn!(file = %file.display(), %fault, "a key file cannot be locked");
                }
            }
        }
        Ok(locks)
    }
}

/// Returns an identity of the file that does not depend on the path to it.
#[cfg(unix)]
fn identity_of(_path: &Path, file: &File) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity_of(path: &Path, _file: &File) -> std::io::Result<std::path::PathBuf> {
    path.canonicalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_has_one_user_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("key"), folder.path().join("other"));
        std::fs::write(&file, "1").unwrap();
        std::fs::write(&other, "2").unwrap();
        let names = [file.as_path(), &folder.path().join("./key"), &other];
        let locks = KeyLocks::lock_files(names).unwrap();
        let again = KeyLocks::lock_files([file.as_path()]).unwrap_err();
        assert!(matches!(&again, KeyFault::InUse { file: used } if *used == file), "{again}");
        // A failed attempt keeps no lock on the files that it locked before the file in use.
        let free = folder.path().join("free");
        std::fs::write(&free, "3").unwrap();
        assert!(KeyLocks::lock_files([free.as_path(), &file]).is_err());
        assert!(KeyLocks::lock_files([free.as_path()]).is_ok());
        drop(locks);
        assert!(KeyLocks::lock_files(names).is_ok());
        let missing = folder.path().join("missing");
        assert!(matches!(KeyLocks::lock_files([&*missing]), Err(KeyFault::Unreadable { .. })));
    }
}
