//! Which requester owns a pending answer and the success after it. Merchants may deliver on either answer.

use bursar_facilitator::book::RequestOrigin;
use bursar_facilitator::reason::Reason;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::verify::VerifyError;

use crate::stage::{SignedPayment, Stage, StageConfig, caller_origin, keyed_origin};
use crate::withdrawals::{is_settled, reason};
use crate::world::BroadcastReaction;

type SettleResult = Result<SettleOutcome, SettleError>;

fn is_pending(end: &SettleResult) -> bool {
    matches!(end, Ok(SettleOutcome::Pending { .. }))
}

fn is_duplicate(end: &SettleResult) -> bool {
    reason(end) == Some(Reason::Duplicate)
}

async fn is_refused(stage: &Stage, pay: &SignedPayment, origin: RequestOrigin) -> bool {
    let verified = stage.settlement.verify(&pay.request, &origin.into()).await;
    matches!(verified, Err(VerifyError::Rejected(rejection)) if rejection.reason == Reason::Duplicate)
}

async fn pending_stage() -> Stage {
    Stage::with(StageConfig { wait_ms: 500, ..StageConfig::default() }).await
}

/// Requesters that are not the first one, whose key is 7.
fn other_requesters() -> [RequestOrigin; 4] {
    let elsewhere = RequestOrigin { caller: caller_origin(2).caller, ..keyed_origin(9) };
    [keyed_origin(8), caller_origin(1), caller_origin(2), elsewhere]
}

/// Two proxies of one payee: both may deliver on a pending answer, so only the first one gets it.
#[tokio::test(start_paused = true)]
async fn a_pending_answer_belongs_to_its_first_requester() {
    for restart in [false, true] {
        let mut stage = pending_stage().await;
        let pay = stage.sign_payment(1, 700, 1);
        assert!(is_pending(&stage.settle_by(&pay, keyed_origin(7)).await));
        if restart {
            stage = stage.restart(|_plan| {}).await;
        }
        for other in other_requesters() {
            let begun = stage.clock_ms();
            assert!(is_duplicate(&stage.settle_by(&pay, other).await), "{other:?}");
            assert!(stage.clock_ms() - begun < 500, "nothing to wait for");
            assert!(is_refused(&stage, &pay, other).await, "{other:?}");
        }
        assert!(!is_refused(&stage, &pay, keyed_origin(7)).await);
        assert!(is_pending(&stage.settle_by(&pay, keyed_origin(7)).await), "it may ask again");
        stage.keep_mining();
        stage.advance_clock(10_000).await;
        for other in other_requesters() {
            assert!(is_duplicate(&stage.settle_by(&pay, other).await), "{other:?}");
            assert!(is_refused(&stage, &pay, other).await, "{other:?}");
        }
        assert!(is_settled(&stage.settle_by(&pay, keyed_origin(7)).await));
        assert_eq!(stage.shop_balance(), 700);
    }
}

/// Two requesters wait for the same payment: one of them gets the pending answer.
#[tokio::test(start_paused = true)]
async fn of_simultaneous_requesters_one_gets_the_pending_answer() {
    let mut stage = pending_stage().await;
    let pay = stage.sign_payment(1, 700, 1);
    let all: Vec<_> = (1..=16).map(|key| stage.spawn_settle_by(&pay, keyed_origin(key))).collect();
    let (mut pending, mut keys) = (0, Vec::new());
    for (key, one) in (1..=16).zip(all) {
        let end = one.await.unwrap();
        if is_pending(&end) {
            (pending, keys) = (pending + 1, vec![key]);
        } else {
            assert!(is_duplicate(&end), "{end:?}");
        }
    }
    assert_eq!(pending, 1);
    stage.keep_mining();
    stage.advance_clock(10_000).await;
    for key in 1..=16 {
        let end = stage.settle_by(&pay, keyed_origin(key)).await;
        assert_eq!(is_settled(&end), keys == [key], "{key}: {end:?}");
    }
}

