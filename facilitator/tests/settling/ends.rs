//! How payments that were sent end: in their block, by another transaction, or by no transaction.

use alloy_primitives::B256;
use bursar_facilitator::book::State;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::settle::success_rights::ForeignSettlements;
use bursar_facilitator::verify::VerifyError;

use crate::contracts::network;
use crate::log::Log;
use crate::stage::{Stage, StageConfig, caller_origin, signer};
use crate::withdrawals::{is_settled, reason, reason_of};
use crate::world::{BroadcastReaction, GWEI, Node};

fn is_settled_elsewhere(state: &State, expected: B256) -> bool {
    matches!(state, State::SettledElsewhere { hash, .. } if *hash == expected)
}

/// Returns the transaction that a success or a rejection names.
fn hash_of(end: &Result<SettleOutcome, SettleError>) -> Option<B256> {
    match end {
        Ok(SettleOutcome::Settled { hash, .. }) => *hash,
        Ok(SettleOutcome::Rejected(rejection)) => rejection.settled_in,
        _other => None,
    }
}

/// The payer has no money left when the block is mined, and the payment ends with that reason.
#[tokio::test(start_paused = true)]
async fn a_payment_that_fails_in_its_block_ends_with_its_reason() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_000, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let settling = stage.spawn_settle(&pay);
    stage.advance_clock(200).await;
    stage.world.give(pay.terms.payer, 5);
    stage.world.mine_many(1);
    stage.advance_clock(500).await;
    stage.world.mine_many(5);
    let end = settling.await.unwrap();
    assert_eq!(reason(&end), Some(Reason::InsufficientBalance), "{end:?}");
    assert_eq!(stage.shop_balance(), 0);
    // After the payer is funded again, the same payment may be tried again.
    stage.world.give(pay.terms.payer, 700);
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&pay).await));
    assert_eq!(stage.shop_balance(), 700);
}

/// The transaction fails in its block, although each simulation succeeds.
#[tokio::test(start_paused = true)]
async fn a_payment_that_keeps_failing_in_blocks_is_sent_at_most_three_times() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    stage.world.state().fails_in_blocks = true;
    stage.keep_mining();
    let _first = stage.settle(&pay).await;
    stage.advance_clock(60_000).await;
    let record = stage.record(&pay).await.unwrap();
    assert_eq!((reason_of(&record), record.attempts), (Some(Reason::TransactionFailed), 3));
    let calls = |stage: &Stage| {
        let state = stage.world.state();
        let mut hashes: Vec<_> =
            state.sent.iter().filter(|tx| !tx.is_noop()).map(|tx| tx.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.len()
    };
    assert_eq!(calls(&stage), 3);
    stage.world.state().fails_in_blocks = false;
    // The same payment stays failed, and the payer's new payments are rejected for a minute.
    let again = stage.settle(&pay).await;
    assert_eq!(reason(&again), Some(Reason::TransactionFailed), "{again:?}");
    assert_eq!(calls(&stage), 3, "nothing was sent for it");
    stage.advance_clock(10 * 60_000).await;
    let pay = stage.sign_payment(1, 700, 2);
    assert!(is_settled(&stage.settle(&pay).await));
}

#[tokio::test(start_paused = true)]
async fn a_payer_that_wasted_gas_is_locked_out_for_a_minute() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    stage.world.state().fails_in_blocks = true;
    stage.keep_mining();
    let wasted = stage.spawn_settle(&stage.sign_payment(1, 700, 1));
    while !matches!(
        stage.record(&stage.sign_payment(1, 700, 1)).await.map(|record| reason_of(&record)),
        Some(Some(Reason::TransactionFailed))
    ) {
        stage.advance_clock(200).await;
    }
    let _end = wasted.await.unwrap();
    stage.world.state().fails_in_blocks = false;
    assert_eq!(
        reason(&stage.settle(&stage.sign_payment(1, 700, 2)).await),
        Some(Reason::TransactionFailed)
    );
    assert!(is_settled(&stage.settle(&stage.sign_payment(2, 700, 3)).await), "others are served");
    stage.advance_clock(60_000).await;
    assert!(is_settled(&stage.settle(&stage.sign_payment(1, 700, 4)).await));
}

