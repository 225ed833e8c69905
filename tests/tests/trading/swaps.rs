//! Every kind of swap: automatic and approved, and what the wallet refuses.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::stage::{DOLLAR, ETHER, Stage, atoms};

/// A thousand dollars a day, trades up to 500, automatic below 200.
const AUTOMATIC: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 200";
/// The same, and every trade needs approval.
const MANUAL: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 0";

fn trade(token_in: &str, token_out: &str, amount: &str) -> Value {
    json!({
        "chain_id": 8453, "token_in": token_in, "token_out": token_out, "amount_in": amount,
        "fee_tier": 500, "max_slippage_bps": 100,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automatic_swaps_of_each_kind_fill_what_the_receipt_shows() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, weth) = (stage.dollar(), stage.contracts.weth);
    let (dollar_text, weth_text) = (dollar.to_string(), weth.to_string());
    let zero = Address::ZERO;
    for (token_in, token_out, amount, sold, bought, units) in [
        (dollar_text.as_str(), weth_text.as_str(), "30", dollar, weth, 30 * DOLLAR),
        (weth_text.as_str(), dollar_text.as_str(), "0.01", weth, dollar, ETHER / 100),
        ("ETH", dollar_text.as_str(), "0.01", zero, dollar, ETHER / 100),
        (dollar_text.as_str(), "eth", "30", dollar, zero, 30 * DOLLAR),
        ("ETH", weth_text.as_str(), "0.02", zero, weth, ETHER / 50),
        (weth_text.as_str(), "ETH", "0.02", weth, zero, ETHER / 50),
    ] {
        let before = (stage.balance(sold).await, stage.balance(bought).await);
        let (status, answer) = stage.trade(&trade(token_in, token_out, amount)).await;
        assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
        let gas = stage.gas_of(&answer).await;
        let paid = |token: Address| if token == zero { gas } else { U256::ZERO };
        let after = (stage.balance(sold).await, stage.balance(bought).await);
        assert_eq!(before.0 - after.0, U256::from(units) + paid(sold), "{answer}");
        let received = atoms(&answer["amount_out"]);
        assert_eq!(after.1 + paid(bought) - before.1, received, "{answer}");
        assert!(received >= atoms(&answer["quote"]["amount_out_min"]), "{answer}");
        let router = stage.contracts.v3.router;
        assert_eq!(stage.allowance(dollar, router).await, U256::ZERO);
        assert_eq!(stage.allowance(weth, router).await, U256::ZERO);
        let (status, polled) = stage.poll(&answer["request_id"]).await;
        assert_eq!((status, &polled["tx_hash"]), (200, &answer["tx_hash"]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v4_swap_of_the_native_coin_fills() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    let mut asked = trade("ETH", &dollar.to_string(), "0.01");
    asked["tick_spacing"] = json!(10);
    asked["hooks"] = json!(Address::ZERO);
    let before = stage.balance(dollar).await;
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
    assert_eq!(stage.balance(dollar).await - before, atoms(&answer["amount_out"]));
    assert_eq!(answer["quote"]["dex_version"], "v4");
}

/// The router takes a token of v4 by a permit within the swap, so one approval for Permit2 is the only other
/// transaction, and nothing remains allowed.
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
    let activity = format!("{:?}", stage.operator.must("activity").await);
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
    let held = stage.held().await;
    let card = held.card.expect("a card");
    assert_eq!(card.hold, HoldReason::ManualOnly);
    let shown = card.trade.as_ref().expect("a trade");
    assert!(shown.effects_proven, "{shown:?}");
    assert_eq!(shown.gives, "30.000000 USDC");
    let approve =
        format!("approve {} --card {} --yes --confirm {}", held.id, card.digest, card.usd);
    stage.operator.must(&approve).await;
    stage.crash_and_restart().await;
    let end = stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
    let sold = U256::from(crate::stage::INITIAL_DOLLARS) - stage.balance(dollar).await;
    assert_eq!(sold, U256::from(30 * DOLLAR), "{end}");
    assert_eq!(stage.allowance(dollar, stage.contracts.v3.router).await, U256::ZERO);
}

/// A repeat gets the first answer, although a new trade of the kind would be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_is_answered_without_a_second_swap() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    let asked = trade(&dollar.to_string(), "ETH", "30");
    let (status, first) = stage.trade(&asked).await;
    assert_eq!((status, &first["status"]), (200, &json!("executed")), "{first}");
    let balances = (stage.balance(dollar).await, stage.balance(Address::ZERO).await);
    stage.operator.must("network disable base").await;
    assert_eq!(stage.repeat(&asked).await, (200, first));
    let (status, refused) = stage.trade(&asked).await;
    assert_eq!((status, &refused["reason_code"]), (400, &json!("NETWORK_DISABLED")));
    assert_eq!((stage.balance(dollar).await, stage.balance(Address::ZERO).await), balances);

    let (_status, mandate) = stage.mandate().await;
    let trading = &mandate["policy"]["trading"];
    let told = |name: &str| trading[name].as_f64().expect("a number");
    assert_eq!((told("volume_today_usd"), told("remaining_today_usd")), (30.0, 970.0));
    assert_eq!((told("per_trade_max_usd"), told("min_reserve_eth")), (500.0, 0.0001));
    let (_status, counters) = stage.get("/status").await;
    assert_eq!((&counters["traded"], &counters["trade_rejected"]), (&json!(1), &json!(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trades_that_cannot_be_made_are_rejected_with_a_reason() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar().to_string();
    let weth = stage.contracts.weth.to_string();
    for (change, code) in [
        (json!({"fee_tier": 10_000}), "NO_POOL"),
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
