//! Payments in a redb file, beside the desks that send them.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_core::time::Utc;
use bursar_desks::redb_store::RedbStore;
use bursar_desks::rows::{decode, encode, existing, failed};
use bursar_desks::store::{StoreFault, StoreReply};
use bursar_submit::SubmissionId;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction,
};

use crate::book::store::{Change, Open, Payments};
use crate::book::{Batch, Record, State};
use crate::payment::PaymentKey;

/// By key: the record.
const PAYMENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("payments");
/// Keys of payments that have not ended.
const OPEN: TableDefinition<'_, &[u8], ()> = TableDefinition::new("open payments");
/// By id: transactions of which something is left to be found out.
const BATCHES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("batches");
/// By time of the end, and key.
const ENDED: TableDefinition<'_, &[u8], ()> = TableDefinition::new("ended payments");

/// By hash and key: which transaction settled which payment.
const SETTLED: TableDefinition<'_, &[u8], ()> = TableDefinition::new("settled payments");

/// Pages kept in memory.
const CACHE_BYTES: usize = 8 << 20;

/// A redb file.
#[derive(Debug, Clone)]
pub struct RedbPayments {
    db: Arc<Database>,
}

impl RedbPayments {
    /// Opens or creates `path`; the desks in the same file.
    ///
    /// # Errors
    /// The file cannot be used, or another process holds it.
    pub fn open_file(path: &Path) -> Result<(Self, RedbStore), StoreFault> {
        let db = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(failed)?;
        let db = Arc::new(db);
        Ok((Self { db: Arc::clone(&db) }, RedbStore::over(db)))
    }

    /// Waits for the disk on a thread made for that.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreFault> + Send + 'static,
    ) -> StoreReply<'_, T> {
        let db = Arc::clone(&self.db);
        Box::pin(
            async move { tokio::task::spawn_blocking(move || work(&db)).await.map_err(failed)? },
        )
    }
}

impl Payments for RedbPayments {
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, Vec<Option<Record>>> {
        self.work(move |db| {
            let mut write = db.begin_write().map_err(failed)?;
            write.set_durability(Durability::Immediate).map_err(failed)?;
            write.set_quick_repair(true);
            // Dropped without a commit, it leaves nothing behind.
            let in_the_way = written(&write, &changes)?;
            write.commit().map_err(failed)?;
            Ok(in_the_way)
        })
    }

    fn get(&self, key: PaymentKey) -> StoreReply<'_, Option<Record>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            match existing(read.open_table(PAYMENTS))? {
                Some(table) => record(&table, key.0.as_slice()),
                None => Ok(None),
            }
        })
    }

    fn open(&self) -> StoreReply<'_, Open> {
        self.work(|db| {
            let read = db.begin_read().map_err(failed)?;
            let (Some(payments), Some(open), Some(batches)) = (
                existing(read.open_table(PAYMENTS))?,
                existing(read.open_table(OPEN))?,
                existing(read.open_table(BATCHES))?,
            ) else {
                return Ok(Open::default());
            };
            let mut all = Open::default();
            for row in open.iter().map_err(failed)? {
                let (key, _nothing) = row.map_err(failed)?;
                all.records.extend(record(&payments, key.value())?);
            }
            for row in batches.iter().map_err(failed)? {
                let (_id, batch) = row.map_err(failed)?;
                all.batches.push(decode(batch.value())?);
            }
            Ok(all)
        })
    }

    fn of_batch(&self, batch: Batch) -> StoreReply<'_, Vec<Record>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            let Some(table) = existing(read.open_table(PAYMENTS))? else { return Ok(Vec::new()) };
            let mut records = Vec::with_capacity(batch.payments.len());
            for key in &batch.payments {
                records.extend(record(&table, key.0.as_slice())?);
            }
            Ok(records)
        })
    }

    fn settled_by(&self, hash: B256) -> StoreReply<'_, Vec<Record>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            let (Some(payments), Some(settled)) =
                (existing(read.open_table(PAYMENTS))?, existing(read.open_table(SETTLED))?)
            else {
                return Ok(Vec::new());
            };
            let (first, last) =
                ([hash, B256::ZERO].concat(), [hash, B256::repeat_byte(0xff)].concat());
            let mut records = Vec::new();
            for row in settled.range::<&[u8]>(&first[..]..=&last[..]).map_err(failed)? {
                let (row, _nothing) = row.map_err(failed)?;
                records.extend(record(&payments, row.value().get(32..).unwrap_or_default())?);
            }
            Ok(records)
        })
    }

    fn prune(&self, before: Utc, most: usize) -> StoreReply<'_, usize> {
        self.work(move |db| {
            let write = db.begin_write().map_err(failed)?;
            let gone = pruned(&write, before, most)?;
            write.commit().map_err(failed)?;
            Ok(gone)
        })
    }
}

type Keys<'a> = Table<'a, &'static [u8], ()>;

