//! Policies: changes of an edit, settings without effect, and the network of a rehearsal.

use bursar_control::answers::{Answer, PolicyAnswer, RehearsalAnswer, Warning};
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, Prompt, ToClient, ToEngine};
use bursar_core::card::Lane;
use bursar_core::codes::Code;
use bursar_core::status::PolicyVerdict;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::{Expect, Operator};
use bursar_tui::link::Received;

async fn edit_policy(operator: &mut Operator, line: &str) -> (PolicyAnswer, Vec<Warning>) {
    let reply = operator.outcome(line).await.reply;
    match reply.result {
        Ok(Answer::Policy(policy)) => (policy, reply.warnings),
        other => panic!("{other:?}"),
    }
}

fn texts(policy: &PolicyAnswer) -> Vec<String> {
    policy.changes.as_ref().expect("an edit").iter().map(|change| change.text()).collect()
}

#[tokio::test]
async fn a_policy_edit_lists_its_changes_and_warns_of_looser_limits() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    let (policy, warnings) = edit_policy(&mut operator, "policy edit p --txn 100 --day 50").await;
    assert_eq!(
        texts(&policy),
        ["max per day 100.00 -> 50.00 USD", "max per payment 10.00 -> 100.00 USD"]
    );
    let looser = warnings.iter().find(|warning| warning.code == "LOOSENED").unwrap();
    assert_eq!(
        looser.message,
        "This allows more than before for its agent, effective at once: max per payment 10.00 -> 100.00 USD."
    );
    let (policy, warnings) = edit_policy(&mut operator, "policy edit p --txn 5").await;
    assert_eq!(texts(&policy), ["max per payment 100.00 -> 5.00 USD"]);
    assert_eq!(warnings, [], "tightening needs no warning");
    let (policy, _none) = edit_policy(&mut operator, "policy edit p --txn 5").await;
    assert_eq!(policy.changes, Some(Vec::new()));
    let (policy, _none) = edit_policy(&mut operator, "policy show p").await;
    assert_eq!(policy.changes, None);
}

/// A change that allows more asks first. Without an answer, or with a no, nothing changes.
#[tokio::test]
async fn a_loosening_asks_once_and_a_tightening_never() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    let asked = operator.outcome("policy edit p --txn 20 --day 90").await.prompts;
    let [Prompt::Confirm { lines, question }] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(lines, &["max per payment 10.00 -> 20.00 USD"]);
    assert_eq!(question, "Allow this for its agent, from the next request on?");
    assert_eq!(operator.outcome("policy edit p --txn 5").await.prompts, []);
    operator.asking = Asking::Silent;
    let fault = operator.run_refused("policy edit p --txn 6").await;
    assert_eq!(fault.code, Code::ConfirmationNeeded);
    operator.must("policy edit p --txn 4").await;
    operator.asking = Asking::Agreed;
    let agreed = operator.outcome("policy edit p --txn 7").await;
    assert_eq!((agreed.prompts, agreed.reply.result.is_ok()), (Vec::new(), true));
    let (policy, _warnings) = edit_policy(&mut operator, "policy show p").await;
    assert_eq!(policy.payments.per_request, "7.00");
}

/// A policy that another operator changed while the question was open is left alone.
#[tokio::test]
async fn a_policy_that_changed_during_the_question_is_left_alone() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let mut link = engine.attach();
    let order = Box::new(Order::parse_line("policy edit p --txn 20").unwrap());
    link.send(&ToEngine::Run { id: 1, order, asking: Asking::Interactive }).await.unwrap();
    let prompt = link.receive().await.unwrap();
    assert!(matches!(prompt, Received::Message(ToClient::Prompt { .. })), "{prompt:?}");
    let mut operator = engine.operator();
    operator.must("policy edit p --day 50").await;
    link.send(&ToEngine::Answer { id: 1, yes: true }).await.unwrap();
    let done = link.receive().await.unwrap();
    let Received::Message(ToClient::Done { reply, .. }) = done else { panic!("{done:?}") };
    assert_eq!(reply.result.unwrap_err().code, Code::PolicyChanged);
    let (policy, _warnings) = edit_policy(&mut operator, "policy show p").await;
    let limits = &policy.payments;
    assert_eq!((limits.daily.as_str(), limits.per_request.as_str()), ("50.00", "10.00"));
}

