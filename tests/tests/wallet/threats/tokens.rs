//! Offers in look-alike tokens, and approvals of something other than the card shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar_chain::ports::Chain;
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::card::HoldReason;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::Action;
use bursar_domain::command::{Approval, Requote};
use bursar_tests::engine::TestEngine;
use bursar_tests::offers::{BASE, PAY_TO, signed_terms};
use bursar_tests::operator::{Expect, Operator};
use serde_json::{Value, json};

use crate::threats::node::{Node, SilentChain};
use crate::threats::stage::{
    POLICY, authorized_count, engine_with, offer_with, terms, unlimited_in_memory, vectors,
};

const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const USDC_OF_THE_TEST_NETWORK: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

async fn pending_requests(operator: &mut Operator) -> Vec<RequestAnswer> {
    match operator.must("requests").await {
        Answer::Requests { requests } => requests,
        other => panic!("{other:?}"),
    }
}

/// Recovers the signer, assuming our table's token on Base was signed.
fn signer_under_our_table(answer: &Value) -> String {
    signed_terms(answer["header_value"].as_str().unwrap()).1
}

#[tokio::test]
async fn t_11_a_token_is_identified_by_its_address_alone() {
    let file = vectors("eip712-x402.json");
    let looks_alike: Vec<&Value> = file["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["id"].as_str().unwrap().starts_with("conf-"))
        .collect();
    assert_eq!(looks_alike.len(), 10);
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let mut operator = engine.operator();
    operator.must("network enable 84532").await;
    let mut reasons = Vec::new();
    for (n, case) in looks_alike.iter().enumerate() {
        let (id, domain) = (case["id"].as_str().unwrap(), &case["domain"]);
        let header = offer_with(12_000, n, |offer| {
            let first = &mut offer["accepts"][0];
            first["network"] = json!(format!("eip155:{}", domain["chainId"].as_str().unwrap()));
            first["asset"] = domain["verifyingContract"].clone();
            first["extra"]["name"] = domain["name"].clone();
            first["extra"]["version"] = domain["version"].clone();
        });
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
        if domain["name"] == "USD Coin" && domain["version"] == "2" && status == 200 {
            assert_eq!(domain["chainId"], "8453", "{id}");
            assert_eq!(domain["verifyingContract"], USDC, "{id}");
            assert_eq!(signer_under_our_table(&answer), terms(&answer)["from"], "{id}");
            continue;
        }
        if status == 400 {
            reasons.push((id, Err(answer["code"].as_str().unwrap().to_owned())));
            continue;
        }
        assert_eq!(status, 202, "{id}: {answer}");
        let held = pending_requests(&mut operator).await.pop().expect("it waits");
        let card = held.card.expect("a card");
        reasons.push((id, Ok(card.hold)));
        if card.hold == HoldReason::Unpriced {
            // No chain confirms that token's domain, so it stays unsigned.
            let refused = operator.run_refused(&format!("approve {}", held.id)).await;
            assert_eq!(refused.code, Code::Unpriced, "{id}: {refused}");
            operator.must(&format!("deny {}", held.id)).await;
            continue;
        }
        // An approved payment is signed for the table's domain.
        operator.must(&format!("approve {}", held.id)).await;
        let (_, answer) = engine.get(&format!("/sign/status/{}", held.id)).await;
        assert_eq!(signer_under_our_table(&answer), terms(&answer)["from"], "{id}");
    }
    let contradicted = || Ok(HoldReason::DomainContradicted);
    let unsupported = || Err("UNSUPPORTED_ASSET".to_owned());
    let wanted = [
        ("conf-name", contradicted()),
        ("conf-version", contradicted()),
        ("conf-chain", unsupported()),
        ("conf-contract", Ok(HoldReason::Unpriced)),
        ("conf-name-nfc", contradicted()),
        ("conf-name-empty", contradicted()),
    ];
    assert_eq!(reasons, wanted);
}

#[tokio::test]
async fn t_11_decimals_and_symbols_in_an_offer_are_ignored() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let mut operator = engine.operator();
    for (n, (atoms, decimals)) in
        [(12_000, json!(18)), (499_999, json!(0)), (12_000, json!("18")), (12_000, json!(-6))]
            .into_iter()
            .enumerate()
    {
        let header = offer_with(atoms, n, |offer| {
            for name in ["decimals", "assetDecimals", "tokenDecimals"] {
                offer["accepts"][0][name] = decimals.clone();
                offer["accepts"][0]["extra"][name] = decimals.clone();
            }
            offer["accepts"][0]["extra"]["symbol"] = json!("FREE");
        });
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
        assert_eq!(status, 200, "{decimals}: {answer}");
        assert_eq!(terms(&answer)["value"], atoms.to_string());
    }
    let (_, reply) = engine.post("/mandate", &agent.read(engine.now_s())).await;
    assert_eq!(reply["spent_today_micro"], 12_000 * 3 + 499_999);
    // Prices count in atoms whatever the decimals claim, and a token without a price is held.
    for (atoms, asset, decimals, wanted) in [
        (600_000, USDC, json!(18), (202, "APPROVAL_REQUIRED")),
        (11_000_000, USDC, json!(18), (403, "EXCEEDS_PER_REQUEST_MAX")),
        (1, USDC_OF_THE_TEST_NETWORK, json!(6), (202, "APPROVAL_REQUIRED")),
        (1, "0x00000000000000000000000000000000DeaDBeef", json!(6), (202, "APPROVAL_REQUIRED")),
    ] {
        let header = offer_with(atoms, 50, |offer| {
            offer["accepts"][0]["asset"] = json!(asset);
            offer["accepts"][0]["decimals"] = decimals.clone();
            offer["accepts"][0]["extra"]["decimals"] = decimals;
            offer["accepts"][0]["extra"]["symbol"] = json!("USDC");
        });
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
        assert_eq!((status, answer["code"].as_str().unwrap()), wanted, "{asset}: {answer}");
    }
    let holds: Vec<HoldReason> = pending_requests(&mut operator)
        .await
        .into_iter()
        .map(|held| held.card.unwrap().hold)
        .collect();
    let unpriced = HoldReason::Unpriced;
    assert_eq!(holds, [HoldReason::AboveThreshold, unpriced, unpriced]);
}