/// Payments that failed in a batch are tried alone.
#[tokio::test(start_paused = true)]
async fn payments_that_failed_together_are_tried_alone() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    stage.world.state().fails_in_blocks = true;
    let settling: Vec<_> =
        (1..=6).map(|n| stage.spawn_settle(&stage.sign_payment(n, 100, u64::from(n)))).collect();
    stage.advance_clock(500).await;
    stage.world.mine();
    stage.world.state().fails_in_blocks = false;
    let sent_count = |stage: &Stage| {
        let state = stage.world.state();
        state.sent.iter().filter(|tx| tx.to == bursar_core::networks::MULTICALL3).count()
    };
    assert_eq!(sent_count(&stage), 1);
    stage.keep_mining();
    stage.advance_clock(40_000).await;
    assert_eq!((stage.shop_balance(), sent_count(&stage)), (600, 1));
    for settling in settling {
        let _end = settling.await.unwrap();
    }
}

/// Another sender settles the authorization first, and that sender's merchant may have delivered. If
/// `foreign_settlements` is `success`, the first request nevertheless gets the success, once.
#[tokio::test(start_paused = true)]
async fn a_payment_settled_by_another_sender_names_that_transaction() {
    for foreign_settlements in [ForeignSettlements::Duplicate, ForeignSettlements::Success] {
        let plan = StageConfig { wait_ms: 8_400, foreign_settlements, ..StageConfig::default() };
        let mut stage = Stage::with(plan).await;
        let pay = stage.sign_payment(1, 700, 1);
        let settling = stage.spawn_settle(&pay);
        stage.advance_clock(200).await;
        let hash = stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
        stage.keep_mining();
        let end = settling.await.unwrap();
        let named = (hash_of(&end), is_settled(&end));
        assert_eq!(named, (Some(hash), foreign_settlements == ForeignSettlements::Success));
        assert_eq!(stage.shop_balance(), 700);
        drop(end);
        // The facilitator watches the stranger's block until it is final, also after a restart.
        let mut stage = stage.restart(|_plan| {}).await;
        stage.keep_mining();
        stage.advance_clock(20_000).await;
        assert!(is_settled_elsewhere(&stage.record(&pay).await.unwrap().state, hash));
        let again = stage.settle_by(&pay, caller_origin(2)).await;
        assert_eq!((hash_of(&again), is_settled(&again)), named, "{again:?}");
    }
}

/// The payment arrives after another sender has settled it. A facilitator that lost its store cannot recognise its own
/// settlements either.
#[tokio::test(start_paused = true)]
async fn a_payment_that_this_book_did_not_settle_is_a_duplicate() {
    for is_lost in [false, true] {
        let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
        let pay = stage.sign_payment(1, 700, 1);
        let hash = if is_lost {
            stage.keep_mining();
            let hash = hash_of(&stage.settle(&pay).await).unwrap();
            stage.advance_clock(20_000).await;
            stage = stage.restart_without_store().await;
            hash
        } else {
            stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call())
        };
        let verified = stage.settlement.verify(&pay.request, &caller_origin(1).into()).await;
        let Err(VerifyError::Rejected(rejection)) = verified else { panic!("{verified:?}") };
        assert_eq!((rejection.reason, rejection.settled_in), (Reason::Duplicate, Some(hash)));
        assert!(rejection.message.contains("do not pay again"), "{}", rejection.message);
        for request in 1..=2 {
            let end = stage.settle_by(&pay, caller_origin(request)).await;
            assert_eq!((reason(&end), hash_of(&end)), (Some(Reason::Duplicate), Some(hash)));
        }
        assert_eq!(stage.shop_balance(), 700);
    }
}

