//! Outboxes in a redb file, which only one process can open.

use std::path::Path;

use alloy_primitives::B256;
use bursar_rows::{Options, RowFile, StoreError, decode, encode, table_if_written};
use bursar_submit::{Event, Outbox, OutboxKey, Outcome, SubmissionId};
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::store::{Store, StoreFault, StoreReply, StoredOutbox, apply_all, is_open_attempt};

/// Version and state of each outbox.
const OUTBOXES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("outboxes");
/// The submission that holds each nonce, by outbox and nonce.
const NONCES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("nonces");
/// The outcome of each ended submission, by outbox and submission.
const ENDED: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("ended");

/// Every signed transaction, by outbox and hash. Transactions of versions without this table are missing.
const SIGNED: TableDefinition<'_, &[u8], ()> = TableDefinition::new("signed");

/// How [`RedbStore::open`] uses its file.
const OPTIONS: Options = Options { cache_bytes: 8 << 20, quick_repair: true };

/// A store in a redb file, which may have other tables, too.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct RedbStore {
    file: RowFile,
}

impl RedbStore {
    /// Opens or creates `path`.
    ///
    /// # Errors
    /// The file cannot be used, or another process has it open.
    pub fn open(path: &Path) -> Result<Self, StoreFault> {
        Ok(Self::in_file(RowFile::open(path, OPTIONS)?))
    }

    /// Creates a store in an open file.
    pub fn in_file(file: RowFile) -> Self {
        Self { file }
    }
}

impl Store for RedbStore {
    fn load(&self, key: OutboxKey) -> StoreReply<'_, StoredOutbox> {
        self.file.read(move |read| match table_if_written(read.open_table(OUTBOXES))? {
            Some(table) => Ok(outbox(&table, key)?),
            None => Ok(empty_outbox(key)),
        })
    }

    fn with_open_submissions(&self) -> StoreReply<'_, Vec<OutboxKey>> {
        self.file.read(|read| Ok(outboxes_with_open_submissions(read)?))
    }

    fn commit(&self, key: OutboxKey, after: u64, events: Vec<Event>) -> StoreReply<'_, u64> {
        self.file.write(move |write| commit_events(write, key, after, &events))
    }

    fn outcome(&self, key: OutboxKey, id: SubmissionId) -> StoreReply<'_, Option<Outcome>> {
        self.file.read(move |read| Ok(outcome(read, key, id)?))
    }

    fn has_signed(&self, key: OutboxKey, hash: B256) -> StoreReply<'_, bool> {
        self.file.read(move |read| Ok(has_signed(read, key, hash)?))
    }

    fn nonce_before(&self, key: OutboxKey, nonce: u64) -> StoreReply<'_, Option<u64>> {
        self.file.read(move |read| Ok(nonce_before(read, key, nonce)?))
    }
}

fn outboxes_with_open_submissions(read: &ReadTransaction) -> Result<Vec<OutboxKey>, StoreError> {
    let Some(table) = table_if_written(read.open_table(OUTBOXES))? else { return Ok(Vec::new()) };
    let mut busy = Vec::new();
    for row in table.iter()? {
        let (_key, value) = row?;
        let kept: (u64, Outbox) = decode(value.value())?;
        if !kept.1.open.is_empty() {
            busy.push(kept.1.key);
        }
    }
    Ok(busy)
}

fn outcome(
    read: &ReadTransaction,
    key: OutboxKey,
    id: SubmissionId,
) -> Result<Option<Outcome>, StoreError> {
    let Some(table) = table_if_written(read.open_table(ENDED))? else { return Ok(None) };
    let value = table.get(submission_row(key, id).as_slice())?;
    value.map(|value| decode(value.value())).transpose()
}

fn has_signed(read: &ReadTransaction, key: OutboxKey, hash: B256) -> Result<bool, StoreError> {
    if let Some(table) = table_if_written(read.open_table(SIGNED))?
        && table.get(hash_row(key, hash).as_slice())?.is_some()
    {
        return Ok(true);
    }
    // A version without the table may have signed the transaction; its submission may still be open.
    let Some(table) = table_if_written(read.open_table(OUTBOXES))? else { return Ok(false) };
    Ok(is_open_attempt(&outbox(&table, key)?.outbox, hash))
}

