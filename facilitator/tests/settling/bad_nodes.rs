//! A node that returns receipts without what happened: a payment that our own transaction made is never refused.

use bursar_facilitator::book::State;
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome};
use bursar_facilitator::verify::VerifyError;

use crate::stage::{Pay, Plan, Stage, by, with_key};
use crate::withdrawals::settled;
use crate::world::Flaw;

const FLAWS: [Flaw; 2] = [Flaw::NoEvents, Flaw::Reverted];

async fn stage_with(flaw: Flaw) -> Stage {
    let mut stage = Stage::with(Plan { wait_ms: 8_400, ..Plan::default() }).await;
    stage.world.state().flaw = Some(flaw);
    stage.keep_mining();
    stage
}

/// Repeats the settlement until its answer is final.
async fn until_decided(stage: &Stage, pay: &Pay) -> Result<SettleOutcome, SettleError> {
    loop {
        match stage.settle_by(pay, with_key(7)).await {
            Ok(SettleOutcome::Pending { .. }) => {}
            end => return end,
        }
    }
}

/// Also if the payment expires meanwhile, and if a pending answer was returned.
#[tokio::test(start_paused = true)]
async fn a_payment_that_a_bad_node_hides_is_unknown_until_a_node_shows_it() {
    for (flaw, seconds) in FLAWS.into_iter().flat_map(|flaw| [(flaw, 300), (flaw, 8)]) {
        let stage = stage_with(flaw).await;
        let pay = stage.pays_for(1, 700, 1, seconds);
        for _repeat in 0..3 {
            let end = until_decided(&stage, &pay).await;
            assert!(matches!(end, Err(SettleError::Unavailable(_))), "{flaw:?}: {end:?}");
            stage.pass(5_000).await;
        }
        for other in [by(1), by(2)] {
            let end = stage.settle_by(&pay, other).await;
            assert!(!settled(&end), "{flaw:?}: {end:?}");
        }
        if seconds > 60 {
            let verified = stage.settlement.verify(&pay.request, &with_key(7).into()).await;
            assert!(matches!(verified, Err(VerifyError::Chain(_))), "{flaw:?}: {verified:?}");
        }
        assert_eq!(stage.paid(), 700, "{flaw:?}");
        stage.world.state().flaw = None;
        let end = stage.settle_by(&pay, with_key(7)).await;
        assert!(settled(&end), "{flaw:?}, {seconds} s: {end:?}");
        let record = stage.record(&pay).await.unwrap();
        assert!(matches!(record.state, State::Settled { .. }), "{:?}", record.state);
        assert_eq!((stage.paid(), stage.settlement.ledger.open_count()), (700, 0));
    }
}

/// Another node has the right receipt.
#[tokio::test(start_paused = true)]
async fn a_second_node_proves_what_the_first_one_hides() {
    for flaw in FLAWS {
        let stage = stage_with(flaw).await;
        stage.world.state().has_honest_node = true;
        let pay = stage.pays(1, 700, 1);
        let end = until_decided(&stage, &pay).await;
        assert!(settled(&end), "{flaw:?}: {end:?}");
        assert_eq!(stage.world.state().sent.len(), 1, "{flaw:?}: broadcast once");
    }
}
