//! Payments in a redb file, together with the outboxes that send them.

use std::path::Path;

use alloy_primitives::{B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_outbox::redb_store::RedbStore;
use bursar_outbox::store::{StoreFault, StoreReply};
use bursar_rows::{Options, RowFile, StoreError, decode, encode, table_if_written};
use bursar_submit::SubmissionId;
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};
use tokio_util::sync::CancellationToken;

use crate::book::batch::Batch;
use crate::book::record::{Record, State};
use crate::book::row;
use crate::book::store::{Change, ChangeResult, GasSpent, OpenWork, PaymentStore};
use crate::job_key::JobKey;

/// Records by key.
const PAYMENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("payments");
/// Keys of payments that have not ended.
const OPEN: TableDefinition<'_, &[u8], ()> = TableDefinition::new("open payments");
/// Transactions that still need work, by id.
const BATCHES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("batches");
/// Ended payments by the time of their end, then by key.
const ENDED: TableDefinition<'_, &[u8], ()> = TableDefinition::new("ended payments");

/// Gas paid, in wei, by day, network and caller.
const GAS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("gas");
/// One row, rewritten by each probe of the disk.
const PROBE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("probe");

const OPTIONS: Options = Options { cache_bytes: 8 << 20, quick_repair: true };

/// Payments in a redb file.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct RedbPayments {
    file: RowFile,
}

impl RedbPayments {
    /// Opens or creates `path`, and returns the payments and the outboxes in the file.
    ///
    /// # Errors
    /// The file cannot be used, or another process has locked it.
    pub fn open_file(path: &Path) -> Result<(Self, RedbStore), StoreFault> {
        let file = RowFile::open(path, OPTIONS)?;
        let outboxes = RedbStore::in_file(file.clone());
        Ok((Self { file }, outboxes))
    }

    /// Returns a token that is cancelled after a failed write.
    ///
    /// The file then accepts no writes until it is reopened.
    pub fn write_failed(&self) -> CancellationToken {
        self.file.write_failed()
    }

    /// The first failed write, if there was one.
    pub fn failure(&self) -> Option<StoreError> {
        self.file.failure().cloned()
    }
}

impl PaymentStore for RedbPayments {
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, Vec<ChangeResult>> {
        self.file.write(move |write| Ok(apply_changes(write, &changes)?))
    }

    /// Runs on the caller's thread: each request looks up one payment.
    fn get(&self, key: JobKey) -> StoreReply<'_, Option<Record>> {
        Box::pin(async move {
            let found =
                self.file.read_here(|read| match table_if_written(read.open_table(PAYMENTS))? {
                    Some(table) => record(&table, key.0.as_slice()),
                    None => Ok(None),
                });
            Ok(found?)
        })
    }

    fn open(&self) -> StoreReply<'_, OpenWork> {
        self.file.read(|read| Ok(open_work(read)?))
    }

    fn records_of_batch(&self, batch: Batch) -> StoreReply<'_, Vec<Record>> {
        self.file.read(move |read| Ok(records_of_batch(read, &batch)?))
    }

    fn gas_spent_on(&self, day: i64) -> StoreReply<'_, Vec<GasSpent>> {
        self.file.read(move |read| Ok(gas_spent_on(read, day)?))
    }

    fn probe(&self) -> StoreReply<'_, ()> {
        self.file.write(|write| Ok(probe(write)?))
    }

    fn prune(&self, before: Utc, most: usize) -> StoreReply<'_, usize> {
        Box::pin(async move {
            // A commit without changes would write to the disk of an idle service.
            if !self.file.read(move |read| Ok::<_, StoreFault>(is_prunable(read, before)?)).await? {
                return Ok(0);
            }
            self.file.write(move |write| Ok(prune_rows(write, before, most)?)).await
        })
    }
}

fn open_work(read: &ReadTransaction) -> Result<OpenWork, StoreError> {
    let (Some(payments), Some(open), Some(batches)) = (
        table_if_written(read.open_table(PAYMENTS))?,
        table_if_written(read.open_table(OPEN))?,
        table_if_written(read.open_table(BATCHES))?,
    ) else {
        return Ok(OpenWork::default());
    };
    let mut all = OpenWork::default();
    for row in open.iter()? {
        let (key, _nothing) = row?;
        all.records.extend(record(&payments, key.value())?);
    }
    for row in batches.iter()? {
        let (_id, batch) = row?;
        all.batches.push(decode(batch.value())?);
    }
    Ok(all)
}

