//! Decisions at the moment a request expires.

use bursar_core::codes::Code;
use bursar_core::limits::HOLD_MS;
use bursar_core::money::Usd;
use bursar_domain::Status;

use bursar_tests::dice::Dice;

use crate::concurrent_operators::stage::{Choice, Stage, random_choice};

/// Each round takes a quarter of an hour, so that all rounds fit in one day and its allowance.
const ROUNDS: u64 = 90;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_expires_during_a_decision_is_decided_or_expired() {
    let mut stage = Stage::new().await;
    let mut dice = Dice::new(22);
    let mut spent = 0;
    for _round in 0..ROUNDS {
        let usd = 1 + u32::try_from(dice.roll(12)).unwrap();
        let held = stage.create_held(usd).await;
        let hold = u64::try_from(HOLD_MS).unwrap();
        stage.engine.clock.advance(hold - 1);
        let choices = std::array::from_fn(|_who| random_choice(&mut dice));
        let engine = std::sync::Arc::clone(&stage.engine);
        let ends = stage.race(choices, &held, move || engine.clock.advance(1)).await;
        let won: Vec<Choice> = ends.iter().filter_map(|end| end.as_ref().ok().copied()).collect();
        let lost = match stage.status(&held.id) {
            Status::Authorized { .. } => {
                assert_eq!(won, [Choice::Approve], "{ends:?}");
                spent += usd;
                Code::AlreadyDecided
            }
            Status::Denied { .. } => {
                assert_eq!(won, [Choice::Deny], "{ends:?}");
                Code::AlreadyDecided
            }
            Status::Expired { .. } => {
                assert_eq!(won, [], "{ends:?}");
                Code::RequestExpired
            }
            other => panic!("{other:?} after {ends:?}"),
        };
        for fault in ends.iter().filter_map(|end| end.as_ref().err()) {
            assert_eq!(fault.code, lost, "{ends:?}");
        }
        assert_eq!(stage.times_signed(&held.id), usize::from(won == [Choice::Approve]));
        assert_eq!(stage.allowance(), (Usd::dollars(spent), Usd::ZERO));
        assert_eq!(stage.held_count(), 0);
    }
    for (id, kinds) in stage.entry_kinds().await {
        let ends = ["payment.approved", "payment.denied", "payment.expired"];
        let ended = kinds.iter().filter(|kind| ends.contains(&kind.as_str())).count();
        assert_eq!(ended, 1, "{id}: {kinds:?}");
    }
}
