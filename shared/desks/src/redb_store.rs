//! Outboxes in a redb file, which one process holds open.

use std::path::Path;
use std::sync::Arc;

use bursar_submit::{Desk, DeskKey, Event, Outcome, SubmissionId};
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction,
};

use tokio_util::sync::CancellationToken;

use crate::rows::{decode, encode, existing, failed};
use crate::store::{Kept, Store, StoreFault, StoreReply, apply_all};

/// Version and state of each outbox.
const DESKS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("desks");
/// The submission that holds each nonce, by outbox and nonce.
const NONCES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("nonces");
/// The outcome of each ended submission, by outbox and submission.
const ENDED: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("ended");

/// Size of redb's page cache, in bytes.
const CACHE_BYTES: usize = 8 << 20;

/// A store in a redb file. Clones share it.
#[derive(Debug, Clone)]
pub struct RedbStore {
    db: Arc<Database>,
    /// Cancelled when the file could not be written.
    broken: CancellationToken,
}

impl RedbStore {
    /// Opens or creates `path`.
    ///
    /// # Errors
    /// The file cannot be used, or another process has it open.
    pub fn open(path: &Path) -> Result<Self, StoreFault> {
        let db = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(failed)?;
        Ok(Self { db: Arc::new(db), broken: CancellationToken::new() })
    }

    /// Creates a store in a file that has other tables, too. Cancels `broken` when the file cannot be written.
    pub fn over(db: Arc<Database>, broken: CancellationToken) -> Self {
        Self { db, broken }
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
}

impl Store for RedbStore {
    fn load(&self, key: DeskKey) -> StoreReply<'_, Kept> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            match existing(read.open_table(DESKS))? {
                Some(table) => desk(&table, key),
                None => Ok(fresh(key)),
            }
        })
    }

    fn busy(&self) -> StoreReply<'_, Vec<DeskKey>> {
        self.work(|db| {
            let read = db.begin_read().map_err(failed)?;
            let Some(table) = existing(read.open_table(DESKS))? else { return Ok(Vec::new()) };
            let mut busy = Vec::new();
            for row in table.iter().map_err(failed)? {
                let (_key, value) = row.map_err(failed)?;
                let kept: (u64, Desk) = decode(value.value())?;
                if !kept.1.open.is_empty() {
                    busy.push(kept.1.key);
                }
            }
            Ok(busy)
        })
    }

    fn commit(&self, key: DeskKey, after: u64, events: Vec<Event>) -> StoreReply<'_, u64> {
        let done = self.work(move |db| {
            let mut write = db.begin_write().map_err(failed)?;
            write.set_durability(Durability::Immediate).map_err(failed)?;
            write.set_quick_repair(true);
            // Dropping the transaction without a commit discards it.
            let version = written(&write, key, after, &events)?;
            write.commit().map_err(failed)?;
            Ok(version)
        });
        Box::pin(async move {
            let done = done.await;
            if matches!(done, Err(StoreFault::Failed(_))) {
                self.broken.cancel();
            }
            done
        })
    }

    fn outcome(&self, key: DeskKey, id: SubmissionId) -> StoreReply<'_, Option<Outcome>> {
        self.work(move |db| {
            let read = db.begin_read().map_err(failed)?;
            let Some(table) = existing(read.open_table(ENDED))? else { return Ok(None) };
            let value = table.get(of_submission(key, id).as_slice()).map_err(failed)?;
            value.map(|value| decode(value.value())).transpose()
        })
    }
}

fn written(
    write: &WriteTransaction,
    key: DeskKey,
    after: u64,
    events: &[Event],
) -> Result<u64, StoreFault> {
    let mut desks = write.open_table(DESKS).map_err(failed)?;
    let Kept { desk: mut state, version } = desk(&desks, key)?;
    if version != after {
        return Err(StoreFault::Conflict);
    }
    let changes = apply_all(&mut state, events);
    let mut ended = write.open_table(ENDED).map_err(failed)?;
    for id in &changes.opened {
        let over = ended.get(of_submission(key, *id).as_slice()).map_err(failed)?;
        if let Some(outcome) = over {
            return Err(StoreFault::Over(decode(outcome.value())?));
        }
    }
    let mut nonces = write.open_table(NONCES).map_err(failed)?;
    for (nonce, id) in &changes.reserved {
        reserve(&mut nonces, key, *nonce, *id)?;
    }
    for nonce in &changes.released {
        nonces.remove(of_nonce(key, *nonce).as_slice()).map_err(failed)?;
    }
    for (id, outcome) in &changes.ended {
        let value = encode(outcome)?;
        ended.insert(of_submission(key, *id).as_slice(), value.as_slice()).map_err(failed)?;
    }
    let version = version.saturating_add(1);
    let value = encode(&(version, &state))?;
    desks.insert(of_desk(key).as_slice(), value.as_slice()).map_err(failed)?;
    Ok(version)
}

fn reserve(
    nonces: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: DeskKey,
    nonce: u64,
    id: SubmissionId,
) -> Result<(), StoreFault> {
    let row = of_nonce(key, nonce);
    let holder = nonces.get(row.as_slice()).map_err(failed)?.map(|value| value.value().to_vec());
    if holder.is_some_and(|holder| holder != id.0) {
        return Err(StoreFault::NonceTaken(nonce));
    }
    nonces.insert(row.as_slice(), id.0.as_slice()).map_err(failed)?;
    Ok(())
}

fn desk(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: DeskKey,
) -> Result<Kept, StoreFault> {
    match table.get(of_desk(key).as_slice()).map_err(failed)? {
        None => Ok(fresh(key)),
        Some(value) => {
            let (version, desk) = decode(value.value())?;
            Ok(Kept { desk, version })
        }
    }
}

fn fresh(key: DeskKey) -> Kept {
    Kept { desk: Desk::new(key), version: 0 }
}

/// Row key of an outbox: chain id and signer.
fn of_desk(key: DeskKey) -> Vec<u8> {
    let mut row = key.chain.0.to_be_bytes().to_vec();
    row.extend(key.signer);
    row
}

fn of_nonce(key: DeskKey, nonce: u64) -> Vec<u8> {
    let mut row = of_desk(key);
    row.extend(nonce.to_be_bytes());
    row
}

fn of_submission(key: DeskKey, id: SubmissionId) -> Vec<u8> {
    let mut row = of_desk(key);
    row.extend(id.0);
    row
}
