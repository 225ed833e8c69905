//! Offers whose token domain differs from our table: we ask the chain, and trust its answer only if its chain id is
//! right. The signature uses the table's domain in any case.

use alloy_primitives::{U256, hex};
use bursar_control::card_text;
use bursar_core::card::HoldReason;
use bursar_core::networks::{ChainId, by_chain};
use bursar_tests::agent::Agent;
use bursar_tests::offers::{BASE, challenge, header};
use bursar_tests::operator::Expect;
use bursar_tests::process::StartOptions;
use serde_json::{Value, json};

use crate::chain::programs::CASES;
use crate::chain::stage::{SMALL_PRICE, Stage, local_chain, merchant_address, signed_terms};

const BASE_SEPOLIA: ChainId = ChainId(84532);

/// Asks for a small payment whose offer makes this claim about the token's domain.
async fn ask(stage: &Stage, agent: &Agent, field: &str, claim: &str) -> (u16, Value) {
    let atoms = u64::try_from(SMALL_PRICE).expect("small");
    let mut offer = challenge(BASE, atoms, &format!("https://api.example.com/{claim}"));
    offer["accepts"][0]["extra"][field] = json!(claim);
    let now = jiff::Timestamp::now().as_second();
    stage.ask(&agent.ask(now, &header(&offer), None)).await
}

/// Settles the signed payment. The local chain's coin has the table's domain, so a signature for another domain would
/// recover another signer.
async fn settle(stage: &Stage, answer: &Value) {
    let before = stage.balances().await;
    let (terms, signature) = signed_terms(answer["header_value"].as_str().expect("a header"));
    let route = (terms.from, terms.to, terms.value);
    assert_eq!(route, (stage.payer, merchant_address(), U256::from(SMALL_PRICE)));
    stage.chain.settle(&terms, &signature).await.expect("settled");
    stage.assert_moved(before, SMALL_PRICE).await;
}

/// Each domain field that an offer can contradict, with a wrong value.
const CLAIMS: [(&str, &str); 2] = [("name", "USDC"), ("version", "1")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contradicted_domain_that_the_chain_confirms_is_paid_under_our_tables() {
    let Some(chain) = local_chain(BASE).await else { return };
    let rpc = Some(chain.url().to_owned());
    let mut stage = Stage::set_up(chain, StartOptions { rpc, ..StartOptions::default() }).await;
    let agent = stage.add_agent("bot", "hmac").await;
    for (field, claim) in CLAIMS {
        let (status, answer) = ask(&stage, &agent, field, claim).await;
        assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
        settle(&stage, &answer).await;
    }
}

/// Asserts that the card shows the reason for the hold, and that an approval also signs the table's domain.
async fn assert_held_then_settled(stage: &mut Stage, agent: &Agent) {
    for (field, claim) in CLAIMS {
        let (status, answer) = ask(stage, agent, field, claim).await;
        assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
        let request = stage.wait_for_only_held().await;
        let card = request.card.expect("a card");
        assert_eq!(card.hold, HoldReason::DomainContradicted);
        let shown = HoldReason::DomainContradicted.sentence();
        assert!(
            card_text::lines(&card).iter().any(|line| line.contains(shown)),
            "{:?}",
            card_text::lines(&card)
        );
        stage.operator.must(&format!("approve {}", request.id)).await;
        let (status, answer) = stage.poll(&request.id).await;
        assert_eq!(status, 200, "{answer}");
        settle(stage, &answer).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contradicted_domain_without_a_chain_is_held_with_its_reason() {
    let Some(chain) = local_chain(BASE).await else { return };
    let mut stage = Stage::set_up(chain, StartOptions::default()).await;
    let agent = stage.add_agent("bot", "hmac").await;
    assert_held_then_settled(&mut stage, &agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_chain_confirms_nothing_and_breaks_nothing() {
    let Some(chain) = local_chain(BASE).await else { return };
    let Some(foreign) = local_chain(BASE_SEPOLIA).await else { return };
    // This node answers calls to our coin's address with our domain; only its chain id is wrong.
    let coin = by_chain(BASE).expect("a network").stablecoin;
    let code = format!("0x7f{}60005260206000f3", hex::encode(coin.domain_separator));
    foreign.request("anvil_setCode", json!([coin.address, code])).await.expect("set");
    let rpc = Some(foreign.url().to_owned());
    let mut stage = Stage::set_up(chain, StartOptions { rpc, ..StartOptions::default() }).await;
    let agent = stage.add_agent("bot", "hmac").await;
    assert_held_then_settled(&mut stage, &agent).await;
    for case in &CASES {
        let agent = stage.add_agent(&case.name(), case.auth).await;
        let before = stage.balances().await;
        let reply = stage.send(case, &agent, "/small").finish().await;
        stage.assert_bought(&reply, before, SMALL_PRICE).await;
    }

    // With the right chain id, the wallet trusts the same node.
    foreign.request("anvil_setChainId", json!([BASE.0])).await.expect("set");
    assert_eq!(stage.engine.terminate(), Some(0));
    stage.start_again().await;
    stage.operator.must("wallet open").await;
    let (status, answer) = ask(&stage, &agent, "name", "Dollar").await;
    assert_eq!(status, 200, "{answer}");
    settle(&stage, &answer).await;
}