async fn hold(
    engine: &TestEngine,
    agent: &bursar_tests::agent::Agent,
    n: usize,
    pay_to: &str,
) -> String {
    let header = offer_with(2_000_000, n, |offer| offer["accepts"][0]["payTo"] = json!(pay_to));
    let (status, answer) = engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
    assert_eq!(status, 202, "{answer}");
    answer["request_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn t_13_an_approval_is_bound_to_the_card_shown() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let mut operator = engine.operator();
    let other = "0x00000000000000000000000000000000DeaDBeef";
    let (mine, theirs) =
        (hold(&engine, &agent, 1, PAY_TO).await, hold(&engine, &agent, 2, other).await);
    let digest = |all: &[RequestAnswer], id: &str| {
        let found = all.iter().find(|held| held.id == id).unwrap();
        found.card.as_ref().unwrap().digest.clone()
    };
    let shown = pending_requests(&mut operator).await;
    let (my_card, their_card) = (digest(&shown, &mine), digest(&shown, &theirs));
    assert_ne!(my_card, their_card);
    for wrong in [&their_card, &my_card.to_uppercase(), &my_card[..63], "", &"0".repeat(64)] {
        let line = format!("approve {mine} --yes --card \"{wrong}\"");
        let refused = match operator.run(&line).await {
            Ok(outcome) => outcome.reply.result.is_err(),
            Err(_not_a_digest) => true,
        };
        assert!(refused, "{wrong} was taken for {my_card}");
    }
    // A digest that is swapped between the operator and the core is refused too.
    let id: RequestId = mine.parse().unwrap();
    let swapped = Action::Approve(Box::new(Approval {
        id,
        card_digest: their_card,
        nonce: [1; 32],
        by: Client::Inside,
        quote: Requote::Nothing,
    }));
    let refused = engine.engine.core().act(swapped).await.unwrap_err();
    assert_eq!(refused.code, Code::CardChanged);
    // The policy on the card has changed, so it is a different card.
    operator.must("policy edit p --txn 9").await;
    let line = format!("approve {mine} --yes --card {my_card}");
    assert_eq!(operator.run_refused(&line).await.code, Code::CardChanged);
    assert_eq!((authorized_count(&engine), pending_requests(&mut operator).await.len()), (0, 2));

    let my_card = digest(&pending_requests(&mut operator).await, &mine);
    operator.must(&format!("approve {mine} --yes --card {my_card}")).await;
    let (_, answer) = engine.get(&format!("/sign/status/{mine}")).await;
    let terms = terms(&answer);
    assert_eq!((&terms["to"], &terms["value"]), (&json!(PAY_TO), &json!("2000000")));
    assert_eq!(authorized_count(&engine), 1);
}

#[tokio::test]
async fn t_13_an_invalid_payee_is_refused_at_intake() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let (_, reply) = engine.post("/mandate", &agent.read(engine.now_s())).await;
    let own = reply["wallet_address"].as_str().unwrap();
    let zero = format!("0x{}", "0".repeat(40));
    for (n, pay_to) in [
        &zero,
        USDC,
        &USDC.to_lowercase(),
        own,
        &own.to_lowercase(),
        "",
        "0x",
        "merchant.eth",
        &PAY_TO[2..],
        &PAY_TO[..41],
        &format!("{PAY_TO}00"),
        &PAY_TO.replace("0x", "0X"),
        &format!(" {PAY_TO}"),
    ]
    .into_iter()
    .enumerate()
    {
        for atoms in [1_000, 2_000_000] {
            let header = offer_with(atoms, n, |offer| offer["accepts"][0]["payTo"] = json!(pay_to));
            let (status, answer) =
                engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
            let reply = (status, answer["code"].as_str().unwrap_or_default());
            assert_eq!(reply, (400, "INVALID_PAYMENT_DATA"), "{pay_to}: {answer}");
        }
    }
    assert_eq!(
        (authorized_count(&engine), pending_requests(&mut engine.operator()).await.len()),
        (0, 0)
    );
}

