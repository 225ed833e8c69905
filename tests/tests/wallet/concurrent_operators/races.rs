//! A thousand requests, each decided by three operators at once.

use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_domain::Status;
use bursar_domain::requests::Approver;

use bursar_tests::dice::Dice;

use crate::concurrent_operators::stage::{Choice, DecisionResult, Stage, names, random_choice};

const ROUNDS: usize = 1_000;

/// Returns the winner and its decision; the other operators must have received both.
fn winner(ends: &[DecisionResult]) -> (usize, Choice) {
    let won: Vec<(usize, Choice)> =
        ends.iter().enumerate().filter_map(|(who, end)| Some((who, *end.as_ref().ok()?))).collect();
    let [(who, what)] = won[..] else { panic!("{ends:?}") };
    let verb = if what == Choice::Approve { "approved" } else { "denied" };
    for fault in ends.iter().filter_map(|end| end.as_ref().err()) {
        assert_eq!(fault.code, Code::AlreadyDecided, "{fault}");
        let answer = format!(" was {verb} by {} at ", names()[who]);
        assert!(fault.message.contains(&answer), "{fault}, and not: {answer}");
    }
    (who, what)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_three_concurrent_decisions_one_wins_and_the_others_report_it() {
    let mut stage = Stage::new().await;
    let mut dice = Dice::new(20_260_101);
    let (mut spent, mut signed) = (0, 0);
    for _round in 0..ROUNDS {
        // Some amounts are large enough that the operator must type them.
        let usd = 1 + u32::try_from(dice.roll(12)).unwrap();
        let held = stage.create_held(usd).await;
        let choices = std::array::from_fn(|_who| random_choice(&mut dice));
        let ends = stage.race(choices, &held, || {}).await;
        let (who, what) = winner(&ends);
        let by = match stage.status(&held.id) {
            Status::Authorized { by: Approver::Operator(by), .. } if what == Choice::Approve => by,
            Status::Denied { by, .. } if what == Choice::Deny => by,
            other => panic!("{what:?} won, and it is {other:?}"),
        };
        assert_eq!(by.to_string(), names()[who]);
        let approved = what == Choice::Approve;
        assert_eq!(stage.times_signed(&held.id), usize::from(approved));
        (spent, signed) = (spent + usd * u32::from(approved), signed + usize::from(approved));
        assert_eq!(stage.allowance(), (Usd::dollars(spent), Usd::ZERO));
        assert_eq!(stage.held_count(), 0);
    }
    assert!(signed > 0 && signed < ROUNDS, "a mix of both");
    let answer = stage.entry_kinds().await;
    assert_eq!(answer.len(), ROUNDS);
    for (id, kinds) in answer {
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let whole = matches!(
            kinds[..],
            ["payment.held", "payment.denied"]
                | ["payment.held", "payment.approved", "payment.signed"]
        );
        assert!(whole, "{id}: {kinds:?}");
    }
}
