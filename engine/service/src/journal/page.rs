//! Reads a range of entries for display. The cost depends on the length of the range, not of the journal. Hashes are
//! not checked here: `audit verify` checks all of them, and opening the journal checks those after the snapshot.

use bursar_domain::Entry;

use super::codec;
use super::error::JournalError;
use super::store::Reader;

/// Visits the entries after `after` up to and including `last`, in order.
///
/// # Errors
/// The first entry that cannot be read or is missing, or the error of `visit`.
pub(crate) fn visit_range(
    reader: &dyn Reader,
    after: u64,
    last: u64,
    mut visit: impl FnMut(Entry) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    if after >= last {
        return Ok(());
    }
    let end = walk(reader, after, last, &mut visit)?;
    if end < last {
        let seq = end.saturating_add(1);
        return Err(JournalError::Damaged { seq, reason: "the entry is missing".to_owned() });
    }
    Ok(())
}

/// Visits all entries after `after` in order and returns the last number. Includes entries that are on disk but not
/// published yet.
///
/// # Errors
/// The first entry that cannot be read, or the error of `visit`.
pub(crate) fn visit_after(
    reader: &dyn Reader,
    after: u64,
    mut visit: impl FnMut(Entry) -> Result<(), JournalError>,
) -> Result<u64, JournalError> {
    walk(reader, after, u64::MAX, &mut visit)
}

fn walk(
    reader: &dyn Reader,
    after: u64,
    last: u64,
    visit: &mut impl FnMut(Entry) -> Result<(), JournalError>,
) -> Result<u64, JournalError> {
    let mut at = after;
    let mut failure = None;
    reader.read_after(after, &mut |bytes| {
        let seq = at.saturating_add(1);
        let read = codec::decode_at(bytes, seq);
        let read = read.map_err(|reason| JournalError::Damaged { seq, reason });
        match read.and_then(&mut *visit) {
            Ok(()) => {
                at = seq;
                at < last
            }
            Err(error) => {
                failure = Some(error);
                false
            }
        }
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => Ok(at),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bursar_core::ids::RequestId;
    use bursar_core::time::Utc;
    use bursar_domain::payee::Payee;
    use bursar_domain::payees::PaymentTotals;
    use bursar_domain::{Event, Request, Settlement};

    use super::*;
    use crate::journal::{
        Journal, MemoryStore, Store, StoreError, Visit, VisitPayee, VisitRequest,
    };

    const ENTRIES: u64 = 1000;

    fn store() -> MemoryStore {
        let store = MemoryStore::default();
        let mut journal = Journal::open(Box::new(store.clone())).unwrap();
        for n in 1..=ENTRIES {
            let event = if n % 2 == 0 { Event::Frozen } else { Event::Thawed };
            journal.append(event, Utc(i64::try_from(n).unwrap())).unwrap();
        }
        journal.commit().unwrap();
        store
    }

    /// A reader that counts the entries read.
    #[derive(Debug)]
    struct CountingReader(Arc<dyn Reader>, AtomicU64);

    impl Reader for CountingReader {
        fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
            self.0.request(id)
        }
        fn settlement(&self, seq: u64) -> Result<Option<Settlement>, StoreError> {
            self.0.settlement(seq)
        }
        fn payee_totals(&self, payee: &Payee) -> Result<Option<PaymentTotals>, StoreError> {
            self.0.payee_totals(payee)
        }
        fn payees(&self, visit: &mut VisitPayee<'_>) -> Result<(), StoreError> {
            self.0.payees(visit)
        }
        fn similar_payees(&self, payee: &Payee) -> Result<Vec<Payee>, StoreError> {
            self.0.similar_payees(payee)
        }
        fn index_rows(&self, start: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, StoreError> {
            self.0.index_rows(start)
        }
        fn newest(&self, visit: &mut VisitRequest<'_>) -> Result<(), StoreError> {
            self.0.newest(visit)
        }
        fn read_after(&self, seq: u64, visit: &mut Visit<'_>) -> Result<(), StoreError> {
            self.0.read_after(seq, &mut |bytes| {
                self.1.fetch_add(1, Ordering::Relaxed);
                visit(bytes)
            })
        }
    }

    fn read(reader: &dyn Reader, after: u64, last: u64) -> Result<Vec<u64>, JournalError> {
        let mut seqs = Vec::new();
        visit_range(reader, after, last, |entry| {
            assert_eq!(entry.at, Utc(i64::try_from(entry.seq).unwrap()));
            seqs.push(entry.seq);
            Ok(())
        })?;
        Ok(seqs)
    }

    #[test]
    fn the_cost_of_a_page_grows_with_its_length() {
        let reader = CountingReader(store().reader(), AtomicU64::new(0));
        for (after, last) in [(0, 0), (7, 7), (9, 3), (0, 1), (0, 20), (980, ENTRIES), (500, 503)] {
            reader.1.store(0, Ordering::Relaxed);
            let seqs = read(&reader, after, last).unwrap();
            assert_eq!(seqs, (after + 1..=last).collect::<Vec<_>>());
            assert_eq!(reader.1.load(Ordering::Relaxed), last.saturating_sub(after));
        }
    }

    #[test]
    fn a_missing_misplaced_or_damaged_entry_is_an_error() {
        let reader = store().reader();
        assert!(read(&*reader, ENTRIES - 1, ENTRIES + 1).is_err(), "there are not as many");
        let misplaced = store();
        misplaced.tamper(5, |bytes| bytes[8] = 6);
        let longer = store();
        longer.tamper(5, |bytes| bytes.push(0));
        let shorter = store();
        shorter.tamper(5, |bytes| bytes.truncate(48));
        let newer = store();
        newer.tamper(5, |bytes| bytes[0] = bursar_core::stored::NEWEST_FORM + 1);
        for store in [misplaced, longer, shorter, newer] {
            let error = read(&*store.reader(), 0, 10).unwrap_err();
            assert!(matches!(error, JournalError::Damaged { seq: 5, .. }), "{error}");
            assert_eq!(read(&*store.reader(), 5, 7).unwrap(), [6, 7]);
        }
    }
}
