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

/// Number of entries that [`Journal::read_backwards`] reads at a time.
const ENTRIES_PER_READ: u64 = 512;

/// Proof that all entries up to the head are on disk.
///
/// Only [`Journal::commit`] and [`Journal::replay`] create this proof, and no slip can be issued without it.
#[derive(Debug)]
pub struct Committed(());

/// The result of comparing the journal with the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealCheck {
    /// Journal and wallet match. The last seal covers this head; without a seal, this is the head of an empty journal.
    Matches(Head),
    /// Journal and wallet do not match, for this reason.
    Mismatch(String),
}

/// The chain, its store, and the pending batch.
#[derive(Debug)]
pub struct Journal {
    pub(super) store: Box<dyn Store>,
    /// The newest entry, including pending ones.
    pub(super) head: Head,
    /// The newest entry on disk.
    pub(super) durable: Head,
    pub(super) seal_key: Option<Zeroizing<[u8; 32]>>,
    /// The batch for the next commit.
    pub(super) pending: Batch,
    /// Records of the pending batch, so that the second of two equal asks in one batch finds the first.
    pub(super) overlay: Vec<Arc<Request>>,
    pub(super) pending_settlements: Vec<Arc<Settlement>>,
}

impl Journal {
    /// Opens a store at its head.
    ///
    /// [`Journal::replay`] then checks that the chain leads there.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Box<dyn Store>) -> Result<Self, JournalError> {
        let head = store.head()?;
        Ok(Self {
            store,
            head,
            durable: head,
            seal_key: None,
            pending: Batch::default(),
            overlay: Vec::new(),
            pending_settlements: Vec::new(),
        })
    }

    /// Returns the stored snapshot of the state, if its head is in the chain.
    ///
    /// The snapshot is a cache: without a valid one the caller replays from the beginning.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, JournalError> {
        let Some(snapshot) = self.store.snapshot()? else { return Ok(None) };
        let entry = self.store.entry(snapshot.head.seq)?;
        let in_chain = entry.is_some_and(|bytes| codec::hash(&bytes) == snapshot.head.hash);
        Ok(in_chain.then_some(snapshot))
    }

    /// Returns the stored snapshot, if one of the keys tagged it and it is not newer than the sealed head.
    ///
    /// Such a snapshot proves that the entries up to it are authentic and that its state is their replay.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sealed_snapshot(
        &self,
        keys: &[Zeroizing<[u8; 32]>],
        sealed: Head,
    ) -> Result<Option<Snapshot>, JournalError> {
        let Some(snapshot) = self.snapshot()? else { return Ok(None) };
        let tagged = keys.iter().any(|key| seal::matches_snapshot_tag(key, &snapshot));
        Ok((tagged && snapshot.head.seq <= sealed.seq).then_some(snapshot))
    }

    /// Reads entries backwards from the trusted `head`, in pieces of up to 512, until `visit` returns false.
    ///
    /// Each piece is in ascending order, and its hashes are checked before it is visited.
    ///
    /// # Errors
    /// An entry whose hash is not the one in the next entry, or a store that cannot be read.
    pub fn read_backwards(
        &self,
        head: Head,
        mut visit: impl FnMut(&[Entry]) -> bool,
    ) -> Result<(), JournalError> {
        let mut last = head;
        while last.seq > 0 {
            let before = last.seq.saturating_sub(ENTRIES_PER_READ);
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

    /// Reads every entry after `from` and checks the chain.
    ///
    /// The last entry must be the head on disk.
    ///
    /// # Errors
    /// The first damaged entry, a chain that does not end at that head, or a store that cannot be read.
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

    /// Appends an event to the batch of the next commit.
    ///
    /// # Errors
    /// The event cannot be encoded.
    pub fn append(&mut self, event: Event, at: Utc) -> Result<Entry, JournalError> {
        let entry = Entry { seq: self.head.seq.saturating_add(1), at, event };
        let bytes = codec::encode(&entry, &self.head.hash)
            .map_err(|reason| JournalError::Damaged { seq: entry.seq, reason })?;
        self.head = Head { seq: entry.seq, hash: codec::hash(&bytes) };
        self.pending.entries.push((entry.seq, bytes));
        Ok(entry)
    }

    /// Whether entries are pending.
    pub fn has_pending(&self) -> bool {
        !self.pending.entries.is_empty()
    }

    /// Writes the pending batch with one durable commit.
    ///
    /// # Errors
    /// The store failed. The content of the disk is then unknown: the caller must stop deciding, and must not retry
    /// the commit.
    pub fn commit(&mut self) -> Result<Committed, JournalError> {
        let mut batch = std::mem::take(&mut self.pending);
        self.overlay.clear();
        self.pending_settlements.clear();
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
    pub fn set_snapshot(&mut self, state: Vec<u8>) {
        self.pending.snapshot = Some(Snapshot { head: self.head, state, tag: None });
    }

    /// Forgets the signed asks and reports before `day` (since 1970) with the next commit.
    pub fn forget_signed_before(&mut self, day: u32) {
        self.pending.forget_before = Some(day);
    }

    /// Restores the index of signed asks and reports from `day` (since 1970) on, with the next commit.
    ///
    /// Returns false and changes nothing if none of those days was forgotten.
    ///
    /// # Errors
    /// The chain is damaged, or the store cannot be read.
    pub fn remember_from(&mut self, day: u32) -> Result<bool, JournalError> {
        if day >= self.forgotten_before_day()? {
            return Ok(false);
        }
        let mut index = Vec::new();
        let _proof = self.replay(Head::default(), |entry| {
            let identity = match (&entry.event, entry.event.draft()) {
                (_, Some(asked)) => &asked.identity,
                (Event::SettlementReported { identity, .. }, None) => identity,
                (_other, None) => return,
            };
            if matches!(identity, Identity::Hmac { day: signed, .. } if *signed >= day) {
                index.push((identity.index_key(), entry.seq));
            }
        })?;
        self.pending.index.extend(index);
        self.pending.remember_from = Some(day);
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

    /// Returns a reader of committed records.
    pub fn reader(&self) -> Arc<dyn Reader> {
        self.store.reader()
    }

    /// The newest entry on disk.
    pub fn durable(&self) -> Head {
        self.durable
    }

    /// The newest entry, including pending ones.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Checks whether journal and wallet match.
    ///
    /// They match if the chain contains `note`, the head that the wallet file recorded, and one of the keys made the
    /// seal. A journal without a seal only has to contain `note`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn check_seal(
        &self,
        keys: &[Zeroizing<[u8; 32]>],
        note: Option<Head>,
    ) -> Result<SealCheck, JournalError> {
        if let Some(note) = note
            && self.hash_at(note.seq)? != Some(note.hash)
        {
            return Ok(SealCheck::Mismatch(format!(
                "the wallet file names entry {}, which this journal does not contain",
                note.seq
            )));
        }
        let Some(stored) = self.store.seal()? else {
            return Ok(SealCheck::Matches(Head::default()));
        };
        let Some(hash) = self.hash_at(stored.seq)? else {
            return Ok(SealCheck::Mismatch("the sealed entry is missing".to_owned()));
        };
        let sealed = Head { seq: stored.seq, hash };
        Ok(if keys.iter().any(|key| seal::matches_seal(key, sealed, &stored)) {
            SealCheck::Matches(sealed)
        } else {
            SealCheck::Mismatch("the seal does not match the entries".to_owned())
        })
    }

    fn hash_at(&self, seq: u64) -> Result<Option<Hash>, JournalError> {
        if seq == 0 {
            return Ok(Some(Hash::default()));
        }
        Ok(self.store.entry(seq)?.map(|bytes| codec::hash(&bytes)))
    }

    /// Seals every commit until [`Journal::stop_sealing`].
    pub fn seal_with(&mut self, key: Zeroizing<[u8; 32]>) {
        self.seal_key = Some(key);
    }

    /// Returns whether commits are sealed.
    pub fn is_sealing(&self) -> bool {
        self.seal_key.is_some()
    }

    /// Stops sealing commits: the wallet is locked, or the journal is not trusted.
    pub fn stop_sealing(&mut self) {
        self.seal_key = None;
    }
}

/// Reads and checks the whole chain, and returns its head.
///
/// The chain must contain the hash `wanted`, if one is given.
///
/// # Errors
/// The first damaged entry, a hash `wanted` that is not in the chain, or a store that cannot be read.
pub fn verify_chain(
    reader: &dyn Reader,
    wanted: Option<Hash>,
    mut visit: impl FnMut(&Entry),
) -> Result<Head, JournalError> {
    let mut met = wanted.is_none();
    let head = walk_chain(reader, |entry, hash| {
        met = met || wanted == Some(hash);
        visit(entry);
        true
    })?;
    if met { Ok(head) } else { Err(JournalError::HeadUnmet) }
}

/// Reads and checks the whole chain and returns its head. Visits each entry with its hash, until `visit` returns
/// `false`.
///
/// # Errors
/// The first damaged entry, a store that cannot be read, or [`JournalError::Stopped`].
pub(crate) fn walk_chain(
    reader: &dyn Reader,
    mut visit: impl FnMut(&Entry, Hash) -> bool,
) -> Result<Head, JournalError> {
    walk_chain_bytes(reader, |entry, hash, _bytes| visit(entry, hash))
}

/// As [`walk_chain`], also with the bytes of each entry.
///
/// # Errors
/// As those of [`walk_chain`].
pub(crate) fn walk_chain_bytes(
    reader: &dyn Reader,
    mut visit: impl FnMut(&Entry, Hash, &[u8]) -> bool,
) -> Result<Head, JournalError> {
    let mut at = Head::default();
    let mut failure = None;
    reader.read_after(0, &mut |bytes| match codec::decode(bytes, at) {
        Ok(entry) => {
            at = Head { seq: entry.seq, hash: codec::hash(bytes) };
            let goes_on = visit(&entry, at.hash, bytes);
            failure = (!goes_on).then_some(JournalError::Stopped);
            goes_on
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
