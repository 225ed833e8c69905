//! The journal on disk, in two files. The only module of the wallet that names redb.
//!
//! With quick repair redb writes its page map in every commit, so that a restart after a crash need not scan the file.
//! The map grows with the file. So a payment normally waits only for a commit to a short file, `journal.redb`. After
//! some thousand rows a checkpoint moves them to the history file in the background. The next commit deletes them
//! from the short file. A crash at any point leaves each row in at least one of the files.

mod batches;
mod closed;
mod files;
mod history;
mod layered_reader;
mod payees;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use bursar_domain::payee::Payee;
use bursar_domain::payees::{PaymentTotals, Tally};
use bursar_domain::{Request, Settlement};
use redb::{Database, ReadableDatabase};

pub use self::closed::{check_closed_journal, edition_of_history};
pub use self::files::create_owner_only;
use self::files::{TrackedFile, check_regular, copy_owner_only};
use self::history::{CheckpointRows, history_path};
use self::layered_reader::LayeredReader;
use super::head::Head;
use super::store::{Batch, Reader, Seal, Snapshot, Store, StoreError, Visit};
use super::tables::Tables;
use bursar_chain::failpoints::Failpoints;

/// During a copy, a checkpoint starts only at this many times the usual size.
const COPY_FACTOR: usize = 8;
/// Page cache of the short file, in bytes.
const CACHE_BYTES: usize = 2 << 20;

/// When and on which thread a checkpoint moves rows to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoints {
    /// Approximate size in bytes at which a checkpoint starts.
    pub after_bytes: usize,
    /// Whether a background thread moves the rows.
    ///
    /// Otherwise the commit that reaches the size moves them, in deterministic order.
    pub in_background: bool,
}

impl Checkpoints {
    /// About three thousand payments per checkpoint: large enough that one checkpoint fills whole pages, small enough
    /// to keep memory use and startup time small.
    pub const PRODUCTION: Self = Self { after_bytes: 4 << 20, in_background: true };
}

/// A journal in two redb files.
#[derive(Debug)]
pub struct RedbStore {
    short_file: Database,
    layers: Arc<LayeredReader>,
    checkpoints: Checkpoints,
    /// Number of the last commit.
    last_commit: u64,
    /// Number of the last commit that the history has.
    checkpointed_commit: u64,
    /// Number of the last commit that was deleted from the short file.
    dropped_commit: u64,
    /// The checkpoint in flight.
    checkpoint: Option<JoinHandle<Result<(), StoreError>>>,
    /// Whether a checkpoint has failed, so that nothing more is committed.
    checkpoint_failed: bool,
    /// Number of the last commit of the checkpoint in flight.
    checkpoint_through: u64,
    /// The path of the history; `None` if the store is not in files.
    history_path: Option<PathBuf>,
    /// The store's files, to detect that one was moved or replaced.
    files: Vec<TrackedFile>,
    copying: CopyState,
    failpoints: Arc<dyn Failpoints>,
}

/// Whether a copy of the history is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyState {
    Idle,
    InProgress,
    /// The history changed during the copy.
    Invalid,
}

impl RedbStore {
    /// Opens or creates the short file `path`, and opens the history next to it if there is one.
    ///
    /// # Errors
    /// A file cannot be opened, or the two files are from different times.
    pub fn open(path: &Path, failpoints: Arc<dyn Failpoints>) -> Result<Self, StoreError> {
        let history_path = history_path(path);
        check_regular(path)?;
        check_regular(&history_path)?;
        if history_path.exists() && std::fs::metadata(path).map_or(0, |found| found.len()) == 0 {
            return Err(batches::mismatched_files());
        }
        let short = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
        let mut files = vec![TrackedFile::of(path)?];
        let mut long = None;
        if history_path.exists() {
            long = Some(history::open(&history_path)?);
            files.push(TrackedFile::of(&history_path)?);
        }
        let mut opened = Self::of(short, long, failpoints)?;
        (opened.history_path, opened.files) = (Some(history_path), files);
        Ok(opened)
    }

    /// Opens or creates a journal on two storage backends, for simulations.
    ///
    /// # Errors
    /// A backend failed, or the two are from different times.
    pub fn on_backends(
        short: impl redb::StorageBackend,
        long: impl redb::StorageBackend,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let long = history::on_backend(long)?;
        Self::of(builder.create_with_backend(short)?, Some(long), failpoints)
    }

