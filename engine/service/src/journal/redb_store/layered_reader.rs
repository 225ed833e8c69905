//! One view of both files: the rows of the history file, and the newer rows, which are in memory and in the short
//! file. Shared by the core's thread and all readers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bursar_core::ids::RequestId;
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_domain::{Request, Settlement};
use bursar_rows::table_if_written;
use redb::{Database, ReadTransaction, ReadableDatabase};

use super::{history, payees};
use crate::journal::payees::behind_error;
use crate::journal::store::{
    INDEX_ROWS_MAX, PREFIX_HITS_MAX, Reader, Snapshot, StoreError, Visit, VisitPayee, VisitRequest,
    decode_record, decode_settlement, id_key, prefix_key,
};
use crate::journal::tables::{IndexHit, Tables};

/// Entries that a reader copies under the lock at a time, so that commits do not wait for slow readers.
const ENTRIES_PER_LOCK: usize = 64;

#[derive(Debug)]
pub(super) struct LayeredReader {
    // A lock instead of an owning task: readers run on any thread and hold it only briefly, so commits hardly wait.
    layers: RwLock<Layers>,
}

/// The layers: rows in memory, and the history.
#[derive(Debug)]
pub(super) struct Layers {
    /// Rows committed since the last checkpoint began.
    pub(super) active: Tables,
    /// Rows of the checkpoint in flight.
    pub(super) frozen: Option<Arc<Tables>>,
    pub(super) history: Option<Arc<Database>>,
    /// Number of finished checkpoints. A read that began before the end of a checkpoint may miss the rows that it
    /// moved.
    pub(super) checkpoints_done: u64,
}

impl Layers {
    /// The tables in memory, newest first.
    fn in_memory(&self) -> impl Iterator<Item = &Tables> {
        std::iter::once(&self.active).chain(self.frozen.as_deref())
    }

    fn begin_read(&self) -> Result<Option<ReadTransaction>, StoreError> {
        self.history.as_ref().map(|db| db.begin_read().map_err(StoreError::from)).transpose()
    }
}

impl LayeredReader {
    pub(super) fn new(active: Tables, history: Option<Arc<Database>>) -> Self {
        Self { layers: RwLock::new(Layers { active, frozen: None, history, checkpoints_done: 0 }) }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Layers> {
        self.layers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for a change; only the committing thread calls it.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Layers> {
        self.layers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a row in memory, else in the history. The history's transaction begins under the lock, so it has every row
    /// that is no longer in memory.
    fn find<T>(
        &self,
        near: impl Fn(&Tables) -> Option<T>,
        far: impl FnOnce(&ReadTransaction) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let read = {
            let layers = self.read();
            if let Some(found) = layers.in_memory().find_map(near) {
                return Ok(Some(found));
            }
            layers.begin_read()?
        };
        read.map_or(Ok(None), |read| far(&read))
    }

    pub(super) fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.find(|tables| tables.snapshot.clone(), history::snapshot)
    }

    pub(super) fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.find(|tables| tables.entries.get(&seq).cloned(), |read| history::entry(read, seq))
    }

    pub(super) fn entry_of_key(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let far =
            |read: &ReadTransaction| Ok(history::entry_of_key(read, key)?.map(IndexHit::Entry));
        Ok(self.find(|tables| tables.entry_of_key(key), far)?.and_then(IndexHit::entry))
    }

    pub(super) fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        let near = |tables: &Tables| tables.records.get(&seq).map(|bytes| decode_record(bytes));
        let far = |read: &ReadTransaction| Ok(history::record(read, seq)?.map(Ok));
        self.find(near, far)?.transpose()
    }

    /// Returns a payee's row, even while the rows are behind the head.
    pub(super) fn row_of(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        let near = |tables: &Tables| tables.payees.get(payee).copied();
        self.find(near, |read| payees::payee_row(read, payee))
    }

    /// Returns the index rows whose keys begin with `start`, at most `most` of each layer.
    fn rows_of_index(
        &self,
        start: &[u8],
        most: usize,
    ) -> Result<BTreeMap<Vec<u8>, u64>, StoreError> {
        let (near, read) = {
            let layers = self.read();
            let near: Vec<_> =
                layers.in_memory().map(|tables| tables.index_rows(start, most)).collect();
            (near, layers.begin_read()?)
        };
        let far = read.map(|read| history::index_rows(&read, start, most)).transpose()?;
        // Newer rows replace older ones.
        Ok(far.into_iter().chain(near.into_iter().rev()).flatten().collect())
    }

    /// Returns entries after `seq` from memory; `None` if a checkpoint has finished since `checkpoints_done`.
    fn entries_in_memory(&self, seq: u64, checkpoints_done: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        let layers = self.read();
        let after = (Bound::Excluded(seq), Bound::Unbounded);
        let frozen = layers.frozen.iter().flat_map(|tables| tables.entries.range(after));
        let near = frozen.chain(layers.active.entries.range(after));
        let copied = near.take(ENTRIES_PER_LOCK).map(|(seq, bytes)| (*seq, bytes.clone()));
        (layers.checkpoints_done == checkpoints_done).then(|| copied.collect())
    }