/// The tables of payments, which are changed together.
struct Tables<'a> {
    payments: Table<'a, &'static [u8], &'static [u8]>,
    open: Keys<'a>,
    ended: Keys<'a>,
    settled: Keys<'a>,
}

fn written(
    write: &WriteTransaction,
    changes: &[Change],
) -> Result<Vec<Option<Record>>, StoreFault> {
    let mut tables = Tables::of(write)?;
    let mut batches = write.open_table(BATCHES).map_err(failed)?;
    let mut in_the_way = Vec::new();
    for change in changes {
        match change {
            Change::Accepted(new) => {
                let known = tables.record(new.payment.key())?;
                // What failed may be tried again: the same, or another of that nonce.
                let stands = known.filter(|known| !matches!(known.state, State::Failed { .. }));
                if stands.is_none() {
                    tables.put(new)?;
                }
                in_the_way.push(stands);
            }
            Change::Reopened(again) => tables.put(again)?,
            Change::Batched(batch) => {
                for key in &batch.payments {
                    if let Some(known) = tables.record(*key)? {
                        tables.put(&Record { state: State::Sent { batch: batch.id }, ..known })?;
                    }
                }
                let value = encode(batch)?;
                batches.insert(batch.id.0.as_slice(), value.as_slice()).map_err(failed)?;
            }
            Change::Judged { key, state, attempts } => {
                if let Some(known) = tables.record(*key)? {
                    let (state, attempts) = (state.clone(), *attempts);
                    tables.put(&Record { state, attempts, ..known })?;
                }
            }
            Change::Closed { batch } => {
                batches.remove(batch.0.as_slice()).map_err(failed)?;
            }
        }
    }
    Ok(in_the_way)
}

impl<'a> Tables<'a> {
    fn of(write: &'a WriteTransaction) -> Result<Self, StoreFault> {
        Ok(Self {
            payments: write.open_table(PAYMENTS).map_err(failed)?,
            open: write.open_table(OPEN).map_err(failed)?,
            ended: write.open_table(ENDED).map_err(failed)?,
            settled: write.open_table(SETTLED).map_err(failed)?,
        })
    }

    fn record(&self, key: PaymentKey) -> Result<Option<Record>, StoreFault> {
        record(&self.payments, key.0.as_slice())
    }

    /// Keeps a record, and the lists in which it stands.
    fn put(&mut self, new: &Record) -> Result<(), StoreFault> {
        let key = new.payment.key();
        self.unlist(key)?;
        let row = key.0.as_slice();
        match new.state.ended_at() {
            Some(at) => self.ended.insert(by_end(at, key).as_slice(), ()).map_err(failed)?,
            None => self.open.insert(row, ()).map_err(failed)?,
        };
        if let State::Settled { hash, .. } = &new.state {
            self.settled.insert([*hash, key.0].concat().as_slice(), ()).map_err(failed)?;
        }
        self.payments.insert(row, encode(new)?.as_slice()).map_err(failed)?;
        Ok(())
    }

    /// Takes a payment from the lists in which it stands.
    fn unlist(&mut self, key: PaymentKey) -> Result<(), StoreFault> {
        let Some(known) = self.record(key)? else { return Ok(()) };
        self.open.remove(key.0.as_slice()).map_err(failed)?;
        if let Some(at) = known.state.ended_at() {
            self.ended.remove(by_end(at, key).as_slice()).map_err(failed)?;
        }
        if let State::Settled { hash, .. } = known.state {
            self.settled.remove([hash, key.0].concat().as_slice()).map_err(failed)?;
        }
        Ok(())
    }
}

fn pruned(write: &WriteTransaction, before: Utc, most: usize) -> Result<usize, StoreFault> {
    let mut tables = Tables::of(write)?;
    let end = by_end(before, PaymentKey(B256::ZERO));
    let mut due = Vec::new();
    for row in tables.ended.range::<&[u8]>(..end.as_slice()).map_err(failed)?.take(most) {
        let (row, _nothing) = row.map_err(failed)?;
        let key = row.value().get(8..).and_then(|key| B256::try_from(key).ok());
        due.extend(key.map(PaymentKey));
    }
    for key in &due {
        tables.unlist(*key)?;
        tables.payments.remove(key.0.as_slice()).map_err(failed)?;
    }
    Ok(due.len())
}

/// Times before 1970 come first, as they should.
fn by_end(at: Utc, key: PaymentKey) -> Vec<u8> {
    let ordered = at.0.cast_unsigned() ^ (1 << 63);
    [&ordered.to_be_bytes()[..], key.0.as_slice()].concat()
}

fn record(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Record>, StoreFault> {
    let value = table.get(key).map_err(failed)?;
    value.map(|value| decode(value.value())).transpose()
}

/// The id of a batch that was never used: chance.
pub fn fresh_id() -> Result<SubmissionId, StoreFault> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(failed)?;
    Ok(SubmissionId(id))
}
