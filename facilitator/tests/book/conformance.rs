//! Requirements on every store of payments, whatever its backend.

use alloy_primitives::{Address, B256, U256};
use bursar_core::time::Utc;
use bursar_facilitator::book::redb_store::RedbPayments;
use bursar_facilitator::book::store::{Change, ChangeResult, GasSpent, PaymentStore};
use bursar_facilitator::book::{Batch, Record, RequestOrigin, State};
use bursar_facilitator::job_key::JobKey;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::work::Effect;
use bursar_submit::SubmissionId;

use crate::payments::{CALLER, CHAIN, record};

fn key(n: u8) -> JobKey {
    record(n).key()
}

fn accepted_change(n: u8) -> Change {
    Change::Accepted(Box::new(record(n)))
}

fn settled(at: i64) -> State {
    State::Settled { hash: B256::repeat_byte(9), block: 7, at: Utc(at), effect: Effect::default() }
}

fn failed(at: i64) -> State {
    State::Failed { reason: Reason::Simulation, message: "no".to_owned(), at: Utc(at) }
}

/// Returns the change of a queued payment to `state`, meant for the payment with this digest.
fn state_change(n: u8, digest: u8, state: State) -> Change {
    let (key, digest) = (key(n), B256::repeat_byte(digest));
    Change::StateChanged { key, digest, from: State::Queued, state, attempts: 2 }
}

fn outcome_set(n: u8, state: State) -> Change {
    Change::OutcomeSet { key: key(n), state, attempts: 0 }
}

fn batch(id: u8, payments: &[u8]) -> Batch {
    Batch {
        id: SubmissionId([id; 16]),
        chain: CHAIN,
        signer: Address::repeat_byte(5),
        jobs: payments.iter().map(|n| key(*n)).collect(),
        gas_limit: 1,
        data_kilobytes: 1,
        found_transaction: None,
    }
}

/// Returns the change that puts the payments with these numbers into a transaction.
fn batched_change(batch: &Batch, digests: &[u8]) -> Change {
    let digests = digests.iter().map(|n| B256::repeat_byte(*n)).collect();
    Change::Batched { batch: batch.clone(), digests }
}

fn closed_change(batch: SubmissionId, wei: u64) -> Change {
    let spent = GasSpent { chain: CHAIN, day: 3, caller: CALLER, wei: U256::from(wei) };
    Change::Closed { batch, spent: vec![spent] }
}

fn conflict(record: Record) -> ChangeResult {
    ChangeResult::Conflict(Box::new(record))
}

fn conflicting_state(outcome: &ChangeResult) -> Option<&State> {
    let ChangeResult::Conflict(record) = outcome else { return None };
    Some(&record.state)
}