fn records_of_batch(read: &ReadTransaction, batch: &Batch) -> Result<Vec<Record>, StoreError> {
    let Some(table) = table_if_written(read.open_table(PAYMENTS))? else { return Ok(Vec::new()) };
    let mut records = Vec::with_capacity(batch.jobs.len());
    for key in &batch.jobs {
        records.extend(record(&table, key.0.as_slice())?);
    }
    Ok(records)
}

fn gas_spent_on(read: &ReadTransaction, day: i64) -> Result<Vec<GasSpent>, StoreError> {
    let Some(table) = table_if_written(read.open_table(GAS))? else { return Ok(Vec::new()) };
    let (from, to) = (sortable_bytes(day), sortable_bytes(day.saturating_add(1)));
    let mut all = Vec::new();
    for row in table.range::<&[u8]>(&from[..]..&to[..])? {
        let (row, wei) = row?;
        all.push(spent_row(day, row.value(), wei.value())?);
    }
    Ok(all)
}

/// Flips a bit of one row, so that every probe writes.
fn probe(write: &WriteTransaction) -> Result<(), StoreError> {
    let mut table = write.open_table(PROBE)?;
    let flag = table.get(PROBE_ROW)?.is_some_and(|last| last.value() == [1]);
    table.insert(PROBE_ROW, [u8::from(!flag)].as_slice())?;
    Ok(())
}

type KeyTable<'a> = Table<'a, &'static [u8], ()>;

/// The tables of payments, which change together.
struct Tables<'a> {
    payments: Table<'a, &'static [u8], &'static [u8]>,
    open: KeyTable<'a>,
    ended: KeyTable<'a>,
}

/// The only row of the table that probes write.
const PROBE_ROW: &[u8] = b"last";

fn apply_changes(
    write: &WriteTransaction,
    changes: &[Change],
) -> Result<Vec<ChangeResult>, StoreError> {
    let mut tables = Tables::of(write)?;
    let mut batches = write.open_table(BATCHES)?;
    let mut gas = write.open_table(GAS)?;
    let mut results = Vec::new();
    for change in changes {
        match change {
            Change::Accepted(new) => results.push(tables.insert_new(new)?),
            Change::FoundOnChain { record, batch } => {
                let result = tables.insert_new(record)?;
                if result.is_stored() {
                    put_batch(&mut batches, batch)?;
                }
                results.push(result);
            }
            Change::Reopened(updated) => {
                results.push(match tables.record(updated.key())? {
                    Some(known) if known.state.settlement().is_some() => {
                        tables.put_merged(updated.with_answers_of(&known))?
                    }
                    Some(known) => ChangeResult::Conflict(Box::new(known)),
                    // The record was pruned in the meantime.
                    None => tables.put_merged((**updated).clone())?,
                });
            }
            Change::Batched { batch, digests } => {
                let records = tables.records(&batch.jobs)?;
                let mut each = records.iter().zip(digests);
                let is_other = |(known, digest): &(&Record, &B256)| {
                    known.state != State::Queued || known.digest() != **digest
                };
                let other = each.find(is_other).map(|(known, _digest)| known.clone());
                if other.is_none() {
                    for known in records {
                        tables.put(&Record { state: State::Sent { batch: batch.id }, ..known })?;
                    }
                    put_batch(&mut batches, batch)?;
                }
                results.push(result_of(other));
            }
            Change::Watched(batch) => put_batch(&mut batches, batch)?,
            Change::StateChanged { key, digest, from, state, attempts } => {
                let known = tables.record(*key)?;
                let is_other = |known: &Record| known.state != *from || known.digest() != *digest;
                let other = known.clone().filter(is_other);
                if let Some(known) = known.filter(|_known| other.is_none()) {
                    let (state, attempts) = (state.clone(), *attempts);
                    tables.put(&Record { state, attempts, ..known })?;
                }
                results.push(result_of(other));
            }
            Change::PendingReturned { key, origin } => {
                let known = tables.record(*key)?;
                if let Some(known) = known.filter(|known| known.may_return_success_to(origin)) {
                    tables.put(&Record { origin: *origin, pending_returned: true, ..known })?;
                }
            }
            Change::SuccessReturned { key, origin, at } => {
                if let Some(known) = tables.record(*key)? {
                    let (origin, success_returned_at) = (*origin, Some(*at));
                    tables.put(&Record { origin, success_returned_at, ..known })?;
                }
            }
            Change::OutcomeSet { key, state, attempts } => {
                if let Some(known) = tables.record(*key)? {
                    let (state, attempts) = (state.clone(), *attempts);
                    tables.put(&Record { state, attempts, ..known })?;
                }
            }
            Change::Closed { batch, spent } => {
                // The cost of a transaction counts once, even if it is closed twice.
                if batches.remove(batch.0.as_slice())?.is_some() {
                    spent.iter().try_for_each(|one| add_gas(&mut gas, one))?;
                }
            }
        }
    }
    Ok(results)
}