/// Another sender settles the payment, but a reorganisation removes that block. No success was returned, so only a new
/// request makes the payment.
#[tokio::test(start_paused = true)]
async fn a_reorganised_settlement_of_another_sender_is_not_made_unasked() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let settling = stage.spawn_settle(&pay);
    stage.advance_clock(200).await;
    stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
    // Our transaction fails in the next block, and is final two blocks later.
    stage.world.mine();
    stage.advance_clock(3_000).await;
    stage.world.mine_many(2);
    let end = settling.await.unwrap();
    assert_eq!(reason(&end), Some(Reason::Duplicate), "{end:?}");
    stage.world.remove_foreign();
    stage.keep_mining();
    stage.advance_clock(40_000).await;
    assert_eq!(stage.metrics.reorganised_count(network()), 1);
    assert_eq!((stage.shop_balance(), stage.settlement.ledger.open_count()), (0, 0));
    assert!(is_settled(&stage.settle(&pay).await));
    assert_eq!(stage.shop_balance(), 700);
}

/// A waiting copy receives the refusal of the request that it waited for, and causes no second transaction.
#[tokio::test(start_paused = true)]
async fn a_waiting_copy_receives_the_refusal_of_a_failed_payment() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_000, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let first = stage.spawn_settle(&pay);
    stage.advance_clock(100).await;
    let copy = stage.spawn_settle(&pay);
    stage.advance_clock(100).await;
    stage.world.give(pay.terms.payer, 5);
    stage.world.mine();
    stage.world.give(pay.terms.payer, 5);
    stage.advance_clock(100).await;
    stage.keep_mining();
    let ends = [first.await.unwrap(), copy.await.unwrap()];
    let reasons = ends.each_ref().map(reason);
    assert_eq!(reasons, [Some(Reason::InsufficientBalance); 2], "{ends:?}");
    assert_eq!(stage.world.state().sent.len(), 1);
}

/// The payment was settled before it arrived here, and a reorganisation then removes that block.
#[tokio::test(start_paused = true)]
async fn a_found_settlement_that_is_undone_is_counted_and_settled_again() {
    for restart in [false, true] {
        let foreign_settlements = ForeignSettlements::Success;
        let plan = StageConfig { wait_ms: 8_400, foreign_settlements, ..StageConfig::default() };
        let mut stage = Stage::with(plan).await;
        let pay = stage.sign_payment(1, 700, 1);
        let hash = stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
        let end = stage.settle(&pay).await;
        let Ok(SettleOutcome::Settled { hash: settled_hash, right, .. }) = end else {
            panic!("{end:?}")
        };
        assert_eq!(settled_hash, Some(hash));
        assert_eq!(stage.record(&pay).await.unwrap().gas, 0, "we pay nothing for it");
        stage
            .ledger
            .mark_answered(pay.key, caller_origin(1), bursar_core::time::Utc(1))
            .await
            .unwrap();
        drop(right);
        if restart {
            stage = stage.restart(|_plan| {}).await;
        }
        stage.world.reorganise(1, false);
        assert_eq!(stage.shop_balance(), 0);
        stage.keep_mining();
        stage.advance_clock(40_000).await;
        assert_eq!(stage.metrics.reorganised_count(network()), 1, "restart: {restart}");
        assert_eq!(stage.shop_balance(), 700);
        let record = stage.record(&pay).await.unwrap();
        assert!(matches!(record.state, State::Settled { hash: ours, .. } if ours != hash));
        assert!(record.gas > 0, "now its gas counts");
        assert_eq!(stage.settlement.ledger.open_count(), 0);
    }
}

/// A success was returned, then its block is reorganised away. The payment is settled again, and no copy gets a
/// success.
#[tokio::test(start_paused = true)]
async fn a_reorganisation_after_the_answer_is_counted_and_settled_again() {
    let (log, _guard) = Log::record();
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let settling = stage.spawn_settle(&pay);
    stage.advance_clock(200).await;
    stage.world.mine();
    let end = settling.await.unwrap();
    let Ok(SettleOutcome::Settled { right: Some(right), .. }) = end else { panic!("{end:?}") };
    stage.ledger.mark_answered(pay.key, caller_origin(1), bursar_core::time::Utc(1)).await.unwrap();
    drop(right);
    // The settling transaction is gone, and another transaction with the same key has used its nonce.
    stage.world.reorganise(1, false);
    stage.world.use_nonce(signer(1));
    stage.world.state().broadcast_reactions =
        vec![BroadcastReaction::Refuse("nonce too low"); 3].into();
    stage.keep_mining();
    stage.advance_clock(70_000).await;
    let copy = stage.settle_by(&pay, caller_origin(2)).await;
    assert_eq!(reason(&copy), Some(Reason::Duplicate), "{copy:?}");
    stage.advance_clock(100_000).await;
    assert_eq!(stage.metrics.reorganised_count(network()), 1);
    let undone = log.lines(&["ERROR", "a reorganisation undid a settled payment"]);
    assert_eq!(undone.len(), 1, "{log:?}");
    assert_eq!(stage.settlement.ledger.open_count(), 0);
}

