//! A node returns incomplete or wrong receipts. A payment that our own transaction made is never refused because of
//! them.

use bursar_facilitator::book::State;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::verify::VerifyError;

use crate::stage::{SignedPayment, Stage, StageConfig, caller_origin, keyed_origin, signer};
use crate::withdrawals::{is_settled, is_uncertain, reason, reason_of};
use crate::world::{BroadcastReaction, Flaw, PastBlocks, Tx};

const FLAWS: [Flaw; 2] = [Flaw::NoEvents, Flaw::Reverted];

async fn stage_with(flaw: Flaw) -> Stage {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    stage.world.state().flaw = Some(flaw);
    stage.keep_mining();
    stage
}

/// Repeats the settlement until its answer is final.
async fn settle_until_final(
    stage: &Stage,
    pay: &SignedPayment,
) -> Result<SettleOutcome, SettleError> {
    loop {
        match stage.settle_by(pay, keyed_origin(7)).await {
            Ok(SettleOutcome::Pending { .. }) => {}
            end => return end,
        }
    }
}

/// The outcome stays unknown even if the payment expires meanwhile or a pending answer was returned.
#[tokio::test(start_paused = true)]
async fn a_payment_that_a_bad_node_hides_is_unknown_until_a_node_shows_it() {
    for (flaw, seconds) in FLAWS.into_iter().flat_map(|flaw| [(flaw, 300), (flaw, 8)]) {
        let stage = stage_with(flaw).await;
        let pay = stage.sign_payment_valid_for(1, 700, 1, seconds);
        for _repeat in 0..3 {
            let end = settle_until_final(&stage, &pay).await;
            assert!(matches!(end, Err(SettleError::Unavailable(_))), "{flaw:?}: {end:?}");
            stage.advance_clock(5_000).await;
        }
        for other in [caller_origin(1), caller_origin(2)] {
            let end = stage.settle_by(&pay, other).await;
            assert!(!is_settled(&end), "{flaw:?}: {end:?}");
        }
        if seconds > 60 {
            let verified = stage.settlement.verify(&pay.request, &keyed_origin(7).into()).await;
            assert!(matches!(verified, Err(VerifyError::Chain(_))), "{flaw:?}: {verified:?}");
        }
        assert_eq!(stage.shop_balance(), 700, "{flaw:?}");
        stage.world.state().flaw = None;
        let end = stage.settle_by(&pay, keyed_origin(7)).await;
        assert!(is_settled(&end), "{flaw:?}, {seconds} s: {end:?}");
        let record = stage.record(&pay).await.unwrap();
        assert!(matches!(record.state, State::Settled { .. }), "{:?}", record.state);
        assert_eq!((stage.shop_balance(), stage.settlement.ledger.open_count()), (700, 0));
    }
}

/// Another node has the right receipt.
#[tokio::test(start_paused = true)]
async fn a_second_node_proves_what_the_first_one_hides() {
    for flaw in FLAWS {
        let stage = stage_with(flaw).await;
        stage.world.state().has_honest_node = true;
        let pay = stage.sign_payment(1, 700, 1);
        let end = settle_until_final(&stage, &pay).await;
        assert!(is_settled(&end), "{flaw:?}: {end:?}");
        assert_eq!(stage.world.state().sent.len(), 1, "{flaw:?}: broadcast once");
    }
}

/// The outcome becomes unknown while the request waits for it.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_a_hidden_payment_gets_no_refusal() {
    for flaw in FLAWS {
        let mut stage =
            Stage::with(StageConfig { wait_ms: 60_000, ..StageConfig::default() }).await;
        stage.world.state().flaw = Some(flaw);
        stage.keep_mining();
        let end = stage.settle(&stage.sign_payment(1, 700, 1)).await;
        assert!(is_uncertain(&end), "{flaw:?}: {end:?}");
        assert_eq!(stage.shop_balance(), 700, "{flaw:?}");
    }
}

/// A node that did not answer the broadcast has the transaction. Afterwards its receipts hide the effect of that
/// transaction.
#[tokio::test(start_paused = true)]
async fn an_uncertain_withdrawal_of_a_hidden_payment_is_not_final() {
    for flaw in FLAWS {
        let mut stage = Stage::with(StageConfig { wait_ms: 400, ..StageConfig::default() }).await;
        stage.world.state().broadcast_reactions = vec![BroadcastReaction::Refuse("busy"); 3].into();
        stage.world.state().other_node_silent = true;
        let pay = stage.sign_payment(1, 700, 1);
        let end = stage.settle_by(&pay, keyed_origin(7)).await;
        assert!(is_uncertain(&end), "{flaw:?}: {end:?}");
        stage.world.drop_from_pool(signer(1));
        let hash = stage.world.state().sent[0].hash;
        stage.world.put_in_pool(hash);
        stage.world.state().flaw = Some(flaw);
        stage.world.mine();
        assert_eq!(stage.shop_balance(), 700, "{flaw:?}");
        stage.keep_mining();
        stage.advance_clock(60_000).await;
        let record = stage.record(&pay).await.unwrap();
        assert_eq!(reason_of(&record), Some(Reason::UnexpectedSettle), "{flaw:?}");
        stage.world.state().flaw = None;
        let end = stage.settle_by(&pay, keyed_origin(7)).await;
        assert!(is_settled(&end), "{flaw:?}: {end:?}");
        assert_eq!(stage.shop_balance(), 700, "{flaw:?}");
    }
}

