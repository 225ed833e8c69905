//! T-51: two agents trade one token from one address at the same time.

use alloy_primitives::{Address, U256};
use bursar_tests::operator::Expect;
use serde_json::Value;

use crate::trading::operations::Operation;
use crate::trading::stage::{AUTOMATIC, DOLLAR, Stage, atoms};

/// Returns sales of different dollar amounts: in v3 for WETH and for the native coin, and in v4.
fn sales(stage: &Stage) -> Vec<Operation> {
    let (sold, weth, coin) = (stage.dollar(), stage.contracts.weth, Address::ZERO);
    let sale = |bought, units: u128, amount, v4| {
        let units = units * DOLLAR;
        Operation { sold, bought, units, amount, v4 }
    };
    vec![
        sale(weth, 30, "30", false),
        sale(coin, 50, "50", true),
        sale(coin, 20, "20", false),
        sale(weth, 40, "40", false),
        sale(coin, 10, "10", true),
        sale(weth, 25, "25", false),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_51_two_agents_on_one_address_each_spend_their_own_allowance() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let other = stage.another_agent("other").await;
    let (dollar, weth) = (stage.dollar(), stage.contracts.weth);
    let sales = sales(&stage);
    let before = (stage.balance(dollar).await, stage.balance(weth).await);
    let first = stage.head().await + 1;
    let client = stage.client();
    let mut running = Vec::new();
    for (number, sale) in sales.iter().enumerate() {
        let agent = (number % 2 == 0).then_some(&other);
        let asked = sale.request(&stage);
        let body = stage.request_body(agent, &asked);
        let (client, sent) = (client.clone(), stage.nonce().await);
        running.push(tokio::spawn(async move { client.post("/trade", &body).await }));
        if number < 3 {
            // The next trade is requested in the middle of an earlier plan.
            stage.await_nonce_above(sent).await;
        }
    }
    let mut bought = U256::ZERO;
    for (sale, running) in sales.iter().zip(running) {
        let (_status, answer) = running.await.expect("an answer");
        let answer = stage.end_of(&answer["request_id"]).await;
        assert_eq!(answer["status"], "executed", "{sale:?}: {answer}");
        if sale.bought == weth {
            bought += atoms(&answer["amount_out"]);
        }
    }
    let sold: u128 = sales.iter().map(|sale| sale.units).sum();
    assert_eq!(before.0 - stage.balance(dollar).await, U256::from(sold));
    assert_eq!(stage.balance(weth).await - before.1, bought);
    stage.assert_no_allowance().await;
    // Each plan's approval is followed by its own swap, whatever other requests came in between.
    let sent = stage.mined_since(first).await;
    let kinds: Vec<bool> = sent.iter().map(|one| one.is_approval()).collect();
    assert_eq!(kinds, [true, false].repeat(sales.len()), "{sent:?}");
    let approved: Vec<U256> = sent.iter().filter_map(|one| one.approved_amount()).collect();
    let mut units: Vec<U256> = sales.iter().map(|sale| U256::from(sale.units)).collect();
    let mut sorted = approved.clone();
    sorted.sort();
    units.sort();
    assert_eq!(sorted, units, "{approved:?}");
}

/// If a plan fails between its approval and its swap, it revokes only its own allowance, and before the next plan gives
/// an allowance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_51_a_plan_that_fails_takes_back_its_allowance_before_the_next_one_acts() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let other = stage.another_agent("other").await;
    let dollar = stage.dollar();
    let before = stage.balance(dollar).await;
    stage.hold_blocks().await;
    let [one, two] = [0, 2].map(|at| sales(&stage)[at]);
    let client = stage.client();
    let mut running = Vec::new();
    for (sale, agent) in [(one, None), (two, Some(&other))] {
        let asked = sale.request(&stage);
        let body = stage.request_body(agent, &asked);
        let client = client.clone();
        running.push(tokio::spawn(async move { client.post("/trade", &body).await }));
        // The first plan has begun before the second is requested.
        stage.await_pending(dollar, false).await;
    }
    stage.operator.must("agent suspend bot").await;
    stage.resume_blocks().await;
    let mut ends: Vec<Value> = Vec::new();
    for running in running {
        let (_status, answer) = running.await.expect("an answer");
        ends.push(stage.end_of(&answer["request_id"]).await);
    }
    assert_eq!(ends[0]["status"], "rejected", "{}", ends[0]);
    assert_eq!(ends[1]["status"], "executed", "{}", ends[1]);
    assert_eq!(before - stage.balance(dollar).await, U256::from(two.units));
    stage.operator.must("agent resume bot").await;
    stage.await_no_allowance(dollar, stage.contracts.v3.router).await;
    stage.assert_no_allowance().await;
    assert_eq!(stage.volume_left().await, 1_000.0);
}
