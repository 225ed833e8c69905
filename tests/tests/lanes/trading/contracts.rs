//! If a contract of the exchange is missing or unexpected, the wallet refuses the trades that depend on it.

use alloy_primitives::Address;
use bursar_control::answers::{Answer, CheckAnswer, CheckResult};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, Stage};

async fn check_of(stage: &mut Stage, name: &str) -> CheckAnswer {
    let answer = stage.operator.must("doctor").await;
    let Answer::Doctor { checks } = answer else { panic!("{answer:?}") };
    let found = checks.into_iter().find(|check| check.check == name);
    found.unwrap_or_else(|| panic!("no check of {name}"))
}

fn trade(stage: &Stage, v4: bool) -> Value {
    let mut trade = json!({
        "chain_id": 8453, "token_in": "ETH", "token_out": stage.dollar(), "amount_in": "0.01",
        "fee_tier": 500,
    });
    if v4 {
        trade["tick_spacing"] = json!(10);
        trade["hooks"] = json!(Address::ZERO);
    }
    trade
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_contract_closes_only_what_depends_on_it() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let view = stage.contracts.v4.state_view;
    let code = stage.chain.request("eth_getCode", json!([view, "latest"])).await.expect("code");
    stage.chain.request("anvil_setCode", json!([view, "0x"])).await.expect("set");
    let asked = trade(&stage, true);
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["reason_code"]), (400, &json!("QUOTE_FAILED")), "{answer}");
    assert!(answer["reason"].as_str().is_some_and(|why| why.contains("StateView")), "{answer}");
    let check = check_of(&mut stage, "Uniswap v4 on Base").await;
    assert_eq!(check.result, CheckResult::Warn, "{check:?}");
    let check = check_of(&mut stage, "Uniswap v3 on Base").await;
    assert_eq!(check.result, CheckResult::Ok, "{check:?}");
    let asked = trade(&stage, false);
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");

    // The wallet repeats a check that failed.
    stage.chain.request("anvil_setCode", json!([view, code])).await.expect("set");
    let asked = trade(&stage, true);
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
    let check = check_of(&mut stage, "Uniswap v4 on Base").await;
    assert_eq!(check.result, CheckResult::Ok, "{check:?}");
}

/// The real router of an earlier version reads the swap's minimum price as the position of the hook's data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_of_another_version_is_found_by_the_rehearsal() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let router = stage.chain.network().exchange.expect("an exchange").v4.router;
    let code = |of: Address| stage.chain.request("eth_getCode", json!([of, "latest"]));
    let right = code(router).await.expect("code");
    let wrong = code(stage.contracts.routers.v2_1_0).await.expect("code");
    assert_ne!(right, wrong);
    stage.chain.request("anvil_setCode", json!([router, wrong])).await.expect("set");
    let (sent, left) = (stage.nonce().await, stage.volume_left().await);
    let mut sale = trade(&stage, true);
    sale["token_in"] = json!(stage.dollar());
    sale["token_out"] = json!("ETH");
    sale["amount_in"] = json!("30");
    for asked in [trade(&stage, true), sale.clone()] {
        let (status, answer) = stage.trade(&asked).await;
        assert_eq!((status, &answer["reason_code"]), (400, &json!("WOULD_FAIL")), "{answer}");
    }
    assert_eq!((stage.nonce().await, stage.volume_left().await), (sent, left));
    stage.chain.request("anvil_setCode", json!([router, right])).await.expect("set");
    for asked in [trade(&stage, true), sale] {
        let (status, answer) = stage.trade(&asked).await;
        assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
    }
}
