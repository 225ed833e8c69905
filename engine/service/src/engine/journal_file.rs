//! Opens the journal's file for an engine, and describes what prevents it.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::edition::Edition;
use crate::journal::{
    JournalError, RedbStore, Store, StoreError, check_closed_journal, create_owner_only,
    edition_of_history,
};
use crate::ports::Ports;
use crate::service::data_dir::{DataFolder, wrong_edition};

/// Opens the journal of the folder, and creates it if it is missing.
///
/// # Errors
/// It is lost, damaged or another edition's, or its file cannot be opened.
pub(super) fn open_journal(
    folder: &DataFolder,
    ports: &Ports,
    edition: &Edition,
    begin: bool,
) -> Result<Box<dyn Store>, Fault> {
    let path = folder.file("journal.redb");
    let failed = |error: std::io::Error| open_fault(folder, &StoreError::from(error).into());
    let empty = std::fs::metadata(&path).map_or(true, |found| found.is_file() && found.len() == 0);
    if empty && wallet_file(folder).is_some() {
        if !begin {
            let why = "it is missing or empty, but there is a wallet file";
            return Err(damaged_fault(folder, &why));
        }
        if let Some(other) = edition_of_history(&path).filter(|known| *known != edition.name) {
            return Err(wrong_edition(folder.path(), other, edition.name));
        }
        rename_lost_history(folder).map_err(failed)?;
    }
    create_owner_only(&path).map_err(failed)?;
    ports.failpoints.hit("journal.created").map_err(failed)?;
    // Opening for writing repairs the file. A damaged file must be rejected unchanged, so check it read-only first.
    let named = check_closed_journal(&path).map_err(|error| open_fault(folder, &error))?;
    if let Some(other) = named.filter(|named| *named != edition.name) {
        return Err(wrong_edition(folder.path(), other, edition.name));
    }
    let store = RedbStore::open(&path, Arc::clone(&ports.failpoints))
        .map_err(|error| open_fault(folder, &error.into()))?;
    ports.failpoints.hit("journal.opened").map_err(failed)?;
    Ok(Box::new(store.with_checkpoints(edition.checkpoints)))
}

/// Renames the history file of a journal whose newest entries are lost: a new journal must not continue it.
fn rename_lost_history(folder: &DataFolder) -> std::io::Result<()> {
    let history = folder.file("journal-history.redb");
    let lost = folder.file("journal-history.redb.lost");
    if !history.exists() {
        return Ok(());
    }
    if lost.exists() {
        let message = format!("{} is in the way: move it away", lost.display());
        return Err(std::io::Error::other(message));
    }
    std::fs::rename(history, lost)
}

/// Returns the name of any wallet file in the folder.
fn wallet_file(folder: &DataFolder) -> Option<String> {
    let entries = std::fs::read_dir(folder.file("wallets")).ok()?;
    entries.flatten().find_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let stem = name.strip_suffix(".wallet").or_else(|| name.strip_suffix(".wallet.previous"));
        stem.map(str::to_owned)
    })
}

/// Converts an error of opening the journal. A full disk or another I/O error is not reported as damage.
pub(super) fn open_fault(folder: &DataFolder, error: &JournalError) -> Fault {
    let file = folder.file("journal.redb");
    let file = file.display();
    match error {
        JournalError::Store(StoreError::DiskFull(why)) => Fault::because(
            Code::DiskFull,
            format!("The journal {file} cannot be opened: {why}. Free some space, then try again."),
        ),
        JournalError::Store(StoreError::Io(why)) => Fault::because(
            Code::DataFolder,
            format!("The journal {file} cannot be opened: {why}. Nothing was changed."),
        ),
        JournalError::WrongEdition { journal, program } => {
            wrong_edition(folder.path(), *journal, *program)
        }
        JournalError::Store(StoreError::Corrupt(_) | StoreError::Bug(_))
        | JournalError::Damaged { .. }
        | JournalError::HeadUnmet
        | JournalError::Stopped => damaged_fault(folder, error),
    }
}

pub(super) fn damaged_fault(folder: &DataFolder, why: &dyn std::fmt::Display) -> Fault {
    let wallet = wallet_file(folder).unwrap_or_else(|| "<name>".to_owned());
    Fault::because(
        Code::JournalDamaged,
        format!(
            "The journal {} cannot be used: {why}. Nothing was changed. Restore a backup. Without one, move the \
             damaged journal away: `wallet recover {wallet}` then starts a new journal from the wallet file.",
            folder.file("journal.redb").display()
        ),
    )
    .with_hint("wallet restore <file>")
}
