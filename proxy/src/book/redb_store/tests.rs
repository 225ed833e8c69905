use super::*;
use crate::book::SaleKey;
use alloy_primitives::Address;

fn record(n: u8, taken_at: i64, settlement: Settlement) -> Record {
    Record {
        id: PaymentId([n; 32]),
        body: [0; 32],
        payment: [0; 32],
        taken_at_ms: taken_at,
        expires_at: 0,
        stage: Stage::Paid,
        settlement,
        facilitator_request: "{}".to_owned(),
        model: Some("m".to_owned()),
        amount: "7".to_owned(),
        usd: "0.000007".to_owned(),
        network: 1,
        asset: Address::ZERO,
        payer: Address::ZERO,
        usage: None,
        answer_stored: true,
        key: Some(SaleKey([9; 16])),
        answer_tokens_max: Some(300),
    }
}

fn answer() -> StoredAnswer {
    StoredAnswer { status: 200, content_type: None, body: b"hello".as_slice().into() }
}

async fn put(store: &RedbStore, record: &Record, answer: Option<StoredAnswer>) {
    store.commit(vec![Change::Put(Box::new(record.clone()), answer)]).await.unwrap();
}

#[tokio::test]
async fn stored_and_deleted_payments_survive_reopening_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let open = record(1, 5, Settlement::Pending { receipt: "{}".to_owned() });
    let done = record(2, 6, Settlement::Settled { receipt: "{}".to_owned() });
    {
        let store = RedbStore::open_file(&path).unwrap();
        put(&store, &open, None).await;
        put(&store, &done, Some(answer())).await;
        put(&store, &record(3, 7, Settlement::Open), Some(answer())).await;
        store.commit(vec![Change::Delete(PaymentId([3; 32]))]).await.unwrap();
        assert!(RedbStore::open_file(&path).is_err(), "one process at a time");
    }
    let store = RedbStore::open_file(&path).unwrap();
    assert_eq!(store.get(done.id).await.unwrap(), Some(done.clone()));
    assert_eq!(store.answer(done.id).await.unwrap(), Some(answer()));
    assert_eq!(store.get(PaymentId([3; 32])).await.unwrap(), None);
    assert_eq!(store.answer(PaymentId([3; 32])).await.unwrap(), None);
    assert_eq!(store.open().await.unwrap(), vec![open]);
    // If a record no longer refers to its answer, the answer is deleted.
    put(&store, &Record { answer_stored: false, ..done.clone() }, None).await;
    assert_eq!(store.answer(done.id).await.unwrap(), None);
}

#[tokio::test]
async fn pending_payments_do_not_hide_expired_ones_from_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open_file(&folder.path().join("a.redb")).unwrap();
    for n in 0..20 {
        let pending = Settlement::Pending { receipt: "{}".to_owned() };
        put(&store, &record(n, i64::from(n), pending), None).await;
    }
    for n in 20..25 {
        put(&store, &record(n, i64::from(n), Settlement::Open), None).await;
    }
    let over = store.deletable(123, 100, 3).await.unwrap();
    assert_eq!(over, [20, 21, 22].map(|n| PaymentId([n; 32])));
    assert_eq!(store.deletable(123, 100, 100).await.unwrap().len(), 4);
    assert_eq!(store.deletable(119, 100, 100).await.unwrap(), vec![]);
}

/// Rows of version 0.1 lack the last members of a record.
#[tokio::test]
async fn rows_without_key_or_bound_are_read_as_none() {
    // A `Some` has one byte before its value: sixteen bytes for a key, two for this bound.
    check_shortened_row(17 + 3, |new| Record { key: None, answer_tokens_max: None, ..new }).await;
    check_shortened_row(3, |new| Record { answer_tokens_max: None, ..new }).await;
    check_shortened_row(0, |new| new).await;
}

/// Writes a row without its last bytes, and checks the record that is read.
async fn check_shortened_row(bytes: usize, read: impl FnOnce(Record) -> Record) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let new = record(1, 5, Settlement::Pending { receipt: "{}".to_owned() });
    let mut row = postcard::to_allocvec(&new).unwrap();
    row.truncate(row.len() - bytes);
    let file = RowFile::open(&path, OPTIONS).unwrap();
    let written = file.write_here(|write| {
        let id = &new.id.0[..];
        write.open_table(PAYMENTS)?.insert(id, &row[..])?;
        write.open_table(OPEN)?.insert(id, ())?;
        write.open_table(TAKEN)?.insert(&time_key(5, &new.id)[..], ())?;
        Ok::<_, StoreError>(())
    });
    written.unwrap();
    drop(file);
    let store = RedbStore::open_file(&path).unwrap();
    let old = read(new.clone());
    assert_eq!(store.get(new.id).await.unwrap(), Some(old.clone()));
    assert_eq!(store.open().await.unwrap(), vec![old.clone()]);
    let done = Record { settlement: Settlement::Open, ..old };
    put(&store, &done, None).await;
    assert_eq!(store.get(new.id).await.unwrap(), Some(done));
    assert_eq!(store.deletable(i64::MAX, 0, 9).await.unwrap(), vec![new.id]);
    store.commit(vec![Change::Delete(new.id)]).await.unwrap();
    assert_eq!(store.get(new.id).await.unwrap(), None);
}

/// If rows remained, the file would grow with every payment that bought nothing.
#[tokio::test]
async fn deleting_a_payment_removes_its_rows_from_every_table() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open_file(&folder.path().join("a.redb")).unwrap();
    let pending = Settlement::Pending { receipt: "{}".to_owned() };
    let taken = Record { stage: Stage::Taken, ..record(2, 6, Settlement::Open) };
    for one in [&record(1, 5, pending), &taken] {
        put(&store, one, Some(answer())).await;
    }
    assert_eq!(store.open().await.unwrap().len(), 2, "both are looked at when it starts");
    let deletions = [1, 2].map(|n| Change::Delete(PaymentId([n; 32])));
    store.commit(deletions.to_vec()).await.unwrap();
    let counts = store.file.read_here(|read| {
        let rows =
            [PAYMENTS, ANSWERS].map(|rows| read.open_table(rows).unwrap().iter().unwrap().count());
        let keys = [OPEN, TAKEN].map(|keys| read.open_table(keys).unwrap().iter().unwrap().count());
        Ok((rows, keys))
    });
    assert_eq!(counts, Ok(([0, 0], [0, 0])));
}