/// Checks changes that depend on the state of a payment, and the data that is stored with a payment.
async fn test_dependent_changes(store: &dyn PaymentStore) {
    store.commit(vec![accepted_change(1), accepted_change(2), accepted_change(3)]).await.unwrap();
    // A withdrawn payment joins no transaction, and the store keeps nothing of that transaction.
    let answers = store.commit(vec![state_change(1, 1, failed(5))]).await.unwrap();
    assert_eq!(answers, [ChangeResult::Stored]);
    let withdrawn = store.get(key(1)).await.unwrap().unwrap();
    assert_eq!((withdrawn.state.clone(), withdrawn.attempts), (failed(5), 2));
    let both = batch(7, &[2, 1]);
    let answers = store.commit(vec![batched_change(&both, &[2, 1])]).await.unwrap();
    assert_eq!(answers, [conflict(withdrawn)]);
    assert_eq!(store.get(key(2)).await.unwrap().unwrap().state, State::Queued);
    assert!(store.open().await.unwrap().batches.is_empty());
    // A payment joins only one transaction, even if one commit contains two transactions with it.
    let (one, other) = (batch(8, &[2]), batch(9, &[2, 3]));
    let changes = vec![batched_change(&one, &[2]), batched_change(&other, &[2, 3])];
    let answers = store.commit(changes).await.unwrap();
    let sent = State::Sent { batch: one.id };
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0], ChangeResult::Stored);
    assert_eq!(conflicting_state(&answers[1]), Some(&sent));
    // A payment that is no longer in the expected state is unchanged.
    let answers = store.commit(vec![state_change(2, 2, failed(6))]).await.unwrap();
    assert_eq!(conflicting_state(&answers[0]), Some(&sent));
    assert_eq!(store.get(key(2)).await.unwrap().unwrap().state, sent);
    // Another payment with the same nonce is a separate one: a change meant for the first does not touch it.
    let stale = state_change(3, 99, failed(6));
    let answers = store.commit(vec![stale, batched_change(&batch(30, &[3]), &[99])]).await.unwrap();
    assert_eq!(answers, [conflict(record(3)), conflict(record(3))]);
    assert_eq!(store.get(key(3)).await.unwrap(), Some(record(3)));
    // The store records that a success was returned, and to which request. The state is unchanged.
    let by =
        RequestOrigin { caller: B256::repeat_byte(5), idempotency: Some(B256::repeat_byte(6)) };
    store.commit(vec![outcome_set(2, settled(10))]).await.unwrap();
    store
        .commit(vec![Change::SuccessReturned { key: key(2), origin: by, at: Utc(11) }])
        .await
        .unwrap();
    let answered = store.get(key(2)).await.unwrap().unwrap();
    assert_eq!((answered.origin, answered.success_returned_at), (by, Some(Utc(11))));
    assert_eq!(answered.state, settled(10));
    // A reorganisation reopens the payment, and it may fail and be accepted again: the answer stays recorded.
    let again = Record { success_returned_at: None, ..record(2) };
    let reopened = Change::Reopened(Box::new(again.clone()));
    let answers = store.commit(vec![reopened.clone()]).await.unwrap();
    let queued = State::Queued;
    let waits = store.get(key(2)).await.unwrap().unwrap();
    assert_eq!(
        (&waits.state, waits.origin, waits.success_returned_at),
        (&queued, by, Some(Utc(11)))
    );
    assert_eq!(answers, [ChangeResult::Merged(Box::new(waits.clone()))], "as it is on disk");
    assert_eq!(store.commit(vec![reopened]).await.unwrap(), [conflict(waits)], "not settled");
    store.commit(vec![outcome_set(2, failed(12))]).await.unwrap();
    let answers = store.commit(vec![Change::Accepted(Box::new(again))]).await.unwrap();
    let taken = store.get(key(2)).await.unwrap().unwrap();
    assert_eq!(
        (&taken.state, taken.origin, taken.success_returned_at),
        (&queued, by, Some(Utc(11)))
    );
    assert_eq!(answers, [ChangeResult::Merged(Box::new(taken))]);
    // A pending answer belongs to one requester, and the record still names that requester after a failure.
    store.commit(vec![accepted_change(4)]).await.unwrap();
    let promised = |origin| Change::PendingReturned { key: key(4), origin };
    store.commit(vec![promised(by), promised(record(4).origin)]).await.unwrap();
    let known = store.get(key(4)).await.unwrap().unwrap();
    assert_eq!((known.origin, known.pending_returned, known.success_returned_at), (by, true, None));
    store.commit(vec![outcome_set(4, failed(12)), accepted_change(4)]).await.unwrap();
    let known = store.get(key(4)).await.unwrap().unwrap();
    assert_eq!((known.origin, known.pending_returned), (by, true));
    store.commit(vec![outcome_set(4, failed(12))]).await.unwrap();
    // A settlement that was found is watched once, for the first request.
    let found = |id| Change::FoundOnChain {
        record: Box::new(Record { state: settled(13), ..record(9) }),
        batch: Batch { found_transaction: Some(B256::repeat_byte(1)), ..batch(id, &[9]) },
    };
    let answers = store.commit(vec![found(20), found(21)]).await.unwrap();
    assert_eq!((answers[0].is_stored(), answers[1].is_stored()), (true, false));
    let ids: Vec<_> = store.open().await.unwrap().batches.iter().map(|one| one.id).collect();
    assert_eq!(ids, [one.id, SubmissionId([20; 16])]);
    store
        .commit(vec![Change::Closed { batch: SubmissionId([20; 16]), spent: vec![] }])
        .await
        .unwrap();
    // A transaction's cost counts once, even if the transaction is closed twice. Each day is counted separately.
    store.commit(vec![closed_change(one.id, 5)]).await.unwrap();
    store.commit(vec![closed_change(one.id, 5)]).await.unwrap();
    let watched = Batch { found_transaction: Some(B256::repeat_byte(1)), ..batch(10, &[3]) };
    store.commit(vec![Change::Watched(watched.clone())]).await.unwrap();
    assert_eq!(store.open().await.unwrap().batches, std::slice::from_ref(&watched));
    store.commit(vec![closed_change(watched.id, 4)]).await.unwrap();
    let spent: Vec<_> = store.gas_spent_on(3).await.unwrap();
    let wei: Vec<_> = spent.iter().map(|one| (one.caller, one.wei)).collect();
    assert_eq!(wei, [(CALLER, U256::from(9))]);
    assert!(store.gas_spent_on(2).await.unwrap().is_empty());
    assert!(store.gas_spent_on(4).await.unwrap().is_empty());
    store.probe().await.unwrap();
    store.probe().await.unwrap();
    let four_days = 4 * 24 * 60 * 60 * 1_000;
    store.prune(Utc(four_days - 1), 0).await.unwrap();
    assert_eq!(store.gas_spent_on(3).await.unwrap().len(), 1, "its day is not over");
    store.prune(Utc(four_days), 0).await.unwrap();
    assert!(store.gas_spent_on(3).await.unwrap().is_empty());
}

