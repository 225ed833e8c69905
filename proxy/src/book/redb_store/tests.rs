use super::*;
use crate::book::SaleKey;
use alloy_primitives::Address;

fn record(n: u8, taken_at: i64, settlement: Settlement) -> Record {
    Record {
        id: PaymentId([n; 32]),
        body: [0; 32],
        payment: [0; 32],
        taken_at,
        ends: 0,
        stage: Stage::Paid,
        settlement,
        question: "{}".to_owned(),
        model: Some("m".to_owned()),
        amount: "7".to_owned(),
        usd: "0.000007".to_owned(),
        network: 1,
        asset: Address::ZERO,
        payer: Address::ZERO,
        usage: None,
        kept: true,
        key: Some(SaleKey([9; 16])),
        bound: Some(300),
    }
}

fn answer() -> Answer {
    Answer { status: 200, content_type: None, body: b"hello".to_vec() }
}

async fn put(store: &RedbStore, record: &Record, answer: Option<Answer>) {
    store.commit(vec![Change::Put(Box::new(record.clone()), answer)]).await.unwrap();
}

#[tokio::test]
async fn what_was_put_is_there_after_the_file_was_opened_again_and_what_was_forgotten_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let open = record(1, 5, Settlement::Pending { receipt: "{}".to_owned() });
    let done = record(2, 6, Settlement::Settled { receipt: "{}".to_owned() });
    {
        let store = RedbStore::open_file(&path).unwrap();
        put(&store, &open, None).await;
        put(&store, &done, Some(answer())).await;
        put(&store, &record(3, 7, Settlement::Open), Some(answer())).await;
        store.commit(vec![Change::Forget(PaymentId([3; 32]))]).await.unwrap();
        assert!(RedbStore::open_file(&path).is_err(), "one process at a time");
    }
    let store = RedbStore::open_file(&path).unwrap();
    assert_eq!(store.get(done.id).await.unwrap(), Some(done.clone()));
    assert_eq!(store.answer(done.id).await.unwrap(), Some(answer()));
    assert_eq!(store.get(PaymentId([3; 32])).await.unwrap(), None);
    assert_eq!(store.answer(PaymentId([3; 32])).await.unwrap(), None);
    assert_eq!(store.open().await.unwrap(), vec![open]);
    // An answer that is kept no more is gone.
    put(&store, &Record { kept: false, ..done.clone() }, None).await;
    assert_eq!(store.answer(done.id).await.unwrap(), None);
}

#[tokio::test]
async fn what_must_stay_does_not_hide_what_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open_file(&folder.path().join("a.redb")).unwrap();
    for n in 0..20 {
        let pending = Settlement::Pending { receipt: "{}".to_owned() };
        put(&store, &record(n, i64::from(n), pending), None).await;
    }
    for n in 20..25 {
        put(&store, &record(n, i64::from(n), Settlement::Open), None).await;
    }
    let over = store.over(123, 100, 3).await.unwrap();
    assert_eq!(over, [20, 21, 22].map(|n| PaymentId([n; 32])));
    assert_eq!(store.over(123, 100, 100).await.unwrap().len(), 4);
    assert_eq!(store.over(119, 100, 100).await.unwrap(), vec![]);
}

/// Rows of version 0.1: all of a record but its last members.
#[tokio::test]
async fn a_file_from_before_sales_had_keys_or_bounds_is_read_and_gets_none() {
    // One byte says that there is a member, and then it comes: sixteen of a key, two of this bound.
    read_without(17 + 3, |new| Record { key: None, bound: None, ..new }).await;
    read_without(3, |new| Record { bound: None, ..new }).await;
    read_without(0, |new| new).await;
}

/// A row that lacks its last bytes.
async fn read_without(bytes: usize, read: impl FnOnce(Record) -> Record) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    let new = record(1, 5, Settlement::Pending { receipt: "{}".to_owned() });
    let mut row = postcard::to_allocvec(&new).unwrap();
    row.truncate(row.len() - bytes);
    {
        let db = Database::create(&path).unwrap();
        let write = db.begin_write().unwrap();
        let id = &new.id.0[..];
        write.open_table(PAYMENTS).unwrap().insert(id, &row[..]).unwrap();
        write.open_table(OPEN).unwrap().insert(id, ()).unwrap();
        write.open_table(TAKEN).unwrap().insert(&order(5, &new.id)[..], ()).unwrap();
        write.commit().unwrap();
    }
    let store = RedbStore::open_file(&path).unwrap();
    let old = read(new.clone());
    assert_eq!(store.get(new.id).await.unwrap(), Some(old.clone()));
    assert_eq!(store.open().await.unwrap(), vec![old.clone()]);
    let done = Record { settlement: Settlement::Open, ..old };
    put(&store, &done, None).await;
    assert_eq!(store.get(new.id).await.unwrap(), Some(done));
    assert_eq!(store.over(i64::MAX, 0, 9).await.unwrap(), vec![new.id]);
    store.commit(vec![Change::Forget(new.id)]).await.unwrap();
    assert_eq!(store.get(new.id).await.unwrap(), None);
}

/// Else the file grows with every payment that bought nothing.
#[tokio::test]
async fn nothing_of_a_forgotten_payment_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open_file(&folder.path().join("a.redb")).unwrap();
    let pending = Settlement::Pending { receipt: "{}".to_owned() };
    let taken = Record { stage: Stage::Taken, ..record(2, 6, Settlement::Open) };
    for one in [&record(1, 5, pending), &taken] {
        put(&store, one, Some(answer())).await;
    }
    assert_eq!(store.open().await.unwrap().len(), 2, "both are looked at when it starts");
    let forget = [1, 2].map(|n| Change::Forget(PaymentId([n; 32])));
    store.commit(forget.to_vec()).await.unwrap();
    let read = store.db.begin_read().unwrap();
    let rows =
        [PAYMENTS, ANSWERS].map(|rows| read.open_table(rows).unwrap().iter().unwrap().count());
    let keys = [OPEN, TAKEN].map(|keys| read.open_table(keys).unwrap().iter().unwrap().count());
    assert_eq!((rows, keys), ([0, 0], [0, 0]));
}
