//! The journal on disk. The only room that names redb.

mod payees;
mod place;

use std::path::Path;
use std::sync::Arc;

use bursar_core::ids::RequestId;
use bursar_domain::payees::{Paid, Payee};
use bursar_domain::{Request, Settlement};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use self::place::Place;
use super::Head;
use super::store::{
    Batch, Reader, Seal, Snapshot, Store, StoreError, Visit, VisitPaid, VisitRequest, decode_head,
    decode_record, decode_settlement, decode_snapshot, encode_head, encode_snapshot, id_key,
};
use crate::ports::Faults;

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const SETTLEMENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("settlements");
const INDEX: TableDefinition<'_, &[u8], u64> = TableDefinition::new("index");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// Pages kept in memory: the journal is appended to and rarely read.
const CACHE_BYTES: usize = 8 << 20;

/// A redb file.
#[derive(Debug)]
pub struct RedbStore {
    db: Arc<Database>,
    /// Where its file is; none for what is no file.
    place: Option<Place>,
    faults: Arc<dyn Faults>,
}

impl RedbStore {
    /// Opens or creates `path`.
    pub fn open(path: &Path, faults: Arc<dyn Faults>) -> Result<Self, StoreError> {
        let db = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(failed)?;
        let place = Some(Place::of(path).map_err(failed)?);
        Ok(Self { db: Arc::new(db), place, faults })
    }

    /// Opens or creates a journal on whatever keeps its bytes. For simulations.
    pub fn over(
        disk: impl redb::StorageBackend,
        faults: Arc<dyn Faults>,
    ) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        let db = builder.set_cache_size(CACHE_BYTES).create_with_backend(disk).map_err(failed)?;
        Ok(Self { db: Arc::new(db), place: None, faults })
    }

    fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read().map_err(failed)?;
        let Some(table) = existing(read.open_table(META))? else { return Ok(None) };
        let value = table.get(key).map_err(failed)?;
        Ok(value.map(|value| value.value().to_vec()))
    }
}

impl Store for RedbStore {
    fn head(&self) -> Result<Head, StoreError> {
        match self.meta("head")? {
            None => Ok(Head::default()),
            Some(bytes) => {
                decode_head(&bytes).ok_or_else(|| StoreError("the recorded head is damaged".into()))
            }
        }
    }

    fn seal(&self) -> Result<Option<Seal>, StoreError> {
        let Some(bytes) = self.meta("seal")? else { return Ok(None) };
        match decode_head(&bytes) {
            Some(Head { seq, hash: tag }) => Ok(Some(Seal { seq, tag })),
            None => Err(StoreError("the recorded seal is damaged".into())),
        }
    }

    fn forgotten(&self) -> Result<u32, StoreError> {
        let bytes = self.meta("forgotten")?.unwrap_or_default();
        Ok(bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes)))
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.meta("snapshot")?.and_then(|bytes| decode_snapshot(&bytes)))
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        read_after(&self.db, seq, visit)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read().map_err(failed)?;
        let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(None) };
        let value = table.get(seq).map_err(failed)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn indexed(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        indexed(&self.db, key)
    }

    fn record(&self, seq: u64) -> Result<Option<Request>, StoreError> {
        record(&self.db, seq)
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        settlement(&self.db, seq)
    }

    fn paid(&self, payee: &Payee) -> Result<Option<Paid>, StoreError> {
        payees::one(&self.db.begin_read().map_err(failed)?, payee)
    }

    fn payees_through(&self) -> Result<Head, StoreError> {
        let bytes = self.meta("payees")?;
        Ok(bytes.and_then(|bytes| decode_head(&bytes)).unwrap_or_default())
    }

    fn payees(&self, visit: &mut VisitPaid<'_>) -> Result<(), StoreError> {
        payees::all(&self.db.begin_read().map_err(failed)?, visit)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.faults.reach("journal.before_commit").map_err(failed)?;
        let mut write = self.db.begin_write().map_err(failed)?;
        write.set_durability(Durability::Immediate).map_err(failed)?;
        // A restart after a crash must not have to walk the whole file.
        write.set_quick_repair(true);
        write_batch(&write, batch)?;
        self.faults.reach("journal.before_sync").map_err(failed)?;
        write.commit().map_err(failed)?;
        // What lies in a file that nobody finds again is not on the disk.
        if let Some(place) = &self.place {
            place.check().map_err(failed)?;
        }
        self.faults.reach("journal.after_commit").map_err(failed)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(RedbReader { db: Arc::clone(&self.db) })
    }
}