#[tokio::test]
async fn t_46_a_token_contract_is_queried_at_most_once_a_day() {
    let clock = unlimited_in_memory().clock;
    let node = Node::start(&clock, BASE.0).await;
    let (engine, agent) = engine_with(node.setup(), POLICY, "hmac").await;
    let pay = async |n: usize| {
        let header = offer_with(1_000, n, |offer| {
            offer["accepts"][0]["extra"]["name"] = json!("Dollar");
        });
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &header, None)).await;
        assert_eq!(status, 200, "the token confirms the table: {answer}");
    };
    futures::future::join_all((0..20).map(pay)).await;
    assert_eq!(node.calls(), 1);
    clock.advance(24 * 60 * 60 * 1000);
    pay(20).await;
    pay(21).await;
    assert_eq!(node.calls(), 2);
}

#[tokio::test]
async fn t_19_a_node_that_never_prices_a_token_delays_an_answer_by_three_seconds() {
    let silent = Arc::new(SilentChain::default());
    let mut setup = unlimited_in_memory();
    let clock = Arc::clone(&setup.clock);
    setup.chains.insert(BASE, Arc::clone(&silent) as Arc<dyn Chain>);
    let (engine, agent) = engine_with(setup, POLICY, "hmac").await;
    let header = offer_with(1_000, 1, |offer| {
        offer["accepts"][0]["asset"] = json!("0x00000000000000000000000000000000DeaDBeef");
    });
    let body = agent.ask(engine.now_s(), &header, None);
    let answered = AtomicBool::new(false);
    let asking = async {
        let answer = engine.post("/sign", &body).await;
        answered.store(true, Ordering::SeqCst);
        answer
    };
    let passing = async {
        silent.until_called(1).await;
        clock.advance(2_999);
        for _turn in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert!(!answered.load(Ordering::SeqCst), "three seconds are not over");
        clock.advance(1);
    };
    let ((status, answer), ()) = tokio::join!(asking, passing);
    assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
    assert_eq!(answer["amount_micro"], Value::Null, "an unknown price is not zero");
    let mut operator = engine.operator();
    let held = pending_requests(&mut operator).await.pop().expect("it waits");
    assert_eq!(held.card.expect("a card").hold, HoldReason::Unpriced);
    // A repeated request gets the same answer without another question to the node.
    assert_eq!(engine.post("/sign", &body).await.1["request_id"], answer["request_id"]);
    assert_eq!(authorized_count(&engine), 0);
}
