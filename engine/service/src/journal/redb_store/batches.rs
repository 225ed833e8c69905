//! The short file, `journal.redb`: one row for each commit until the history has it.

use redb::{Database, Durability, ReadTransaction, ReadableTable, TableDefinition, TableHandle};

use crate::journal::store::{Batch, StoreError};
use crate::journal::tables::Tables;
use bursar_chain::failpoints::Failpoints;
use bursar_rows::table_if_written;

/// Commits by number.
const BATCHES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");

/// The first byte of a row. Raise it with every change of the encoding.
const VERSION: u8 = 1;

/// Applies to `tables` the commits that the history lacks, and returns the number of the last commit.
///
/// `tables` has the history's heads; `checkpointed` is the number of the last commit in the history.
///
/// # Errors
/// The files are from different times, a commit is damaged, or the file has another version.
pub(super) fn load(
    read: &ReadTransaction,
    checkpointed: u64,
    tables: &mut Tables,
) -> Result<u64, StoreError> {
    let Some(batches) = table_if_written(read.open_table(BATCHES))? else {
        return match (checkpointed, read.list_tables()?.next()) {
            (0, None) => Ok(0),
            (0, Some(table)) => Err(StoreError::Corrupt(format!(
                "its table {:?} has another version",
                table.name()
            ))),
            (_, _) => Err(mismatched_files()),
        };
    };
    let mut last = None::<u64>;
    for row in batches.iter()? {
        let (number, bytes) = row?;
        let number = number.value();
        let follows = match last {
            None => number <= checkpointed.saturating_add(1),
            Some(last) => number == last.saturating_add(1),
        };
        if !follows {
            return Err(mismatched_files());
        }
        last = Some(number);
        if number > checkpointed {
            let batch = decode(bytes.value())
                .ok_or_else(|| StoreError::Corrupt(format!("commit {number} is damaged")))?;
            tables.apply(batch);
        }
    }
    last.filter(|last| *last >= checkpointed).ok_or_else(mismatched_files)
}

/// The error for two files that do not belong together.
pub(super) fn mismatched_files() -> StoreError {
    StoreError::Corrupt(
        "it and journal-history.redb are from different times, or one is missing: restore both from the same backup"
            .to_owned(),
    )
}

/// Writes a commit durably and deletes the commits up to `dropped`, which the history has.
pub(super) fn append(
    db: &Database,
    number: u64,
    batch: &Batch,
    dropped: Option<u64>,
    failpoints: &dyn Failpoints,
) -> Result<(), StoreError> {
    let mut write = db.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    // Without quick repair, a restart after a crash scans the file. The file is short, so its page map is cheap to
    // write.
    write.set_quick_repair(true);
    {
        let mut batches = write.open_table(BATCHES)?;
        if let Some(checkpointed) = dropped {
            batches.retain_in(..=checkpointed, |_number, _batch| false)?;
        }
        batches.insert(number, encode(batch)?.as_slice())?;
    }
    failpoints.hit("journal.before_sync")?;
    write.commit().map_err(StoreError::from)
}

fn encode(batch: &Batch) -> Result<Vec<u8>, StoreError> {
    postcard::to_extend(batch, vec![VERSION]).map_err(|error| StoreError::Bug(error.to_string()))
}

fn decode(bytes: &[u8]) -> Option<Batch> {
    let (version, rest) = bytes.split_first()?;
    let (batch, left) = postcard::take_from_bytes(rest).ok()?;
    (*version == VERSION && left.is_empty()).then_some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_another_version_or_with_more_bytes_is_damaged() {
        let batch = Batch { entries: vec![(1, b"one".to_vec())], ..Batch::default() };
        let row = encode(&batch).unwrap();
        assert_eq!(decode(&row).unwrap().entries, batch.entries);
        let mut other = row.clone();
        other[0] = VERSION + 1;
        assert!(decode(&other).is_none());
        let longer = [row.as_slice(), &[0]].concat();
        assert!(decode(&longer).is_none());
        assert!(decode(&row[..row.len() - 1]).is_none());
        assert!(decode(&[]).is_none());
    }
}
