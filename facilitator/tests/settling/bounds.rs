//! Which payments are accepted, from which caller and how many, and how long an answer may take.

use alloy_primitives::{B256, U256};
use bursar_facilitator::book::reservation::GasReservation;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::settle::price::SignerNeed;
use bursar_facilitator::verify::{ValidAnswer, VerifyError};

use crate::contracts::network;
use crate::stage::{COIN, SignedPayment, Stage, StageConfig, caller_origin, keyed_origin, signer};
use crate::withdrawals::{is_settled, reason};
use crate::world::{GWEI, Node};

fn verdict(verified: &Result<ValidAnswer, VerifyError>) -> Option<Reason> {
    match verified {
        Err(VerifyError::Rejected(rejection)) => Some(rejection.reason),
        _other => None,
    }
}

#[tokio::test(start_paused = true)]
async fn of_sixteen_copies_one_has_the_success_and_the_others_learn_the_transaction() {
    let mut stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    let copies: Vec<_> = (0..16).map(|_copy| stage.spawn_settle(&pay)).collect();
    stage.advance_clock(500).await;
    let open = stage.settlement.verify(&pay.request, &caller_origin(1).into()).await;
    assert_eq!(verdict(&open), Some(Reason::Duplicate), "in flight for another request");
    stage.keep_mining();
    let (mut success_rights, mut hashes) = (Vec::new(), Vec::new());
    for copy in copies {
        match copy.await.unwrap().unwrap() {
            SettleOutcome::Settled { hash, right, repeated, .. } => {
                assert!(!repeated);
                hashes.extend(hash);
                success_rights.push(right.unwrap());
            }
            SettleOutcome::Rejected(rejection) => {
                assert_eq!(rejection.reason, Reason::Duplicate);
                hashes.extend(rejection.settled_in);
            }
            SettleOutcome::Pending { .. } => panic!("it was mined"),
        }
    }
    assert_eq!(success_rights.len(), 1);
    assert_eq!(hashes.len(), 16, "each learns the transaction");
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    assert_eq!(stage.shop_balance(), 700);
    // The success was not delivered, so the next request may receive it, and a verification before that succeeds.
    drop(success_rights);
    assert!(stage.settlement.verify(&pay.request, &caller_origin(2).into()).await.is_ok());
    let end = stage.settle_by(&pay, caller_origin(2)).await;
    let Ok(SettleOutcome::Settled { right: Some(right), repeated: false, .. }) = end else {
        panic!("{end:?}")
    };
    stage.ledger.mark_answered(pay.key, right.origin, bursar_core::time::Utc(1)).await.unwrap();
    drop(right);
    assert_eq!(reason(&stage.settle_by(&pay, caller_origin(2)).await), Some(Reason::Duplicate));
    assert_eq!(
        verdict(&stage.settlement.verify(&pay.request, &caller_origin(2).into()).await),
        Some(Reason::Duplicate)
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeat_with_the_same_key_receives_the_same_end() {
    let mut stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    let (settlement, request) = (std::sync::Arc::clone(&stage.settlement), pay.request.clone());
    let first =
        tokio::spawn(async move { settlement.settle(&request, &keyed_origin(7).into()).await });
    stage.advance_clock(300).await;
    assert!(
        stage.settlement.verify(&pay.request, &keyed_origin(7).into()).await.is_ok(),
        "it would share"
    );
    let (settlement, request) = (std::sync::Arc::clone(&stage.settlement), pay.request.clone());
    let second =
        tokio::spawn(async move { settlement.settle(&request, &keyed_origin(7).into()).await });
    let other = stage.spawn_settle(&pay);
    stage.advance_clock(300).await;
    stage.keep_mining();
    let first = first.await.unwrap();
    assert!(matches!(first, Ok(SettleOutcome::Settled { repeated: false, .. })), "{first:?}");
    let second = second.await.unwrap();
    assert!(matches!(second, Ok(SettleOutcome::Settled { repeated: true, .. })), "{second:?}");
    assert_eq!(reason(&other.await.unwrap()), Some(Reason::Duplicate));
    stage.ledger.mark_answered(pay.key, keyed_origin(7), bursar_core::time::Utc(1)).await.unwrap();
    drop((first, second));
    let again = stage.settle_by(&pay, keyed_origin(7)).await;
    assert!(
        matches!(again, Ok(SettleOutcome::Settled { repeated: true, right: None, .. })),
        "{again:?}"
    );
    assert_eq!(reason(&stage.settle_by(&pay, keyed_origin(8)).await), Some(Reason::Duplicate));
    assert_eq!(stage.shop_balance(), 700);
}

/// A payment with the same nonce but another amount does not receive the outcome of the first one.
#[tokio::test(start_paused = true)]
async fn another_payment_of_the_same_nonce_learns_nothing() {
    let mut stage = Stage::with_defaults().await;
    stage.keep_mining();
    let pay = stage.sign_payment(1, 700, 1);
    assert!(is_settled(&stage.settle(&pay).await));
    let mut terms = pay.terms.clone();
    terms.authorized_amount = U256::from(701);
    let other = SignedPayment::signed(1, terms);
    let end = stage.settle(&other).await;
    let Ok(SettleOutcome::Rejected(rejection)) = end else { panic!("{end:?}") };
    assert_eq!((rejection.reason, rejection.settled_in), (Reason::Duplicate, None));
}

#[tokio::test(start_paused = true)]
async fn a_payer_has_so_many_open_payments_and_no_more_than_the_purse_holds() {
    let plan = StageConfig { wait_ms: 5_000, ..StageConfig::default() };
    let stage = Stage::with(plan).await;
    stage.world.fund(signer(1), COIN * U256::from(100));
    let pays: Vec<SignedPayment> = (0..=256).map(|n| stage.sign_payment(1, 1, n)).collect();
    let settling: Vec<_> = pays.iter().map(|pay| stage.spawn_settle(pay)).collect();
    let mut busy = 0;
    for settling in settling {
        busy += usize::from(matches!(settling.await.unwrap(), Err(SettleError::Busy)));
    }
    assert_eq!(busy, 1);
    stage.world.give(pays[0].terms.payer, 1_000);
    let stage = Stage::with(StageConfig { wait_ms: 2_000, ..StageConfig::default() }).await;
    stage.world.give(pays[0].terms.payer, 1_000);
    let (one, other) = (stage.sign_payment(1, 600, 1), stage.sign_payment(1, 401, 2));
    let first = stage.spawn_settle(&one);
    stage.advance_clock(100).await;
    let end = stage.settle(&other).await;
    assert_eq!(reason(&end), Some(Reason::InsufficientBalance), "{end:?}");
    let fits = stage.spawn_settle(&stage.sign_payment(1, 400, 3));
    stage.advance_clock(100).await;
    stage.world.mine();
    assert!(is_settled(&first.await.unwrap()));
    stage.advance_clock(200).await;
    stage.world.mine();
    assert!(is_settled(&fits.await.unwrap()));
}

/// No answer takes longer than ten seconds, and requests that need the same silent node wait for it concurrently.
#[tokio::test(start_paused = true)]
async fn a_silent_node_holds_no_request_longer_than_ten_seconds() {
    let plan = StageConfig { wait_ms: 10_000, ..StageConfig::default() };
    let stage = Stage::with(plan).await;
    let pay = stage.sign_payment(1, 700, 1);
    assert!(stage.settlement.verify(&pay.request, &caller_origin(1).into()).await.is_ok());
    stage.world.state().node = Node::Mute;
    for age in [100, 20_000] {
        stage.advance_clock(age).await;
        let begun = stage.clock_ms();
        let verified = stage.settlement.verify(&pay.request, &caller_origin(1).into()).await;
        assert!(matches!(verified, Err(VerifyError::Chain(_))), "{verified:?}");
        assert!(stage.clock_ms() - begun <= 10_000);
        let begun = stage.clock_ms();
        let settling: Vec<_> =
            (1..9).map(|n| stage.spawn_settle(&stage.sign_payment(n, 1, 1))).collect();
        for settling in settling {
            let end = settling.await.unwrap();
            assert!(matches!(end, Err(SettleError::Unavailable(_))), "{end:?}");
        }
        assert!(stage.clock_ms() - begun <= 10_000, "{} ms", stage.clock_ms() - begun);
    }
    assert_eq!(stage.settlement.ledger.open_count(), 0, "nothing was accepted");
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_failed_price_lookup_do_not_wait_for_a_retry() {
    let stage = Stage::with_defaults().await;
    stage.world.state().node = Node::Down;
    let lookups: Vec<_> = (0..8)
        .map(|_lookup| {
            let settler = std::sync::Arc::clone(&stage.settler);
            tokio::spawn(async move { settler.look_up_price().await })
        })
        .collect();
    for lookup in lookups {
        assert!(lookup.await.unwrap().is_err());
    }
    assert_eq!(stage.world.state().price_requests, 0);
    stage.world.state().node = Node::Answers;
    assert!(stage.settler.look_up_price().await.is_ok(), "the next one asks again");
    assert_eq!(stage.world.state().price_requests, 1);
}

/// Prices are refreshed in the background of requests, at most every two seconds, and a price that is too old is not
/// used. A request that would be refused for lack of coin refreshes the price first.
#[tokio::test(start_paused = true)]
async fn prices_are_refreshed_within_their_age_limits() {
    let stage = Stage::with_defaults().await;
    let price_requests = |stage: &Stage| stage.world.state().price_requests;
    let read_price =
        async |stage: &Stage| stage.settler.price().await.map(|price| price.next_block_price);
    assert!(read_price(&stage).await.is_ok());
    assert_eq!(price_requests(&stage), 1);
    stage.advance_clock(1_900).await;
    assert!(read_price(&stage).await.is_ok());
    stage.advance_clock(50).await;
    assert_eq!(price_requests(&stage), 1, "young enough");
    stage.advance_clock(200).await;
    stage.world.state().base_fee = 2 * GWEI;
    let old = read_price(&stage).await.unwrap();
    stage.advance_clock(50).await;
    assert_eq!(price_requests(&stage), 2, "looked up next to the request");
    assert!(read_price(&stage).await.unwrap() > old);
    // The node becomes unreachable. The last price is used for some seconds, but not longer.
    stage.world.state().node = Node::Down;
    stage.advance_clock(9_000).await;
    assert!(read_price(&stage).await.is_ok());
    stage.advance_clock(1_100).await;
    assert!(read_price(&stage).await.is_err());
    stage.world.state().node = Node::Answers;
    stage.world.fund(signer(1), U256::ZERO);
    assert!(read_price(&stage).await.is_ok());
    let none = stage.settler.price().await.unwrap();
    assert!(!none.can_pay(&SignerNeed::MIN, GasReservation::default()));
    stage.world.fund(signer(1), COIN);
    stage.advance_clock(2_100).await;
    let some = stage.settler.price().await.unwrap();
    assert!(
        some.can_pay(&SignerNeed::MIN, GasReservation::default()),
        "a top-up is seen by the first request"
    );
}

/// Without coin nothing is accepted, and no node is asked about the payment.
#[tokio::test(start_paused = true)]
async fn without_coin_no_payment_is_accepted() {
    let mut stage = Stage::with_defaults().await;
    stage.world.fund(signer(1), U256::from(1));
    let pay = stage.sign_payment(1, 700, 1);
    assert_eq!(
        verdict(&stage.settlement.verify(&pay.request, &caller_origin(1).into()).await),
        Some(Reason::OutOfGas)
    );
    assert_eq!(reason(&stage.settle(&pay).await), Some(Reason::OutOfGas));
    assert!(stage.record(&pay).await.is_none());
    stage.world.fund(signer(1), COIN);
    stage.advance_clock(2_100).await;
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&pay).await));
}