/// The transactions of a removed block are mined again in another block. This is counted, and nothing is sent again.
#[tokio::test(start_paused = true)]
async fn a_block_that_comes_back_is_counted_and_changes_nothing() {
    let (log, _guard) = Log::record();
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let settling = stage.spawn_settle(&pay);
    stage.advance_clock(200).await;
    stage.world.mine();
    assert!(is_settled(&settling.await.unwrap()));
    stage.world.reorganise(1, true);
    stage.keep_mining();
    stage.advance_clock(30_000).await;
    assert_eq!(stage.shop_balance(), 700);
    assert_eq!(stage.metrics.reorganised_count(network()), 1);
    let moved = log.lines(&["WARN", "a reorganisation removed the block of settled payments"]);
    assert_eq!(moved.len(), 1, "{log:?}");
    assert_eq!(stage.world.state().sent.iter().filter(|tx| tx.is_noop()).count(), 0);
}

/// The receipt of a final transaction cannot be read for a while.
#[tokio::test(start_paused = true)]
async fn a_receipt_that_cannot_be_read_is_asked_for_again() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let settling = stage.spawn_settle(&pay);
    stage.advance_clock(200).await;
    stage.world.mine();
    stage.world.state().hidden_receipts = 3;
    let end = settling.await.unwrap();
    assert!(is_settled(&end), "{end:?}");
    stage.keep_mining();
    stage.advance_clock(20_000).await;
    assert_eq!(stage.metrics.reorganised_count(network()), 0);
    assert_eq!(stage.settlement.ledger.open_count(), 0);
}

