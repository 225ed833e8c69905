//! The history's table of payees.

use bursar_domain::payee::Payee;
use bursar_domain::payees::{PaymentTotals, Tally};
use bursar_rows::table_if_written;
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition};

use crate::journal::payees::{
    decode_payee, decode_totals, encode_payee, encode_totals, is_similar, payees_near,
};
use crate::journal::store::{StoreError, VisitPayee};

/// Maximum number of rows of a search for similar payees.
const SCANNED_ROWS_MAX: usize = 1_024;

pub(super) const PAYEES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("payees");

pub(super) fn insert(
    rows: &mut Table<'_, &'static [u8], &'static [u8]>,
    tally: &Tally,
) -> Result<(), StoreError> {
    for (payee, paid) in tally {
        let (key, row) = (encode_payee(payee), encode_totals(paid));
        rows.insert(key.as_slice(), row.as_slice())?;
    }
    Ok(())
}

/// Returns a payee's row; `None` also if it is damaged.
pub(super) fn payee_row(
    read: &ReadTransaction,
    payee: &Payee,
) -> Result<Option<PaymentTotals>, StoreError> {
    let Some(payees) = table_if_written(read.open_table(PAYEES))? else { return Ok(None) };
    let bytes = payees.get(encode_payee(payee).as_slice())?;
    Ok(bytes.and_then(|bytes| decode_totals(bytes.value())))
}

/// Returns the payees that [`is_similar`] finds.
pub(super) fn similar_rows(
    read: &ReadTransaction,
    payee: &Payee,
) -> Result<Vec<Payee>, StoreError> {
    let Some(table) = table_if_written(read.open_table(PAYEES))? else { return Ok(Vec::new()) };
    let (first, last) = payees_near(payee).into_inner();
    let (first, last) = (encode_payee(&first), encode_payee(&last));
    let mut found = Vec::new();
    // Later approvals are in the index. An agent can make any number of rows, so few are scanned.
    let rows = table.range::<&[u8]>(first.as_slice()..=last.as_slice())?;
    for row in rows.take(SCANNED_ROWS_MAX) {
        let (key, bytes) = row?;
        let row = decode_payee(key.value()).zip(decode_totals(bytes.value()));
        found.extend(row.filter(|(other, paid)| is_similar(payee, other, paid)).map(|row| row.0));
    }
    Ok(found)
}

pub(super) fn visit_rows(
    read: &ReadTransaction,
    visit: &mut VisitPayee<'_>,
) -> Result<(), StoreError> {
    let Some(table) = table_if_written(read.open_table(PAYEES))? else { return Ok(()) };
    for row in table.iter()? {
        let (key, bytes) = row?;
        if let Some(payee) = decode_payee(key.value()) {
            visit(payee, decode_totals(bytes.value()));
        }
    }
    Ok(())
}