fn nonce_before(
    read: &ReadTransaction,
    key: OutboxKey,
    nonce: u64,
) -> Result<Option<u64>, StoreError> {
    let Some(table) = table_if_written(read.open_table(NONCES))? else { return Ok(None) };
    let (from, to) = (nonce_row(key, 0), nonce_row(key, nonce));
    let Some(row) = table.range::<&[u8]>(from.as_slice()..to.as_slice())?.next_back() else {
        return Ok(None);
    };
    let (row, _id) = row?;
    let unusable = || StoreError::Corrupt("a row of the table of nonces cannot be read".to_owned());
    let held = row.value().last_chunk::<8>().copied().ok_or_else(unusable)?;
    Ok(Some(u64::from_be_bytes(held)))
}

fn commit_events(
    write: &WriteTransaction,
    key: OutboxKey,
    after: u64,
    events: &[Event],
) -> Result<u64, StoreFault> {
    let mut outboxes = write.open_table(OUTBOXES).map_err(StoreError::from)?;
    let StoredOutbox { outbox: mut state, version } = outbox(&outboxes, key)?;
    if version != after {
        return Err(StoreFault::Conflict);
    }
    let changes = apply_all(&mut state, events);
    let mut ended = write.open_table(ENDED).map_err(StoreError::from)?;
    for id in &changes.opened {
        let over = ended.get(submission_row(key, *id).as_slice()).map_err(StoreError::from)?;
        if let Some(outcome) = over {
            return Err(StoreFault::Ended(decode(outcome.value())?));
        }
    }
    let mut nonces = write.open_table(NONCES).map_err(StoreError::from)?;
    for (nonce, id) in &changes.reserved {
        reserve(&mut nonces, key, *nonce, *id)?;
    }
    for nonce in &changes.released {
        nonces.remove(nonce_row(key, *nonce).as_slice()).map_err(StoreError::from)?;
    }
    for (id, outcome) in &changes.ended {
        let value = encode(outcome)?;
        ended
            .insert(submission_row(key, *id).as_slice(), value.as_slice())
            .map_err(StoreError::from)?;
    }
    let mut signed = write.open_table(SIGNED).map_err(StoreError::from)?;
    for hash in &changes.signed {
        signed.insert(hash_row(key, *hash).as_slice(), ()).map_err(StoreError::from)?;
    }
    let version = version.saturating_add(1);
    let value = encode(&(version, &state))?;
    outboxes.insert(outbox_row(key).as_slice(), value.as_slice()).map_err(StoreError::from)?;
    Ok(version)
}

fn reserve(
    nonces: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: OutboxKey,
    nonce: u64,
    id: SubmissionId,
) -> Result<(), StoreFault> {
    let row = nonce_row(key, nonce);
    let holder =
        nonces.get(row.as_slice()).map_err(StoreError::from)?.map(|value| value.value().to_vec());
    if holder.is_some_and(|holder| holder != id.0) {
        return Err(StoreFault::NonceTaken(nonce));
    }
    nonces.insert(row.as_slice(), id.0.as_slice()).map_err(StoreError::from)?;
    Ok(())
}

fn outbox(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: OutboxKey,
) -> Result<StoredOutbox, StoreError> {
    match table.get(outbox_row(key).as_slice())? {
        None => Ok(empty_outbox(key)),
        Some(value) => {
            let (version, outbox) = decode(value.value())?;
            Ok(StoredOutbox { outbox, version })
        }
    }
}

fn empty_outbox(key: OutboxKey) -> StoredOutbox {
    StoredOutbox { outbox: Outbox::new(key), version: 0 }
}

/// Row key of an outbox: chain id and signer.
fn outbox_row(key: OutboxKey) -> Vec<u8> {
    let mut row = key.chain.0.to_be_bytes().to_vec();
    row.extend(key.signer);
    row
}

fn nonce_row(key: OutboxKey, nonce: u64) -> Vec<u8> {
    let mut row = outbox_row(key);
    row.extend(nonce.to_be_bytes());
    row
}

fn hash_row(key: OutboxKey, hash: B256) -> Vec<u8> {
    let mut row = outbox_row(key);
    row.extend(hash);
    row
}

fn submission_row(key: OutboxKey, id: SubmissionId) -> Vec<u8> {
    let mut row = outbox_row(key);
    row.extend(id.0);
    row
}
