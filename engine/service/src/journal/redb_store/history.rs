//! The history file, `journal-history.redb`: rows in tables, written some thousands at a time. The cost of a commit
//! grows with the file, so a payment waits for one only if new rows arrive faster than a checkpoint moves them.

use std::path::{Path, PathBuf};

use bursar_domain::payees::Tally;
use bursar_domain::{Request, Settlement};
use bursar_rows::table_if_written;
use redb::{Database, Durability, ReadTransaction, ReadableTable, TableDefinition};

use super::payees::{self, PAYEES};
use crate::journal::head::Head;
use crate::journal::store::{
    Seal, Snapshot, StoreError, Visit, decode_head, decode_record, decode_settlement,
    decode_snapshot, encode_head, encode_snapshot,
};
use crate::journal::tables::{Tables, signed_before};
use bursar_chain::failpoints::Failpoints;

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
pub(super) const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const SETTLEMENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("settlements");
const INDEX: TableDefinition<'_, &[u8], u64> = TableDefinition::new("index");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// Page cache in bytes. Small, because the file is mostly appended to and rarely read.
const CACHE_BYTES: usize = 8 << 20;

/// Opens the existing file.
pub(super) fn open(path: &Path) -> Result<Database, StoreError> {
    Database::builder().set_cache_size(CACHE_BYTES).open(path).map_err(StoreError::from)
}

/// Opens or creates the history on a storage backend.
pub(super) fn on_backend(disk: impl redb::StorageBackend) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES).create_with_backend(disk).map_err(StoreError::from)
}

