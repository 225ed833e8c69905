//! An attacker with the journal file and the sources, but without the key of the seals. Reads and writes entries in the
//! file with its own code; only moving all rows into the history uses the journal's code.

use std::path::Path;
use std::sync::Arc;

use bursar_core::stored;
use bursar_core::time::Utc;
use bursar_domain::{Event, State};
use bursar_engine::journal::{Batch, Checkpoints, RedbStore, Store};
use bursar_engine::ports::NoFailpoints;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use sha2::{Digest, Sha256};

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const INDEX: TableDefinition<'_, &[u8], u64> = TableDefinition::new("index");
const PAYEES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("payees");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// The version byte at the start of each entry.
const VERSION: u8 = 7;
/// The version byte at the start of a snapshot.
const SNAPSHOT_VERSION: u8 = 8;

/// A journal's entries, to be changed and written back with a valid hash chain.
#[derive(Debug)]
pub(crate) struct Forger {
    db: Database,
    pub(crate) entries: Vec<(Utc, Event)>,
}

impl Forger {
    /// Opens a journal after moving all rows into the history file.
    pub(crate) fn open(file: &Path) -> Self {
        let carry = Checkpoints { after_bytes: 0, in_background: false };
        let mut store =
            RedbStore::open(file, Arc::new(NoFailpoints)).unwrap().with_checkpoints(carry);
        let head = store.head().unwrap();
        store.commit(Batch { head, ..Batch::default() }).unwrap();
        drop(store);
        let db = Database::open(file.with_file_name("journal-history.redb")).unwrap();
        let read = db.begin_read().unwrap();
        let table = read.open_table(ENTRIES).unwrap();
        let entries = table.iter().unwrap().map(|row| {
            let (_seq, bytes) = row.unwrap();
            let (at, event) = (&bytes.value()[9..17], &bytes.value()[49..]);
            let at = Utc(i64::from_be_bytes(at.try_into().unwrap()));
            (at, postcard::from_bytes(event).unwrap())
        });
        let entries = entries.collect();
        drop(table);
        Self { db, entries }
    }

    /// Iterates over the events of the loaded entries.
    pub(crate) fn events(&mut self) -> impl Iterator<Item = &mut Event> {
        self.entries.iter_mut().map(|(_at, event)| event)
    }

    /// Appends an entry, one millisecond after the last.
    pub(crate) fn append(&mut self, event: Event) {
        let at = self.entries.last().map_or(Utc(0), |(at, _event)| at.plus_ms(1));
        self.entries.push((at, event));
    }

    /// Writes the entries back with new hashes and a new head; the seal is unchanged.
    pub(crate) fn write_back(&self) {
        let write = self.db.begin_write().unwrap();
        {
            let mut table = write.open_table(ENTRIES).unwrap();
            table.retain(|_seq, _bytes| false).unwrap();
            let (mut seq, mut before) = (0u64, [0; 32]);
            for (at, event) in &self.entries {
                seq += 1;
                let mut bytes = vec![VERSION];
                bytes.extend(seq.to_be_bytes());
                bytes.extend(at.0.to_be_bytes());
                bytes.extend(before);
                bytes.extend(postcard::to_allocvec(event).unwrap());
                before = Sha256::digest(&bytes).into();
                table.insert(seq, bytes.as_slice()).unwrap();
            }
            let mut meta = write.open_table(META).unwrap();
            meta.insert("head", encode_head(seq, before).as_slice()).unwrap();
        }
        write.commit().unwrap();
    }

    /// Changes the stored seal; `None` removes it.
    pub(crate) fn seal(&self, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let write = self.db.begin_write().unwrap();
        {
            let mut meta = write.open_table(META).unwrap();
            let old = meta.remove("seal").unwrap().expect("a seal").value().to_vec();
            if let Some(new) = change(old) {
                meta.insert("seal", new.as_slice()).unwrap();
            }
        }
        write.commit().unwrap();
    }

