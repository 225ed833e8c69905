//! A store in memory, for tests. It is also the simplest implementation of the store's contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use alloy_primitives::B256;
use bursar_submit::{Event, Outbox, OutboxKey, Outcome, SubmissionId};

use crate::store::{Store, StoreFault, StoreReply, StoredOutbox, apply_all};

#[derive(Debug, Default)]
struct Tables {
    outboxes: BTreeMap<OutboxKey, StoredOutbox>,
    nonces: BTreeMap<(OutboxKey, u64), SubmissionId>,
    ended: BTreeMap<(OutboxKey, SubmissionId), Outcome>,
    signed: BTreeSet<(OutboxKey, B256)>,
}

/// Outboxes in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    // A mutex instead of an owner task, because it is held only for short work on the maps.
    tables: Mutex<Tables>,
}

impl Store for MemoryStore {
    fn load(&self, key: OutboxKey) -> StoreReply<'_, StoredOutbox> {
        let kept = self.with(|tables| tables.outbox(key));
        Box::pin(async move { Ok(kept) })
    }

    fn with_open_submissions(&self) -> StoreReply<'_, Vec<OutboxKey>> {
        let busy = self.with(|tables| {
            let busy = tables.outboxes.iter().filter(|(_key, kept)| !kept.outbox.open.is_empty());
            busy.map(|(key, _kept)| *key).collect()
        });
        Box::pin(async move { Ok(busy) })
    }

    fn commit(&self, key: OutboxKey, after: u64, events: Vec<Event>) -> StoreReply<'_, u64> {
        let done = self.with(|tables| tables.commit(key, after, &events));
        Box::pin(async move { done })
    }

    fn outcome(&self, key: OutboxKey, id: SubmissionId) -> StoreReply<'_, Option<Outcome>> {
        let ended = self.with(|tables| tables.ended.get(&(key, id)).copied());
        Box::pin(async move { Ok(ended) })
    }

    fn has_signed(&self, key: OutboxKey, hash: B256) -> StoreReply<'_, bool> {
        let signed = self.with(|tables| tables.signed.contains(&(key, hash)));
        Box::pin(async move { Ok(signed) })
    }

    fn nonce_before(&self, key: OutboxKey, nonce: u64) -> StoreReply<'_, Option<u64>> {
        let before = self.with(|tables| {
            let mut below = tables.nonces.range((key, 0)..(key, nonce));
            below.next_back().map(|((_key, held), _id)| *held)
        });
        Box::pin(async move { Ok(before) })
    }
}

impl MemoryStore {
    fn with<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        work(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tables {
    fn outbox(&self, key: OutboxKey) -> StoredOutbox {
        let fresh = || StoredOutbox { outbox: Outbox::new(key), version: 0 };
        self.outboxes.get(&key).cloned().unwrap_or_else(fresh)
    }

    fn commit(&mut self, key: OutboxKey, after: u64, events: &[Event]) -> Result<u64, StoreFault> {
        let StoredOutbox { mut outbox, version } = self.outbox(key);
        if version != after {
            return Err(StoreFault::Conflict);
        }
        let changes = apply_all(&mut outbox, events);
        for id in &changes.opened {
            if let Some(outcome) = self.ended.get(&(key, *id)) {
                return Err(StoreFault::Ended(*outcome));
            }
        }
        for (nonce, id) in &changes.reserved {
            let holder = self.nonces.get(&(key, *nonce));
            if holder.is_some_and(|holder| holder != id) {
                return Err(StoreFault::NonceTaken(*nonce));
            }
        }
        for (nonce, id) in changes.reserved {
            self.nonces.insert((key, nonce), id);
        }
        for nonce in changes.released {
            self.nonces.remove(&(key, nonce));
        }
        self.signed.extend(changes.signed.into_iter().map(|hash| (key, hash)));
        for (id, outcome) in changes.ended {
            self.ended.insert((key, id), outcome);
        }
        let version = version.saturating_add(1);
        self.outboxes.insert(key, StoredOutbox { outbox, version });
        Ok(version)
    }
}