fn write_batch(write: &redb::WriteTransaction, batch: &Batch) -> Result<(), StoreError> {
    let mut entries = write.open_table(ENTRIES).map_err(failed)?;
    for (seq, bytes) in &batch.entries {
        entries.insert(seq, bytes.as_slice()).map_err(failed)?;
    }
    let mut records = write.open_table(RECORDS).map_err(failed)?;
    for (seq, bytes) in &batch.records {
        records.insert(seq, bytes.as_slice()).map_err(failed)?;
    }
    if !batch.settlements.is_empty() {
        let mut settlements = write.open_table(SETTLEMENTS).map_err(failed)?;
        for (seq, bytes) in &batch.settlements {
            settlements.insert(seq, bytes.as_slice()).map_err(failed)?;
        }
    }
    let mut index = write.open_table(INDEX).map_err(failed)?;
    for (key, seq) in &batch.index {
        index.insert(key.as_slice(), seq).map_err(failed)?;
    }
    if let Some(day) = batch.forget_before {
        let end = [b"h".as_slice(), &day.to_be_bytes()].concat();
        index.retain_in(b"h".as_slice()..end.as_slice(), |_key, _seq| false).map_err(failed)?;
    }
    let mut meta = write.open_table(META).map_err(failed)?;
    payees::write(write, &mut meta, batch)?;
    if let Some(day) = batch.forget_before {
        meta.insert("forgotten", day.to_be_bytes().as_slice()).map_err(failed)?;
    }
    meta.insert("head", encode_head(batch.head).as_slice()).map_err(failed)?;
    if let Some(seal) = batch.seal {
        let bytes = encode_head(Head { seq: seal.seq, hash: seal.tag });
        meta.insert("seal", bytes.as_slice()).map_err(failed)?;
    }
    if let Some(snapshot) = &batch.snapshot {
        meta.insert("snapshot", encode_snapshot(snapshot).as_slice()).map_err(failed)?;
    }
    Ok(())
}

#[derive(Debug)]
struct RedbReader {
    db: Arc<Database>,
}

impl Reader for RedbReader {
    fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        match indexed(&self.db, &id_key(id))? {
            Some(seq) => record(&self.db, seq),
            None => Ok(None),
        }
    }

    fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
        settlement(&self.db, seq)
    }

    fn paid(&self, payee: &Payee) -> Result<Option<Paid>, StoreError> {
        payees::standing(&self.db.begin_read().map_err(failed)?, payee)
    }

    fn newest(&self, visit: &mut VisitRequest<'_>) -> Result<(), StoreError> {
        let read = self.db.begin_read().map_err(failed)?;
        let Some(records) = existing(read.open_table(RECORDS))? else { return Ok(()) };
        for row in records.iter().map_err(failed)?.rev() {
            let (_seq, bytes) = row.map_err(failed)?;
            if !visit(decode_record(bytes.value())?) {
                break;
            }
        }
        Ok(())
    }

    fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        read_after(&self.db, seq, visit)
    }
}

fn indexed(db: &Database, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let Some(index) = existing(read.open_table(INDEX))? else { return Ok(None) };
    Ok(index.get(key).map_err(failed)?.map(|seq| seq.value()))
}

fn record(db: &Database, seq: u64) -> Result<Option<Request>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let Some(records) = existing(read.open_table(RECORDS))? else { return Ok(None) };
    let bytes = records.get(seq).map_err(failed)?;
    bytes.map(|bytes| decode_record(bytes.value())).transpose()
}

fn settlement(db: &Database, seq: u64) -> Result<Option<Settlement>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let Some(settlements) = existing(read.open_table(SETTLEMENTS))? else { return Ok(None) };
    let bytes = settlements.get(seq).map_err(failed)?;
    bytes.map(|bytes| decode_settlement(bytes.value())).transpose()
}

fn read_after(db: &Database, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(()) };
    for row in table.range(seq.saturating_add(1)..).map_err(failed)? {
        let (_seq, bytes) = row.map_err(failed)?;
        if !visit(bytes.value()) {
            break;
        }
    }
    Ok(())
}

/// A table that no commit has made yet is empty.
fn existing<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError(error.to_string())
}

/// Reads the chain of a file that was closed well, from its snapshot on, without writing to it. A file that
/// was not is left to be opened, which repairs it.
pub fn look(path: &Path) -> Result<(), super::JournalError> {
    let Ok(db) = Database::builder().open_read_only(path) else { return Ok(()) };
    let read = db.begin_read().map_err(failed)?;
    let Some(table) = existing(read.open_table(ENTRIES))? else { return Ok(()) };
    let mut at = Head::default();
    let snapshot = match existing(read.open_table(META))? {
        Some(meta) => {
            meta.get("snapshot").map_err(failed)?.and_then(|b| decode_snapshot(b.value()))
        }
        None => None,
    };
    if let Some(snapshot) = snapshot
        && let Some(bytes) = table.get(snapshot.head.seq).map_err(failed)?
        && super::codec::hash(bytes.value()) == snapshot.head.hash
    {
        at = snapshot.head;
    }
    for row in table.range(at.seq.saturating_add(1)..).map_err(failed)? {
        let (_seq, bytes) = row.map_err(failed)?;
        let seq = at.seq.saturating_add(1);
        super::codec::decode(bytes.value(), at)
            .map_err(|reason| super::JournalError::Damaged { seq, reason })?;
        at = Head { seq, hash: super::codec::hash(bytes.value()) };
    }
    let meta = existing(read.open_table(META))?;
    let head = match &meta {
        Some(meta) => meta.get("head").map_err(failed)?,
        None => None,
    };
    match head.and_then(|bytes| decode_head(bytes.value())) {
        Some(head) if head != at => Err(super::JournalError::Damaged {
            seq: at.seq.saturating_add(1),
            reason: "the chain does not lead to the recorded head".to_owned(),
        }),
        _ => Ok(()),
    }
}
