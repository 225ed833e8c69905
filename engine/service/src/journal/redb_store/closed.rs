//! Checks a journal that no engine has open, read-only.

use std::path::Path;

use bursar_core::edition::EditionName;
use bursar_domain::Event;
use bursar_rows::StoreError;
use redb::{Database, ReadTransaction, ReadableDatabase};

use super::batches;
use super::files::check_regular;
use super::history::{self, history_path};
use crate::journal::codec;
use crate::journal::error::JournalError;
use crate::journal::head::Head;

/// Checks the chain of a cleanly closed journal from its snapshot on, without writing to the files.
///
/// Succeeds without a check if a file cannot be opened read-only, for example after a crash: the next regular open
/// repairs it. Returns the edition that the journal names; `None` if there was no check or there is no entry.
///
/// # Errors
/// The first damaged entry, or files that do not belong together.
pub fn check_closed_journal(path: &Path) -> Result<Option<EditionName>, JournalError> {
    let Some(short) = read(path)? else { return Ok(None) };
    let history_path = history_path(path);
    let long = match history_path.exists() {
        true => match read(&history_path)? {
            Some(long) => Some(long),
            None => return Ok(None),
        },
        false => None,
    };
    let (mut tables, checkpointed) = match &long {
        Some(long) => history::read_heads(long)?,
        None => Default::default(),
    };
    batches::load(&short, checkpointed, &mut tables)?;
    let snapshot = match (&tables.snapshot, &long) {
        (None, Some(long)) => history::snapshot(long)?,
        (near, _) => near.clone(),
    };
    let entry_at = |seq: u64| {
        let far = || long.as_ref().and_then(|long| history::entry(long, seq).ok().flatten());
        tables.entries.get(&seq).cloned().or_else(far)
    };
    let mut at = Head::default();
    if let Some(snapshot) = snapshot
        && entry_at(snapshot.head.seq)
            .is_some_and(|bytes| codec::hash(&bytes) == snapshot.head.hash)
    {
        at = snapshot.head;
    }
    let from = at.seq;
    let mut damage = None;
    let mut follow = |bytes: &[u8]| {
        let seq = at.seq.saturating_add(1);
        match codec::decode(bytes, at) {
            Ok(_entry) => at = Head { seq, hash: codec::hash(bytes) },
            Err(reason) => damage = Some(JournalError::Damaged { seq, reason }),
        }
        damage.is_none()
    };
    if let Some(long) = &long {
        history::read_after(long, from, &mut follow)?;
    }
    tables.entries.range(from.saturating_add(1)..).all(|(_seq, bytes)| follow(bytes));
    match damage {
        Some(damage) => Err(damage),
        None if tables.head != at => Err(JournalError::Damaged {
            seq: at.seq.saturating_add(1),
            reason: "the hash chain does not end at the recorded head".to_owned(),
        }),
        None => Ok(entry_at(FIRST_ENTRY).as_deref().and_then(codec::event).map(edition_of)),
    }
}

/// Returns the edition that the history of the journal at `path` names, if it can be read.
pub fn edition_of_history(path: &Path) -> Option<EditionName> {
    let long = read(&history_path(path)).ok()??;
    let first = history::entry(&long, FIRST_ENTRY).ok()??;
    codec::event(&first).map(edition_of)
}

/// The sequence number of a journal's first entry.
const FIRST_ENTRY: u64 = 1;

/// Returns the edition of a journal with this first event.
fn edition_of(first: Event) -> EditionName {
    match first {
        Event::EditionNamed { edition } => edition,
        _other => EditionName::default(),
    }
}

fn read(path: &Path) -> Result<Option<ReadTransaction>, JournalError> {
    check_regular(path)?;
    let Ok(db) = Database::builder().open_read_only(path) else { return Ok(None) };
    Ok(Some(db.begin_read().map_err(StoreError::from)?))
}
