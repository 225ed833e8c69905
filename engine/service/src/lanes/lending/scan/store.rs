//! The store of the scan's results: one file of the data folder, or memory.
//!
//! The file is a cache. It is replaced atomically but not synced, because a sync would delay the syncs of the journal.
//! After a power cut the file may be damaged: the checksum shows this, and the scan starts again.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bursar_core::limits::SCAN_FILE_BYTES_MAX;

/// Stores the encoded results of the scan.
pub trait ScanStore: Send + Sync + fmt::Debug {
    /// Returns the data that was saved last; `None` if there is none.
    ///
    /// # Errors
    /// The data cannot be read.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the data.
    ///
    /// # Errors
    /// The data cannot be written. The earlier data is unchanged.
    fn save(&self, data: &[u8]) -> io::Result<()>;
}

/// A file that only the account of this process can read.
#[derive(Debug)]
pub struct FileStore {
    file: PathBuf,
    /// Serializes writers, which share one temporary file. A stopping engine saves while an earlier save may still run.
    writes: Mutex<()>,
}

impl FileStore {
    /// Creates a store in `file`, whose folder must exist.
    pub fn new(file: PathBuf) -> Self {
        Self { file, writes: Mutex::new(()) }
    }

    fn write(&self, fresh: &Path, data: &[u8]) -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut open = options.write(true).create_new(true).mode(0o600).open(fresh)?;
        open.write_all(data)?;
        fs::rename(fresh, &self.file)
    }
}

impl ScanStore for FileStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        match bursar_files::read(&self.file, SCAN_FILE_BYTES_MAX) {
            Ok(data) => Ok(Some(data)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn save(&self, data: &[u8]) -> io::Result<()> {
        let _one_at_a_time = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = self.file.with_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let written = self.write(&fresh, data);
        if written.is_err() {
            let _gone_already = fs::remove_file(&fresh);
        }
        written
    }
}

/// Memory, for engines whose journal is not in the data folder.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Option<Vec<u8>>>);

impl ScanStore for MemoryStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn save(&self, data: &[u8]) -> io::Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(data.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lending-scan.json");
        let store = FileStore::new(file.clone());
        assert_eq!(store.load().unwrap(), None);
        fs::write(file.with_extension("new"), "left by a crash").unwrap();
        for data in [b"first".as_slice(), b"second"] {
            store.save(data).unwrap();
            assert_eq!(store.load().unwrap().as_deref(), Some(data));
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_save_keeps_the_earlier_data() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lending-scan.json");
        let store = FileStore::new(file.clone());
        store.save(b"first").unwrap();
        fs::create_dir(file.with_extension("new")).unwrap();
        assert!(store.save(b"second").is_err());
        assert_eq!(store.load().unwrap().as_deref(), Some(b"first".as_slice()));
    }
}