async fn test_payment_store(open: impl Fn() -> Box<dyn PaymentStore>) {
    let store = open();
    assert_eq!(store.open().await.unwrap(), Default::default());
    assert_eq!(store.get(key(1)).await.unwrap(), None);

    // Each key is accepted once, even within one commit.
    let taken = store
        .commit(vec![accepted_change(1), accepted_change(2), accepted_change(1)])
        .await
        .unwrap();
    assert_eq!(taken, [ChangeResult::Stored, ChangeResult::Stored, conflict(record(1))]);
    assert_eq!(store.commit(vec![accepted_change(1)]).await.unwrap(), [conflict(record(1))]);

    // The payments of a transaction are read back together, in their order.
    let first = batch(1, &[2, 1]);
    let kept = store.commit(vec![batched_change(&first, &[2, 1])]).await.unwrap();
    assert_eq!(kept, [ChangeResult::Stored]);
    let sent = State::Sent { batch: first.id };
    let of_batch = store.records_of_batch(first.clone()).await.unwrap();
    let digests: Vec<_> = of_batch.iter().map(|record| record.digest()).collect();
    assert_eq!(digests, [B256::repeat_byte(2), B256::repeat_byte(1)]);
    assert!(of_batch.iter().all(|record| record.state == sent));

    // A settled payment blocks its key permanently, a failed one does not.
    store.commit(vec![outcome_set(1, settled(10)), outcome_set(2, failed(20))]).await.unwrap();
    let known = store.get(key(1)).await.unwrap().unwrap();
    assert_eq!(known.state, settled(10));
    let answers = store.commit(vec![accepted_change(1), accepted_change(2)]).await.unwrap();
    assert_eq!(answers, [conflict(known), ChangeResult::Stored]);
    drop(store);

    // After a restart all data is still there, and `open` returns only open work.
    let store = open();
    let all = store.open().await.unwrap();
    assert_eq!(all.batches, std::slice::from_ref(&first));
    assert_eq!(all.records, [record(2)]);
    store.commit(vec![closed_change(first.id, 5)]).await.unwrap();
    assert!(store.open().await.unwrap().batches.is_empty());

    // A payment whose block was reorganised away is open again.
    let again = Record { attempts: 1, ..record(1) };
    store.commit(vec![Change::Reopened(Box::new(again.clone()))]).await.unwrap();
    assert_eq!(store.get(key(1)).await.unwrap(), Some(again));
    assert_eq!(store.open().await.unwrap().records.len(), 2);

    // The oldest ended payments are pruned first, up to the given number. Open payments are never pruned.
    store
        .commit(vec![outcome_set(1, settled(30)), outcome_set(2, failed(-5)), accepted_change(3)])
        .await
        .unwrap();
    assert_eq!(store.prune(Utc(-5), 10).await.unwrap(), 0);
    assert_eq!(store.prune(Utc(31), 1).await.unwrap(), 1);
    assert_eq!(store.get(key(2)).await.unwrap(), None, "before 1970 is before");
    assert_eq!(store.prune(Utc(i64::MAX), 10).await.unwrap(), 1);
    assert_eq!(store.get(key(1)).await.unwrap(), None);
    assert!(store.get(key(3)).await.unwrap().is_some());
}

#[tokio::test]
async fn the_redb_file_keeps_payments_as_it_must() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("facilitator.redb");
    test_payment_store(|| Box::new(RedbPayments::open_file(&file).unwrap().0)).await;
    let file = folder.path().join("other.redb");
    test_dependent_changes(&RedbPayments::open_file(&file).unwrap().0).await;
}
