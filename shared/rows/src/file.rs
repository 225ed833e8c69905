//! A redb file of a service.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use redb::{Database, Durability, ReadTransaction, ReadableDatabase, WriteTransaction};
use tokio_util::sync::CancellationToken;

use crate::error::StoreError;

/// The future result of work in a file.
pub type Reply<'a, T, E = StoreError> = BoxFuture<'a, Result<T, E>>;

/// How a file is used.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size of redb's page cache, in bytes.
    pub cache_bytes: usize,
    /// Whether each commit also stores redb's allocator state. The file then opens without a full repair after a
    /// crash.
    pub quick_repair: bool,
}

/// An error of work in a transaction.
pub trait WorkError: From<StoreError> + Send + 'static {
    /// Returns whether the file failed. Otherwise the work itself refused, and the file remains writable.
    fn is_of_file(&self) -> bool;
}

impl WorkError for StoreError {
    fn is_of_file(&self) -> bool {
        true
    }
}

/// A redb file that one process holds open. Clones share it.
#[derive(Debug, Clone)]
pub struct RowFile {
    db: Arc<Database>,
    options: Options,
    broken: CancellationToken,
}

impl RowFile {
    /// Opens or creates `path`.
    ///
    /// # Errors
    /// The file cannot be used, or another process has it open.
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        let db = Database::builder().set_cache_size(options.cache_bytes).create(path)?;
        Ok(Self { db: Arc::new(db), options, broken: CancellationToken::new() })
    }

    /// Returns a token that is cancelled once a write has failed. The owner should then reopen the file, because
    /// redb refuses all writes after an I/O error.
    pub fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Reads on the caller's thread. For a few rows: these are nearly always cached, and waking another thread
    /// costs more.
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
        if done.as_ref().is_err_and(WorkError::is_of_file) {
            self.broken.cancel();
        }
        done
    }

    /// Runs `work` in one transaction on a blocking thread. The commit is on disk when the reply arrives. If `work`
    /// fails, nothing is stored.
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
    use crate::{decode, encode, existing};

    const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
    const OPTIONS: Options = Options { cache_bytes: 1 << 20, quick_repair: true };

    fn put(write: &WriteTransaction, value: u32) -> Result<(), StoreError> {
        write.open_table(ROWS)?.insert(&b"one"[..], encode(&value)?.as_slice())?;
        Ok(())
    }

    fn one(read: &ReadTransaction) -> Result<Option<u32>, StoreError> {
        let Some(table) = existing(read.open_table(ROWS))? else { return Ok(None) };
        table.get(&b"one"[..])?.map(|value| decode(value.value())).transpose()
    }

    #[tokio::test]
    async fn failed_work_stores_nothing_and_breaks_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        let file = RowFile::open(&path, OPTIONS).unwrap();
        assert_eq!(file.read(one).await, Ok(None));
        file.write(|write| put(write, 7)).await.unwrap();
        assert_eq!(file.read_here(one), Ok(Some(7)));
        assert!(matches!(RowFile::open(&path, OPTIONS), Err(StoreError::Io(_))), "one process");
        let failed = file.write(|write| {
            put(write, 8)?;
            Err::<(), _>(StoreError::Bug("later".to_owned()))
        });
        assert_eq!(failed.await, Err(StoreError::Bug("later".to_owned())));
        assert!(file.broken().is_cancelled());
        assert_eq!(file.read(one).await, Ok(Some(7)));
    }

    #[tokio::test]
    async fn work_that_refuses_leaves_the_file_usable() {
        #[derive(Debug, PartialEq)]
        enum Refusal {
            Taken,
            Store(StoreError),
        }
        impl From<StoreError> for Refusal {
            fn from(error: StoreError) -> Self {
                Self::Store(error)
            }
        }
        impl WorkError for Refusal {
            fn is_of_file(&self) -> bool {
                matches!(self, Self::Store(_))
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = RowFile::open(&folder.path().join("a.redb"), OPTIONS).unwrap();
        let refused = file.write(|write| {
            put(write, 8)?;
            Err::<(), _>(Refusal::Taken)
        });
        assert_eq!(refused.await, Err(Refusal::Taken));
        assert!(!file.broken().is_cancelled());
        assert_eq!(file.read_here(one), Ok(None), "the refused work left nothing");
    }
}
