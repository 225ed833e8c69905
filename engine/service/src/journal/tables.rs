//! What commits add up to, in memory: all of a store that lies nowhere else, or what one on disk has not carried
//! over to its history yet.

use std::collections::BTreeMap;

use bursar_domain::payees::Tally;

use super::head::Head;
use super::store::{Batch, Seal, Snapshot};

/// What a row takes beside its bytes, roughly.
const ROW_BYTES: usize = 64;

/// The first byte of the index keys of signed asks; the day follows.
const SIGNED: u8 = b'h';

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
    /// How much was added, roughly.
    pub(super) bytes: usize,
}

impl Tables {
    /// Without any rows, at the same place in the chain.
    pub(super) fn following(&self) -> Self {
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

        if batch.payees_anew {
            self.payees.clear();
        }
        self.payees.extend(batch.payees);
        if batch.payees_anew || (!batch.payees_lost && self.payees_through == self.head) {
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
            // Never back: the rows of days before are gone.
            self.forgotten = self.forgotten.max(day);
            let forgotten = signed_before(self.forgotten);
            self.index.retain(|key, _seq| !forgotten.contains(key));
        }
        self.head = batch.head;
        self.seal = batch.seal.or(self.seal);
        self.snapshot = batch.snapshot.or(self.snapshot.take());
    }

    /// The entry that an index key leads to: `Some(None)` for a key that was forgotten.
    pub(super) fn indexed(&self, key: &[u8]) -> Option<Option<u64>> {
        match self.index.get(key) {
            Some(seq) => Some(Some(*seq)),
            None => signed_before(self.forgotten).contains(key).then_some(None),
        }
    }
}

/// The index keys of asks that were signed on days before this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignedBefore {
    end: [u8; 5],
}

pub(super) fn signed_before(day: u32) -> SignedBefore {
    let [a, b, c, d] = day.to_be_bytes();
    SignedBefore { end: [SIGNED, a, b, c, d] }
}

impl SignedBefore {
    fn contains(&self, key: &[u8]) -> bool {
        key.first() == Some(&SIGNED) && *key < self.end[..]
    }

    /// The first key that they may have, and the first that they cannot.
    pub(super) fn range(&self) -> std::ops::Range<&[u8]> {
        &self.end[..1]..&self.end
    }
}
