//! A store in memory, for tests and for commands that must not open the journal on disk. A second store, for tests,
//! fails from a chosen commit on. The suite in `tests/journal/main.rs` runs on the memory store and on the real
//! store; a difference is a bug in the memory store.

use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::ids::RequestId;
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_domain::{Request, Settlement};

use super::head::Head;
use super::payees::behind_error;
use super::store::{
    Batch, INDEX_ROWS_MAX, Reader, Seal, Snapshot, Store, StoreError, Visit, VisitPayee,
    VisitRequest, decode_record, decode_settlement, id_key,
};
use super::tables::Tables;

/// A store in memory, whose clones share its contents.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    // A mutex instead of an owning task: readers run on other threads, like those of the real store.
    tables: Arc<Mutex<Tables>>,
}

impl MemoryStore {
    fn with<T>(&self, use_tables: impl FnOnce(&mut Tables) -> T) -> T {
        use_tables(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a separate store with the same contents.
    #[must_use]
    pub fn deep_copy(&self) -> Self {
        Self { tables: Arc::new(Mutex::new(self.with(|tables| tables.clone()))) }
    }

    /// Changes the bytes of an entry, as a process with access to the file could.
    pub fn tamper(&self, seq: u64, change: impl FnOnce(&mut Vec<u8>)) {
        self.with(|tables| {
            if let Some(bytes) = tables.entries.get_mut(&seq) {
                change(bytes);
            }
        });
    }

    /// Removes an entry and nothing else, as a process with access to the file could.
    pub fn remove(&self, seq: u64) {
        self.with(|tables| tables.entries.remove(&seq));
    }

    /// Replaces the contents with those of another store, like an older file that is copied back.
    pub fn replace_contents(&self, older: &Self) {
        let tables = older.with(|tables| tables.clone());
        self.with(|ours| *ours = tables);
    }

    /// Clears the index of asks, as a process with access to the file could.
    pub fn lose_index(&self) {
        self.with(|tables| tables.index.clear());
    }
}

impl Store for MemoryStore {
    fn head(&self) -> Result<Head, StoreError> {
        Ok(self.with(|tables| tables.head))
    }

    fn seal(&self) -> Result<Option<Seal>, StoreError> {
        Ok(self.with(|tables| tables.seal))
    }

    fn forgotten_before_day(&self) -> Result<u32, StoreError> {
        Ok(self.with(|tables| tables.forgotten))
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.with(|tables| tables.snapshot.clone()))
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        Reader::read_after(self, seq, visit)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.with(|tables| tables.entries.get(&seq).cloned()))
    }

    fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        Ok(self.with(|tables| tables.index.get(key).copied()))
    }

    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        let bytes = self.with(|tables| tables.records.get(&seq).cloned());
        bytes.map(|bytes| decode_record(&bytes)).transpose()
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        let bytes = self.with(|tables| tables.settlements.get(&seq).cloned());
        bytes.map(|bytes| decode_settlement(&bytes)).transpose()
    }

    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        Ok(self.with(|tables| tables.payees.get(payee).copied()))
    }

    fn payees_through(&self) -> Result<Head, StoreError> {
        Ok(self.with(|tables| tables.payees_through))
    }

    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.with(|tables| tables.apply(batch));
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for MemoryStore {
    fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        match self.entry_of_key(&id_key(id))? {
            Some(seq) => self.record(seq),
            None => Ok(None),
        }
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        Store::settlement(self, seq)
    }

    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        self.with(|tables| {
            if tables.payees_through != tables.head {
                return Err(behind_error());
            }
            Ok(tables.payees.get(payee).copied())
        })
    }

    fn payees(&self, visit: &mut VisitPayee<'_>) -> Result<(), StoreError> {
        let rows = self.with(|tables| tables.payees.clone());
        rows.into_iter().for_each(|(payee, paid)| visit(payee, Some(paid)));
        Ok(())
    }

    fn similar_payees(&self, payee: &Payee) -> Result<Vec<Payee>, StoreError> {
        Ok(self.with(|tables| tables.similar_payees(payee)))
    }

    fn index_rows(&self, start: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, StoreError> {
        Ok(self.with(|tables| tables.index_rows(start, INDEX_ROWS_MAX)))
    }

    fn newest(&self, visit: &mut VisitRequest<'_>) -> Result<(), StoreError> {
        let newest: Vec<Vec<u8>> =
            self.with(|tables| tables.records.values().rev().cloned().collect());
        for bytes in newest {
            if !visit(decode_record(&bytes)?) {
                break;
            }
        }
        Ok(())
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let entries: Vec<Vec<u8>> = self.with(|tables| {
            tables
                .entries
                .range(seq.saturating_add(1)..)
                .map(|(_seq, bytes)| bytes.clone())
                .collect()
        });
        for bytes in entries {
            if !visit(&bytes) {
                break;
            }
        }
        Ok(())
    }
}

/// A store whose commits fail after the first `commits_left`, like a full disk.
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    commits_left: usize,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store whose next `commits_left` commits succeed.
    pub fn new(inner: S, commits_left: usize) -> Self {
        Self { inner, commits_left }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn head(&self) -> Result<Head, StoreError> {
        self.inner.head()
    }

    fn seal(&self) -> Result<Option<Seal>, StoreError> {
        self.inner.seal()
    }

    fn forgotten_before_day(&self) -> Result<u32, StoreError> {
        self.inner.forgotten_before_day()
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.inner.snapshot()
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.inner.read_after(seq, visit)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.entry(seq)
    }

    fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        self.inner.entry_of_key(key)
    }

    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        self.inner.record(seq)
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        self.inner.settlement(seq)
    }

    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        self.inner.payee_totals(payee)
    }

    fn payees_through(&self) -> Result<Head, StoreError> {
        self.inner.payees_through()
    }

    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        match self.commits_left.checked_sub(1) {
            Some(left) => {
                self.commits_left = left;
                self.inner.commit(batch)
            }
            None => Err(StoreError::DiskFull("No space left on device".to_owned())),
        }
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.inner.reader()
    }
}
