//! The journal on disk, in two files. The only module of the wallet that names redb.
//!
//! With quick repair redb writes its page map in every commit, so that a restart after a crash need not scan the file.
//! The map grows with the file. So a payment waits only for a commit to a short file, `journal.redb`. After some
//! thousand rows a background thread moves them to the history file, and the next commit deletes them from the short
//! file. A crash at any point leaves each row in at least one of the files.

mod batches;
mod history;
mod levels;
mod look;
mod payees;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use bursar_domain::payees::{Paid, Payee, Tally};
use bursar_domain::{Request, Settlement};
use redb::{Database, ReadableDatabase};

use self::history::{Load, history_beside};
use self::levels::LayeredReader;
pub use self::look::look;
use self::place::Place;
pub use self::place::{copy_owner_only, create_owner_only};
use super::head::Head;
use super::store::{Batch, Reader, Seal, Snapshot, Store, StoreError, Visit};
use super::tables::Tables;
use bursar_chain::failpoints::Failpoints;

/// How many loads may accumulate before the history changes under a copy in progress.
const COPY_LOADS: usize = 8;
/// Page cache of the short file, in bytes.
const CACHE_BYTES: usize = 2 << 20;

/// When and on which thread rows move to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carry {
    /// Approximate size in bytes at which a load starts.
    pub after_bytes: usize,
    /// On a background thread. Otherwise the commit that reaches the size moves the rows, in deterministic order.
    pub beside: bool,
}

impl Carry {
    /// About three thousand payments per load: rare enough that neighbouring rows share pages, frequent enough to keep
    /// memory use and startup time small.
    pub const PRODUCTION: Self = Self { after_bytes: 4 << 20, beside: true };
}

/// A journal in two redb files.
#[derive(Debug)]
pub struct RedbStore {
    short: Database,
    levels: Arc<LayeredReader>,
    carry: Carry,
    /// Number of the last commit.
    number: u64,
    /// Number of the last commit that the history has.
    carried: u64,
    /// Number of the last commit that was deleted from the short file.
    dropped: u64,
    carrier: Option<JoinHandle<Result<(), StoreError>>>,
    /// Number of the last commit of the load in flight.
    on_its_way: u64,
    /// The path of the history; `None` if the store is not in files.
    beside: Option<PathBuf>,
    /// The store's files, to detect that one was moved or replaced.
    places: Vec<Place>,
    copying: Copying,
    failpoints: Arc<dyn Failpoints>,
}

/// Whether a copy of the history is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copying {
    No,
    Yes,
    /// The history changed during the copy.
    Spoiled,
}

impl RedbStore {
    /// Opens or creates the short file `path`, and opens the history next to it if there is one.
    ///
    /// # Errors
    /// A file cannot be opened, or the two files are from different times.
    pub fn open(path: &Path, failpoints: Arc<dyn Failpoints>) -> Result<Self, StoreError> {
        let beside = history_beside(path);
        if beside.exists() && std::fs::metadata(path).map_or(0, |found| found.len()) == 0 {
            return Err(batches::apart());
        }
        let short = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
        let mut places = vec![Place::of(path)?];
        let mut long = None;
        if beside.exists() {
            long = Some(history::open(&beside)?);
            places.push(Place::of(&beside)?);
        }
        let mut opened = Self::of(short, long, failpoints)?;
        (opened.beside, opened.places) = (Some(beside), places);
        Ok(opened)
    }

    /// Opens or creates a journal on two storage backends, for simulations.
    ///
    /// # Errors
    /// A backend failed, or the two are from different times.
    pub fn over(
        short: impl redb::StorageBackend,
        long: impl redb::StorageBackend,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let long = history::over(long)?;
        Self::of(builder.create_with_backend(short)?, Some(long), failpoints)
    }

    /// Sets when and how rows move to the history.
    #[must_use]
    pub fn carrying(mut self, carry: Carry) -> Self {
        self.carry = carry;
        self
    }