    /// Stores a snapshot of `state` at the head, as the engine would.
    pub(crate) fn snapshot(&self, state: &State) {
        let write = self.db.begin_write().unwrap();
        {
            let mut meta = write.open_table(META).unwrap();
            let head = meta.get("head").unwrap().expect("a head").value().to_vec();
            let state = postcard::to_allocvec(state).unwrap();
            // Without the key, the tag can only be invented.
            let bytes = [&[SNAPSHOT_VERSION][..], &head, &[7; 32], &state].concat();
            meta.insert("snapshot", bytes.as_slice()).unwrap();
        }
        write.commit().unwrap();
    }

    /// Replays the entries into a state.
    pub(crate) fn state(&self) -> State {
        let mut state = State::new(Arc::default());
        for ((at, event), seq) in self.entries.iter().zip(1..) {
            let entry = bursar_domain::Entry { seq, at: *at, event: event.clone() };
            bursar_domain::apply(&mut state, &entry);
        }
        state
    }

    /// Replaces a payee's row with this number of payments.
    pub(crate) fn set_payee_row(&self, chain: u64, payee: [u8; 20], times: u64) {
        let write = self.db.begin_write().unwrap();
        {
            let key = [&chain.to_be_bytes()[..], &payee].concat();
            // The row's fields: payments, payments approved by an operator, first and last time, and total amount.
            let row = postcard::to_allocvec(&(times, times, 0_i64, 0_i64, 1_000_000_u64)).unwrap();
            let mut table = write.open_table(PAYEES).unwrap();
            table.insert(key.as_slice(), row.as_slice()).unwrap();
        }
        write.commit().unwrap();
    }

    /// Deletes all payee rows but keeps the mark that says they are complete.
    pub(crate) fn forget_payees(&self) {
        let write = self.db.begin_write().unwrap();
        write.open_table(PAYEES).unwrap().retain(|_payee, _row| false).unwrap();
        write.commit().unwrap();
    }

    /// Returns the number of payee rows.
    pub(crate) fn payee_rows(&self) -> usize {
        self.db.begin_read().unwrap().open_table(PAYEES).unwrap().iter().unwrap().count()
    }

    /// Changes the journal to the form that a version without payee rows leaves. `since` is an outdated mark
    /// of a version with payee rows.
    pub(crate) fn without_payees(&self, since: Option<u64>) {
        let write = self.db.begin_write().unwrap();
        {
            let mut meta = write.open_table(META).unwrap();
            match since {
                Some(seq) => {
                    drop(meta.insert("payees", encode_head(seq, [7; 32]).as_slice()).unwrap())
                }
                None => drop(meta.remove("payees").unwrap()),
            }
        }
        if since.is_none() {
            write.delete_table(PAYEES).unwrap();
        }
        write.commit().unwrap();
    }

    /// Empties the index of request identities.
    pub(crate) fn clear_index(&self) {
        let write = self.db.begin_write().unwrap();
        write.open_table(INDEX).unwrap().retain(|_key, _id| false).unwrap();
        write.commit().unwrap();
    }

    /// Changes the record of every request.
    pub(crate) fn edit_records(&self, change: impl Fn(&mut bursar_domain::Request)) {
        let write = self.db.begin_write().unwrap();
        {
            let mut table = write.open_table(RECORDS).unwrap();
            let all: Vec<(u64, Vec<u8>)> = table
                .iter()
                .unwrap()
                .map(|row| row.unwrap())
                .map(|(seq, bytes)| (seq.value(), bytes.value().to_vec()))
                .collect();
            for (seq, bytes) in all {
                // A record whose first byte is not zero has no mark of its form: it is of the oldest one.
                let (form, record) = match bytes.as_slice() {
                    [0, form, record @ ..] => (*form, record),
                    record => (stored::OLDEST_READABLE_FORM, record),
                };
                let mut request =
                    stored::read_in_form(form, || postcard::from_bytes(record)).unwrap();
                change(&mut request);
                let record = postcard::to_allocvec(&request).unwrap();
                let bytes = [&[0, stored::NEWEST_FORM][..], &record].concat();
                table.insert(seq, bytes.as_slice()).unwrap();
            }
        }
        write.commit().unwrap();
    }
}

fn encode_head(seq: u64, hash: [u8; 32]) -> Vec<u8> {
    [&seq.to_be_bytes()[..], &hash].concat()
}
