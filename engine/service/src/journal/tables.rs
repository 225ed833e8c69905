//! The rows of commits in memory. A memory store keeps all its rows here. A store on disk keeps only those that are
//! not in its history file yet.

use std::collections::BTreeMap;
use std::ops::Bound;

use bursar_domain::payee::Payee;
use bursar_domain::payees::Tally;

use super::head::Head;
use super::payees::{is_similar, payees_near};
use super::store::{Batch, Seal, Snapshot};

/// Approximate overhead of a row, in bytes.
const ROW_BYTES: usize = 64;

/// The first byte of the index key of a signed ask or report. The day follows.
const SIGNED_KEY_TAG: u8 = b'h';

#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) entries: BTreeMap<u64, Vec<u8>>,
    pub(super) records: BTreeMap<u64, Vec<u8>>,
    pub(super) settlements: BTreeMap<u64, Vec<u8>>,
    pub(super) index: BTreeMap<Vec<u8>, u64>,
    pub(super) payees: Tally,
    pub(super) payees_through: Head,
    pub(super) head: Head,
    pub(super) seal: Option<Seal>,
    pub(super) forgotten: u32,
    pub(super) snapshot: Option<Snapshot>,
    /// Approximate bytes added by commits.
    pub(super) bytes: usize,
}

impl Tables {
    /// Returns empty tables at the same head.
    pub(super) fn empty_successor(&self) -> Self {
        let Self { payees_through, head, seal, forgotten, .. } = *self;
        Self { payees_through, head, seal, forgotten, ..Self::default() }
    }

    pub(super) fn apply(&mut self, batch: Batch) {
        let rows = [&batch.entries, &batch.records, &batch.settlements];
        let rows = rows.into_iter().flatten().map(|(_seq, bytes)| bytes.len());
        let keys = batch.index.iter().map(|(key, _seq)| key.len());
        let snapshot = batch.snapshot.iter().map(|snapshot| snapshot.state.len());
        let payees = batch.payees.iter().map(|_row| ROW_BYTES);
        let added = rows.chain(keys).chain(snapshot).chain(payees);
        let added = added.map(|bytes| bytes.saturating_add(ROW_BYTES));
        self.bytes = added.fold(self.bytes, usize::saturating_add);

        if batch.payees_replaced {
            self.payees.clear();
        }
        self.payees.extend(batch.payees);
        if batch.payees_replaced || (!batch.payees_incomplete && self.payees_through == self.head) {
            self.payees_through = batch.head;
        }
        self.entries.extend(batch.entries);
        self.records.extend(batch.records);
        self.settlements.extend(batch.settlements);
        if let Some(day) = batch.remember_from {
            self.forgotten = day;
        }
        self.index.extend(batch.index);
        if let Some(day) = batch.forget_before {
            // Forgetting never moves the day back: the rows of earlier days are gone.
            self.forgotten = self.forgotten.max(day);
            let forgotten = signed_before(self.forgotten);
            self.index.retain(|key, _seq| !forgotten.contains(key));
        }
        self.head = batch.head;
        self.seal = batch.seal.or(self.seal);
        self.snapshot = batch.snapshot.or(self.snapshot.take());
    }

    pub(super) fn similar_payees(&self, payee: &Payee) -> Vec<Payee> {
        let near = self.payees.range(payees_near(payee));
        near.filter(|(other, paid)| is_similar(payee, other, paid))
            .map(|(other, _)| *other)
            .collect()
    }

    /// Returns the index rows whose keys begin with `start`, at most `most`.
    pub(super) fn index_rows(&self, start: &[u8], most: usize) -> Vec<(Vec<u8>, u64)> {
        let from = (Bound::Included(start), Bound::Unbounded);
        let rows = self.index.range::<[u8], _>(from).take(most);
        let rows = rows.take_while(|(key, _seq)| key.starts_with(start));
        rows.map(|(key, seq)| (key.clone(), *seq)).collect()
    }

    /// Looks up an index key; `None` if the answer is not in these tables.
    pub(super) fn entry_of_key(&self, key: &[u8]) -> Option<IndexHit> {
        match self.index.get(key) {
            Some(seq) => Some(IndexHit::Entry(*seq)),
            None => signed_before(self.forgotten).contains(key).then_some(IndexHit::Forgotten),
        }
    }
}

/// The result of looking up an index key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexHit {
    /// The entry to which the key belongs.
    Entry(u64),
    /// The key belongs to a forgotten day, so a row for it in the history does not count.
    Forgotten,
}

impl IndexHit {
    pub(super) fn entry(self) -> Option<u64> {
        match self {
            Self::Entry(seq) => Some(seq),
            Self::Forgotten => None,
        }
    }
}

/// The range of index keys of asks and reports that were signed before a day.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignedBefore {
    end: [u8; 5],
}

pub(super) fn signed_before(day: u32) -> SignedBefore {
    let [a, b, c, d] = day.to_be_bytes();
    SignedBefore { end: [SIGNED_KEY_TAG, a, b, c, d] }
}

impl SignedBefore {
    fn contains(&self, key: &[u8]) -> bool {
        key.first() == Some(&SIGNED_KEY_TAG) && *key < self.end[..]
    }

    /// Returns the range of these keys: from the first possible key up to the first key after them.
    pub(super) fn range(&self) -> std::ops::Range<&[u8]> {
        &self.end[..1]..&self.end
    }
}
