//! Checks a proof with nothing but its own bytes, and reads the receipt from its entries.

use std::fmt;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::edition::EditionRules;
use bursar_core::json::Object;
use bursar_core::time::Utc;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::proofs::{Anchor, ProofEvent};
use bursar_domain::receipt_entries::receipt_of;
use bursar_domain::settlement::Settlement;
use bursar_domain::{Entry, Event, Request, State, Status, apply};
use bursar_x402::signature::recover;
use ct_merkle::{InclusionProof, RootHash};
use sha2::Sha256;

use super::file::{ProofFile, Unreadable};
use super::tree::leaf_of;
use crate::journal::{Hash, hash_entry, read_entry};
use crate::receipts;

/// The most leaves of a tree that is checked.
const LEAVES_MAX: u64 = 1 << 40;

/// A proof that was read, and what it shows.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Empty for a good proof.
    pub defects: Vec<String>,
    /// The receipt, read from the entries; `None` if they do not give one.
    pub receipt: Option<Object>,
    /// The hash of the anchor's entry.
    pub head: Hash,
    /// The number and the time of the anchor's entry, and the anchor.
    pub anchor: Option<(u64, Utc, Anchor)>,
    /// The numbers of the entries.
    pub entries: Vec<u64>,
    /// The address whose key signed the statement.
    pub signer: Option<Address>,
}

/// Checks a proof.
///
/// With `head`, it must rest on the anchor with that hash.
///
/// # Errors
/// [`Unreadable`] if the file is not a proof. The errors in a proof are in [`Checked::defects`].
pub fn check(
    bytes: &[u8],
    head: Option<Hash>,
    edition: Arc<EditionRules>,
) -> Result<Checked, Unreadable> {
    let file = ProofFile::read(bytes)?;
    let mut checker = Checker { file: &file, defects: Vec::new() };
    let entries = checker.entries();
    let anchor = checker.anchor();
    if let Some((_seq, _at, anchor)) = &anchor {
        checker.place(&entries, anchor);
    }
    let receipt = checker.receipt(&entries, edition);
    let signer = checker.signer();
    let own_head = hash_entry(&file.anchor);
    if head.is_some_and(|head| head != own_head) {
        checker.note(
            "it rests on another anchor than the given head: only the heads that proofs show can be given",
        );
    }
    if signer.is_none() && head.is_none() {
        checker.note("it has no valid signature, and no head was given, so nothing vouches for it");
    }
    Ok(Checked {
        defects: checker.defects,
        receipt,
        head: own_head,
        anchor,
        entries: file.statement.entries.clone(),
        signer,
    })
}

/// An entry with its hash and the hash of the entry before it.
struct Read {
    entry: Entry,
    hash: Hash,
    before: Hash,
}

struct Checker<'a> {
    file: &'a ProofFile,
    defects: Vec<String>,
}

