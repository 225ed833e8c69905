//! Outcomes of an agent program: paid, paid after an approval, denied, expired. Each outcome is tested for Python and
//! Node, with a signature and with a token.

use bursar_control::wire::Prompt;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::limits::HOLD_MS;
use bursar_core::money::Usd;
use bursar_tests::offers::{BASE, PAY_TO};
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use serde_json::json;

use crate::chain::programs::CASES;
use crate::chain::stage::{LARGE_PRICE, SMALL_PRICE, Stage, dollars, local_chain};

bursar_tests::in_every_edition! {
    (flavor = "multi_thread", worker_threads = 2)
    a_payment_below_the_threshold_settles_without_approval
    a_held_payment_settles_once_the_operator_approves
    a_denied_payment_is_reported_with_its_reason_and_moves_nothing
    an_expired_payment_stays_expired_and_moves_nothing
    a_payment_after_the_clock_went_back_is_signed
}

async fn a_payment_below_the_threshold_settles_without_approval(edition: EditionName) {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions { edition, ..StartOptions::default() }).await;
    for case in &CASES {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        let before = stage.balances().await;
        let answer = stage.send(case, &agent, "/small").finish().await;
        stage.assert_bought(&answer, before, SMALL_PRICE).await;
        assert_eq!(stage.wait_for_held(0).await, [], "{case:?}");
    }
    assert_eq!(stage.merchant.payments().len(), CASES.len());
}

async fn a_held_payment_settles_once_the_operator_approves(edition: EditionName) {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions { edition, ..StartOptions::default() }).await;
    for (case, path) in
        CASES.iter().flat_map(|case| ["/large", "/v1/large"].map(|path| (case, path)))
    {
        let agent =
            stage.add_agent(&format!("{}{}", case.name(), path.replace('/', "-")), case.auth).await;
        let before = stage.balances().await;
        let mut buyer = stage.send(case, &agent, path);
        let request = stage.wait_for_only_held().await;
        let card = request.card.expect("a card");
        assert_eq!(card.hold, HoldReason::AboveThreshold);
        assert_eq!((card.terms.agent.as_str(), &*card.terms.payee), (&*agent.id, PAY_TO));
        assert_eq!(card.terms.amount, LARGE_PRICE.to_string());
        assert!(buyer.is_running(), "{case:?} polls");
        assert_eq!(stage.balances().await, before);

        let approved = stage.operator.outcome(&format!("approve {}", request.id)).await;
        assert!(approved.reply.result.is_ok(), "{:?}", approved.reply);
        assert!(matches!(approved.prompts[..], [Prompt::Confirm { .. }]), "{:?}", approved.prompts);
        let answer = buyer.finish().await;
        stage.assert_bought(&answer, before, LARGE_PRICE).await;
        assert_eq!(answer.line["transaction_id"], request.id);
    }
}

async fn a_denied_payment_is_reported_with_its_reason_and_moves_nothing(edition: EditionName) {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions { edition, ..StartOptions::default() }).await;
    let before = stage.balances().await;
    for case in &CASES {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        let buyer = stage.send(case, &agent, "/large");
        let request = stage.wait_for_only_held().await;
        stage.operator.must(&format!("deny {} too dear", request.id)).await;
        let answer = buyer.finish().await;
        assert_eq!(answer.outcome(), ("rejected", Some(3)), "{}", answer.line);
        assert_eq!(answer.line["reason"], "too dear", "{}", answer.line);
        assert_eq!(answer.line["transaction_id"], request.id);
    }
    assert_eq!(stage.balances().await, before);
    assert!(stage.merchant.payments().is_empty(), "{:?}", stage.merchant.payments());
    for agent in stage.agents().await {
        assert_eq!((dollars(&agent.spent_today), dollars(&agent.reserved)), (Usd::ZERO, Usd::ZERO));
    }
}

async fn an_expired_payment_stays_expired_and_moves_nothing(edition: EditionName) {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions { edition, ..StartOptions::default() }).await;
    let before = stage.balances().await;
    let mut buyers = Vec::new();
    for case in &CASES {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        buyers.push(stage.send(case, &agent, "/large"));
    }
    let held = stage.wait_for_held(CASES.len()).await;
    assert!(buyers.iter_mut().all(|buyer| buyer.is_running()));

    stage.engine.set_clock_offset(HOLD_MS);
    for buyer in buyers {
        let reply = buyer.finish().await;
        assert_eq!(reply.outcome(), ("rejected", Some(3)), "{}", reply.line);
        assert_eq!(reply.line["code"], "REQUEST_EXPIRED", "{}", reply.line);
    }
    // The engine's own timer records the expiry, whether or not the agent polls.
    stage.wait_for_held(0).await;
    assert_eq!(stage.balances().await, before);
    assert!(stage.merchant.payments().is_empty(), "{:?}", stage.merchant.payments());

    // After the clock is corrected, neither a poll nor an approval revives the request. The clock changes between two
    // engines, because the skew also moves the monotonic clock, which never goes backwards.
    assert_eq!(stage.engine.terminate(), Some(0));
    stage.engine.set_clock_offset(0);
    stage.start_again().await;
    stage.operator.must("wallet open").await;
    for request in held {
        let (status, answer) = stage.poll(&request.id).await;
        assert_eq!((status, &answer["code"]), (200, &json!("REQUEST_EXPIRED")), "{answer}");
        let refused = stage.operator.run_refused(&format!("approve {}", request.id)).await;
        assert_eq!(refused.code, Code::RequestExpired);
    }
    assert_eq!(stage.balances().await, before);
}

async fn a_payment_after_the_clock_went_back_is_signed(edition: EditionName) {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions { edition, ..StartOptions::default() }).await;
    let agent = stage.add_agent("bot", "hmac").await;
    stage.engine.set_clock_offset(HOLD_MS);
    // The command writes a journal entry with the wrong time; any other entry would do.
    stage.operator.must("agent suspend bot").await;
    assert_eq!(stage.engine.terminate(), Some(0));
    stage.engine.set_clock_offset(0);
    stage.start_again().await;
    stage.operator.must("wallet open").await;
    stage.operator.must("agent resume bot").await;
    let before = stage.balances().await;
    let body = stage.ask_for(&agent, "/small").await;
    let (status, answer) = stage.ask(&body).await;
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    assert_eq!(stage.request_with_payment(&stage.url("/small"), &answer).await.0, 200);
    stage.latest_settlement(SMALL_PRICE).await;
    stage.assert_moved(before, SMALL_PRICE).await;
}