/// While a request waits, another one receives the success. The waiting request does not receive it.
#[tokio::test(start_paused = true)]
async fn a_success_that_was_returned_meanwhile_is_not_returned_again() {
    let stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    let first = stage.spawn_settle(&pay);
    stage.advance_clock(300).await;
    stage.world.mine();
    // The success is delivered to another connection before this request looks it up.
    stage.ledger.mark_answered(pay.key, caller_origin(9), bursar_core::time::Utc(1)).await.unwrap();
    let end = first.await.unwrap();
    assert_eq!(reason(&end), Some(Reason::Duplicate), "{end:?}");
    // A request that repeats the waiting request's key does not receive the success either.
    let pay = stage.sign_payment(2, 700, 2);
    let settle = || {
        let (settlement, request) = (std::sync::Arc::clone(&stage.settlement), pay.request.clone());
        tokio::spawn(async move { settlement.settle(&request, &keyed_origin(7).into()).await })
    };
    let first = settle();
    stage.advance_clock(300).await;
    let second = settle();
    stage.advance_clock(100).await;
    stage.world.mine();
    stage.ledger.mark_answered(pay.key, caller_origin(9), bursar_core::time::Utc(1)).await.unwrap();
    for end in [first.await.unwrap(), second.await.unwrap()] {
        assert_eq!(reason(&end), Some(Reason::Duplicate), "{end:?}");
    }
}

