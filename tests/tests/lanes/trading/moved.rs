//! T-48: pools that another trader moved before the request, so that all reports of the pools agree. Then pools that
//! are moved between two steps of a plan.

use alloy_primitives::Address;
use bursar_core::card::HoldReason;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, DOLLAR, ETHER, Stage};

/// Selling this amount to a pool of a thousand ether and three million dollars moves the price of the
/// other side by about a fifth.
const FIFTH_OF_ETHER: u128 = 118 * ETHER;
const FIFTH_OF_DOLLARS: u128 = 354_000 * DOLLAR;
/// Selling this amount to the same pool moves the price by about two hundredths.
const LITTLE_ETHER: u128 = 10 * ETHER;

fn trade(stage: &Stage, token_in: &str, token_out: &str, amount: &str, v4: bool) -> Value {
    let mut trade = json!({
        "chain_id": stage.id().0, "token_in": token_in, "token_out": token_out,
        "amount_in": amount, "fee_tier": 500, "max_slippage_bps": 100,
    });
    if v4 {
        trade["tick_spacing"] = json!(10);
        trade["hooks"] = json!(Address::ZERO);
    }
    trade
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_48_a_pool_that_was_moved_before_the_request_holds_the_trade() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, weth) = (stage.dollar(), stage.contracts.weth);
    let dollar_text = dollar.to_string();
    // A move below the ceiling causes no hold.
    stage.sell_to_v3(weth, LITTLE_ETHER).await;
    stage.sell_to_v4(&stage.pool_v4(), Address::ZERO, LITTLE_ETHER).await;
    let (status, answer) = stage.trade(&trade(&stage, "ETH", &dollar_text, "0.01", false)).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
    // All pools of the pair agree on a price of ether that is a fifth too low.
    stage.sell_to_v3(weth, FIFTH_OF_ETHER).await;
    stage.sell_to_v4(&stage.pool_v4(), Address::ZERO, FIFTH_OF_ETHER).await;
    let before = stage.nonce().await;
    for v4 in [false, true] {
        let asked = trade(&stage, "ETH", &dollar_text, "0.01", v4);
        assert_held_as_unfair(&mut stage, &asked).await;
    }
    let asked = trade(&stage, &weth.to_string(), &dollar_text, "0.01", false);
    assert_held_as_unfair(&mut stage, &asked).await;
    // All pools of the pair agree on a price that is too high.
    stage.sell_to_v3(dollar, 2 * FIFTH_OF_DOLLARS).await;
    stage.sell_to_v4(&stage.pool_v4(), dollar, 2 * FIFTH_OF_DOLLARS).await;
    for v4 in [false, true] {
        let asked = trade(&stage, &dollar_text, "ETH", "30", v4);
        assert_held_as_unfair(&mut stage, &asked).await;
    }
    assert_eq!(stage.nonce().await, before, "something was sent");
}

async fn assert_held_as_unfair(stage: &mut Stage, asked: &Value) {
    use bursar_tests::operator::Expect;
    let (status, answer) = stage.trade(asked).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let held = stage.only_held().await;
    let card = held.card.expect("a card");
    assert_eq!(card.hold, HoldReason::UnfairValue, "{asked}");
    let shown = card.trade.expect("a trade");
    // The pool's own figures give no reason for a hold.
    assert!(shown.effects_proven && shown.value_out.is_some(), "{shown:?}");
    stage.operator.must(&format!("deny {}", held.id)).await;
}

/// Sends a trade of dollars for WETH while no blocks are mined, and returns it with its task.
async fn start(stage: &mut Stage) -> tokio::task::JoinHandle<(u16, Value)> {
    let asked =
        trade(stage, &stage.dollar().to_string(), &stage.contracts.weth.to_string(), "30", false);
    let body = stage.request_body(None, &asked);
    let client = stage.client();
    tokio::spawn(async move { client.post("/trade", &body).await })
}

/// Whenever the pool moves, the trade ends, no allowance remains, and the volume is returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_moves_between_two_steps_ends_the_trade_without_a_loss() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, weth, router) = (stage.dollar(), stage.contracts.weth, stage.contracts.v3.router);
    let before = (stage.balance(dollar).await, stage.balance(weth).await);
    let left = stage.volume_left().await;

    // The pool moves in the block of the approval, so no swap is signed.
    let sale = stage.sale_to_v3(dollar, FIFTH_OF_DOLLARS).await;
    stage.hold_blocks().await;
    let asked = start(&mut stage).await;
    stage.await_pending(dollar, false).await;
    stage.chain.queue_as(&sale, 1_000_000_000).await.expect("queued");
    stage.resume_blocks().await;
    let (status, answer) = asked.await.expect("an answer");
    assert_eq!((status, &answer["reason_code"]), (400, &json!("PRICE_MOVED")), "{answer}");
    stage.await_no_allowance(dollar, router).await;
    assert_eq!((stage.balance(dollar).await, stage.balance(weth).await), before);
    assert_eq!(stage.volume_left().await, left);

    // Moves the price back. The pool then moves in the block of the swap and before it, so the
    // floor makes the swap revert.
    stage.sell_to_v3(weth, FIFTH_OF_ETHER - 10 * ETHER).await;
    let sale = stage.sale_to_v3(dollar, FIFTH_OF_DOLLARS).await;
    stage.hold_blocks().await;
    let asked = start(&mut stage).await;
    stage.await_pending(router, true).await;
    stage.chain.queue_as(&sale, 1_000_000_000).await.expect("queued");
    stage.resume_blocks().await;
    let (status, answer) = asked.await.expect("an answer");
    assert_eq!((status, &answer["status"]), (500, &json!("failed")), "{answer}");
    assert!(answer["tx_hash"].is_string(), "{answer}");
    stage.await_no_allowance(dollar, router).await;
    assert_eq!((stage.balance(dollar).await, stage.balance(weth).await), before);
    assert_eq!(stage.volume_left().await, left);
}
