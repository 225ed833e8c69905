//! A payment store in a redb file.

use std::path::Path;

use bursar_rows::{Options, RowFile, StoreError, decode, encode};
use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::store::{Change, Store, StoreReply};
use super::{PaymentId, Record, Settlement, Stage, StoredAnswer};

type RowTable = TableDefinition<'static, &'static [u8], &'static [u8]>;
type KeyTable = TableDefinition<'static, &'static [u8], ()>;

/// Records by payment id.
const PAYMENTS: RowTable = TableDefinition::new("payments");
/// Answers by payment id.
const ANSWERS: RowTable = TableDefinition::new("answers");
/// Ids of payments that need work after a restart.
const OPEN: KeyTable = TableDefinition::new("open");
/// Index of payments by the time at which they were taken, then id.
const TAKEN: KeyTable = TableDefinition::new("taken");

const OPTIONS: Options = Options { cache_bytes: 4 << 20, quick_repair: false };

/// A store in a redb file.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct RedbStore {
    file: RowFile,
}

impl RedbStore {
    /// Opens or creates `path`.
    ///
    /// # Errors
    /// The file cannot be used, or another process has it open.
    pub fn open_file(path: &Path) -> Result<Self, StoreError> {
        let file = RowFile::open(path, OPTIONS)?;
        // Creates all tables, so readers need not handle missing ones.
        file.write_here(|write| apply_changes(write, &[]))?;
        Ok(Self { file })
    }

    /// Completes when the file can no longer be written, with the reason.
    ///
    /// The store then accepts no writes until it is reopened.
    pub async fn wait_until_unwritable(&self) -> StoreError {
        self.file.write_failed().cancelled().await;
        // The failure is set before the token is cancelled.
        self.file.failure().cloned().unwrap_or(StoreError::Bug("unknown".to_owned()))
    }
}

impl Store for RedbStore {
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, ()> {
        self.file.write(move |write| apply_changes(write, &changes))
    }

    fn get(&self, id: PaymentId) -> StoreReply<'_, Option<Record>> {
        self.file.read(move |read| read_record(&read.open_table(PAYMENTS)?, &id.0))
    }

    fn answer(&self, id: PaymentId) -> StoreReply<'_, Option<StoredAnswer>> {
        self.file.read(move |read| {
            let table = read.open_table(ANSWERS)?;
            let row = table.get(&id.0[..])?;
            let answer: Option<StoredAnswer> = row.map(|row| decode(row.value())).transpose()?;
            // Only successful answers are sold, so another status means a damaged row.
            if answer.as_ref().is_some_and(|answer| !(200..300).contains(&answer.status)) {
                return Err(StoreError::Corrupt("an answer has an impossible status".to_owned()));
            }
            Ok(answer)
        })
    }

    fn open(&self) -> StoreReply<'_, Vec<Record>> {
        self.file.read(|read| {
            let payments = read.open_table(PAYMENTS)?;
            let mut all = Vec::new();
            for row in read.open_table(OPEN)?.iter()? {
                let (id, _unit) = row?;
                all.extend(read_record(&payments, id.value())?);
            }
            Ok(all)
        })
    }

    fn deletable(
        &self,
        now_ms: i64,
        retention_ms: i64,
        most: usize,
    ) -> StoreReply<'_, Vec<PaymentId>> {
        self.file.read(move |read| {
            let payments = read.open_table(PAYMENTS)?;
            let taken = read.open_table(TAKEN)?;
            let end = time_key(
                now_ms.saturating_sub(retention_ms).saturating_add(1),
                &PaymentId([0; 32]),
            );
            let mut all = Vec::new();
            for row in taken.range::<&[u8]>(..&end[..])? {
                let (key, _unit) = row?;
                let id = key.value().get(8..).unwrap_or_default();
                let record = read_record(&payments, id)?;
                all.extend(
                    record.filter(|one| one.is_deletable(now_ms, retention_ms)).map(|one| one.id),
                );
                if all.len() >= most {
                    break;
                }
            }
            Ok(all)
        })
    }
}

fn apply_changes(write: &WriteTransaction, changes: &[Change]) -> Result<(), StoreError> {
    let mut payments = write.open_table(PAYMENTS)?;
    let mut answers = write.open_table(ANSWERS)?;
    let mut open = write.open_table(OPEN)?;
    let mut taken = write.open_table(TAKEN)?;
    for change in changes {
        match change {
            Change::Put(record, answer) => {
                let id = &record.id.0[..];
                payments.insert(id, &encode(record.as_ref())?[..])?;
                taken.insert(&time_key(record.taken_at_ms, &record.id)[..], ())?;
                if is_open(record) {
                    open.insert(id, ())?;
                } else {
                    open.remove(id)?;
                }
                if let Some(answer) = answer {
                    answers.insert(id, &encode(answer)?[..])?;
                }
                if !record.answer_stored {
                    answers.remove(id)?;
                }
            }
            Change::Delete(id) => {
                let row = &id.0[..];
                if let Some(record) = read_record(&payments, row)? {
                    taken.remove(&time_key(record.taken_at_ms, id)[..])?;
                }
                payments.remove(row)?;
                answers.remove(row)?;
                open.remove(row)?;
            }
        }
    }
    Ok(())
}

/// Whether the payment needs work even if its customer never returns.
fn is_open(record: &Record) -> bool {
    record.stage == Stage::Taken || matches!(record.settlement, Settlement::Pending { .. })
}

/// Returns an index key that sorts by time. Times before 1970 do not occur.
fn time_key(at: i64, id: &PaymentId) -> Vec<u8> {
    let at = u64::try_from(at).unwrap_or(0);
    [&at.to_be_bytes()[..], &id.0].concat()
}

/// Reads a record. Rows that were written before the key or the bound existed are shorter, and their missing members
/// are read as `None`.
fn read_record(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    id: &[u8],
) -> Result<Option<Record>, StoreError> {
    /// Two `None` values, for the key and the bound. If a row lacks only the bound, the first byte completes it, and
    /// postcard ignores the second.
    const TWO_ENCODED_NONES: [u8; 2] = [0, 0];
    let Some(row) = table.get(id)? else { return Ok(None) };
    let read = match postcard::from_bytes(row.value()) {
        Err(postcard::Error::DeserializeUnexpectedEnd) => {
            postcard::from_bytes(&[row.value(), &TWO_ENCODED_NONES].concat())
        }
        read => read,
    };
    read.map(Some).map_err(|error| StoreError::Corrupt(error.to_string()))
}

#[cfg(test)]
mod tests;
