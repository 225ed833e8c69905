//! The ledger, the only writer of payments, over a real file: what counts after a restart, and for which caller.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_core::time::Utc;
use bursar_facilitator::book::gas::GasUsage;
use bursar_facilitator::book::ledger::{Ledger, Lookup, Progress, Usage};
use bursar_facilitator::book::redb_store::RedbPayments;
use bursar_facilitator::book::reservation::GasReservation;
use bursar_facilitator::book::store::GasSpent;
use bursar_facilitator::book::{Batch, Record, RequestOrigin, State};
use bursar_facilitator::job::Job;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::work::Effect;
use bursar_submit::SubmissionId;

use crate::payments::{CALLER, CHAIN, payment, record};

const OTHER: B256 = B256::repeat_byte(5);
const NOW: Utc = Utc(86_400_000 * 3);

fn batch(id: u8, nonces: &[u8]) -> (Batch, Vec<B256>) {
    let jobs = nonces.iter().map(|n| record(*n).key()).collect();
    let id = SubmissionId([id; 16]);
    let signer = Address::repeat_byte(7);
    let batch = Batch {
        id,
        chain: CHAIN,
        signer,
        jobs,
        gas_limit: 150,
        data_kilobytes: 2,
        found_transaction: None,
    };
    (batch, nonces.iter().map(|n| B256::repeat_byte(*n)).collect())
}

async fn ledger(file: &Path) -> Ledger {
    // The previous ledger releases the file once its writer has ended.
    let store = loop {
        match RedbPayments::open_file(file) {
            Ok((store, _outboxes)) => break store,
            Err(_open) => tokio::task::yield_now().await,
        }
    };
    Ledger::load(Arc::new(store), NOW).await.unwrap().0
}

fn settled() -> State {
    State::Settled { hash: B256::repeat_byte(9), block: 7, at: NOW, effect: Effect::default() }
}

fn withdrawn() -> State {
    State::Failed { reason: Reason::Withdrawn, message: String::new(), at: NOW }
}

fn reservation(gas: u64, kilobytes: u64) -> GasReservation {
    GasReservation { gas, data_kilobytes: kilobytes }
}

/// Of one transaction's payments, one is settled and one is withdrawn. A third payment is queued.
///
/// Both before and after a restart, the settled payment counts against the caller's budget until its transaction is
/// closed. The withdrawn payment also counts against the signers' coin.
#[tokio::test]
async fn gas_of_ended_payments_counts_until_their_transaction_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("facilitator.redb");
    let expected = GasUsage {
        network_reserved: reservation(200, 2),
        caller_reserved: reservation(300, 3),
        total_reserved: reservation(300, 3),
        ..GasUsage::default()
    };
    let (sent, digests) = batch(1, &[1, 2]);
    let book = ledger(&file).await;
    for n in [1, 2, 3] {
        assert!(book.accept(record(n)).await.unwrap().new);
    }
    assert!(book.assign(sent.clone(), digests).await.unwrap());
    book.set_outcomes(vec![(record(1).key(), settled(), 0)]).await.unwrap();
    let from = State::Sent { batch: sent.id };
    assert!(book.transition(&record(2).job, from, withdrawn(), 0).await.unwrap());
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW), expected);
    drop(book);
    let book = ledger(&file).await;
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW), expected, "after a restart");
    assert_eq!(book.open_count(), 1);
    // The success was returned to another caller. The gas still counts against the caller whose request was accepted.
    let by = RequestOrigin { caller: OTHER, idempotency: None };
    book.mark_answered(record(1).key(), by, NOW).await.unwrap();
    let records = book.records_of_batch(&sent).await.unwrap();
    assert_eq!((records[0].gas_caller, records[0].origin), (CALLER, by));
    drop(book);
    let book = ledger(&file).await;
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW), expected);
    assert_eq!(book.gas_usage(CHAIN, OTHER, NOW).caller_reserved, GasReservation::default());
    let spent = GasSpent { chain: CHAIN, day: 3, caller: CALLER, wei: U256::from(77) };
    book.close(&sent, vec![spent]).await.unwrap();
    let usage = book.gas_usage(CHAIN, CALLER, NOW);
    assert_eq!(
        (usage.network_reserved, usage.total_reserved),
        (reservation(100, 1), reservation(100, 1))
    );
    assert_eq!((usage.spent_caller, usage.spent_total), (U256::from(77), U256::from(77)));
    drop(book);
    let usage = ledger(&file).await.gas_usage(CHAIN, CALLER, NOW);
    assert_eq!((usage.network_reserved, usage.spent_total), (reservation(100, 1), U256::from(77)));
}

#[tokio::test]
async fn a_change_meant_for_a_replaced_payment_does_not_move_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let book = ledger(&folder.path().join("facilitator.redb")).await;
    let first = record(1);
    book.accept(first.clone()).await.unwrap();
    assert!(book.is_queued(&first));
    assert!(book.transition(&first.job, State::Queued, withdrawn(), 0).await.unwrap());
    assert!(!book.is_queued(&first));
    let second = Record { job: payment(1, 2), ..first.clone() };
    assert!(book.accept(second.clone()).await.unwrap().new);
    assert!(book.is_queued(&second) && !book.is_queued(&first));
    assert!(!book.transition(&first.job, State::Queued, withdrawn(), 0).await.unwrap());
    let (sent, stale) = batch(1, &[1]);
    assert!(!book.assign(sent.clone(), stale).await.unwrap());
    assert!(book.is_queued(&second));
    assert!(book.assign(sent, vec![second.digest()]).await.unwrap());
    assert!(!book.is_queued(&second));
}

