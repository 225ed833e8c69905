//! The guarantees of a store, tested on every implementation.

#![expect(clippy::unwrap_used, reason = "helpers stand outside #[test]")]

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_outbox::memory::MemoryStore;
use bursar_outbox::redb_store::RedbStore;
use bursar_outbox::store::{Store, StoreFault, StoredOutbox};
use bursar_submit::{Call, Event, Fees, Kind, Outbox, OutboxKey, Outcome, Raw, SubmissionId};
use bursar_x402::signature::Signature65;

fn key(signer: u8) -> OutboxKey {
    OutboxKey { chain: ChainId(8453), signer: Address::repeat_byte(signer) }
}

fn id(n: u8) -> SubmissionId {
    SubmissionId([n; 16])
}

fn opened(n: u8) -> Event {
    let call =
        Call { to: Address::ZERO, value: U256::from(n), data: Default::default(), gas_limit: 1 };
    Event::Opened { id: id(n), call, ceiling: 9, filler: false, until: None }
}

fn reserved(n: u8, nonce: u64) -> Event {
    Event::Reserved { id: id(n), nonce }
}

fn authorized(n: u8) -> Event {
    Event::Authorized {
        id: id(n),
        kind: Kind::Call,
        fees: Fees::Legacy { gas_price: 1 },
        digest: B256::repeat_byte(n),
        at: Utc(0),
    }
}

fn signed(n: u8) -> Event {
    let word = B256::repeat_byte(1);
    let signature = Signature65::new(word, word, 27).unwrap();
    let raw = Raw { hash: B256::repeat_byte(n), bytes: vec![n].into() };
    Event::Signed { id: id(n), attempt: 0, signature, raw }
}

fn finished(n: u8, outcome: Outcome) -> Event {
    Event::Finished { id: id(n), outcome }
}

/// Returns the outbox after these events, as the state machine computes it.
fn outbox_after(key: OutboxKey, events: &[Event]) -> Outbox {
    let mut outbox = Outbox::new(key);
    events.iter().for_each(|event| bursar_submit::apply(&mut outbox, event));
    outbox
}

/// Tests every guarantee. `again` reopens the same store, as a restart would; `None` for a store in memory.
async fn test_store_guarantees(store: Arc<dyn Store>, again: impl Fn() -> Option<Arc<dyn Store>>) {
    // An unused outbox is empty.
    let empty = StoredOutbox { outbox: Outbox::new(key(1)), version: 0 };
    assert_eq!(store.load(key(1)).await, Ok(empty));
    assert_eq!(store.with_open_submissions().await, Ok(vec![]));
    assert_eq!(store.outcome(key(1), id(1)).await, Ok(None));

    // A commit is stored, and each commit follows one version.
    let first = vec![opened(1), reserved(1, 7), authorized(1), signed(1)];
    let one = store.commit(key(1), 0, first.clone()).await.unwrap();
    let kept = StoredOutbox { outbox: outbox_after(key(1), &first), version: one };
    assert_eq!(store.load(key(1)).await, Ok(kept.clone()));
    assert_eq!(store.with_open_submissions().await, Ok(vec![key(1)]));

    // A process that missed a commit is refused, and nothing of its change is stored.
    assert_eq!(store.commit(key(1), 0, vec![opened(2)]).await, Err(StoreFault::Conflict));
    assert_eq!(store.load(key(1)).await, Ok(kept.clone()));

    // A nonce has one holder, even if the caller has another state. Nothing of a refused commit is stored.
    let taken = store.commit(key(1), one, vec![opened(2), reserved(2, 7)]).await;
    assert_eq!(taken, Err(StoreFault::NonceTaken(7)));
    assert_eq!(store.load(key(1)).await, Ok(kept.clone()));
    // The store knows this outbox's signed transaction, but not a refused one or another outbox's.
    assert_eq!(store.has_signed(key(1), B256::repeat_byte(1)).await, Ok(true));
    assert_eq!(store.has_signed(key(1), B256::repeat_byte(2)).await, Ok(false));
    assert_eq!(store.has_signed(key(2), B256::repeat_byte(1)).await, Ok(false));
    // The same nonce of another signer is independent.
    store.commit(key(2), 0, vec![opened(3), reserved(3, 7)]).await.unwrap();
    assert_eq!(store.load(key(1)).await, Ok(kept));

    assert_eq!(store.nonce_before(key(1), 8).await, Ok(Some(7)));
    assert_eq!(store.nonce_before(key(1), 7).await, Ok(None), "only those below");
    assert_eq!(store.nonce_before(key(3), 8).await, Ok(None));

    // A dropped submission releases its nonce; a mined submission never does.
    let two = store.commit(key(1), one, vec![finished(1, Outcome::Dropped)]).await.unwrap();
    let three = store.commit(key(1), two, vec![opened(2), reserved(2, 7)]).await.unwrap();
    let done = Outcome::Succeeded { hash: B256::repeat_byte(2), block: 5 };
    let four = store.commit(key(1), three, vec![finished(2, done)]).await.unwrap();
    let taken = store.commit(key(1), four, vec![opened(4), reserved(4, 7)]).await;
    assert_eq!(taken, Err(StoreFault::NonceTaken(7)));
    assert_eq!(store.load(key(1)).await.unwrap().outbox.floor, 8);

    // An outcome is stored permanently, and an ended submission does not begin again.
    assert_eq!(store.outcome(key(1), id(2)).await, Ok(Some(done)));
    assert_eq!(store.outcome(key(2), id(2)).await, Ok(None));
    let over = store.commit(key(1), four, vec![opened(2)]).await;
    assert_eq!(over, Err(StoreFault::Ended(done)));
    assert_eq!(store.with_open_submissions().await, Ok(vec![key(2)]));

    // Of several simultaneous commits that follow the same version, exactly one succeeds.
    let mut version = four;
    for round in 10..20 {
        let tries: Vec<_> = (0..8)
            .map(|n| {
                let (store, events) = (Arc::clone(&store), vec![opened(round + 10 * n)]);
                tokio::spawn(async move { store.commit(key(1), version, events).await })
            })
            .collect();
        let mut won = Vec::new();
        for one in tries {
            match one.await.unwrap() {
                Ok(next) => won.push(next),
                Err(fault) => assert_eq!(fault, StoreFault::Conflict),
            }
        }
        assert_eq!(won.len(), 1, "round {round}");
        version = won[0];
    }

    // Everything is stored after a restart.
    let before = (store.load(key(1)).await, store.load(key(2)).await);
    drop(store);
    if let Some(store) = again() {
        assert_eq!((store.load(key(1)).await, store.load(key(2)).await), before);
        assert_eq!(store.outcome(key(1), id(2)).await, Ok(Some(done)));
        // The store knows a signed transaction even after its submission has ended.
        assert_eq!(store.has_signed(key(1), B256::repeat_byte(1)).await, Ok(true));
        let taken = store.commit(key(1), version, vec![opened(200), reserved(200, 7)]).await;
        assert_eq!(taken, Err(StoreFault::NonceTaken(7)));
    }
}

#[tokio::test]
async fn memory_store_keeps_all_guarantees() {
    test_store_guarantees(Arc::new(MemoryStore::default()), || None).await;
}

#[tokio::test]
async fn redb_store_keeps_all_guarantees() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outboxes.redb");
    let open = || Some(Arc::new(RedbStore::open(&file).unwrap()) as Arc<dyn Store>);
    test_store_guarantees(open().unwrap(), open).await;
}