/// The requester from which the payment was accepted has left, and the next one takes its place.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_cut_off_keeps_no_pending_answer() {
    let mut stage = pending_stage().await;
    let pay = stage.sign_payment(1, 700, 1);
    let gone = stage.spawn_settle_by(&pay, keyed_origin(7));
    stage.advance_clock(100).await;
    gone.abort();
    assert!(is_pending(&stage.settle_by(&pay, keyed_origin(8)).await));
    assert!(is_duplicate(&stage.settle_by(&pay, keyed_origin(7)).await));
    stage.keep_mining();
    stage.advance_clock(10_000).await;
    assert!(is_duplicate(&stage.settle_by(&pay, keyed_origin(7)).await));
    assert!(is_settled(&stage.settle_by(&pay, keyed_origin(8)).await));
}

/// All copies without a key from one address may learn that the payment is pending, and one of them gets the success.
#[tokio::test(start_paused = true)]
async fn of_sixteen_keyless_copies_of_one_caller_one_gets_the_success() {
    let mut stage = pending_stage().await;
    let pay = stage.sign_payment(1, 700, 1);
    let sixteen =
        |stage: &Stage| -> Vec<_> { (0..16).map(|_n| stage.spawn_settle(&pay)).collect() };
    let mut pending = 0;
    for one in sixteen(&stage) {
        let end = one.await.unwrap();
        assert!(is_pending(&end) || is_duplicate(&end), "{end:?}");
        pending += usize::from(is_pending(&end));
    }
    assert!(pending > 0);
    for other in [caller_origin(2), keyed_origin(7)] {
        assert!(is_duplicate(&stage.settle_by(&pay, other).await), "{other:?}");
    }
    let waiting = sixteen(&stage);
    stage.advance_clock(100).await;
    stage.world.mine();
    let mut successes = Vec::new();
    for one in waiting {
        match one.await.unwrap() {
            Ok(SettleOutcome::Settled { right: Some(right), .. }) => successes.push(right),
            end => assert!(is_duplicate(&end), "{end:?}"),
        }
    }
    assert_eq!(successes.len(), 1);
    stage.ledger.mark_answered(pay.key, caller_origin(1), bursar_core::time::Utc(1)).await.unwrap();
    drop(successes);
    stage.keep_mining();
    for _copy in 0..16 {
        assert!(is_duplicate(&stage.settle(&pay).await));
    }
    assert_eq!(stage.shop_balance(), 700);
}

/// A pending payment fails after all. Only its requester may settle it again.
#[tokio::test(start_paused = true)]
async fn a_pending_payment_that_failed_still_belongs_to_its_requester() {
    let mut stage = pending_stage().await;
    let pay = stage.sign_payment(1, 700, 1);
    assert!(is_pending(&stage.settle_by(&pay, keyed_origin(7)).await));
    stage.world.drop_from_pool(crate::stage::signer(1));
    stage.world.state().broadcast_reactions = vec![BroadcastReaction::Refuse("busy"); 100].into();
    let end = stage.settle_by(&pay, keyed_origin(7)).await;
    assert_eq!(reason(&end), Some(Reason::Withdrawn), "{end:?}");
    for other in other_requesters() {
        assert!(is_duplicate(&stage.settle_by(&pay, other).await), "{other:?}");
        assert!(is_refused(&stage, &pay, other).await, "{other:?}");
    }
    stage.world.state().broadcast_reactions.clear();
    stage.keep_mining();
    stage.advance_clock(30_000).await;
    assert_eq!(stage.shop_balance(), 0);
    let mut end = stage.settle_by(&pay, keyed_origin(7)).await;
    while is_pending(&end) {
        end = stage.settle_by(&pay, keyed_origin(7)).await;
    }
    assert!(is_settled(&end), "{end:?}");
    assert_eq!(stage.shop_balance(), 700);
}
