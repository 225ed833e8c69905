//! The best route, the comparison of a named pool with it, and unknown tokens.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_devnet::TokenMode;
use bursar_devnet::full::Side;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, DOLLAR, ETHER, Stage, atoms};

fn best(token_in: &str, token_out: &str, amount: &str) -> Value {
    json!({
        "chain_id": 8453, "token_in": token_in, "token_out": token_out, "amount_in": amount,
        "route": "best", "max_slippage_bps": 100,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_route_is_the_pool_that_pays_most() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    // The v3 pool pays less than before, so the v4 pool of ETH pays most.
    stage.move_v3_price(30_000 * DOLLAR).await;
    let before = (stage.balance(dollar).await, stage.balance(Address::ZERO).await);
    let (status, answer) = stage.trade(&best(&dollar.to_string(), "ETH", "30")).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
    assert_eq!(answer["quote"]["dex_version"], "v4", "{answer}");
    assert_eq!(before.0 - stage.balance(dollar).await, U256::from(30 * DOLLAR));
    let gas = stage.gas_of(&answer).await;
    let gained = stage.balance(Address::ZERO).await + gas - before.1;
    assert_eq!(gained, atoms(&answer["amount_out"]), "{answer}");
    // In the other direction, the same v3 pool pays most.
    let (status, answer) = stage.trade(&best("ETH", &dollar.to_string(), "0.01")).await;
    assert_eq!((status, &answer["quote"]["dex_version"]), (200, &json!("v3")), "{answer}");
    // WETH has no v4 pool.
    let weth = stage.contracts.weth.to_string();
    let (status, answer) = stage.trade(&best(&dollar.to_string(), &weth, "30")).await;
    assert_eq!((status, &answer["quote"]["dex_version"]), (200, &json!("v3")), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_passes_two_pools_where_no_single_pool_exists() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, router) = (stage.dollar(), stage.contracts.v3.router);
    let token = stage.chain.deploy_token("Other", "1", TokenMode::Plain).await.expect("deployed");
    stage.add_pool(token, 1_000_000 * DOLLAR).await;
    stage.operator.must(&format!("policy edit p --trade-tokens {token}")).await;
    for (token_in, sold, units, amount) in [
        ("ETH".to_owned(), Address::ZERO, ETHER / 100, "0.01"),
        (stage.contracts.weth.to_string(), stage.contracts.weth, ETHER / 100, "0.01"),
    ] {
        let before = (stage.balance(sold).await, stage.balance(token).await);
        let (status, answer) = stage.trade(&best(&token_in, &token.to_string(), amount)).await;
        assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
        let route = answer["quote"]["route"].as_array().expect("a route");
        let outputs: Vec<&str> = route.iter().filter_map(|hop| hop["token_out"].as_str()).collect();
        assert_eq!(outputs, [dollar.to_string(), token.to_string()], "{answer}");
        let gas = if sold == Address::ZERO { stage.gas_of(&answer).await } else { U256::ZERO };
        assert_eq!(before.0 - stage.balance(sold).await, U256::from(units) + gas, "{answer}");
        let gained = stage.balance(token).await - before.1;
        assert_eq!(gained, atoms(&answer["amount_out"]), "{answer}");
        assert!(gained >= atoms(&answer["quote"]["amount_out_min"]), "{answer}");
        assert_eq!(stage.allowance(stage.contracts.weth, router).await, U256::ZERO);
    }
    // The token's value is unknown, so the operator decides about the sale for ETH.
    let (status, answer) = stage.trade(&best(&token.to_string(), "ETH", "20")).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let before = (stage.balance(token).await, stage.balance(Address::ZERO).await);
    let card = stage.approve_held().await;
    assert_eq!(card.hold, HoldReason::NoValue);
    let end = stage.end_of(&answer["request_id"]).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(before.0 - stage.balance(token).await, U256::from(20 * DOLLAR));
    let gained = stage.balance(Address::ZERO).await + stage.gas_of(&end).await - before.1;
    assert_eq!(gained, atoms(&end["amount_out"]), "{end}");
}

/// Every fee tier of v3 is compared, alone and as the second of two pools.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_four_tiers_the_one_that_pays_most_is_taken() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    let token = stage.chain.deploy_token("Other", "1", TokenMode::Plain).await.expect("deployed");
    stage.operator.must(&format!("policy edit p --trade-tokens {token}")).await;
    // Each tier pays more than the previous ones, and the difference exceeds its fee.
    for (fee, tokens) in [(10_000, 100_000), (3_000, 103_000), (500, 106_000), (100, 109_000)] {
        let sides = [Side::new(dollar, 100_000 * DOLLAR), Side::new(token, tokens * DOLLAR)];
        stage.add_v3_pool(sides, fee).await;
        for token_in in [dollar.to_string(), "ETH".to_owned()] {
            let amount = if token_in == "ETH" { "0.01" } else { "30" };
            let before = stage.balance(token).await;
            let (status, answer) = stage.trade(&best(&token_in, &token.to_string(), amount)).await;
            assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
            let route = answer["quote"]["route"].as_array().expect("a route");
            assert_eq!(route.last().expect("a pool")["fee_tier"], fee, "{answer}");
            assert_eq!(route.len(), if token_in == "ETH" { 2 } else { 1 }, "{answer}");
            let gained = stage.balance(token).await - before;
            assert_eq!(gained, atoms(&answer["amount_out"]), "{answer}");
            stage.assert_no_allowance().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_pool_that_pays_much_less_than_another_route_asks() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    stage.move_v3_price(150_000 * DOLLAR).await;
    let asked = json!({
        "chain_id": 8453, "token_in": stage.dollar(), "token_out": "ETH", "amount_in": "30",
        "fee_tier": 500, "max_slippage_bps": 100,
    });
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let card = stage.only_held().await.card.expect("a card");
    assert_eq!(card.hold, HoldReason::BetterRoute);
    let shown = card.trade.expect("a trade");
    assert!(shown.best.is_some_and(|best| best.contains("Uniswap v4")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_tokens_ask_and_tokens_that_take_a_fee_are_refused() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar().to_string();
    let token = stage.chain.deploy_token("Other", "1", TokenMode::Honest).await.expect("deployed");
    stage.add_pool(token, 1_000_000 * DOLLAR).await;
    let asked = json!({
        "chain_id": 8453, "token_in": dollar, "token_out": token, "amount_in": "30",
        "max_slippage_bps": 100,
    });
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    assert_eq!(stage.only_held().await.card.expect("a card").hold, HoldReason::UnlistedToken);
    // The difference of a hundredth is below this slippage, so the floor alone would accept the pool.
    let mut loose = asked.clone();
    loose["max_slippage_bps"] = json!(300);
    for (mode, wanted) in [
        (TokenMode::TakesFee, "keeps a part"),
        (TokenMode::OnlyReports, "less than the minimum arrives"),
        (TokenMode::DoesNothing, "less than the minimum arrives"),
    ] {
        stage.chain.set_token_mode(token, mode).await.expect("set");
        let (status, answer) = stage.trade(&loose).await;
        assert_eq!((status, &answer["reason_code"]), (400, &json!("WOULD_FAIL")), "{answer}");
        assert!(answer["reason"].as_str().is_some_and(|why| why.contains(wanted)), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_with_a_pool_or_an_unknown_route_is_malformed() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar().to_string();
    for change in [
        json!({"route": "fast"}),
        json!({"route": 1}),
        json!({"fee_tier": 500}),
        json!({"dex_version": "v3"}),
        json!({"tick_spacing": 10, "hooks": Address::ZERO}),
    ] {
        let mut asked = best(&dollar, "ETH", "30");
        for (name, value) in change.as_object().expect("an object") {
            asked[name] = value.clone();
        }
        let (status, answer) = stage.trade(&asked).await;
        assert_eq!((status, &answer["code"]), (400, &json!("BAD_REQUEST")), "{answer}");
    }
}
