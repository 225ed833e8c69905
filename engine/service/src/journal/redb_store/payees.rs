//! The table of payees, and the place in the chain that it stands for.

use bursar_domain::payees::{Paid, Payee};
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::{META, existing, failed};
use crate::journal::payees::{behind, decode_paid, decode_payee, encode_paid, encode_payee};
use crate::journal::store::{Batch, StoreError, VisitPaid, encode_head};

const PAYEES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("payees");

/// Before the batch's head is written: whether the rows stand is told by the one before.
pub(super) fn write(
    write: &WriteTransaction,
    meta: &mut Table<'_, &str, &[u8]>,
    batch: &Batch,
) -> Result<(), StoreError> {
    if batch.payees_anew || !batch.payees.is_empty() {
        let mut payees = write.open_table(PAYEES).map_err(failed)?;
        if batch.payees_anew {
            payees.retain(|_key, _row| false).map_err(failed)?;
        }
        for (payee, paid) in &batch.payees {
            let (key, row) = (encode_payee(payee), encode_paid(paid));
            payees.insert(key.as_slice(), row.as_slice()).map_err(failed)?;
        }
    }
    if batch.payees_anew || (!batch.payees_lost && stand(meta)?) {
        meta.insert("payees", encode_head(batch.head).as_slice()).map_err(failed)?;
    }
    Ok(())
}

pub(super) fn one(read: &ReadTransaction, payee: &Payee) -> Result<Option<Paid>, StoreError> {
    let Some(payees) = existing(read.open_table(PAYEES))? else { return Ok(None) };
    let bytes = payees.get(encode_payee(payee).as_slice()).map_err(failed)?;
    Ok(bytes.and_then(|bytes| decode_paid(bytes.value())))
}

/// The same, if the rows stand for the recorded head.
pub(super) fn standing(read: &ReadTransaction, payee: &Payee) -> Result<Option<Paid>, StoreError> {
    match existing(read.open_table(META))? {
        Some(meta) if !stand(&meta)? => Err(behind()),
        Some(_) | None => one(read, payee),
    }
}

pub(super) fn all(read: &ReadTransaction, visit: &mut VisitPaid<'_>) -> Result<(), StoreError> {
    let Some(table) = existing(read.open_table(PAYEES))? else { return Ok(()) };
    for row in table.iter().map_err(failed)? {
        let (key, bytes) = row.map_err(failed)?;
        if let Some(payee) = decode_payee(key.value()) {
            visit(payee, decode_paid(bytes.value()));
        }
    }
    Ok(())
}

fn stand(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<bool, StoreError> {
    let through = meta.get("payees").map_err(failed)?.map(|bytes| bytes.value().to_vec());
    let head = meta.get("head").map_err(failed)?.map(|bytes| bytes.value().to_vec());
    Ok(through == head)
}
