//! The chain of entries: appends, commits, seals and replays.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::time::Utc;
use bursar_domain::identity::Identity;
use bursar_domain::settlement::Settlement;
use bursar_domain::{Entry, Event, Request};
use zeroize::Zeroizing;

use super::codec;
use super::error::JournalError;
use super::head::{Hash, Head};
use super::seal;
use super::store::{Batch, Reader, Snapshot, Store};

/// Entries that are read backwards at a time.
const PIECE: u64 = 512;

/// Proof that a batch is on disk. Only [`Journal::commit`] and a finished replay make one, and a [`Slip`]
/// can only be issued with one in hand.
#[derive(Debug)]
pub struct Committed(());

/// The chain, its store, and what waits for the next commit.
#[derive(Debug)]
pub struct Journal {
    pub(super) store: Box<dyn Store>,
    /// The newest entry, those that wait for a commit included.
    pub(super) head: Head,
    /// The newest entry on disk.
    pub(super) durable: Head,
    pub(super) seal_key: Option<Zeroizing<[u8; 32]>>,
    pub(super) waiting: Batch,
    /// Records of the waiting batch, so that twins within one batch meet.
    pub(super) overlay: Vec<Arc<Request>>,
    pub(super) settled: Vec<Arc<Settlement>>,
}

impl Journal {
    /// Opens a store at its head; [`Journal::replay`] then checks that the chain leads there.
    pub fn open(store: Box<dyn Store>) -> Result<Self, JournalError> {
        let head = store.head()?;
        Ok(Self {
            store,
            head,
            durable: head,
            seal_key: None,
            waiting: Batch::default(),
            overlay: Vec::new(),
            settled: Vec::new(),
        })
    }