    /// Returns the newest request record before `below` from memory.
    ///
    /// # Errors
    /// A checkpoint has finished since `checkpoints_done`.
    fn newest_in_memory(
        &self,
        below: Bound<u64>,
        checkpoints_done: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, ()> {
        let layers = self.read();
        if layers.checkpoints_done != checkpoints_done {
            return Err(());
        }
        let range = (Bound::Unbounded, below);
        let each = layers.in_memory().filter_map(|tables| tables.records.range(range).next_back());
        // If both tables have a record with the same number, the record of the first table is newer.
        let newest = each.reduce(|best, next| if next.0 > best.0 { next } else { best });
        Ok(newest.map(|(seq, bytes)| (*seq, bytes.clone())))
    }
}

impl Reader for LayeredReader {
    fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        match self.entry_of_key(&id_key(id))? {
            Some(seq) => self.record(seq),
            None => Ok(None),
        }
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        let near =
            |tables: &Tables| tables.settlements.get(&seq).map(|bytes| decode_settlement(bytes));
        let far = |read: &ReadTransaction| Ok(history::settlement(read, seq)?.map(Ok));
        self.find(near, far)?.transpose()
    }

    fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
        {
            let layers = self.read();
            if layers.active.payees_through != layers.active.head {
                return Err(behind_error());
            }
        }
        self.row_of(payee)
    }

    fn payees(&self, visit: &mut VisitPayee<'_>) -> Result<(), StoreError> {
        let (near, read) = {
            let layers = self.read();
            let mut near = layers.frozen.as_ref().map(|tables| tables.payees.clone());
            near.get_or_insert_default().extend(&layers.active.payees);
            (near.unwrap_or_default(), layers.begin_read()?)
        };
        for (payee, paid) in &near {
            visit(*payee, Some(*paid));
        }
        let Some(read) = read else { return Ok(()) };
        payees::visit_rows(&read, &mut |payee, paid| {
            if !near.contains_key(&payee) {
                visit(payee, paid);
            }
        })
    }

    fn similar_payees(&self, payee: &Payee) -> Result<Vec<Payee>, StoreError> {
        let (near, read) = {
            let layers = self.read();
            let near = layers.in_memory().flat_map(|tables| tables.similar_payees(payee));
            (near.collect::<Vec<_>>(), layers.begin_read()?)
        };
        let far = read.map(|read| payees::similar_rows(&read, payee)).transpose()?;
        let all: BTreeSet<Payee> = near.into_iter().chain(far.into_iter().flatten()).collect();
        Ok(all.into_iter().collect())
    }

    fn index_rows(&self, start: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, StoreError> {
        Ok(self.rows_of_index(start, INDEX_ROWS_MAX)?.into_iter().collect())
    }

    fn newest(&self, visit: &mut VisitRequest<'_>) -> Result<(), StoreError> {
        let mut below = Bound::Unbounded;
        loop {
            let (checkpoints_done, read) = {
                let layers = self.read();
                (layers.checkpoints_done, layers.begin_read()?)
            };
            let table = match &read {
                Some(read) => table_if_written(read.open_table(history::RECORDS))?,
                None => None,
            };
            let mut rows = match &table {
                Some(table) => Some(table.range((Bound::Unbounded, below))?.rev()),
                None => None,
            };
            let mut next_far = || match rows.as_mut().and_then(Iterator::next) {
                Some(row) => {
                    let (seq, bytes) = row?;
                    Ok::<_, StoreError>(Some((seq.value(), bytes.value().to_vec())))
                }
                None => Ok(None),
            };
            let mut far = next_far()?;
            while let Ok(near) = self.newest_in_memory(below, checkpoints_done) {
                let far_seq = far.as_ref().map(|(seq, _bytes)| *seq);
                let near_seq = near.as_ref().map(|(seq, _bytes)| *seq);
                let row = if far_seq > near_seq { far.take() } else { near };
                let Some((seq, bytes)) = row else { return Ok(()) };
                if !visit(decode_record(&bytes)?) {
                    return Ok(());
                }
                below = Bound::Excluded(seq);
                if far_seq == Some(seq) {
                    far = next_far()?;
                }
            }
        }
    }

    fn by_prefix(&self, prefix: &str) -> Result<Vec<Request>, StoreError> {
        let Some(start) = prefix_key(prefix) else { return Ok(Vec::new()) };
        // The key omits an odd last digit of the prefix, so up to 16 times as many ids match it. `has_prefix` below
        // removes the ids that do not have the whole prefix.
        let most = PREFIX_HITS_MAX.saturating_mul(16);
        let rows = self.rows_of_index(&start, most)?;
        let seqs: BTreeSet<u64> = rows.into_values().collect();
        let mut found = Vec::new();
        for seq in seqs.iter().rev() {
            let request = self.record(*seq)?.filter(|request| request.id.has_prefix(prefix));
            found.extend(request);
            if found.len() >= PREFIX_HITS_MAX {
                break;
            }
        }
        Ok(found)
    }

    fn read_after(&self, mut seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        loop {
            let (checkpoints_done, read) = {
                let layers = self.read();
                (layers.checkpoints_done, layers.begin_read()?)
            };
            if let Some(read) = read {
                let Some(last) = history::read_after(&read, seq, visit)? else { return Ok(()) };
                seq = last;
            }
            while let Some(piece) = self.entries_in_memory(seq, checkpoints_done) {
                for (at, bytes) in &piece {
                    seq = *at;
                    if !visit(bytes) {
                        return Ok(());
                    }
                }
                if piece.is_empty() {
                    return Ok(());
                }
            }
        }
    }
}