impl Checker<'_> {
    fn note(&mut self, defect: impl fmt::Display) {
        self.defects.push(defect.to_string());
    }

    /// Reads the entries: all about the stated request, in order, and linked where they are neighbours.
    fn entries(&mut self) -> Vec<Read> {
        let mut all: Vec<Read> = Vec::new();
        for bytes in &self.file.entries {
            match read_entry(bytes) {
                Ok((entry, before)) => all.push(Read { entry, hash: hash_entry(bytes), before }),
                Err(why) => self.note(format!("an entry cannot be read: {why}")),
            }
        }
        if all.iter().any(|read| receipt_of(&read.entry.event) != Some(self.file.statement.request))
        {
            self.note("an entry is about another request");
        }
        let pairs = || all.iter().zip(all.iter().skip(1));
        let is_next =
            |one: &Read, next: &Read| one.entry.seq.checked_add(1) == Some(next.entry.seq);
        let is_ordered = pairs().all(|(one, next)| one.entry.seq < next.entry.seq);
        let is_linked = pairs().all(|(one, next)| !is_next(one, next) || next.before == one.hash);
        let numbers: Vec<u64> = all.iter().map(|read| read.entry.seq).collect();
        if !is_ordered || !is_linked || numbers != self.file.statement.entries {
            self.note("the entries are not the stated ones in their order");
        }
        all
    }

    fn anchor(&mut self) -> Option<(u64, Utc, Anchor)> {
        let own = hash_entry(&self.file.anchor);
        if own != self.file.statement.head {
            self.note("the stated head is not the hash of the anchor's entry");
        }
        let (entry, before) = match read_entry(&self.file.anchor) {
            Ok(read) => read,
            Err(why) => {
                self.note(format!("the anchor's entry cannot be read: {why}"));
                return None;
            }
        };
        let Event::Proof(ProofEvent::Anchored(anchor)) = entry.event else {
            self.note("the anchor's entry is not an anchor");
            return None;
        };
        let follows = anchor.through.checked_add(1) == Some(entry.seq);
        if anchor.through >= entry.seq || (follows && before != anchor.head) {
            self.note("the anchor does not follow the entries that it names");
        }
        Some((entry.seq, entry.at, anchor))
    }

    /// Checks that the anchor commits to these entries, and to no others of the request.
    fn place(&mut self, entries: &[Read], anchor: &Anchor) {
        let is_covered = entries.iter().all(|read| {
            let last = read.entry.seq == anchor.through;
            read.entry.seq <= anchor.through && (!last || read.hash == anchor.head)
        });
        let numbered = entries.iter().map(|read| (read.entry.seq, &read.hash));
        let leaf = leaf_of(self.file.statement.request, numbered);
        let root = RootHash::<Sha256>::new(anchor.root.into(), anchor.requests);
        let digests: Vec<_> = self.file.path.iter().map(|hash| (*hash).into()).collect();
        let proof = InclusionProof::<Sha256>::from_digests(digests.iter());
        // Each request has an entry. The library does not check its arithmetic for impossible trees.
        let is_tree = anchor.requests <= anchor.through && anchor.requests <= LEAVES_MAX;
        let is_leaf = is_tree
            && self.file.leaf < anchor.requests
            && root.verify_inclusion(&leaf, self.file.leaf, &proof).is_ok();
        if !is_covered || !is_leaf {
            self.note("the anchor does not commit to these entries");
        }
    }

    /// Applies the entries in order, as the engine does, and returns the receipt of the request that they give.
    fn receipt(&mut self, entries: &[Read], edition: Arc<EditionRules>) -> Option<Object> {
        let mut state = State::new(edition);
        let (mut request, mut settlement): (Option<Arc<Request>>, Option<Arc<Settlement>>) =
            (None, None);
        for read in entries {
            match apply(&mut state, &read.entry) {
                Some(ChangedRecord::Request(changed)) => request = Some(changed),
                Some(ChangedRecord::Settlement(changed)) => settlement = Some(changed),
                None => {}
            }
        }
        let Some(request) = request else {
            self.note("the entries do not begin with the request");
            return None;
        };
        let statement = &self.file.statement;
        if request.agent != statement.agent || request.from != statement.signer {
            self.note("the stated agent or paying address is not the one in the entries");
        }
        if !matches!(request.status, Status::Authorized { .. } | Status::Ended(_)) {
            self.note("the request was still open, or paid nothing");
        }
        let request = Request { mandate: statement.mandate, ..(*request).clone() };
        let name = statement.agent_name.as_ref().map(|name| name.as_str());
        let member = statement.agent_member.text();
        Some(receipts::receipt(member, name, &request, settlement.as_deref()))
    }

    /// Returns the signer of the statement. The signature must be the paying address's.
    fn signer(&mut self) -> Option<Address> {
        let statement = &self.file.statement;
        let Some(signature) = self.file.signature.as_ref() else {
            // Only the signature vouches for them: no entry contains them.
            if statement.agent_name.is_some() || statement.mandate.is_some() {
                self.note("names of agent and mandate without a signature");
            }
            return None;
        };
        if recover(statement.digest(), signature) == Ok(statement.signer) {
            return Some(statement.signer);
        }
        self.note("the signature is not the paying address's");
        None
    }
}