#[tokio::test]
async fn a_looser_limit_of_any_lane_is_warned_of() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let mut operator = engine.operator();
    for (line, expected) in [
        ("policy edit p --lending-max 700", vec!["LOOSENED"]),
        ("policy edit p --trading --lending-max 7", vec!["LOOSENED"]),
        ("policy create q --lending-max 7", vec![]),
        ("policy create r --trade-max 7", vec![]),
    ] {
        let (_policy, warnings) = edit_policy(&mut operator, line).await;
        let codes: Vec<_> = warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(codes, expected, "{line}");
    }
    let (policy, _warnings) = edit_policy(&mut operator, "policy show p").await;
    assert!(policy.trading.enabled && policy.lending.max_deposit == "7.00");
}

async fn rehearse(operator: &mut Operator, line: &str) -> RehearsalAnswer {
    match operator.must(line).await {
        Answer::Rehearsal(answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_rehearsal_without_a_network_prefers_base() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let mut operator = engine.operator();
    operator.must("policy create rhc --networks 4663").await;
    assert_eq!(rehearse(&mut operator, "policy test p 1").await.network, "Base");
    assert_eq!(rehearse(&mut operator, "policy test rhc 1").await.network, "Robinhood Chain");
    operator.must("network disable base").await;
    assert_eq!(rehearse(&mut operator, "policy test p 1").await.network, "Robinhood Chain");
}

#[tokio::test]
async fn a_trade_is_rehearsed_by_the_limits_of_trading() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let mut operator = engine.operator();
    operator.must("policy create t --trading --trade-max 100 --trade-auto 50").await;
    for (line, verdict, code) in [
        ("policy test t 49 --trade", PolicyVerdict::Act, None),
        ("policy test t 50 --trade", PolicyVerdict::Hold, Some("above_threshold")),
        (
            "policy test t 49 --trade --impact 5.01",
            PolicyVerdict::Hold,
            Some("impact_above_ceiling"),
        ),
        (
            "policy test t 49 --trade --slippage 3.01",
            PolicyVerdict::Refuse,
            Some("EXCEEDS_MAX_SLIPPAGE"),
        ),
        ("policy test t 101 --trade", PolicyVerdict::Refuse, Some("EXCEEDS_PER_TRADE_MAX")),
        ("policy test p 1 --trade", PolicyVerdict::Refuse, Some("TRADING_DISABLED")),
    ] {
        let answer = rehearse(&mut operator, line).await;
        assert_eq!((answer.verdict, answer.code.as_deref()), (verdict, code), "{line}");
        assert_eq!((answer.lane, answer.network.as_str()), (Lane::Trade, "Base"), "{line}");
    }
    operator.must("network disable base").await;
    let answer = rehearse(&mut operator, "policy test t 1 --trade").await;
    assert_eq!(
        (answer.network.as_str(), answer.slippage.as_deref()),
        ("Robinhood Chain", Some("0.5%"))
    );
    let refused = operator.run_refused("policy test t 1 --trade --network ethereum").await;
    assert_eq!(refused.code, Code::UnknownNetwork);
}

/// The old value is shown as well, so that a mistake is noticed at once.
#[tokio::test]
async fn setting_a_value_returns_the_old_one() {
    let engine = TestEngine::start(Setup::default()).await;
    let mut operator = engine.operator();
    engine.set_up_wallet("--day 1").await;
    for (line, was) in [
        ("config set payments.max_validity 1200", Some(3600.into())),
        ("config set payments.max_validity 1200", Some(1200.into())),
        ("config get payments.max_validity", None),
    ] {
        let Answer::Setting(setting) = operator.must(line).await else { panic!() };
        assert_eq!((setting.was, setting.value), (was, 1200.into()), "{line}");
    }
}
