//! Another program sends transactions with the key of one of our signers.

use bursar_chain::ports::Chain;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::SettleOutcome;

use crate::log::Log;
use crate::stage::{Stage, StageConfig, caller_origin, keyed_origin, signer};
use crate::withdrawals::{is_settled, reason};
use crate::world::World;

fn foreign_nonce_count(stage: &Stage, n: u8) -> u64 {
    let labels = format!("{{network=\"eip155:8453\",signer=\"{}\"}}", signer(n));
    let text = stage.metrics.text();
    let line = text.lines().find_map(|line| {
        line.strip_prefix("facilitator_foreign_nonces_total")?.strip_prefix(&labels)
    });
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// A foreign transaction displaces one of ours. It is reported, and its signer pauses for ten minutes. Other signers
/// continue.
#[tokio::test(start_paused = true)]
async fn a_signer_whose_nonce_was_taken_rests_and_the_others_go_on() {
    for signers in [1, 2] {
        let plan = StageConfig { wait_ms: 500, signers, ..StageConfig::default() };
        let mut stage = Stage::with(plan).await;
        let pay = stage.sign_payment_valid_for(1, 700, 1, 120);
        let end = stage.settle(&pay).await;
        assert!(matches!(end, Ok(SettleOutcome::Pending { .. })), "{end:?}");
        stage.world.use_nonce(signer(1));
        stage.keep_mining();
        stage.advance_clock(10_000).await;
        assert_eq!(foreign_nonce_count(&stage, 1), 1);
        let logged_ms = stage.clock_ms();
        let next = stage.sign_payment_valid_for(2, 300, 2, 3_600);
        let end = stage.settle_by(&next, keyed_origin(7)).await;
        if signers == 1 {
            assert_eq!(reason(&end), Some(Reason::OutOfGas), "{end:?}");
            assert!(stage.record(&next).await.is_none(), "nothing is stored");
            let verified = stage.settlement.verify(&next.request, &caller_origin(1).into()).await;
            assert!(verified.is_err(), "{verified:?}");
        }
        stage.advance_clock(10_000).await;
        let others = stage.world.state().sent.iter().filter(|tx| tx.from == signer(2)).count();
        assert_eq!(others, usize::from(signers == 2));
        // The displacement becomes final later, and is not reported a second time.
        stage.advance_clock(120_000).await;
        assert_eq!(foreign_nonce_count(&stage, 1), 1);
        stage.advance_clock(logged_ms + 10 * 60_000 - stage.clock_ms()).await;
        let again = stage.sign_payment(3, 100, 3);
        let mut end = stage.settle(&again).await;
        while matches!(end, Ok(SettleOutcome::Pending { .. })) {
            end = stage.settle(&again).await;
        }
        assert!(is_settled(&end), "one foreign transaction does not stop it for ever: {end:?}");
    }
}

/// The log names the other program's transaction, so that the operator can find that program.
#[tokio::test(start_paused = true)]
async fn a_taken_nonce_is_an_error_with_both_hashes() {
    let (log, _guard) = Log::record();
    let mut stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
    let _pending = stage.settle(&stage.sign_payment_valid_for(1, 700, 1, 120)).await;
    stage.world.use_nonce(signer(1));
    let block = stage.world.block_number().await.unwrap();
    stage.keep_mining();
    stage.advance_clock(10_000).await;
    let foreign = format!("foreign={}", World::foreign_hash(signer(1), block));
    let errors = log.lines(&["ERROR", "another program uses this signer's key", &foreign]);
    let [error] = &errors[..] else { panic!("{log:?}") };
    let sent = stage.world.state().sent.clone();
    assert!(sent.iter().any(|tx| error.contains(&format!("ours={}", tx.hash))), "{error}");
}

/// No node shows the other program's transaction, so it is reported once ours is permanently displaced.
#[tokio::test(start_paused = true)]
async fn a_taken_nonce_is_reported_also_if_its_transaction_is_not_shown() {
    let (log, _guard) = Log::record();
    let mut stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
    stage.world.state().hides_senders = true;
    let _pending = stage.settle(&stage.sign_payment_valid_for(1, 700, 1, 120)).await;
    stage.world.use_nonce(signer(1));
    stage.keep_mining();
    stage.advance_clock(120_000).await;
    assert_eq!(foreign_nonce_count(&stage, 1), 1);
    assert_eq!(log.lines(&["ERROR", "foreign=unknown"]).len(), 1, "{log:?}");
}

/// One node counts the nonce before another node has the receipt.
#[tokio::test(start_paused = true)]
async fn a_transaction_of_ours_whose_receipt_is_late_is_not_reported() {
    let mut stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
    stage.world.state().hidden_receipts = 40;
    let _pending = stage.settle(&stage.sign_payment(1, 700, 1)).await;
    stage.keep_mining();
    stage.advance_clock(120_000).await;
    assert_eq!((foreign_nonce_count(&stage, 1), stage.shop_balance()), (0, 700));
}

/// The other program's transaction displaces none of ours, but its nonce is between the nonces of two of ours. Before
/// the first transaction of a store nothing is reported, because the account may be older.
#[tokio::test(start_paused = true)]
async fn a_foreign_transaction_between_two_of_ours_is_reported() {
    for foreign in [false, true] {
        let mut stage = Stage::with(StageConfig { wait_ms: 8_400, ..StageConfig::default() }).await;
        stage.world.use_nonce(signer(1));
        stage.keep_mining();
        assert!(is_settled(&stage.settle(&stage.sign_payment(1, 700, 1)).await));
        stage.advance_clock(20_000).await;
        assert_eq!(foreign_nonce_count(&stage, 1), 0);
        if foreign {
            stage.world.use_nonce(signer(1));
        }
        let end = stage.settle(&stage.sign_payment(2, 700, 2)).await;
        assert!(is_settled(&end), "{end:?}");
        stage.advance_clock(5_000).await;
        assert_eq!(foreign_nonce_count(&stage, 1), u64::from(foreign));
        let end = stage.settle(&stage.sign_payment(3, 700, 3)).await;
        assert_eq!(reason(&end), foreign.then_some(Reason::OutOfGas), "{end:?}");
        // Each foreign transaction is counted once, however much time passes.
        stage.advance_clock(60_000).await;
        assert_eq!(foreign_nonce_count(&stage, 1), u64::from(foreign));
    }
}

/// Withdrawn payments, replaced transactions and restarts cause only transactions of our own, so nothing is reported.
#[tokio::test(start_paused = true)]
async fn transactions_of_our_own_are_never_reported() {
    let stage = Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await;
    stage.world.state().broadcast_reactions =
        vec![crate::world::BroadcastReaction::Refuse("intrinsic gas too low"); 8].into();
    assert_eq!(
        reason(&stage.settle(&stage.sign_payment(1, 700, 1)).await),
        Some(Reason::Withdrawn)
    );
    stage.world.state().broadcast_reactions.clear();
    let _pending = stage.settle(&stage.sign_payment(2, 700, 2)).await;
    let mut stage = stage.restart(|_plan| {}).await;
    stage.keep_mining();
    stage.advance_clock(30_000).await;
    for n in 3..6 {
        let _end = stage.settle(&stage.sign_payment(n, 700, u64::from(n))).await;
        stage.advance_clock(10_000).await;
    }
    assert_eq!((foreign_nonce_count(&stage, 1), stage.shop_balance()), (0, 4 * 700));
}
