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
        taken_at_ms: i64::from(n),
        expires_at: 0,
        stage,
        settlement,
        facilitator_request: "{}".to_owned(),
        model: None,
        amount: "7".to_owned(),
        usd: "0.000007".to_owned(),
        network: 1,
        asset: Address::ZERO,
        payer: Address::ZERO,
        usage: None,
        answer_stored: false,
        key: None,
        answer_tokens_max: None,
    }
}

fn pending() -> Settlement {
    Settlement::Pending { receipt: "{}".to_owned() }
}

async fn ledger(folder: &TempDir) -> (Ledger, TaskTracker) {
    let (store, writer) = (RedbStore::open_file(&folder.path().join("a.redb")), TaskTracker::new());
    let ledger = Ledger::load(Arc::new(store.unwrap()), &writer).await.unwrap();
    (ledger, writer)
}

/// Closes the file: drops the ledger and waits for the writer to end.
async fn close((ledger, writer): (Ledger, TaskTracker)) {
    drop(ledger);
    writer.close();
    writer.wait().await;
}

#[tokio::test]
async fn a_payment_has_one_holder_and_other_claims_wait_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _writer) = ledger(&folder).await;
    let id = PaymentId([1; 32]);
    let ClaimResult::Held(guard) = ledger.claim(id, &[1; 32]) else { panic!() };
    assert_eq!(ledger.held_count(), 1);
    let ClaimResult::SameBody(mut done) = ledger.claim(id, &[1; 32]) else {
        panic!("the same body waits")
    };
    assert!(matches!(ledger.claim(id, &[2; 32]), ClaimResult::OtherBody), "another body does not");
    let other = ledger.claim(PaymentId([2; 32]), &[1; 32]);
    assert!(matches!(other, ClaimResult::Held(_)) && ledger.held_count() == 2);
    assert!(futures::poll!(std::pin::pin!(done.changed())).is_pending());
    drop(guard);
    assert!(done.changed().await.is_err(), "the wait ends with the work");
    assert!(matches!(ledger.claim(id, &[2; 32]), ClaimResult::Held(_)));
    drop(other);
    assert_eq!(ledger.held_count(), 0);
}

#[tokio::test]
async fn loading_deletes_taken_payments_and_finds_pending_ones() {
    let folder = tempfile::tempdir().unwrap();
    let first = ledger(&folder).await;
    let taken = record(1, Stage::Taken, Settlement::Open);
    let on_its_way = record(2, Stage::Paid, pending());
    let owed = record(3, Stage::Owed, Settlement::Requested);
    for record in [&taken, &on_its_way, &owed] {
        first.0.put(record, None).await.unwrap();
    }
    assert_eq!(first.0.pending(), [on_its_way.id]);
    close(first).await;
    let second = ledger(&folder).await;
    assert_eq!(second.0.find(taken.id).await.unwrap(), None);
    assert_eq!(second.0.find(owed.id).await.unwrap(), Some(owed));
    assert_eq!(second.0.pending_records(), std::slice::from_ref(&on_its_way));
    // The settlement is no longer pending once its outcome is stored.
    let settled = Settlement::Settled { receipt: "{}".to_owned() };
    second.0.put(&Record { settlement: settled, ..on_its_way }, None).await.unwrap();
    assert_eq!(second.0.pending(), []);
    close(second).await;
    assert_eq!(ledger(&folder).await.0.pending(), []);
}

#[tokio::test]
async fn a_sweep_deletes_expired_payments_and_returns_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _writer) = ledger(&folder).await;
    for n in 0..5 {
        ledger.put(&record(n, Stage::Paid, Settlement::Open), None).await.unwrap();
    }
    ledger.put(&record(9, Stage::Paid, pending()), None).await.unwrap();
    assert_eq!(ledger.sweep(103, 100, 2).await.unwrap(), 2);
    assert_eq!(ledger.sweep(103, 100, 9).await.unwrap(), 2);
    assert_eq!(ledger.sweep(103, 100, 9).await.unwrap(), 0);
    assert_eq!(ledger.find(PaymentId([3; 32])).await.unwrap(), None);
    assert!(ledger.find(PaymentId([4; 32])).await.unwrap().is_some(), "it is young");
    assert!(ledger.find(PaymentId([9; 32])).await.unwrap().is_some(), "it is pending");
    ledger.delete(PaymentId([4; 32])).await.unwrap();
    assert_eq!(ledger.find(PaymentId([4; 32])).await.unwrap(), None);
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

    fn answer(&self, _id: PaymentId) -> StoreReply<'_, Option<StoredAnswer>> {
        Box::pin(async { Ok(None) })
    }

    fn open(&self) -> StoreReply<'_, Vec<Record>> {
        Box::pin(async { Ok(vec![record(1, Stage::Paid, pending())]) })
    }

    fn deletable(
        &self,
        _now_ms: i64,
        _kept_ms: i64,
        _most: usize,
    ) -> StoreReply<'_, Vec<PaymentId>> {
        Box::pin(async { Ok(vec![PaymentId([1; 32])]) })
    }
}

/// Every caller whose change shared the commit receives the error. The ledger does not treat the change as stored.
#[tokio::test]
async fn a_failed_commit_fails_every_caller_and_changes_nothing() {
    let store = Arc::new(Broken::default());
    let ledger = Ledger::load(store.clone(), &TaskTracker::new()).await.unwrap();
    let puts = (2..6).map(|n| record(n, Stage::Paid, pending()));
    let puts = puts.map(|one| async { ledger.put(&{ one }, None).await });
    let all = futures::future::join_all(puts).await;
    assert_eq!(all, vec![Err(StoreError::DiskFull("the disk is full".to_owned())); 4]);
    assert_eq!(store.0.load(std::sync::atomic::Ordering::SeqCst), 1, "they share one");
    // The set of pending payments is unchanged.
    let settled = Settlement::Settled { receipt: "{}".to_owned() };
    assert!(ledger.put(&record(1, Stage::Paid, settled), None).await.is_err());
    assert_eq!(ledger.pending(), [PaymentId([1; 32])]);
    assert!(ledger.delete(PaymentId([1; 32])).await.is_err());
    assert!(ledger.sweep(0, 0, 9).await.is_err());
}