    /// The stored snapshot of the state, if the chain agrees that it belongs to it. It is a cache: whatever
    /// is wrong with it, the answer is to replay from the beginning.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, JournalError> {
        let Some(snapshot) = self.store.snapshot()? else { return Ok(None) };
        let entry = self.store.entry(snapshot.head.seq)?;
        let fits = entry.is_some_and(|bytes| codec::hash(&bytes) == snapshot.head.hash);
        Ok(fits.then_some(snapshot))
    }

    /// The same, if one of the keys made it and it is no younger than the place that the last seal covers: then
    /// the state is what the entries up to there say, and so are they.
    pub fn sealed_snapshot(
        &self,
        keys: &[Zeroizing<[u8; 32]>],
        sealed: Head,
    ) -> Result<Option<Snapshot>, JournalError> {
        let Some(snapshot) = self.snapshot()? else { return Ok(None) };
        let fits = keys.iter().any(|key| seal::snapshot_fits(key, &snapshot));
        Ok((fits && snapshot.head.seq <= sealed.seq).then_some(snapshot))
    }

    /// Reads entries backwards, some at a time, each time in order: from the one at `head` on, which is known to be
    /// right, until the visitor has enough. Only what the chain leads back to is visited.
    pub fn read_back(
        &self,
        head: Head,
        mut visit: impl FnMut(&[Entry]) -> bool,
    ) -> Result<(), JournalError> {
        let mut last = head;
        while last.seq > 0 {
            let before = last.seq.saturating_sub(PIECE);
            let mut bytes = Vec::new();
            self.store.read_after(before, &mut |entry| {
                bytes.push(entry.to_vec());
                before.saturating_add(bytes.len() as u64) < last.seq
            })?;
            let mut piece = VecDeque::new();
            for entry in bytes.iter().rev() {
                let (read, hash) = codec::decode_back(entry, last)
                    .map_err(|reason| JournalError::Damaged { seq: last.seq, reason })?;
                piece.push_front(read);
                last = Head { seq: last.seq.saturating_sub(1), hash };
            }
            if bytes.is_empty() || !visit(piece.make_contiguous()) {
                break;
            }
        }
        Ok(())
    }

    /// Reads every entry after `from`, checking the chain; the last one must be the head.
    pub fn replay(
        &self,
        from: Head,
        mut visit: impl FnMut(&Entry),
    ) -> Result<Committed, JournalError> {
        let mut at = from;
        let mut failure = None;
        self.store.read_after(from.seq, &mut |bytes| match codec::decode(bytes, at) {
            Ok(entry) => {
                at = Head { seq: entry.seq, hash: codec::hash(bytes) };
                visit(&entry);
                true
            }
            Err(reason) => {
                let seq = at.seq.saturating_add(1);
                failure = Some(JournalError::Damaged { seq, reason });
                false
            }
        })?;
        match failure {
            Some(failure) => Err(failure),
            None if at != self.durable => Err(JournalError::Damaged {
                seq: at.seq.saturating_add(1),
                reason: "the hash chain does not end at the recorded head".to_owned(),
            }),
            None => Ok(Committed(())),
        }
    }

    /// Adds an event to the batch that the next commit writes.
    pub fn append(&mut self, event: Event, at: Utc) -> Result<Entry, JournalError> {
        let entry = Entry { seq: self.head.seq.saturating_add(1), at, event };
        let bytes = codec::encode(&entry, &self.head.hash)
            .map_err(|reason| JournalError::Damaged { seq: entry.seq, reason })?;
        self.head = Head { seq: entry.seq, hash: codec::hash(&bytes) };
        self.waiting.entries.push((entry.seq, bytes));
        Ok(entry)
    }

    /// Whether anything waits for a commit.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.entries.is_empty()
    }

    /// Writes what waits, with one fsync. On an error nothing may be decided any more: what the disk
    /// holds is unknown, and fsync is not tried again.
    pub fn commit(&mut self) -> Result<Committed, JournalError> {
        let mut batch = std::mem::take(&mut self.waiting);
        self.overlay.clear();
        self.settled.clear();
        batch.head = self.head;
        if let (Some(key), Some(snapshot)) = (&self.seal_key, &mut batch.snapshot) {
            snapshot.tag = seal::snapshot_tag(key, snapshot);
        }
        batch.seal = self.seal_key.as_ref().map(|key| seal::seal(key, self.head));
        self.store.commit(batch)?;
        self.durable = self.head;
        Ok(Committed(()))
    }

    /// Stores a snapshot of the state with the next commit.
    pub fn keep_snapshot(&mut self, state: Vec<u8>) {
        self.waiting.snapshot = Some(Snapshot { head: self.head, state, tag: None });
    }

    /// Lets whole days of signed asks be forgotten with the next commit.
    pub fn forget_signed_before(&mut self, day: u32) {
        self.waiting.forget_before = Some(day);
    }

    /// Remembers again, with the next commit, every signed ask from `day` on that any entry has. Changes nothing if
    /// none of those days was forgotten.
    ///
    /// # Errors
    /// The chain is damaged, or the store cannot be read.
    pub fn remember_from(&mut self, day: u32) -> Result<bool, JournalError> {
        if day >= self.forgotten()? {
            return Ok(false);
        }
        let mut index = Vec::new();
        let _proof = self.replay(Head::default(), |entry| {
            let identity = match &entry.event {
                Event::PaymentAuthorized { asked, .. }
                | Event::PaymentHeld { asked, .. }
                | Event::PaymentRefused { asked, .. } => &asked.identity,
                Event::SettlementReported { identity, .. } => identity,
                _other => return,
            };
            if matches!(identity, Identity::Hmac { day: signed, .. } if *signed >= day) {
                index.push((identity.index_key(), entry.seq));
            }
        })?;
        self.waiting.index.extend(index);
        self.waiting.remember_from = Some(day);
        Ok(true)
    }

    /// See [`Store::begin_copy`].
    ///
    /// # Errors
    /// Those of the store.
    pub fn begin_copy(&mut self) -> Result<Option<PathBuf>, JournalError> {
        Ok(self.store.begin_copy()?)
    }

    /// See [`Store::end_copy`].
    ///
    /// # Errors
    /// Those of the store.
    pub fn end_copy(&mut self, to: Option<&Path>) -> Result<(), JournalError> {
        Ok(self.store.end_copy(to)?)
    }

    pub fn reader(&self) -> Arc<dyn Reader> {
        self.store.reader()
    }

    /// The newest entry on disk.
    pub fn durable(&self) -> Head {
        self.durable
    }

    /// The newest entry.
    pub fn head(&self) -> Head {
        self.head
    }

    /// The place that the last seal covers, if one of the keys fits it and the chain contains `note`, the
    /// place that the wallet file remembers. Else why they do not fit together.
    pub fn sealed(
        &self,
        keys: &[Zeroizing<[u8; 32]>],
        note: Option<Head>,
    ) -> Result<Result<Head, String>, JournalError> {
        if let Some(note) = note
            && self.hash_at(note.seq)? != Some(note.hash)
        {
            return Ok(Err(format!(
                "the wallet has seen entry {} of another or a longer journal",
                note.seq
            )));
        }
        let Some(stored) = self.store.seal()? else { return Ok(Ok(Head::default())) };
        let Some(hash) = self.hash_at(stored.seq)? else {
            return Ok(Err("the sealed entry is missing".to_owned()));
        };
        let sealed = Head { seq: stored.seq, hash };
        if keys.iter().any(|key| seal::fits(key, sealed, &stored)) {
            Ok(Ok(sealed))
        } else {
            Ok(Err("the seal does not match the entries".to_owned()))
        }
    }

    fn hash_at(&self, seq: u64) -> Result<Option<Hash>, JournalError> {
        if seq == 0 {
            return Ok(Some(Hash::default()));
        }
        Ok(self.store.entry(seq)?.map(|bytes| codec::hash(&bytes)))
    }

    /// From now on every commit is sealed.
    pub fn seal_with(&mut self, key: Zeroizing<[u8; 32]>) {
        self.seal_key = Some(key);
    }

    pub fn is_sealing(&self) -> bool {
        self.seal_key.is_some()
    }

    /// No more seals: the wallet is locked, or the journal is not trusted.
    pub fn stop_sealing(&mut self) {
        self.seal_key = None;
    }
}

/// Reads the whole chain through a reader and answers its head; the hash `wanted` must be part of it.
///
/// # Errors
/// The first damaged entry, or that `wanted` is not in the chain.
pub fn verify_chain(
    reader: &dyn Reader,
    wanted: Option<Hash>,
    mut visit: impl FnMut(&Entry),
) -> Result<Head, JournalError> {
    let mut met = wanted.is_none();
    let head = walk_chain(reader, |entry, hash| {
        met = met || wanted == Some(hash);
        visit(entry);
    })?;
    if met { Ok(head) } else { Err(JournalError::HeadUnmet) }
}

/// Reads the whole chain through a reader and answers its head. Each entry comes with its hash.
///
/// # Errors
/// The first damaged entry.
pub(crate) fn walk_chain(
    reader: &dyn Reader,
    mut visit: impl FnMut(&Entry, Hash),
) -> Result<Head, JournalError> {
    let mut at = Head::default();
    let mut failure = None;
    reader.read_after(0, &mut |bytes| match codec::decode(bytes, at) {
        Ok(entry) => {
            at = Head { seq: entry.seq, hash: codec::hash(bytes) };
            visit(&entry, at.hash);
            true
        }
        Err(reason) => {
            failure = Some(JournalError::Damaged { seq: at.seq.saturating_add(1), reason });
            false
        }
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => Ok(at),
    }
}