/// For two minutes a node returns a transaction's events but not its receipt. The payment does not end before the
/// receipt is read, and its gas counts with the highest possible cost.
#[tokio::test(start_paused = true)]
async fn a_receipt_that_is_hidden_for_long_ends_no_payment() {
    let mut stage = Stage::with(StageConfig { wait_ms: 3_000, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    stage.world.state().hides_receipts = true;
    stage.keep_mining();
    let end = stage.settle(&pay).await;
    assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
    stage.advance_clock(120_000).await;
    assert_eq!(stage.shop_balance(), 700);
    let record = stage.record(&pay).await.unwrap();
    assert!(reason_of(&record).is_none(), "{:?}", record.state);
    stage.world.state().hides_receipts = false;
    stage.advance_clock(20_000).await;
    assert!(is_settled(&stage.settle(&pay).await));
    let usage = stage.usage(1);
    let cost = crate::stage::COIN - stage.world.state().coin_balances[&signer(1)];
    assert!(usage.spent_caller > cost, "{} of {cost}", usage.spent_caller);
    assert_eq!((stage.settlement.ledger.open_count(), usage.total_reserved.gas), (0, 0));
}

/// Another transaction of the same key used the nonce. Only the chain or the expiry then ends the payment, and nothing
/// else is sent meanwhile.
#[tokio::test(start_paused = true)]
async fn a_displaced_transaction_is_pending_until_its_payment_expires() {
    for brought in [false, true] {
        let mut stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
        let pay = stage.sign_payment_valid_for(1, 700, 1, 240);
        let end = stage.settle(&pay).await;
        assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
        stage.world.use_nonce(signer(1));
        stage.keep_mining();
        stage.advance_clock(120_000).await;
        let record = stage.record(&pay).await.unwrap();
        assert!(record.state.is_open(), "{:?}", record.state);
        if brought {
            let hash =
                stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
            stage.advance_clock(20_000).await;
            assert!(is_settled_elsewhere(&stage.record(&pay).await.unwrap().state, hash));
        } else {
            stage.advance_clock(100_000).await;
            assert!(stage.record(&pay).await.unwrap().state.is_open());
            stage.advance_clock(40_000).await;
            let record = stage.record(&pay).await.unwrap();
            assert_eq!(reason_of(&record), Some(Reason::Expired));
        }
        assert_eq!(stage.settlement.ledger.open_count(), 0);
        let calls = stage.world.state().sent.clone();
        assert!(calls.iter().all(|tx| tx.hash == calls[0].hash), "nothing else was sent");
    }
}

/// A payment with a distant expiry, whose transaction was displaced, returns to the queue after a day.
#[tokio::test(start_paused = true)]
async fn a_displaced_payment_that_never_expires_is_sent_again_after_a_day() {
    let stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
    let pay = stage.sign_payment_valid_for(1, 700, 1, 4_000_000_000);
    let end = stage.settle(&pay).await;
    assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
    stage.world.use_nonce(signer(1));
    stage.world.mine_many(5);
    let mine = async |stage: &Stage, minutes: u64| {
        for _minute in 0..minutes {
            stage.advance_clock(60_000).await;
            stage.world.mine();
        }
    };
    mine(&stage, 23 * 60).await;
    assert!(stage.record(&pay).await.unwrap().state.is_open());
    assert_eq!(stage.shop_balance(), 0);
    mine(&stage, 70).await;
    assert_eq!(stage.shop_balance(), 700);
    assert_eq!(stage.settlement.ledger.open_count(), 0);
}

/// No caller waits, and no node accepts the transaction. After twenty seconds it is abandoned, and a no-op uses its
/// nonce.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_every_node_refuses_is_abandoned() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    stage.world.state().broadcast_reactions =
        vec![BroadcastReaction::Refuse("intrinsic gas too low"); 100].into();
    let settling = stage.spawn_settle(&pay);
    stage.advance_clock(300).await;
    settling.abort();
    stage.keep_mining();
    stage.advance_clock(15_000).await;
    let nothing = |stage: &Stage| stage.world.state().sent.iter().any(|tx| tx.is_noop());
    assert!(!nothing(&stage), "it has some time");
    stage.advance_clock(15_000).await;
    assert!(nothing(&stage), "it was given up");
    stage.world.state().broadcast_reactions.clear();
    stage.advance_clock(60_000).await;
    assert_eq!(stage.settlement.ledger.open_count(), 0);
    assert!(is_settled(&stage.settle(&stage.sign_payment(2, 300, 2)).await));
}

/// Gas rises over the ceiling between the acceptance and the first attempt.
#[tokio::test(start_paused = true)]
async fn a_payment_whose_gas_exceeds_the_ceiling_ends_unsigned() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    // The payment is affordable at the cached gas price.
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&stage.sign_payment(2, 100, 9)).await));
    stage.advance_clock(20_000).await;
    let _fresh = stage.settler.look_up_price().await.unwrap();
    let sent = stage.world.state().sent.len();
    stage.world.state().base_fee = 100 * GWEI;
    let pay = stage.sign_payment(1, 700, 1);
    let end = stage.settle(&pay).await;
    assert_eq!(reason(&end), Some(Reason::GasTooHigh), "{end:?}");
    assert_eq!(stage.world.state().sent.len(), sent);
    assert_eq!(stage.settlement.ledger.open_count(), 0);
}

/// The last broadcast of a transaction is two seconds before its first payment expires.
#[tokio::test(start_paused = true)]
async fn a_transaction_is_not_broadcast_when_its_first_payment_is_about_to_expire() {
    for (honest_ms, moves) in [(4_900, true), (8_050, false)] {
        let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
        // No node accepts it, and its caller has disconnected.
        stage.world.state().broadcast_reactions =
            vec![BroadcastReaction::Refuse("busy"); 1_000].into();
        let pay = stage.sign_payment_valid_for(1, 700, 1, 10);
        let settling = stage.spawn_settle(&pay);
        stage.advance_clock(200).await;
        settling.abort();
        stage.advance_clock(honest_ms - 200).await;
        let before = stage.world.state().sent.len();
        assert!(before > 0);
        stage.world.state().broadcast_reactions.clear();
        stage.advance_clock(1_500).await;
        stage.world.mine();
        stage.keep_mining();
        stage.advance_clock(60_000).await;
        let calls = {
            let state = stage.world.state();
            state.sent[before..].iter().filter(|tx| !tx.is_noop()).count()
        };
        assert_eq!((stage.shop_balance(), calls > 0), if moves { (700, true) } else { (0, false) });
        let record = stage.record(&pay).await.unwrap();
        assert_eq!(reason_of(&record), (!moves).then_some(Reason::Expired));
        assert_eq!(stage.settlement.ledger.open_count(), 0);
    }
}

