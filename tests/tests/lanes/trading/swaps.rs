//! Every kind of swap: automatic and approved, and the swaps that the wallet refuses.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_devnet::full::Side;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, DOLLAR, ETHER, MANUAL, Stage, atoms};

fn trade(token_in: &str, token_out: &str, amount: &str) -> Value {
    json!({
        "chain_id": 8453, "token_in": token_in, "token_out": token_out, "amount_in": amount,
        "fee_tier": 500, "max_slippage_bps": 100,
    })
}

/// The router takes a token for a v4 swap by a permit inside the swap. So the only other transaction is one approval
/// for Permit2, and no allowance remains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v4_swap_of_a_token_takes_its_input_by_a_permit() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    let permit2 = stage.contracts.permit2;
    let router = stage.contracts.routers.v2_1_2;
    let mut asked = trade(&dollar.to_string(), "ETH", "30");
    asked["tick_spacing"] = json!(10);
    asked["hooks"] = json!(Address::ZERO);
    for round in 0..2u64 {
        let before = (stage.balance(dollar).await, stage.balance(Address::ZERO).await);
        let (status, answer) = stage.trade(&asked).await;
        assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
        let gas = stage.gas_of(&answer).await;
        assert_eq!(before.0 - stage.balance(dollar).await, U256::from(30 * DOLLAR), "{answer}");
        let gained = stage.balance(Address::ZERO).await + gas - before.1;
        assert_eq!(gained, atoms(&answer["amount_out"]), "{answer}");
        assert_eq!(stage.allowance(dollar, permit2).await, U256::ZERO);
        let (amount, nonce) = stage.permit2_allowance(dollar, router).await;
        assert_eq!((amount, nonce), (U256::ZERO, round + 1));
    }
    let activity = format!("{:?}", stage.operator.must("activity --raw").await);
    assert!(activity.contains("TradePermitSigned"), "{activity}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_swap_is_executed_once_also_after_a_crash() {
    let Some(mut stage) = Stage::set_up(MANUAL).await else { return };
    let dollar = stage.dollar();
    let asked = trade(&dollar.to_string(), "ETH", "30");
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let id = answer["request_id"].clone();
    let (status, polled) = stage.poll(&id).await;
    assert_eq!((status, &polled["status"]), (202, &json!("pending")), "{polled}");
    let card = stage.approve_held().await;
    assert_eq!(card.hold, HoldReason::ManualOnly);
    let shown = card.trade.as_ref().expect("a trade");
    assert!(shown.effects_proven, "{shown:?}");
    assert_eq!(shown.gives, "30.000000 USDC");
    stage.crash_and_restart().await;
    let end = stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
    let sold = U256::from(crate::trading::stage::INITIAL_DOLLARS) - stage.balance(dollar).await;
    assert_eq!(sold, U256::from(30 * DOLLAR), "{end}");
    assert_eq!(stage.allowance(dollar, stage.contracts.v3.router).await, U256::ZERO);
}

/// A repeated request gets the first answer, although another trade of this kind would be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_is_answered_without_a_second_swap() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    let asked = trade(&dollar.to_string(), "ETH", "30");
    let (status, first) = stage.trade(&asked).await;
    assert_eq!((status, &first["status"]), (200, &json!("executed")), "{first}");
    let balances = (stage.balance(dollar).await, stage.balance(Address::ZERO).await);
    stage.operator.must("network disable base").await;
    assert_eq!(stage.repeat_trade(&asked).await, (200, first.clone()));
    stage.operator.must("policy edit p --no-trading").await;
    assert_eq!(stage.repeat_trade(&asked).await, (200, first));
    stage.operator.must("policy edit p --trading").await;
    let (status, refused) = stage.trade(&asked).await;
    assert_eq!((status, &refused["reason_code"]), (400, &json!("NETWORK_DISABLED")));
    assert_eq!((stage.balance(dollar).await, stage.balance(Address::ZERO).await), balances);

    let (_status, mandate) = stage.mandate().await;
    let trading = &mandate["policy"]["trading"];
    let told = |name: &str| trading[name].as_f64().expect("a number");
    // The volume includes the swap's gas.
    let (volume, left) = (told("volume_today_usd"), told("remaining_today_usd"));
    assert!((30.0..30.1).contains(&volume) && (969.9..=970.0).contains(&left), "{trading}");
    assert_eq!((told("per_trade_max_usd"), told("min_reserve_eth")), (500.0, 0.0001));
    let (_status, counters) = stage.get("/status").await;
    assert_eq!((&counters["traded"], &counters["trade_rejected"]), (&json!(1), &json!(1)));
}

/// A copy of a refused request never becomes a trade, even if the trade is possible by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_keeps_its_refusal() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, weth) = (stage.dollar(), stage.contracts.weth);
    let mut asked = trade(&dollar.to_string(), &weth.to_string(), "30");
    asked["fee_tier"] = json!(10_000);
    let (status, first) = stage.trade(&asked).await;
    assert_eq!((status, &first["reason_code"]), (400, &json!("NO_POOL")), "{first}");
    assert!(first["quote"].is_null() && first["amount_out_quoted"].is_null(), "{first}");
    let sides = [Side::new(dollar, 3_000_000 * DOLLAR), Side::new(weth, 1_000 * ETHER)];
    stage.add_v3_pool(sides, 10_000).await;
    assert_eq!(stage.repeat_trade(&asked).await, (400, first.clone()));
    let (status, polled) = stage.poll(&first["request_id"]).await;
    assert_eq!((status, &polled["reason_code"]), (200, &json!("NO_POOL")), "{polled}");
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trades_that_cannot_be_made_are_rejected_with_a_reason() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar().to_string();
    let weth = stage.contracts.weth.to_string();
    for (change, code) in [
        (json!({"fee_tier": 10_000}), "NO_POOL"),
        (json!({"fee_tier": 500, "tick_spacing": 1, "hooks": Address::ZERO}), "NO_POOL"),
        (json!({"tick_spacing": 60, "hooks": Address::repeat_byte(0x80)}), "NO_POOL"),
        (json!({"amount_in": "501"}), "EXCEEDS_PER_TRADE_MAX"),
        (json!({"max_slippage_bps": 301}), "EXCEEDS_MAX_SLIPPAGE"),
        (json!({"deadline": 1}), "DEADLINE_PASSED"),
        (json!({"token_in": Address::repeat_byte(0x77)}), "UNKNOWN_TOKEN"),
        (json!({"chain_id": 84_532}), "UNKNOWN_NETWORK"),
    ] {
        let mut asked = trade(&dollar, &weth, "30");
        for (name, value) in change.as_object().expect("an object") {
            asked[name] = value.clone();
        }
        let (status, answer) = stage.trade(&asked).await;
        assert_eq!((status, &answer["status"]), (400, &json!("rejected")), "{answer}");
        assert_eq!((&answer["reason_code"], &answer["code"]), (&json!(code), &Value::Null));
        assert!(answer["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{answer}");
    }
    for change in [
        json!({"recipient": dollar.clone()}),
        json!({"token_in": "0x12"}),
        json!({"amount_in": "-1"}),
        json!({"dex_version": "v5"}),
        json!({"token_out": dollar.clone()}),
    ] {
        let mut asked = trade(&dollar, &weth, "30");
        for (name, value) in change.as_object().expect("an object") {
            asked[name] = value.clone();
        }
        let (status, answer) = stage.trade(&asked).await;
        assert_eq!((status, &answer["status"]), (400, &json!("error")), "{answer}");
    }
}