/// The payment's own transaction may already have used the nonce, so a request with the same key is not refused.
#[tokio::test(start_paused = true)]
async fn a_payment_whose_nonce_was_just_used_is_still_good_for_its_own_request() {
    let stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    let (settlement, request) = (std::sync::Arc::clone(&stage.settlement), pay.request.clone());
    let first =
        tokio::spawn(async move { settlement.settle(&request, &keyed_origin(7).into()).await });
    stage.advance_clock(300).await;
    stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
    assert!(stage.record(&pay).await.unwrap().state.is_open());
    let verified = stage.settlement.verify(&pay.request, &keyed_origin(7).into()).await;
    assert!(verified.is_ok(), "{verified:?}");
    first.abort();
}

/// Nonces of this method are not sequential, so no payment waits for the payment with the preceding nonce.
#[tokio::test(start_paused = true)]
async fn a_refusal_waits_for_no_payment_with_the_nonce_before() {
    let stage = Stage::with_defaults().await;
    let of = |n: u64, amount: u64| {
        let mut terms = stage.sign_payment(1, amount, 1).terms;
        terms.nonce = B256::from(U256::from(n));
        SignedPayment::signed(1, terms)
    };
    let first = stage.spawn_settle(&of(5, 700));
    stage.advance_clock(300).await;
    let begun = stage.clock_ms();
    let end = stage.settle(&of(6, 2_000_000)).await;
    assert_eq!(reason(&end), Some(Reason::InsufficientBalance), "{end:?}");
    assert!(stage.clock_ms() - begun < 1_000);
    first.abort();
}

/// A payment whose nonce is used is not sent. Without a proof of exactly this payment, no success is returned.
#[tokio::test(start_paused = true)]
async fn a_used_nonce_without_a_proof_is_refused() {
    let mut stage = Stage::with_defaults().await;
    let pay = stage.sign_payment(1, 700, 1);
    let mut terms = pay.terms.clone();
    terms.authorized_amount = U256::from(5);
    // Another sender settles a different payment with the same nonce.
    stage.world.mine_foreign_settlement(
        network().stablecoin.address,
        SignedPayment::signed(1, terms).call(),
    );
    stage.keep_mining();
    let end = stage.settle(&pay).await;
    assert_eq!(reason(&end), Some(Reason::NonceUsed), "{end:?}");
    assert!(stage.record(&pay).await.is_none());
}