fn result_of(conflict: Option<Record>) -> ChangeResult {
    conflict.map_or(ChangeResult::Stored, |record| ChangeResult::Conflict(Box::new(record)))
}

impl<'a> Tables<'a> {
    fn of(write: &'a WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            payments: write.open_table(PAYMENTS)?,
            open: write.open_table(OPEN)?,
            ended: write.open_table(ENDED)?,
        })
    }

    fn record(&self, key: JobKey) -> Result<Option<Record>, StoreError> {
        record(&self.payments, key.0.as_slice())
    }

    /// Stores a new payment unless another record conflicts with it.
    fn insert_new(&mut self, new: &Record) -> Result<ChangeResult, StoreError> {
        match self.record(new.key())? {
            // A failed payment may be tried again, and another payment with its nonce may replace it. If the failed
            // payment was answered, the new record keeps the request that received the answer.
            Some(known)
                if matches!(known.state, State::Failed { .. })
                    && known.digest() == new.digest()
                    && (known.pending_returned || known.success_returned_at.is_some()) =>
            {
                self.put_merged(new.with_answers_of(&known))
            }
            None | Some(Record { state: State::Failed { .. }, .. }) => {
                self.put(new)?;
                Ok(ChangeResult::Stored)
            }
            Some(existing) => Ok(ChangeResult::Conflict(Box::new(existing))),
        }
    }

    fn put_merged(&mut self, new: Record) -> Result<ChangeResult, StoreError> {
        self.put(&new)?;
        Ok(ChangeResult::Merged(Box::new(new)))
    }

    fn records(&self, keys: &[JobKey]) -> Result<Vec<Record>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        for key in keys {
            all.extend(self.record(*key)?);
        }
        Ok(all)
    }

    /// Stores a record and updates the tables that list it.
    fn put(&mut self, new: &Record) -> Result<(), StoreError> {
        let key = new.key();
        self.unlist(key)?;
        let at = key.0.as_slice();
        match new.state.ended_at() {
            Some(_at) => self.ended.insert(ended_row(pruned_after(new), key).as_slice(), ())?,
            None => self.open.insert(at, ())?,
        };
        self.payments.insert(at, row::encode(new)?.as_slice())?;
        Ok(())
    }

    /// Removes a payment from the tables that list it.
    fn unlist(&mut self, key: JobKey) -> Result<(), StoreError> {
        let Some(known) = self.record(key)? else { return Ok(()) };
        self.open.remove(key.0.as_slice())?;
        if known.state.ended_at().is_some() {
            self.ended.remove(ended_row(pruned_after(&known), key).as_slice())?;
        }
        Ok(())
    }
}

/// Whether [`prune_rows`] would delete anything.
fn is_prunable(read: &ReadTransaction, before: Utc) -> Result<bool, StoreError> {
    let end = ended_row(before, JobKey(B256::ZERO));
    if let Some(ended) = table_if_written(read.open_table(ENDED))?
        && ended.range::<&[u8]>(..end.as_slice())?.next().is_some()
    {
        return Ok(true);
    }
    let Some(gas) = table_if_written(read.open_table(GAS))? else { return Ok(false) };
    Ok(gas.range::<&[u8]>(..&first_day_kept(before)[..])?.next().is_some())
}

