use super::*;
use crate::book::redb_store::RedbStore;
use crate::book::store::StoreReply;
use alloy_primitives::Address;
use tempfile::TempDir;

fn record(n: u8, stage: Stage, settlement: Settlement) -> Record {
    Record {
        id: PaymentId([n; 32]),
        body: [1; 32],
        payment: [2; 32],
        taken_at: i64::from(n),
        ends: 0,
        stage,
        settlement,
        question: "{}".to_owned(),
        model: None,
        amount: "7".to_owned(),
        usd: "0.000007".to_owned(),
        network: 1,
        asset: Address::ZERO,
        payer: Address::ZERO,
        usage: None,
        kept: false,
        key: None,
        bound: None,
    }
}

fn pending() -> Settlement {
    Settlement::Pending { receipt: "{}".to_owned() }
}

async fn keeper(folder: &TempDir) -> (Keeper, TaskTracker) {
    let (store, writer) = (RedbStore::open_file(&folder.path().join("a.redb")), TaskTracker::new());
    let keeper = Keeper::load(Arc::new(store.unwrap()), &writer).await.unwrap();
    (keeper, writer)
}

/// Ends the writer, which has the file open.
async fn close((keeper, writer): (Keeper, TaskTracker)) {
    drop(keeper);
    writer.close();
    writer.wait().await;
}

#[tokio::test]
async fn a_payment_has_one_holder_and_other_claims_wait_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _writer) = keeper(&folder).await;
    let id = PaymentId([1; 32]);
    let Claim::Held(guard) = keeper.claim(id, &[1; 32]) else { panic!() };
    assert_eq!(keeper.busy(), 1);
    let Claim::SameBody(mut done) = keeper.claim(id, &[1; 32]) else {
        panic!("the same body waits")
    };
    assert!(matches!(keeper.claim(id, &[2; 32]), Claim::OtherBody), "another body does not");
    let other = keeper.claim(PaymentId([2; 32]), &[1; 32]);
    assert!(matches!(other, Claim::Held(_)) && keeper.busy() == 2);
    assert!(futures::poll!(std::pin::pin!(done.changed())).is_pending());
    drop(guard);
    assert!(done.changed().await.is_err(), "the wait ends with the work");
    assert!(matches!(keeper.claim(id, &[2; 32]), Claim::Held(_)));
    drop(other);
    assert_eq!(keeper.busy(), 0);
}

#[tokio::test]
async fn loading_deletes_taken_payments_and_finds_pending_ones() {
    let folder = tempfile::tempdir().unwrap();
    let first = keeper(&folder).await;
    let taken = record(1, Stage::Taken, Settlement::Open);
    let on_its_way = record(2, Stage::Paid, pending());
    let owed = record(3, Stage::Owed, Settlement::Asked);
    for record in [&taken, &on_its_way, &owed] {
        first.0.put(record, None).await.unwrap();
    }
    assert_eq!(first.0.pending(), [on_its_way.id]);
    close(first).await;
    let second = keeper(&folder).await;
    assert_eq!(second.0.find(taken.id).await.unwrap(), None);
    assert_eq!(second.0.find(owed.id).await.unwrap(), Some(owed));
    assert_eq!(second.0.pending_records(), std::slice::from_ref(&on_its_way));
    // It is no longer pending once the outcome is stored.
    let settled = Settlement::Settled { receipt: "{}".to_owned() };
    second.0.put(&Record { settlement: settled, ..on_its_way }, None).await.unwrap();
    assert_eq!(second.0.pending(), []);
    close(second).await;
    assert_eq!(keeper(&folder).await.0.pending(), []);
}

#[tokio::test]
async fn a_sweep_deletes_expired_payments_and_returns_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _writer) = keeper(&folder).await;
    for n in 0..5 {
        keeper.put(&record(n, Stage::Paid, Settlement::Open), None).await.unwrap();
    }
    keeper.put(&record(9, Stage::Paid, pending()), None).await.unwrap();
    assert_eq!(keeper.sweep(103, 100, 2).await.unwrap(), 2);
    assert_eq!(keeper.sweep(103, 100, 9).await.unwrap(), 2);
    assert_eq!(keeper.sweep(103, 100, 9).await.unwrap(), 0);
    assert_eq!(keeper.find(PaymentId([3; 32])).await.unwrap(), None);
    assert!(keeper.find(PaymentId([4; 32])).await.unwrap().is_some(), "it is young");
    assert!(keeper.find(PaymentId([9; 32])).await.unwrap().is_some(), "it is pending");
    keeper.delete(PaymentId([4; 32])).await.unwrap();
    assert_eq!(keeper.find(PaymentId([4; 32])).await.unwrap(), None);
}

/// A store whose commits fail. Counts the commits.
#[derive(Debug, Default)]
struct Broken(std::sync::atomic::AtomicUsize);

impl Store for Broken {
    fn commit(&self, _changes: Vec<Change>) -> StoreReply<'_, ()> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async { Err(StoreError::DiskFull("the disk is full".to_owned())) })
    }

    fn get(&self, _id: PaymentId) -> StoreReply<'_, Option<Record>> {
        Box::pin(async { Ok(None) })
    }

    fn answer(&self, _id: PaymentId) -> StoreReply<'_, Option<Answer>> {
        Box::pin(async { Ok(None) })
    }

    fn open(&self) -> StoreReply<'_, Vec<Record>> {
        Box::pin(async { Ok(vec![record(1, Stage::Paid, pending())]) })
    }

    fn over(&self, _now_ms: i64, _kept_ms: i64, _most: usize) -> StoreReply<'_, Vec<PaymentId>> {
        Box::pin(async { Ok(vec![PaymentId([1; 32])]) })
    }
}

/// Every caller whose change shared the commit receives the error. The keeper does not treat the change as stored.
#[tokio::test]
async fn a_failed_commit_fails_every_caller_and_changes_nothing() {
    let store = Arc::new(Broken::default());
    let keeper = Keeper::load(store.clone(), &TaskTracker::new()).await.unwrap();
    let puts = (2..6).map(|n| record(n, Stage::Paid, pending()));
    let puts = puts.map(|one| async { keeper.put(&{ one }, None).await });
    let all = futures::future::join_all(puts).await;
    assert_eq!(all, vec![Err(StoreError::DiskFull("the disk is full".to_owned())); 4]);
    assert_eq!(store.0.load(std::sync::atomic::Ordering::SeqCst), 1, "they share one");
    // The set of pending payments is unchanged.
    let settled = Settlement::Settled { receipt: "{}".to_owned() };
    assert!(keeper.put(&record(1, Stage::Paid, settled), None).await.is_err());
    assert_eq!(keeper.pending(), [PaymentId([1; 32])]);
    assert!(keeper.delete(PaymentId([1; 32])).await.is_err());
    assert!(keeper.sweep(0, 0, 9).await.is_err());
}
