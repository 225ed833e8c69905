//! A payment store in a redb file.

use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::{Change, Store, StoreFault, StoreReply};
use super::{Answer, PaymentId, Record, Settlement, Stage};

type Rows = TableDefinition<'static, &'static [u8], &'static [u8]>;
type Keys = TableDefinition<'static, &'static [u8], ()>;

/// Records by payment id.
const PAYMENTS: Rows = TableDefinition::new("payments");
/// Answers by payment id.
const ANSWERS: Rows = TableDefinition::new("answers");
/// Ids of payments that need work after a restart.
const OPEN: Keys = TableDefinition::new("open");
/// Index of payments by the time at which they were taken, then id.
const TAKEN: Keys = TableDefinition::new("taken");

/// Size of redb's page cache, in bytes.
const CACHE_BYTES: usize = 4 << 20;

/// A store in a redb file. Clones share it.
#[derive(Debug, Clone)]
pub struct RedbStore {
    db: Arc<Database>,
}

impl RedbStore {
    /// Opens or creates `path`.
    ///
    /// # Errors
    /// The file cannot be used, or another process has it open.
    pub fn open_file(path: &Path) -> Result<Self, StoreFault> {
        let db = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(failed)?;
        let store = Self { db: Arc::new(db) };
        let write = store.db.begin_write().map_err(failed)?;
        // Creates all tables, so readers need not handle missing ones.
        written(&write, &[])?;
        write.commit().map_err(failed)?;
        Ok(store)
    }

    /// Runs disk work on a blocking thread.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreFault> + Send + 'static,
    ) -> StoreReply<'_, T> {
        let db = Arc::clone(&self.db);
        Box::pin(
            async move { tokio::task::spawn_blocking(move || work(&db)).await.map_err(failed)? },
        )
    }

    fn row<T: DeserializeOwned + Send + 'static>(
        &self,
        table: Rows,
        id: PaymentId,
    ) -> StoreReply<'_, Option<T>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            let table = read.open_table(table).map_err(failed)?;
            found(&table, &id.0)
        })
    }
}

impl Store for RedbStore {
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, ()> {
        self.work(move |db| {
            let mut write = db.begin_write().map_err(failed)?;
            write.set_durability(Durability::Immediate).map_err(failed)?;
            // Dropping the transaction without a commit discards it.
            written(&write, &changes)?;
            write.commit().map_err(failed)
        })
    }

    fn get(&self, id: PaymentId) -> StoreReply<'_, Option<Record>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            let table = read.open_table(PAYMENTS).map_err(failed)?;
            record(&table, &id.0)
        })
    }

    fn answer(&self, id: PaymentId) -> StoreReply<'_, Option<Answer>> {
        self.row(ANSWERS, id)
    }

    fn open(&self) -> StoreReply<'_, Vec<Record>> {
        self.work(|db| {
            let read = db.begin_read().map_err(failed)?;
            let payments = read.open_table(PAYMENTS).map_err(failed)?;
            let mut all = Vec::new();
            for row in read.open_table(OPEN).map_err(failed)?.iter().map_err(failed)? {
                let (id, ()) = row.map(|(id, unit)| (id, unit.value())).map_err(failed)?;
                all.extend(record(&payments, id.value())?);
            }
            Ok(all)
        })
    }

    fn over(&self, now_ms: i64, kept_ms: i64, most: usize) -> StoreReply<'_, Vec<PaymentId>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            let payments = read.open_table(PAYMENTS).map_err(failed)?;
            let taken = read.open_table(TAKEN).map_err(failed)?;
            let end = order(now_ms.saturating_sub(kept_ms).saturating_add(1), &PaymentId([0; 32]));
            let mut all = Vec::new();
            for row in taken.range::<&[u8]>(..&end[..]).map_err(failed)? {
                let (key, _unit) = row.map_err(failed)?;
                let id = key.value().get(8..).unwrap_or_default();
                let record = record(&payments, id)?;
                all.extend(record.filter(|one| one.is_over(now_ms, kept_ms)).map(|one| one.id));
                if all.len() >= most {
                    break;
                }
            }
            Ok(all)
        })
    }
}

fn written(write: &WriteTransaction, changes: &[Change]) -> Result<(), StoreFault> {
    let mut payments = write.open_table(PAYMENTS).map_err(failed)?;
    let mut answers = write.open_table(ANSWERS).map_err(failed)?;
    let mut open = write.open_table(OPEN).map_err(failed)?;
    let mut taken = write.open_table(TAKEN).map_err(failed)?;
    for change in changes {
        match change {
            Change::Put(record, answer) => {
                let id = &record.id.0[..];
                payments.insert(id, &encode(record.as_ref())?[..]).map_err(failed)?;
                taken.insert(&order(record.taken_at, &record.id)[..], ()).map_err(failed)?;
                if is_open(record) {
                    open.insert(id, ()).map_err(failed)?;
                } else {
                    open.remove(id).map_err(failed)?;
                }
                if let Some(answer) = answer {
                    answers.insert(id, &encode(answer)?[..]).map_err(failed)?;
                }
                if !record.kept {
                    answers.remove(id).map_err(failed)?;
                }
            }
            Change::Forget(id) => {
                let row = &id.0[..];
                if let Some(record) = record(&payments, row)? {
                    taken.remove(&order(record.taken_at, id)[..]).map_err(failed)?;
                }
                payments.remove(row).map_err(failed)?;
                answers.remove(row).map_err(failed)?;
                open.remove(row).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Whether the payment needs work even if its customer never returns.
fn is_open(record: &Record) -> bool {
    record.stage == Stage::Taken || matches!(record.settlement, Settlement::Pending { .. })
}

/// Returns an index key that sorts by time. Times before 1970 do not occur.
fn order(at: i64, id: &PaymentId) -> Vec<u8> {
    let at = u64::try_from(at).unwrap_or(0);
    [&at.to_be_bytes()[..], &id.0].concat()
}

fn found<T: DeserializeOwned>(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    id: &[u8],
) -> Result<Option<T>, StoreFault> {
    let row = table.get(id).map_err(failed)?;
    row.map(|row| postcard::from_bytes(row.value()).map_err(failed)).transpose()
}

/// Reads a record. Rows that predate the key or the bound end early: the missing members are read as `None`.
fn record(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    id: &[u8],
) -> Result<Option<Record>, StoreFault> {
    /// Two absent options, for the key and the bound. A row that lacks only the bound uses the first byte; postcard
    /// ignores the other.
    const NONE: [u8; 2] = [0, 0];
    let Some(row) = table.get(id).map_err(failed)? else { return Ok(None) };
    let read = match postcard::from_bytes(row.value()) {
        Err(postcard::Error::DeserializeUnexpectedEnd) => {
            postcard::from_bytes(&[row.value(), &NONE].concat())
        }
        read => read,
    };
    read.map(Some).map_err(failed)
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreFault> {
    postcard::to_allocvec(value).map_err(failed)
}

fn failed(fault: impl std::fmt::Display) -> StoreFault {
    StoreFault(fault.to_string())
}

#[cfg(test)]
mod tests;