    /// Sets when and how rows move to the history.
    #[must_use]
    pub fn with_checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    fn of(
        short: Database,
        long: Option<Database>,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, StoreError> {
        let (mut tables, checkpointed) = match &long {
            Some(long) => history::read_heads(&long.begin_read()?)?,
            None => Default::default(),
        };
        let read = short.begin_read()?;
        let number = batches::load(&read, checkpointed, &mut tables)?;
        drop(read);
        Ok(Self {
            short_file: short,
            layers: Arc::new(LayeredReader::new(tables, long.map(Arc::new))),
            checkpoints: Checkpoints::PRODUCTION,
            last_commit: number,
            checkpointed_commit: checkpointed,
            dropped_commit: 0,
            checkpoint: None,
            checkpoint_failed: false,
            checkpoint_through: 0,
            history_path: None,
            files: Vec::new(),
            copying: CopyState::Idle,
            failpoints,
        })
    }

    fn history(&mut self) -> Result<Arc<Database>, StoreError> {
        if let Some(known) = &self.layers.read().history {
            return Ok(Arc::clone(known));
        }
        let path = self
            .history_path
            .as_ref()
            .ok_or_else(|| StoreError::Bug("a journal in memory has no history file".to_owned()))?;
        let made = Arc::new(history::create(path, &*self.failpoints)?);
        self.files.push(TrackedFile::of(path)?);
        self.layers.write().history = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Finishes the checkpoint in flight; without `wait`, only if its thread has already ended.
    fn join_checkpoint(&mut self, wait: bool) -> Result<(), StoreError> {
        match self.checkpoint.take() {
            Some(checkpoint) if wait || checkpoint.is_finished() => {
                let ended = checkpoint.join().map_err(|_panic| {
                    StoreError::Bug("the thread of the checkpoint panicked".to_owned())
                });
                self.finish_checkpoint(ended.and_then(std::convert::identity))?;
            }
            running => self.checkpoint = running,
        }
        Ok(())
    }

    /// Records the end of a checkpoint. After a failed checkpoint the store accepts no further commit: a later
    /// checkpoint would delete the failed one's rows from the short file, although the history lacks them. A restart
    /// loads these rows again.
    fn finish_checkpoint(&mut self, ended: Result<(), StoreError>) -> Result<(), StoreError> {
        self.checkpoint_failed |= ended.is_err();
        ended?;
        let mut layers = self.layers.write();
        layers.frozen = None;
        layers.checkpoints_done = layers.checkpoints_done.saturating_add(1);
        self.checkpointed_commit = self.checkpoint_through;
        Ok(())
    }

    /// Freezes the rows since the last checkpoint as the load of the next checkpoint.
    fn freeze(&mut self) -> Arc<Tables> {
        let mut layers = self.layers.write();
        let next = layers.active.empty_successor();
        let load = Arc::new(std::mem::replace(&mut layers.active, next));
        layers.frozen = Some(Arc::clone(&load));
        self.checkpoint_through = self.last_commit;
        load
    }

    /// Marks a copy in progress as failed, because the history is about to change.
    fn invalidate_copy(&mut self) {
        if self.copying == CopyState::InProgress {
            self.copying = CopyState::Invalid;
        }
    }

    /// Starts a checkpoint once enough rows have accumulated. If another checkpoint is in flight, this waits for its
    /// end at twice the size, and then starts the next one.
    fn start_checkpoint(&mut self) -> Result<(), StoreError> {
        let bytes = self.layers.read().active.bytes;
        let factor = if self.copying == CopyState::InProgress { COPY_FACTOR } else { 1 };
        if bytes < self.checkpoints.after_bytes.saturating_mul(factor) {
            return Ok(());
        }
        self.invalidate_copy();
        if self.checkpoint.is_some() {
            if bytes < self.checkpoints.after_bytes.saturating_mul(2) {
                return Ok(());
            }
            self.join_checkpoint(true)?;
        }
        if !self.checkpoints.in_background {
            return self.checkpoint_now(None);
        }
        let (db, failpoints) = (self.history()?, Arc::clone(&self.failpoints));
        let (tables, through) = (self.freeze(), self.last_commit);
        let work = move || {
            let load = CheckpointRows { tables: &tables, through, payees: None };
            history::checkpoint(&db, &load, &*failpoints)
        };
        let thread = std::thread::Builder::new().name("journal-history".to_owned());
        self.checkpoint = Some(thread.spawn(work)?);
        Ok(())
    }

    /// Moves the rows since the last checkpoint to the history on this thread. `payees` replaces all payee rows.
    fn checkpoint_now(&mut self, payees: Option<(&Tally, Head)>) -> Result<(), StoreError> {
        self.invalidate_copy();
        self.join_checkpoint(true)?;
        let db = self.history()?;
        let tables = self.freeze();
        let load = CheckpointRows { tables: &tables, through: self.last_commit, payees };
        let ended = history::checkpoint(&db, &load, &*self.failpoints);
        self.finish_checkpoint(ended)
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // Wait, so that the files are closed before the next open. A failed checkpoint loses nothing: the short file
        // still has its rows.
        let _met_again = self.join_checkpoint(true);
    }
}

impl Store for RedbStore {
    fn head(&self) -> Result<Head, StoreError> {
        Ok(self.layers.read().active.head)
    }

    fn seal(&self) -> Result<Option<Seal>, StoreError> {
        Ok(self.layers.read().active.seal)
    }

    fn forgotten_before_day(&self) -> Result<u32, StoreError> {
        Ok(self.layers.read().active.forgotten)
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.layers.snapshot()
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.layers.read_after(seq, visit)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.layers.entry(seq)
    }

    fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.layers.entry_of_key(key)
    }

    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        self.layers.record(seq)
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        self.layers.settlement(seq)
    }

    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        self.layers.row_of(payee)
    }

    fn payees_through(&self) -> Result<Head, StoreError> {
        Ok(self.layers.read().active.payees_through)
    }

    fn commit(&mut self, mut batch: Batch) -> Result<(), StoreError> {
        if self.checkpoint_failed {
            return Err(StoreError::Io(
                "an earlier checkpoint failed: restart the engine".to_owned(),
            ));
        }
        self.join_checkpoint(false)?;
        self.failpoints.hit("journal.before_commit")?;
        if batch.payees_replaced {
            // One row per payee is too many for the short file.
            self.checkpoint_now(Some((&std::mem::take(&mut batch.payees), batch.head)))?;
        }
        let number = self.last_commit.saturating_add(1);
        let dropped =
            (self.checkpointed_commit > self.dropped_commit).then_some(self.checkpointed_commit);
        batches::append(&self.short_file, number, &batch, dropped, &*self.failpoints)?;
        self.last_commit = number;
        self.dropped_commit = self.checkpointed_commit;
        // A commit to a file that was moved or deleted is lost at the next start.
        for file in &self.files {
            file.check()?;
        }
        self.layers.write().active.apply(batch);
        self.failpoints.hit("journal.after_commit")?;
        self.start_checkpoint()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.layers) as Arc<dyn Reader>
    }

    fn begin_copy(&mut self) -> Result<Option<PathBuf>, StoreError> {
        self.join_checkpoint(true)?;
        let path = self
            .history_path
            .as_ref()
            .ok_or_else(|| StoreError::Bug("a journal in memory cannot be copied".to_owned()))?;
        let history = self.layers.read().history.is_some().then(|| path.clone());
        self.copying = CopyState::InProgress;
        Ok(history)
    }

    fn end_copy(&mut self, to: Option<&Path>) -> Result<(), StoreError> {
        let copying = std::mem::replace(&mut self.copying, CopyState::Idle);
        let Some(to) = to else { return Ok(()) };
        if copying != CopyState::InProgress {
            return Err(StoreError::Io(
                "a checkpoint changed the history during the copy: try again".to_owned(),
            ));
        }
        let short = self
            .files
            .first()
            .ok_or_else(|| StoreError::Bug("a journal in memory cannot be copied".to_owned()))?;
        // No commit runs during this copy, so it is consistent. redb opens it like a file after a crash, because it was
        // not closed.
        copy_owner_only(short.path(), to).map_err(StoreError::from)
    }
}
