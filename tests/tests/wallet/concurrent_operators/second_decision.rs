//! The answer to the second of two consecutive decisions.

use bursar_core::codes::Code;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;

use crate::concurrent_operators::stage::{Choice, Stage, names};

#[tokio::test]
async fn a_second_decision_is_refused_with_the_name_and_time_of_the_first() {
    let mut stage = Stage::new().await;
    for (first, name) in names().into_iter().enumerate() {
        for (what, verb) in [(Choice::Approve, "approved"), (Choice::Deny, "denied")] {
            let held = stage.create_held(1).await;
            stage.decide(first, what, &held).await.expect("nobody was faster");
            let answer = format!("{} was {verb} by {name} at 2026-01-01T00:00:00", &held.id[..8]);
            for (second, again) in [(0, Choice::Approve), (1, Choice::Deny), (2, what)] {
                let fault = stage.decide(second, again, &held).await.expect_err("too late");
                assert_eq!(fault.code, Code::AlreadyDecided);
                assert!(fault.message.starts_with(&answer), "{fault}, and not: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_restarted_engine_knows_who_decided_and_why() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 3").await;
    let agent = engine.add_agent("bot", "bearer").await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let (_, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &offer(1, n), None)).await;
        ids.push(answer["request_id"].as_str().unwrap().to_owned());
    }
    let mut operator = engine.operator();
    operator.must(&format!("approve {} --yes", ids[0])).await;
    operator.must(&format!("deny {} too \u{202e}dear", ids[1])).await;
    operator.must("policy edit p --no-payments").await;
    operator.run_refused(&format!("approve {} --yes", ids[2])).await;
    let engine = engine.restart(Setup::default()).await;
    let mut operator = engine.operator();
    for (id, answer) in ids.iter().zip([
        "approved by the engine's own console at 2026-01-01T00:00:00Z.",
        "denied by the engine's own console at 2026-01-01T00:00:00Z: too \\u{202e}dear.",
        "refused at 2026-01-01T00:00:00Z: The agent's policy does not allow payments.",
    ]) {
        for line in [format!("approve {id} --yes"), format!("deny {id}")] {
            let fault = operator.run_refused(&line).await;
            assert_eq!(fault.code, Code::AlreadyDecided);
            assert_eq!(fault.message, format!("{} was {answer}", &id[..8]));
        }
    }
}