/// Creates the file atomically, readable only for its owner.
pub(super) fn create(path: &Path, failpoints: &dyn Failpoints) -> Result<Database, StoreError> {
    let new = path.with_extension("redb.new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    super::files::create_owner_only(&new)?;
    let db = Database::builder().set_cache_size(CACHE_BYTES).create(&new)?;
    failpoints.hit("journal.history_created")?;
    std::fs::rename(&new, path)?;
    if let Some(folder) = path.parent() {
        std::fs::File::open(folder).and_then(|folder| folder.sync_all())?;
    }
    failpoints.hit("journal.history_renamed")?;
    Ok(db)
}

/// Returns tables with the history's heads and no rows, and the number of the last commit in the history.
pub(super) fn read_heads(read: &ReadTransaction) -> Result<(Tables, u64), StoreError> {
    let mut tables = Tables::default();
    if let Some(bytes) = meta(read, "head")? {
        let damaged = || StoreError::Corrupt("the recorded head is damaged".to_owned());
        tables.head = decode_head(&bytes).ok_or_else(damaged)?;
    }
    if let Some(bytes) = meta(read, "seal")? {
        let damaged = || StoreError::Corrupt("the recorded seal is damaged".to_owned());
        let Head { seq, hash: tag } = decode_head(&bytes).ok_or_else(damaged)?;
        tables.seal = Some(Seal { seq, tag });
    }
    let through = meta(read, "payees")?;
    tables.payees_through = through.and_then(|bytes| decode_head(&bytes)).unwrap_or_default();
    let forgotten = meta(read, "forgotten")?.unwrap_or_default();
    tables.forgotten = forgotten.first_chunk::<4>().map_or(0, |day| u32::from_be_bytes(*day));
    let checkpointed = meta(read, "carried")?.unwrap_or_default();
    let checkpointed = checkpointed.first_chunk::<8>();
    Ok((tables, checkpointed.map_or(0, |number| u64::from_be_bytes(*number))))
}

pub(super) fn snapshot(read: &ReadTransaction) -> Result<Option<Snapshot>, StoreError> {
    Ok(meta(read, "snapshot")?.and_then(|bytes| decode_snapshot(&bytes)))
}

fn meta(read: &ReadTransaction, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(table) = table_if_written(read.open_table(META))? else { return Ok(None) };
    let value = table.get(key)?;
    Ok(value.map(|value| value.value().to_vec()))
}

/// The rows that move to the history in one commit.
#[derive(Debug)]
pub(super) struct CheckpointRows<'a> {
    pub(super) tables: &'a Tables,
    /// The number of the last commit in `tables`.
    pub(super) through: u64,
    /// Replaces all payee rows, which are then up to date with the head.
    pub(super) payees: Option<(&'a Tally, Head)>,
}

/// Writes a load with one durable commit.
pub(super) fn checkpoint(
    db: &Database,
    load: &CheckpointRows<'_>,
    failpoints: &dyn Failpoints,
) -> Result<(), StoreError> {
    failpoints.hit("journal.before_carry")?;
    let mut write = db.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    write.set_quick_repair(true);
    put_rows(&write, load)?;
    failpoints.hit("journal.before_carry_sync")?;
    write.commit()?;
    failpoints.hit("journal.after_carry").map_err(StoreError::from)
}

fn put_rows(write: &redb::WriteTransaction, load: &CheckpointRows<'_>) -> Result<(), StoreError> {
    let tables = load.tables;
    for (table, rows) in
        [(ENTRIES, &tables.entries), (RECORDS, &tables.records), (SETTLEMENTS, &tables.settlements)]
    {
        let mut table = write.open_table(table)?;
        for (seq, bytes) in rows {
            table.insert(seq, bytes.as_slice())?;
        }
    }
    let mut meta = write.open_table(META)?;
    let mut index = write.open_table(INDEX)?;
    let forgotten = meta.get("forgotten")?.map(|day| day.value().to_vec());
    if forgotten.as_deref() != Some(tables.forgotten.to_be_bytes().as_slice()) {
        let days = signed_before(tables.forgotten);
        index.retain_in(days.range(), |_key, _seq| false)?;
        meta.insert("forgotten", tables.forgotten.to_be_bytes().as_slice())?;
    }
    for (key, seq) in &tables.index {
        index.insert(key.as_slice(), seq)?;
    }
    let mut rows = write.open_table(PAYEES)?;
    let mut through = tables.payees_through;
    match load.payees {
        Some((tally, head)) => {
            rows.retain(|_payee, _paid| false)?;
            payees::insert(&mut rows, tally)?;
            through = head;
        }
        None => payees::insert(&mut rows, &tables.payees)?,
    }
    meta.insert("payees", encode_head(through).as_slice())?;
    meta.insert("head", encode_head(tables.head).as_slice())?;
    if let Some(Seal { seq, tag: hash }) = tables.seal {
        meta.insert("seal", encode_head(Head { seq, hash }).as_slice())?;
    }
    if let Some(snapshot) = &tables.snapshot {
        meta.insert("snapshot", encode_snapshot(snapshot).as_slice())?;
    }
    meta.insert("carried", load.through.to_be_bytes().as_slice())?;
    Ok(())
}

pub(super) fn entry(read: &ReadTransaction, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(table) = table_if_written(read.open_table(ENTRIES))? else { return Ok(None) };
    let value = table.get(seq)?;
    Ok(value.map(|value| value.value().to_vec()))
}

/// Visits the entries after `seq` in order. Returns the last visited number, or `None` if the visitor stopped.
pub(super) fn read_after(
    read: &ReadTransaction,
    mut seq: u64,
    visit: &mut Visit<'_>,
) -> Result<Option<u64>, StoreError> {
    let Some(table) = table_if_written(read.open_table(ENTRIES))? else { return Ok(Some(seq)) };
    for row in table.range(seq.saturating_add(1)..)? {
        let (at, bytes) = row?;
        seq = at.value();
        if !visit(bytes.value()) {
            return Ok(None);
        }
    }
    Ok(Some(seq))
}

pub(super) fn entry_of_key(read: &ReadTransaction, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let Some(index) = table_if_written(read.open_table(INDEX))? else { return Ok(None) };
    Ok(index.get(key)?.map(|seq| seq.value()))
}

/// Returns the index rows whose keys begin with `start`, at most `most`.
pub(super) fn index_rows(
    read: &ReadTransaction,
    start: &[u8],
    most: usize,
) -> Result<Vec<(Vec<u8>, u64)>, StoreError> {
    let Some(index) = table_if_written(read.open_table(INDEX))? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for row in index.range::<&[u8]>(start..)?.take(most) {
        let (key, seq) = row?;
        if !key.value().starts_with(start) {
            break;
        }
        found.push((key.value().to_vec(), seq.value()));
    }
    Ok(found)
}

pub(super) fn record(read: &ReadTransaction, seq: u64) -> Result<Option<Request>, StoreError> {
    let Some(records) = table_if_written(read.open_table(RECORDS))? else { return Ok(None) };
    let bytes = records.get(seq)?;
    bytes.map(|bytes| decode_record(bytes.value())).transpose()
}

pub(super) fn settlement(
    read: &ReadTransaction,
    seq: u64,
) -> Result<Option<Settlement>, StoreError> {
    let Some(settlements) = table_if_written(read.open_table(SETTLEMENTS))? else {
        return Ok(None);
    };
    let bytes = settlements.get(seq)?;
    bytes.map(|bytes| decode_settlement(bytes.value())).transpose()
}

/// Returns the path of the history that belongs to the journal at `path`.
pub(super) fn history_path(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-history.redb"))
}
