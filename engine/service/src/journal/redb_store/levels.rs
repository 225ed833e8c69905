//! One view over both files: the history, and over it the newer rows, which are in memory and in the short file.
//! Shared by the core's thread, the thread that moves rows, and all readers.

use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bursar_core::ids::RequestId;
use bursar_domain::payees::{Paid, Payee};
use bursar_domain::{Request, Settlement};
use bursar_rows::existing;
use redb::{Database, ReadTransaction, ReadableDatabase};

use super::{history, payees};
use crate::journal::payees::behind;
use crate::journal::store::{
    Reader, Snapshot, StoreError, Visit, VisitPaid, VisitRequest, decode_record, decode_settlement,
    id_key,
};
use crate::journal::tables::Tables;

/// Entries that a reader copies under the lock at a time, so that commits do not wait for slow readers.
const PIECE: usize = 64;

#[derive(Debug)]
pub(super) struct LayeredReader {
    // A lock instead of an owning task: readers run on any thread, and a commit must not queue behind them.
    now: RwLock<Now>,
}

#[derive(Debug)]
pub(super) struct Now {
    /// Rows committed since the last load was taken.
    pub(super) active: Tables,
    /// The load in flight.
    pub(super) frozen: Option<Arc<Tables>>,
    pub(super) history: Option<Arc<Database>>,
    /// Number of finished loads. A read that began before one finished may miss its rows.
    pub(super) arrived: u64,
}

impl Now {
    /// The tables in memory, newest first.
    fn near(&self) -> impl Iterator<Item = &Tables> {
        std::iter::once(&self.active).chain(self.frozen.as_deref())
    }

    fn began(&self) -> Result<Option<ReadTransaction>, StoreError> {
        self.history.as_ref().map(|db| db.begin_read().map_err(StoreError::from)).transpose()
    }
}

impl LayeredReader {
    pub(super) fn new(active: Tables, history: Option<Arc<Database>>) -> Self {
        Self { now: RwLock::new(Now { active, frozen: None, history, arrived: 0 }) }
    }

    pub(super) fn now(&self) -> RwLockReadGuard<'_, Now> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for a change; only the committing thread calls it.
    pub(super) fn change(&self) -> RwLockWriteGuard<'_, Now> {
        self.now.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a row in memory, else in the history. The history's transaction begins under the lock, so it has every row
    /// that is no longer in memory.
    fn find<T>(
        &self,
        near: impl Fn(&Tables) -> Option<T>,
        far: impl FnOnce(&ReadTransaction) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let read = {
            let now = self.now();
            if let Some(found) = now.near().find_map(near) {
                return Ok(Some(found));
            }
            now.began()?
        };
        read.map_or(Ok(None), |read| far(&read))
    }

    pub(super) fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.find(|tables| tables.snapshot.clone(), history::snapshot)
    }

    pub(super) fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.find(|tables| tables.entries.get(&seq).cloned(), |read| history::entry(read, seq))
    }

    pub(super) fn indexed(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let far = |read: &ReadTransaction| history::indexed(read, key).map(|seq| seq.map(Some));
        Ok(self.find(|tables| tables.indexed(key), far)?.flatten())
    }

    pub(super) fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        let near = |tables: &Tables| tables.records.get(&seq).map(|bytes| decode_record(bytes));
        let far = |read: &ReadTransaction| Ok(history::record(read, seq)?.map(Ok));
        self.find(near, far)?.transpose()
    }

    /// Returns a payee's row even if the rows are behind the head.
    pub(super) fn row_of(&self, payee: &Payee) -> Result<Option<Paid>, StoreError> {
        let near = |tables: &Tables| tables.payees.get(payee).copied();
        self.find(near, |read| payees::one(read, payee))
    }

    /// Returns entries after `seq` from memory; `None` if a load has finished since `arrived`.
    fn piece(&self, seq: u64, arrived: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        let now = self.now();
        let after = (Bound::Excluded(seq), Bound::Unbounded);
        let frozen = now.frozen.iter().flat_map(|tables| tables.entries.range(after));
        let near = frozen.chain(now.active.entries.range(after));
        let copied = near.take(PIECE).map(|(seq, bytes)| (*seq, bytes.clone()));
        (now.arrived == arrived).then(|| copied.collect())
    }

    /// Returns the newest request record before `below` from memory; an error if a load has finished since `arrived`.
    fn newest_near(&self, below: Bound<u64>, arrived: u64) -> Result<Option<(u64, Vec<u8>)>, ()> {
        let now = self.now();
        if now.arrived != arrived {
            return Err(());
        }
        let range = (Bound::Unbounded, below);
        let each = now.near().filter_map(|tables| tables.records.range(range).next_back());
        // Of two records with one number the first is the newer.
        let newest = each.reduce(|best, next| if next.0 > best.0 { next } else { best });
        Ok(newest.map(|(seq, bytes)| (*seq, bytes.clone())))
    }
}

impl Reader for LayeredReader {
    fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        match self.indexed(&id_key(id))? {
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

    fn paid(&self, payee: &Payee) -> Result<Option<Paid>, StoreError> {
        {
            let now = self.now();
            if now.active.payees_through != now.active.head {
                return Err(behind());
            }
        }
        self.row_of(payee)
    }

    fn payees(&self, visit: &mut VisitPaid<'_>) -> Result<(), StoreError> {
        let (near, read) = {
            let now = self.now();
            let mut near = now.frozen.as_ref().map(|tables| tables.payees.clone());
            near.get_or_insert_default().extend(&now.active.payees);
            (near.unwrap_or_default(), now.began()?)
        };
        for (payee, paid) in &near {
            visit(*payee, Some(*paid));
        }
        let Some(read) = read else { return Ok(()) };
        payees::all(&read, &mut |payee, paid| {
            if !near.contains_key(&payee) {
                visit(payee, paid);
            }
        })
    }

    fn newest(&self, visit: &mut VisitRequest<'_>) -> Result<(), StoreError> {
        let mut below = Bound::Unbounded;
        loop {
            let (arrived, read) = {
                let now = self.now();
                (now.arrived, now.began()?)
            };
            let table = match &read {
                Some(read) => existing(read.open_table(history::RECORDS))?,
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
            while let Ok(near) = self.newest_near(below, arrived) {
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

    fn read_after(&self, mut seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        loop {
            let (arrived, read) = {
                let now = self.now();
                (now.arrived, now.began()?)
            };
            if let Some(read) = read {
                let Some(last) = history::read_after(&read, seq, visit)? else { return Ok(()) };
                seq = last;
            }
            while let Some(piece) = self.piece(seq, arrived) {
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
