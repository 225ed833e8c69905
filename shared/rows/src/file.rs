//! A redb file of a service.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use redb::{Database, Durability, ReadTransaction, ReadableDatabase, WriteTransaction};
use tokio_util::sync::CancellationToken;

use crate::error::StoreError;

/// The future result of reads or writes in a file.
pub type Reply<'a, T, E = StoreError> = BoxFuture<'a, Result<T, E>>;

/// How a file is used.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size of redb's page cache, in bytes.
    pub cache_bytes: usize,
    /// Whether each commit also stores redb's allocator state.
    ///
    /// The file then opens without a full repair after a crash.
    pub quick_repair: bool,
}

/// An error of the `work` that runs in a transaction.
pub trait WorkError: From<StoreError> + Send + 'static {
    /// Returns the failure of the file; `None` if the work itself refused, so that the file remains writable.
    fn of_file(&self) -> Option<&StoreError>;
}

impl WorkError for StoreError {
    fn of_file(&self) -> Option<&StoreError> {
        Some(self)
    }
}

/// An open redb file, which no other process can open meanwhile.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct RowFile {
    db: Arc<Database>,
    options: Options,
    broken: CancellationToken,
    /// The first failure of a write.
    failure: Arc<OnceLock<StoreError>>,
}

impl RowFile {
    /// Opens `path`, or creates it.
    ///
    /// An existing empty file counts as damage, because a new file gets its name only once it is complete.
    ///
    /// # Errors
    /// The file cannot be used, or another process has it open.
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        if !path.try_exists()? {
            create(path)?;
        }
        let db = open_existing(path, options)?;
        let (broken, failure) = (CancellationToken::new(), Arc::default());
        Ok(Self { db: Arc::new(db), options, broken, failure })
    }

    /// Returns the first failure of a write, if there was one.
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.get()
    }

    /// Returns a token that is cancelled once a write has failed.
    ///
    /// The owner should then reopen the file, because redb refuses all writes after an I/O error.
    pub fn write_failed(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Reads on the caller's thread.
    ///
    /// Use it for a few rows only. They are nearly always cached, so waking another thread would cost more.
    ///
    /// # Errors
    /// The file cannot be read, or `work` failed.
    pub fn read_here<T>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        work(&self.db.begin_read()?)
    }

    /// Reads on a blocking thread.
    ///
    /// # Errors
    /// The file cannot be read, or `work` failed.
    pub fn read<T: Send + 'static, E: WorkError>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, E> + Send + 'static,
    ) -> Reply<'_, T, E> {
        let db = Arc::clone(&self.db);
        blocking(move || work(&db.begin_read().map_err(StoreError::from)?))
    }

    /// Runs `work` in one durable transaction on the caller's thread.
    ///
    /// # Errors
    /// The file cannot be written, or `work` failed. If `work` failed, nothing is stored. After a failed commit, the
    /// state on disk is unknown.
    pub fn write_here<T, E: WorkError>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = commit(&self.db, self.options, work);
        if let Some(failure) = done.as_ref().err().and_then(WorkError::of_file) {
            // Only the first failure is kept, because it causes the later failures.
            let _first = self.failure.set(failure.clone());
            self.broken.cancel();
        }
        done
    }

    /// Runs `work` in one transaction on a blocking thread.
    ///
    /// The commit is on disk when the reply arrives. If `work` fails, nothing is stored.
    ///
    /// # Errors
    /// The file cannot be written, or `work` failed.
    pub fn write<T: Send + 'static, E: WorkError>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, E> + Send + 'static,
    ) -> Reply<'_, T, E> {
        let file = self.clone();
        blocking(move || file.write_here(work))
    }
}

fn open_existing(path: &Path, options: Options) -> Result<Database, StoreError> {
    let file = bursar_files::open_with(File::options().read(true).write(true), path)?;
    if file.metadata()?.len() == 0 {
        return Err(StoreError::Corrupt("the file is empty".to_owned()));
    }
    Ok(Database::builder().set_cache_size(options.cache_bytes).create_file(file)?)
}

/// Creates an empty store under another name, and gives it the name `path` once it is on disk.
///
/// So a process that dies meanwhile leaves no file at `path` that looks damaged.
fn create(path: &Path) -> Result<(), StoreError> {
    let (folder, prefix) = unfinished_files(path);
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| StoreError::Io(error.to_string()))?;
    let unfinished = folder.join(format!("{prefix}{:016x}", u64::from_ne_bytes(random)));
    // Dropping the database completes the file and releases its lock.
    drop(Database::create(&unfinished)?);
    // Two processes may create the store at the same time: then the first link wins. Unlike a rename, a link never
    // replaces an existing file.
    let named = match std::fs::hard_link(&unfinished, path) {
        Ok(()) => Ok(()),
        Err(_named) if path.exists() => Ok(()),
        // This file system does not support hard links.
        Err(_unsupported) => std::fs::rename(&unfinished, path),
    };
    for left in std::fs::read_dir(&folder)?.flatten() {
        if left.file_name().to_string_lossy().starts_with(&prefix) {
            // Another process that starts may have removed the file already.
            let _gone = std::fs::remove_file(left.path());
        }
    }
    named?;
    Ok(File::open(&folder)?.sync_all()?)
}