/// One of several nodes lags behind, which is not a reorganisation.
#[tokio::test(start_paused = true)]
async fn a_settlement_denied_by_a_lagging_node_is_not_a_reorganisation() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    let pay = stage.sign_payment(1, 700, 1);
    let hash = stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
    assert_eq!(hash_of(&stage.settle(&pay).await), Some(hash));
    stage.world.state().hidden_receipts = 3;
    stage.keep_mining();
    stage.advance_clock(20_000).await;
    assert_eq!(stage.world.state().hidden_receipts, 0, "it was asked for");
    assert_eq!(stage.metrics.reorganised_count(network()), 0);
    assert!(is_settled_elsewhere(&stage.record(&pay).await.unwrap().state, hash));
    // After four denials in a row, the facilitator assumes a reorganisation.
    stage.stop_mining();
    let pay = stage.sign_payment(2, 300, 2);
    let hash = stage.world.mine_foreign_settlement(network().stablecoin.address, pay.call());
    assert_eq!(hash_of(&stage.settle(&pay).await), Some(hash));
    stage.world.state().hidden_receipts = 4;
    stage.keep_mining();
    stage.advance_clock(20_000).await;
    assert_eq!(stage.metrics.reorganised_count(network()), 1);
}

/// The signer of a transaction in flight is removed from the settings.
#[tokio::test(start_paused = true)]
async fn payments_of_a_removed_signer_end_by_the_chain_or_by_their_expiry() {
    for mined in [false, true] {
        let plan = StageConfig { wait_ms: 500, signers: 2, ..StageConfig::default() };
        let stage = Stage::with(plan).await;
        let pays = [stage.sign_payment(1, 700, 1), stage.sign_payment(2, 700, 2)];
        for pay in &pays {
            let end = stage.settle(pay).await;
            assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
        }
        let senders: Vec<_> = stage.world.pool().iter().map(|tx| tx.from).collect();
        assert!(senders.contains(&signer(1)) && senders.contains(&signer(2)));
        let mut stage = stage.restart(|plan| plan.signers = 1).await;
        if !mined {
            // The removed signer's transaction is dropped, too.
            stage.world.drop_from_pool(signer(2));
        }
        stage.keep_mining();
        stage.advance_clock(60_000).await;
        assert_eq!(stage.shop_balance(), if mined { 1_400 } else { 700 });
        assert_eq!(stage.settlement.ledger.open_count(), usize::from(!mined));
        stage.advance_clock(300_000).await;
        assert_eq!(stage.settlement.ledger.open_count(), 0, "it never waits for ever");
    }
}

/// Work in flight when the process ends resumes at the next start, and is sent once.
#[tokio::test(start_paused = true)]
async fn a_restart_resumes_payments_in_flight() {
    for node in [Node::Answers, Node::Down] {
        let stage = Stage::with(StageConfig { wait_ms: 8_000, ..StageConfig::default() }).await;
        let pays = [stage.sign_payment(1, 700, 1), stage.sign_payment(2, 300, 2)];
        for pay in &pays {
            let settling = stage.spawn_settle(pay);
            stage.advance_clock(60).await;
            settling.abort();
        }
        stage.world.state().node = node;
        let mut stage = stage.restart(|_plan| {}).await;
        stage.advance_clock(3_000).await;
        stage.world.state().node = Node::Answers;
        stage.keep_mining();
        stage.advance_clock(60_000).await;
        assert_eq!(stage.shop_balance(), 1_000, "{node:?}");
        assert_eq!(stage.settlement.ledger.open_count(), 0);
        for pay in &pays {
            assert!(is_settled(&stage.settle(pay).await), "its caller has not been answered yet");
        }
    }
}