/// Claimed room counts for other payments until the last request releases it.
///
/// All requests of one payment count once.
#[tokio::test]
async fn claimed_room_counts_until_the_last_request_releases_it() {
    let folder = tempfile::tempdir().unwrap();
    let book = ledger(&folder.path().join("facilitator.redb")).await;
    let claim_of = |payment: &Job| {
        let mut seen = None;
        let claim = book.claim(payment, (CALLER, reservation(100, 1)), NOW, |usage: &Usage| {
            seen = Some(*usage);
            Ok::<_, ()>(())
        });
        (seen.unwrap(), claim.unwrap())
    };
    let (one, other) = (payment(1, 1), payment(2, 2));
    let (seen, first) = claim_of(&one);
    assert_eq!(
        (seen.count, seen.amount, seen.gas.network_reserved),
        (0, U256::ZERO, reservation(0, 0))
    );
    let (seen, again) = claim_of(&one);
    assert_eq!((seen.count, seen.gas.network_reserved), (0, reservation(0, 0)), "the same payment");
    drop(first);
    let (seen, third) = claim_of(&other);
    assert_eq!((seen.count, seen.amount), (1, U256::from(10)));
    assert_eq!(
        (seen.gas.network_reserved, seen.gas.caller_reserved),
        (reservation(100, 1), reservation(100, 1))
    );
    drop(third);
    drop(again);
    let (seen, _claim) = claim_of(&other);
    assert_eq!((seen.count, seen.gas.network_reserved), (0, reservation(0, 0)), "all was let go");
    let refused =
        book.claim(&one, (CALLER, reservation(100, 1)), NOW, |_owed: &Usage| Err::<(), _>("no"));
    assert_eq!(refused.err(), Some("no"));
    assert_eq!(
        book.gas_usage(CHAIN, CALLER, NOW).network_reserved,
        reservation(100, 1),
        "a refusal claims nothing"
    );
}

/// A waiting request receives the outcome once it is on disk. A claim whose payment was accepted remains in effect
/// after its request has ended.
#[tokio::test]
async fn a_waiter_receives_the_end_of_its_payment() {
    let folder = tempfile::tempdir().unwrap();
    let book = ledger(&folder.path().join("facilitator.redb")).await;
    let one = record(1);
    let claim = book
        .claim(&one.job, (CALLER, reservation(100, 1)), NOW, |_owed: &Usage| Ok::<_, ()>(()))
        .unwrap();
    let accepted = book.accept(one.clone()).await.unwrap();
    drop(claim);
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW).network_reserved, reservation(100, 1));
    let Lookup::Open(_record, mut progress) = accepted.lookup else { panic!("it is open") };
    assert_eq!(*progress.borrow(), Progress::Open);
    assert_eq!(book.backlog(), (1, Some(Utc(1))));
    let second = book.accept(one.clone()).await.unwrap();
    assert!(!second.new);
    book.set_outcomes(vec![(one.key(), settled(), 2)]).await.unwrap();
    let ended = progress.wait_for(|progress| *progress != Progress::Open).await.unwrap();
    assert_eq!(*ended, Progress::Ended(settled()));
    assert_eq!(book.backlog(), (0, None));
    let Some(Lookup::Ended(ended)) = book.find(one.key()).await.unwrap() else {
        panic!("it has ended")
    };
    assert_eq!((ended.state.clone(), ended.attempts), (settled(), 2));
    // After a reorganisation the payment is reopened once and is pending again.
    let by = RequestOrigin { caller: CALLER, idempotency: Some(B256::repeat_byte(6)) };
    book.mark_answered(one.key(), by, Utc(5)).await.unwrap();
    let again = Record { attempts: 1, ..one.clone() };
    assert!(book.reopen(again.clone()).await.unwrap());
    let known = book.find(one.key()).await.unwrap();
    let known =
        known.as_ref().map(|known| (known.record().origin, known.record().success_returned_at));
    assert_eq!(known, Some((by, Some(Utc(5)))), "that its success was returned is not forgotten");
    assert!(!book.reopen(again).await.unwrap());
    assert_eq!(book.backlog(), (1, Some(Utc(1))));
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW).network_reserved, reservation(100, 1));
}

/// A long signature counts with all its data, even after a restart.
#[tokio::test]
async fn reserved_gas_includes_the_data_of_a_payment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("facilitator.redb");
    let mut long = record(1);
    let Job::Payment(payment) = &mut long.job else { panic!("a payment") };
    payment.signature = vec![1; 3_000].into();
    let book = ledger(&file).await;
    assert!(book.accept(long).await.unwrap().new);
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW).network_reserved, reservation(100, 4));
    drop(book);
    let book = ledger(&file).await;
    assert_eq!(book.gas_usage(CHAIN, CALLER, NOW).network_reserved, reservation(100, 4));
}