    fn of(
        short: Database,
        long: Option<Database>,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, StoreError> {
        let (mut tables, carried) = match &long {
            Some(long) => history::standing(&long.begin_read()?)?,
            None => Default::default(),
        };
        let read = short.begin_read()?;
        let number = batches::load(&read, carried, &mut tables)?;
        drop(read);
        Ok(Self {
            short,
            levels: Arc::new(LayeredReader::new(tables, long.map(Arc::new))),
            carry: Carry::PRODUCTION,
            number,
            carried,
            dropped: 0,
            carrier: None,
            on_its_way: 0,
            beside: None,
            places: Vec::new(),
            copying: Copying::No,
            failpoints,
        })
    }

    fn history(&mut self) -> Result<Arc<Database>, StoreError> {
        if let Some(known) = &self.levels.now().history {
            return Ok(Arc::clone(known));
        }
        let path = self
            .beside
            .as_ref()
            .ok_or_else(|| StoreError::Bug("there is no place for a history".to_owned()))?;
        let made = Arc::new(history::create(path, &*self.failpoints)?);
        self.places.push(Place::of(path)?);
        self.levels.change().history = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Finishes the load in flight: waits for it, or without `wait` only if it has already ended.
    fn receive(&mut self, wait: bool) -> Result<(), StoreError> {
        match self.carrier.take() {
            Some(carrier) if wait || carrier.is_finished() => {
                carrier
                    .join()
                    .map_err(|_panic| StoreError::Bug("what carries over panicked".to_owned()))??;
                self.arrived();
            }
            still => self.carrier = still,
        }
        Ok(())
    }

    fn arrived(&mut self) {
        let mut now = self.levels.change();
        now.frozen = None;
        now.arrived = now.arrived.saturating_add(1);
        self.carried = self.on_its_way;
    }

    /// Takes all committed rows as the next load.
    fn freeze(&mut self) -> Arc<Tables> {
        let mut now = self.levels.change();
        let next = now.active.following();
        let load = Arc::new(std::mem::replace(&mut now.active, next));
        now.frozen = Some(Arc::clone(&load));
        self.on_its_way = self.number;
        load
    }

    /// Marks a copy in progress as failed, because the history is about to change.
    fn spoil(&mut self) {
        if self.copying == Copying::Yes {
            self.copying = Copying::Spoiled;
        }
    }

    /// Starts a load once enough rows have accumulated. If another load is in flight, it starts at twice the size and
    /// waits for the other to finish.
    fn start_migration(&mut self) -> Result<(), StoreError> {
        let bytes = self.levels.now().active.bytes;
        let patience = if self.copying == Copying::Yes { COPY_LOADS } else { 1 };
        if bytes < self.carry.after_bytes.saturating_mul(patience) {
            return Ok(());
        }
        self.spoil();
        if self.carrier.is_some() {
            if bytes < self.carry.after_bytes.saturating_mul(2) {
                return Ok(());
            }
            self.receive(true)?;
        }
        if !self.carry.beside {
            return self.carry_now(None);
        }
        let (db, failpoints) = (self.history()?, Arc::clone(&self.failpoints));
        let (tables, through) = (self.freeze(), self.number);
        let work = move || {
            let load = Load { tables: &tables, through, payees: None };
            history::carry(&db, &load, &*failpoints)
        };
        let thread = std::thread::Builder::new().name("journal-history".to_owned());
        self.carrier = Some(thread.spawn(work)?);
        Ok(())
    }

    /// Moves all rows to the history on this thread. `payees` replaces all payee rows.
    fn carry_now(&mut self, payees: Option<(&Tally, Head)>) -> Result<(), StoreError> {
        self.spoil();
        self.receive(true)?;
        let db = self.history()?;
        let tables = self.freeze();
        let load = Load { tables: &tables, through: self.number, payees };
        history::carry(&db, &load, &*self.failpoints)?;
        self.arrived();
        Ok(())
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // Close the files before the next open. An error of the load shows again at that open.
        let _met_again = self.receive(true);
    }
}

impl Store for RedbStore {
    fn head(&self) -> Result<Head, StoreError> {
        Ok(self.levels.now().active.head)
    }

    fn seal(&self) -> Result<Option<Seal>, StoreError> {
        Ok(self.levels.now().active.seal)
    }

    fn forgotten(&self) -> Result<u32, StoreError> {
        Ok(self.levels.now().active.forgotten)
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.levels.snapshot()
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.levels.read_after(seq, visit)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.levels.entry(seq)
    }

    fn indexed(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.levels.indexed(key)
    }

    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        self.levels.record(seq)
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        self.levels.settlement(seq)
    }

    fn paid(&self, payee: &Payee) -> Result<Option<Paid>, StoreError> {
        self.levels.row_of(payee)
    }

    fn payees_through(&self) -> Result<Head, StoreError> {
        Ok(self.levels.now().active.payees_through)
    }

    fn commit(&mut self, mut batch: Batch) -> Result<(), StoreError> {
        self.receive(false)?;
        self.failpoints.hit("journal.before_commit")?;
        if batch.payees_replaced {
            // One row per payee is too many for the short file.
            self.carry_now(Some((&std::mem::take(&mut batch.payees), batch.head)))?;
        }
        let number = self.number.saturating_add(1);
        let dropped = (self.carried > self.dropped).then_some(self.carried);
        batches::append(&self.short, number, &batch, dropped, &*self.failpoints)?;
        self.number = number;
        self.dropped = self.carried;
        // A commit to a file that was moved or deleted is lost at the next start.
        for place in &self.places {
            place.check()?;
        }
        self.levels.change().active.apply(batch);
        self.failpoints.hit("journal.after_commit")?;
        self.start_migration()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.levels) as Arc<dyn Reader>
    }

    fn begin_copy(&mut self) -> Result<Option<PathBuf>, StoreError> {
        self.receive(true)?;
        let beside = self
            .beside
            .as_ref()
            .ok_or_else(|| StoreError::Bug("this journal is not in files".to_owned()))?;
        let history = self.levels.now().history.is_some().then(|| beside.clone());
        self.copying = Copying::Yes;
        Ok(history)
    }

    fn end_copy(&mut self, to: Option<&Path>) -> Result<(), StoreError> {
        let copying = std::mem::replace(&mut self.copying, Copying::No);
        let Some(to) = to else { return Ok(()) };
        if copying != Copying::Yes {
            return Err(StoreError::Io(
                "the journal was carried over meanwhile: try again".to_owned(),
            ));
        }
        let short = self
            .places
            .first()
            .ok_or_else(|| StoreError::Bug("this journal is not in files".to_owned()))?;
        // Between two commits the file is complete, like after a crash.
        copy_owner_only(short.path(), to).map_err(StoreError::from)
    }
}
