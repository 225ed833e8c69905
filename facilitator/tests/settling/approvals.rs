//! Approvals that payers signed: each is broadcast until it is mined, and given up if it cannot be mined.

use bursar_facilitator::book::record::State;
use bursar_facilitator::reason::Reason;

use crate::stage::{Stage, StageConfig, payer, signer};
use crate::withdrawals::{is_settled, reason};
use crate::world::BroadcastReaction;

/// The time that a job waits for its approval, in milliseconds.
const MINUTE_MS: u64 = 60_000;

#[tokio::test(start_paused = true)]
async fn a_payment_is_sent_once_its_approval_is_mined() {
    let mut stage = Stage::with(StageConfig { wait_ms: 8_000, ..StageConfig::default() }).await;
    stage.keep_mining();
    let end = stage.settle(&stage.sign_payment_with_approval(1, 700, 1)).await;
    assert!(is_settled(&end), "{end:?}");
    assert_eq!(stage.shop_balance(), 700);
    let senders: Vec<_> = stage.world.state().sent.iter().map(|tx| tx.from).collect();
    assert_eq!(senders, [payer(1), signer(1)], "each once, the approval first");
}

/// An approval that a node refuses is broadcast three times. If one of these broadcasts succeeds, the count begins
/// again.
#[tokio::test(start_paused = true)]
async fn an_approval_is_given_up_after_three_refusals_in_a_row() {
    let refuse =
        || BroadcastReaction::Refuse("max priority fee per gas higher than max fee per gas");
    let cases = [
        (vec![refuse(), refuse(), refuse()], false),
        (vec![refuse(), refuse()], true),
        (
            vec![refuse(), refuse(), BroadcastReaction::ConfirmWithoutTaking, refuse(), refuse()],
            true,
        ),
    ];
    for (sends, is_settled) in cases {
        let mut stage = Stage::with_defaults().await;
        let case = format!("{sends:?}");
        stage.world.state().broadcast_reactions.extend(sends);
        stage.keep_mining();
        let pay = stage.sign_payment_with_approval(1, 700, 1);
        let caller = stage.spawn_settle(&pay);
        // Aborts the request, because otherwise the payment would be withdrawn after ten seconds, when its answer is
        // due.
        stage.advance_clock(500).await;
        caller.abort();
        stage.advance_clock(20_000).await;
        let state = stage.record(&pay).await.unwrap().state;
        if is_settled {
            assert!(matches!(state, State::Settled { .. }), "{case}: {state:?}");
        } else {
            let reason = Reason::ApprovalBroadcast;
            assert!(
                matches!(&state, State::Failed { reason: why, .. } if *why == reason),
                "{state:?}"
            );
            assert_eq!(stage.world.state().sent.len(), 3, "{case}");
            assert_eq!(stage.usage(1).network_reserved.gas, 0, "its gas is no longer reserved");
        }
        assert_eq!(stage.shop_balance(), if is_settled { 700 } else { 0 }, "{case}");
    }
}

/// Nodes confirm the approval but do not keep it. The caller has left, so only the limit of one minute ends the
/// payment.
#[tokio::test(start_paused = true)]
async fn an_approval_that_is_never_mined_ends_its_payment_after_a_minute() {
    let mut stage = Stage::with_defaults().await;
    stage
        .world
        .state()
        .broadcast_reactions
        .extend(std::iter::repeat_n(BroadcastReaction::ConfirmWithoutTaking, 100));
    stage.keep_mining();
    let pay = stage.sign_payment_with_approval(1, 700, 1);
    let caller = stage.spawn_settle(&pay);
    stage.advance_clock(500).await;
    caller.abort();
    stage.advance_clock(MINUTE_MS - 2_000).await;
    assert_eq!(stage.record(&pay).await.unwrap().state, State::Queued);
    stage.advance_clock(4_000).await;
    let state = stage.record(&pay).await.unwrap().state;
    assert!(matches!(state, State::Failed { reason: Reason::Withdrawn, .. }), "{state:?}");
    let sent = stage.world.state().sent.clone();
    assert!(sent.iter().all(|tx| tx.from == payer(1)), "no signer has sent anything");
    let times = sent.len();
    assert!((25..=35).contains(&times), "every two seconds, not at each look: {times}");
    assert_eq!(stage.usage(1).network_reserved.gas, 0);
    // Another request may use the same approval.
    stage.world.state().broadcast_reactions.clear();
    let end = stage.settle(&pay).await;
    assert!(is_settled(&end), "{end:?}");
    assert_eq!(stage.shop_balance(), 700);
}

/// The payer uses the approval's nonce for another transaction.
#[tokio::test(start_paused = true)]
async fn an_approval_whose_nonce_is_used_otherwise_ends_its_payment() {
    let mut stage = Stage::with(StageConfig { wait_ms: 20_000, ..StageConfig::default() }).await;
    stage
        .world
        .state()
        .broadcast_reactions
        .extend(std::iter::repeat_n(BroadcastReaction::ConfirmWithoutTaking, 100));
    stage.keep_mining();
    let pay = stage.sign_payment_with_approval(1, 700, 1);
    let caller = stage.spawn_settle(&pay);
    stage.advance_clock(500).await;
    stage.world.use_nonce(payer(1));
    let end = caller.await.unwrap();
    assert_eq!(reason(&end), Some(Reason::ApprovalFailed), "{end:?}");
    assert_eq!(stage.shop_balance(), 0);
}
