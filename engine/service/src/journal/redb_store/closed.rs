//! Checks a journal that no engine has open, read-only.

use bursar_rows::StoreError;
use std::path::Path;

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
/// repairs it.
///
/// # Errors
/// The first damaged entry, or files that do not belong together.
pub fn check_closed_journal(path: &Path) -> Result<(), JournalError> {
    let Some(short) = read(path)? else { return Ok(()) };
    let history_path = history_path(path);
    let long = match history_path.exists() {
        true => match read(&history_path)? {
            Some(long) => Some(long),
            None => return Ok(()),
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
    let mut at = Head::default();
    if let Some(snapshot) = snapshot {
        let seq = snapshot.head.seq;
        let far = || long.as_ref().and_then(|long| history::entry(long, seq).ok().flatten());
        let entry = tables.entries.get(&seq).cloned().or_else(far);
        if entry.is_some_and(|bytes| codec::hash(&bytes) == snapshot.head.hash) {
            at = snapshot.head;
        }
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
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Option<ReadTransaction>, JournalError> {
    check_regular(path)?;
    let Ok(db) = Database::builder().open_read_only(path) else { return Ok(None) };
    Ok(Some(db.begin_read().map_err(StoreError::from)?))
}