/// Waits until a payment gets `settlement_pending`, then uses the nonce of its transaction.
async fn use_nonce_of_pending(stage: &Stage, pay: &SignedPayment) -> Tx {
    let end = stage.settle_by(pay, keyed_origin(7)).await;
    assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
    stage.world.use_nonce(signer(1));
    stage.world.state().sent[0].clone()
}

/// Another program took our nonce, and a stranger sent the payment. The outcome stays unknown even if the payment
/// expires.
#[tokio::test(start_paused = true)]
async fn a_payment_that_a_stranger_made_is_unknown_while_a_bad_node_hides_it() {
    for (flaw, seconds) in FLAWS.into_iter().flat_map(|flaw| [(flaw, 300), (flaw, 20)]) {
        let mut stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
        let pay = stage.sign_payment_valid_for(1, 700, 1, seconds);
        let sent = use_nonce_of_pending(&stage, &pay).await;
        stage.world.mine_foreign_settlement(sent.to, sent.input);
        stage.world.state().flaw = Some(flaw);
        stage.keep_mining();
        stage.advance_clock(150_000).await;
        let record = stage.record(&pay).await.unwrap();
        assert_eq!(reason_of(&record), Some(Reason::UnexpectedSettle), "{flaw:?}, {seconds} s");
        let end = settle_until_final(&stage, &pay).await;
        assert!(is_uncertain(&end), "{flaw:?}, {seconds} s: {end:?}");
        stage.world.state().flaw = None;
        let end = stage.settle_by(&pay, keyed_origin(7)).await;
        assert_eq!(reason(&end), Some(Reason::Duplicate), "{flaw:?}, {seconds} s: {end:?}");
        assert_eq!(stage.shop_balance(), 700, "{flaw:?}");
    }
}

/// The node first showed a stranger's transaction, and hides its effect before it is final.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_a_bad_node_hides_later_is_unknown() {
    for flaw in FLAWS {
        let mut stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
        let pay = stage.sign_payment(1, 700, 1);
        let sent = use_nonce_of_pending(&stage, &pay).await;
        stage.keep_mining();
        stage.advance_clock(120_000).await;
        stage.stop_mining();
        stage.world.mine_foreign_settlement(sent.to, sent.input);
        stage.advance_clock(10_000).await;
        let record = stage.record(&pay).await.unwrap();
        assert!(matches!(record.state, State::SettledElsewhere { .. }), "{:?}", record.state);
        stage.world.state().flaw = Some(flaw);
        stage.keep_mining();
        stage.advance_clock(60_000).await;
        let end = settle_until_final(&stage, &pay).await;
        assert!(is_uncertain(&end), "{flaw:?}: {end:?}");
    }
}

/// A pruned node refuses to return the transaction count at the past block from which we read finality.
#[tokio::test(start_paused = true)]
async fn transactions_end_with_a_node_that_keeps_no_past_state() {
    let mut stage = Stage::with_defaults().await;
    stage.world.state().past = PastBlocks::NewestOnly;
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&stage.sign_payment(1, 700, 1)).await));
    stage.advance_clock(10_000).await;
    assert!(stage.outbox.outbox().open.is_empty(), "{:?}", stage.outbox.outbox());
    assert!(!stage.outbox.is_finality_unknown());
}

/// If no node reports which transactions are final, no transaction ends, and the signer accepts no more transactions
/// than it may have in flight. This is reported, and the node is not asked for the same receipts again and again.
#[tokio::test(start_paused = true)]
async fn transactions_whose_finality_no_node_reports_are_shown_and_rarely_looked_up() {
    let mut stage = Stage::with_defaults().await;
    stage.world.state().past = PastBlocks::Refused;
    stage.keep_mining();
    for nonce in 1..=16 {
        let end = stage.settle(&stage.sign_payment(1, 700, nonce)).await;
        assert!(is_settled(&end), "{nonce}: {end:?}");
    }
    stage.advance_clock(30_000).await;
    assert_eq!(stage.outbox.outbox().open.len(), 16);
    assert!(stage.outbox.is_finality_unknown() && stage.outbox.is_stuck());
    let end = stage.settle(&stage.sign_payment(1, 700, 17)).await;
    assert!(!is_settled(&end), "{end:?}");
    let before = stage.world.state().receipt_requests;
    stage.advance_clock(300_000).await;
    let asked = stage.world.state().receipt_requests - before;
    assert!(asked <= 16 * 11, "{asked} receipts in five minutes");
    stage.world.state().past = PastBlocks::NewestOnly;
    stage.advance_clock(60_000).await;
    assert!(stage.outbox.outbox().open.is_empty(), "{:?}", stage.outbox.outbox());
    assert!(!stage.outbox.is_finality_unknown() && !stage.outbox.is_stuck());
    assert!(is_settled(&stage.settle(&stage.sign_payment(1, 700, 18)).await));
}

/// Only lookups of deep transactions pause, so a reorganisation of a recent one is still noticed.
#[tokio::test(start_paused = true)]
async fn a_reorganization_is_noticed_while_no_node_reports_what_is_final() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
    stage.world.state().past = PastBlocks::Refused;
    stage.keep_mining();
    assert!(is_settled(&stage.settle(&stage.sign_payment(1, 700, 1)).await));
    stage.advance_clock(40_000).await;
    stage.stop_mining();
    let settling = stage.spawn_settle(&stage.sign_payment(1, 300, 2));
    stage.advance_clock(200).await;
    stage.world.mine();
    assert!(is_settled(&settling.await.unwrap()));
    stage.world.reorganise(1, false);
    assert_eq!(stage.shop_balance(), 700);
    stage.keep_mining();
    stage.advance_clock(10_000).await;
    assert_eq!(stage.shop_balance(), 1_000, "sent again");
}