/// Returns the folder of a store, and the prefix of the names of its unfinished files.
fn unfinished_files(path: &Path) -> (PathBuf, String) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (folder.unwrap_or(Path::new(".")).to_owned(), format!("{name}.new-"))
}

fn commit<T, E: WorkError>(
    db: &Database,
    options: Options,
    work: impl FnOnce(&WriteTransaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut write = db.begin_write().map_err(StoreError::from)?;
    write.set_durability(Durability::Immediate).map_err(StoreError::from)?;
    write.set_quick_repair(options.quick_repair);
    // Dropping the transaction without a commit discards it.
    let value = work(&write)?;
    write.commit().map_err(StoreError::from)?;
    Ok(value)
}

/// Runs disk work on a blocking thread.
fn blocking<T: Send + 'static, E: WorkError>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> BoxFuture<'static, Result<T, E>> {
    Box::pin(async move {
        tokio::task::spawn_blocking(work).await.map_err(|lost| StoreError::Bug(lost.to_string()))?
    })
}

#[cfg(test)]
mod tests {
    use redb::TableDefinition;

    use super::*;
    use crate::{decode, encode, table_if_written};

    const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
    const OPTIONS: Options = Options { cache_bytes: 1 << 20, quick_repair: true };

    fn put(write: &WriteTransaction, value: u32) -> Result<(), StoreError> {
        write.open_table(ROWS)?.insert(&b"one"[..], encode(&value)?.as_slice())?;
        Ok(())
    }

    fn read_row(read: &ReadTransaction) -> Result<Option<u32>, StoreError> {
        let Some(table) = table_if_written(read.open_table(ROWS))? else { return Ok(None) };
        table.get(&b"one"[..])?.map(|value| decode(value.value())).transpose()
    }

    #[tokio::test]
    async fn failed_work_stores_nothing_and_breaks_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        let file = RowFile::open(&path, OPTIONS).unwrap();
        assert_eq!(file.read(read_row).await, Ok(None));
        file.write(|write| put(write, 7)).await.unwrap();
        assert_eq!(file.read_here(read_row), Ok(Some(7)));
        assert!(matches!(RowFile::open(&path, OPTIONS), Err(StoreError::Io(_))), "one process");
        let failed = file.write(|write| {
            put(write, 8)?;
            Err::<(), _>(StoreError::Bug("later".to_owned()))
        });
        assert_eq!(failed.await, Err(StoreError::Bug("later".to_owned())));
        assert!(file.write_failed().is_cancelled());
        assert_eq!(file.failure(), Some(&StoreError::Bug("later".to_owned())));
        assert_eq!(file.read(read_row).await, Ok(Some(7)));
    }

    #[test]
    fn an_empty_file_is_refused_and_an_unfinished_one_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        std::fs::write(&path, b"").unwrap();
        assert!(matches!(RowFile::open(&path, OPTIONS), Err(StoreError::Corrupt(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"", "it is left as it was");
        for left in [&b""[..], b"redb", &[0; 9000]] {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(folder.path().join("a.redb.new-0123"), left).unwrap();
            let file = RowFile::open(&path, OPTIONS).unwrap();
            file.write_here(|write| put(write, 7)).unwrap();
            drop(file);
            assert_eq!(RowFile::open(&path, OPTIONS).unwrap().read_here(read_row), Ok(Some(7)));
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
        }
    }

    #[test]
    fn of_two_first_starts_at_once_one_gets_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}.redb"));
            let start = std::sync::Barrier::new(2);
            let opened = std::thread::scope(|threads| {
                let open = || {
                    start.wait();
                    RowFile::open(&path, OPTIONS)
                };
                [threads.spawn(open), threads.spawn(open)].map(|thread| thread.join().unwrap())
            });
            let file = opened.iter().find_map(|one| one.as_ref().ok()).expect("one opens it");
            assert_eq!(opened.iter().filter(|one| one.is_ok()).count(), 1, "{opened:?}");
            file.write_here(|write| put(write, 7)).unwrap();
            drop(opened);
            assert_eq!(RowFile::open(&path, OPTIONS).unwrap().read_here(read_row), Ok(Some(7)));
        }
    }

    #[tokio::test]
    async fn work_that_refuses_leaves_the_file_usable() {
        #[derive(Debug, PartialEq)]
        enum WorkRefusal {
            Taken,
            Store(StoreError),
        }
        impl From<StoreError> for WorkRefusal {
            fn from(error: StoreError) -> Self {
                Self::Store(error)
            }
        }
        impl WorkError for WorkRefusal {
            fn of_file(&self) -> Option<&StoreError> {
                match self {
                    Self::Taken => None,
                    Self::Store(error) => Some(error),
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = RowFile::open(&folder.path().join("a.redb"), OPTIONS).unwrap();
        let refused = file.write(|write| {
            put(write, 8)?;
            Err::<(), _>(WorkRefusal::Taken)
        });
        assert_eq!(refused.await, Err(WorkRefusal::Taken));
        assert!(!file.write_failed().is_cancelled());
        assert_eq!(file.read_here(read_row), Ok(None), "the refused work left nothing");
    }
}
