//! `quote` without a node. `tests/tests/lanes/trading/operators.rs` measures on a chain.

use bursar_core::codes::Code;
use bursar_core::networks::{NETWORKS, Network};
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;
use serde_json::json;

/// Returns whether a quote or trade was refused for the disabled network. The enabled network
/// fails too, for lack of a node.
fn is_refused_for_disabled_network(code: &str) -> bool {
    match code {
        "NETWORK_DISABLED" => true,
        "CHAIN_UNAVAILABLE" => false,
        other => panic!("{other}"),
    }
}

/// Returns whether `quote` and a trade default to the disabled network if they name none.
async fn default_to_disabled(engine: &TestEngine, bot: &Agent) -> (bool, bool) {
    let quoted = engine.operator().run_refused("quote pay 1 ETH WETH").await.code;
    let trade = json!({ "token_in": "ETH", "token_out": WETH, "amount_in": "1" });
    let (_status, traded) = engine.post("/trade", &bot.trade(engine.now_s(), &trade)).await;
    // A refusal has `reason_code`, an error `code`.
    let code = traded["reason_code"].as_str().or(traded["code"].as_str());
    let traded = code.unwrap_or_else(|| panic!("{traded}"));
    (is_refused_for_disabled_network(quoted.text()), is_refused_for_disabled_network(traded))
}

/// A token's address; no request of this test reaches a node to look it up.
const WETH: &str = "0x4200000000000000000000000000000000000006";

#[tokio::test]
async fn a_quote_takes_the_network_of_a_trade_that_names_none() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--trading --trade-daily 1000 --trade-max 500").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let (_status, document) = engine.get("/openapi.json").await;
    let documented =
        &document["components"]["schemas"]["Trade"]["properties"]["chain_id"]["default"];
    let mut operator = engine.operator();
    let traded = NETWORKS.iter().filter(|network| network.exchange.is_some());
    let traded: Vec<&Network> = traded.collect();
    assert!(traded.len() > 1);
    for network in traded {
        operator.must(&format!("network disable {}", network.caip2())).await;
        let is_default = *documented == json!(network.chain.0);
        let taken = default_to_disabled(&engine, &bot).await;
        assert_eq!(taken, (is_default, is_default), "{}", network.title);
        let line = format!("quote pay 1 ETH WETH --network {}", network.caip2());
        assert_eq!(operator.run_refused(&line).await.code, Code::NetworkDisabled, "{line}");
        operator.must(&format!("network enable {}", network.caip2())).await;
    }
    assert_eq!(default_to_disabled(&engine, &bot).await, (false, false));
}
