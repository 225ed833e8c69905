//! Reads the journal for a proof. Every pass checks the whole chain, so nothing that was changed on disk is anchored.

use std::sync::Arc;

use bursar_core::edition::EditionRules;
use bursar_core::ids::RequestId;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::proofs::{Anchor, ProofEvent};
use bursar_domain::receipt_entries::receipt_of;
use bursar_domain::settlement::Settlement;
use bursar_domain::{Event, Request, State, apply};

use super::tree::Receipts;
use crate::journal::{Hash, Head, JournalError, Reader, walk_chain_bytes};

/// An anchor in the journal.
#[derive(Debug, Clone)]
pub(crate) struct FoundAnchor {
    pub(crate) hash: Hash,
    pub(crate) bytes: Vec<u8>,
    pub(crate) anchor: Anchor,
}

/// What the journal has for the proof of one receipt.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The request and its settlement, as all entries together give them. The records of the index prove nothing.
    pub(crate) request: Option<Arc<Request>>,
    pub(crate) settlement: Option<Arc<Settlement>>,
    /// The entries that the receipt rests on, with their numbers.
    pub(crate) entries: Vec<(u64, Vec<u8>)>,
    /// All anchors, oldest first.
    pub(crate) anchors: Vec<FoundAnchor>,
}

impl Survey {
    /// Returns the entries up to `through`.
    pub(crate) fn entries_through(&self, through: u64) -> Vec<(u64, Vec<u8>)> {
        self.entries.iter().filter(|(seq, _bytes)| *seq <= through).cloned().collect()
    }
}

/// Finds the entries of a request and all anchors. The journal must contain the `published` head.
///
/// # Errors
/// As those of [`walk`].
pub(crate) fn survey(
    reader: &dyn Reader,
    published: Head,
    edition: Arc<EditionRules>,
    request: RequestId,
) -> Result<Survey, JournalError> {
    let mut found = Survey::default();
    let mut state = State::new(edition);
    walk(reader, published, |entry, hash, bytes| {
        match apply(&mut state, entry) {
            Some(ChangedRecord::Request(one)) if one.id == request => found.request = Some(one),
            Some(ChangedRecord::Settlement(one)) if one.id == request => {
                found.settlement = Some(one);
            }
            _another => {}
        }
        if receipt_of(&entry.event) == Some(request) {
            found.entries.push((entry.seq, bytes.to_vec()));
        }
        if let Event::Proof(ProofEvent::Anchored(anchor)) = entry.event {
            found.anchors.push(FoundAnchor { hash, bytes: bytes.to_vec(), anchor });
        }
    })?;
    Ok(found)
}

/// Returns the anchor of all entries up to the `published` head.
///
/// # Errors
/// As those of [`walk`].
pub(crate) fn next_anchor(reader: &dyn Reader, published: Head) -> Result<Anchor, JournalError> {
    let (mut receipts, mut accepted, mut restored) = (Receipts::default(), None, None);
    walk(reader, published, |entry, hash, _bytes| {
        if entry.seq > published.seq {
            return;
        }
        match &entry.event {
            Event::JournalAccepted => accepted = Some(entry.seq),
            Event::JournalRestored { .. } => restored = Some(entry.seq),
            event => {
                if let Some(request) = receipt_of(event) {
                    receipts.add(request, entry.seq, &hash);
                }
            }
        }
    })?;
    let root = receipts.tree().root();
    Ok(Anchor {
        through: published.seq,
        head: published.hash,
        requests: root.num_leaves(),
        root: (*root.as_bytes()).into(),
        accepted,
        restored,
    })
}

/// Returns the number of a request's leaf under an anchor, and its path to the root, nearest first.
///
/// # Errors
/// The journal's entries are not the ones to which the anchor commits, or those of [`walk`].
pub(crate) fn anchored(
    reader: &dyn Reader,
    published: Head,
    anchor: &Anchor,
    request: RequestId,
) -> Result<(u64, Vec<Hash>), JournalError> {
    let mut receipts = Receipts::default();
    walk(reader, published, |entry, hash, _bytes| {
        if entry.seq <= anchor.through
            && let Some(of) = receipt_of(&entry.event)
        {
            receipts.add(of, entry.seq, &hash);
        }
    })?;
    let tree = receipts.tree();
    let is_same = tree.root().as_bytes()[..] == anchor.root && tree.len() == anchor.requests;
    let place = receipts.place(request).filter(|_place| is_same);
    let place = place.ok_or_else(|| JournalError::Damaged {
        seq: anchor.through,
        reason: "the entries up to it are not those that a later anchor names".to_owned(),
    })?;
    let proof = tree.prove_inclusion(place);
    let path = proof.as_bytes().as_chunks().0.to_vec();
    Ok((u64::try_from(place).unwrap_or(u64::MAX), path))
}

/// Visits every entry with its hash and its bytes.
///
/// # Errors
/// The first damaged entry, a published head that is not in the chain, or a store that cannot be read.
fn walk(
    reader: &dyn Reader,
    published: Head,
    mut visit: impl FnMut(&bursar_domain::Entry, Hash, &[u8]),
) -> Result<(), JournalError> {
    let mut is_met = published.seq == 0;
    walk_chain_bytes(reader, |entry, hash, bytes| {
        is_met = is_met || (entry.seq == published.seq && hash == published.hash);
        visit(entry, hash, bytes);
        true
    })?;
    if is_met {
        return Ok(());
    }
    let reason = "it differs from the entry that was committed".to_owned();
    Err(JournalError::Damaged { seq: published.seq, reason })
}