/// The first row of the gas table that is kept.
fn first_day_kept(before: Utc) -> [u8; 8] {
    sortable_bytes(before.seconds().div_euclid(86_400))
}

fn prune_rows(write: &WriteTransaction, before: Utc, most: usize) -> Result<usize, StoreError> {
    let mut tables = Tables::of(write)?;
    let end = ended_row(before, JobKey(B256::ZERO));
    let mut due = Vec::new();
    for row in tables.ended.range::<&[u8]>(..end.as_slice())?.take(most) {
        let (row, _nothing) = row?;
        let key = row.value().get(8..).and_then(|key| B256::try_from(key).ok());
        due.extend(key.map(JobKey));
    }
    for key in &due {
        tables.unlist(*key)?;
        tables.payments.remove(key.0.as_slice())?;
    }
    let mut gas = write.open_table(GAS)?;
    gas.retain_in::<&[u8], _>(..&first_day_kept(before)[..], |_row, _wei| false)?;
    Ok(due.len())
}

fn put_batch(
    batches: &mut Table<'_, &'static [u8], &'static [u8]>,
    batch: &Batch,
) -> Result<(), StoreError> {
    let value = encode(batch)?;
    batches.insert(batch.id.0.as_slice(), value.as_slice())?;
    Ok(())
}

fn add_gas(
    gas: &mut Table<'_, &'static [u8], &'static [u8]>,
    one: &GasSpent,
) -> Result<(), StoreError> {
    let chain = one.chain.0.to_be_bytes();
    let row = [&sortable_bytes(one.day)[..], &chain[..], one.caller.as_slice()].concat();
    let before = gas.get(row.as_slice())?;
    let before = before.map(|wei| U256::try_from_be_slice(wei.value()).unwrap_or_default());
    let sum = before.unwrap_or_default().saturating_add(one.wei);
    gas.insert(row.as_slice(), sum.to_be_bytes::<32>().as_slice())?;
    Ok(())
}

fn spent_row(day: i64, row: &[u8], wei: &[u8]) -> Result<GasSpent, StoreError> {
    let unusable = || StoreError::Corrupt("a row of the gas table cannot be read".to_owned());
    let chain = row.get(8..16).and_then(|bytes| bytes.try_into().ok()).ok_or_else(unusable)?;
    let caller = row.get(16..).and_then(|bytes| B256::try_from(bytes).ok());
    Ok(GasSpent {
        chain: ChainId(u64::from_be_bytes(chain)),
        day,
        caller: caller.ok_or_else(unusable)?,
        wei: U256::try_from_be_slice(wei).ok_or_else(unusable)?,
    })
}

/// Encodes a number so that bytes sort like numbers, negative ones first.
fn sortable_bytes(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// Returns the time from which the record of an ended job may be deleted. For a closed job, only the record prevents
/// the use of the authorization, so the record is kept until the authorization expires.
fn pruned_after(record: &Record) -> Utc {
    let ended = record.state.ended_at().unwrap_or(Utc(i64::MAX));
    if !matches!(record.state, State::Closed { .. }) {
        return ended;
    }
    // A job that never expires can be carried out by any sender, so its record prevents nothing.
    let Some(expires) = record.job.work().expires() else { return ended };
    let expires = i64::try_from(expires).map_or(Utc(i64::MAX), Utc::from_seconds);
    expires.max(ended)
}

/// The key of an ended payment's row. Times before 1970 sort first.
fn ended_row(at: Utc, key: JobKey) -> Vec<u8> {
    [&sortable_bytes(at.0)[..], key.0.as_slice()].concat()
}

fn record(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Record>, StoreError> {
    let value = table.get(key)?;
    value.map(|value| row::decode(value.value())).transpose()
}

/// A random id for a new batch.
///
/// # Errors
/// The system provides no random bytes.
pub fn fresh_id() -> Result<SubmissionId, StoreFault> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(SubmissionId(id))
}
