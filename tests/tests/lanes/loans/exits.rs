//! The operator's withdrawals with missing gas money or network, and supplies to vaults
//! that only the operator trusts.

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_devnet::full::NewVault;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::json;

use crate::loans::stage::{AUTOMATIC, DOLLAR, ROBINHOOD, Stage};

/// If the gas money is missing, agents and operator see that reason, and not an unavailable network. A balance
/// that pays for the transaction suffices, although a simulation has a much higher gas limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_gas_money_is_named_and_little_suffices() {
    for id in [BASE, ROBINHOOD] {
        let Some(mut stage) = Stage::on(id, AUTOMATIC).await else { return };
        let venue = stage.contracts.lending.vaults()[0].to_checksum(None);
        let (status, answer) = stage.supply(&venue, 500).await;
        assert_eq!(status, 200, "{answer}");
        for poor in [U256::ZERO, U256::ONE] {
            stage.chain.request("anvil_setBalance", json!([stage.owner, poor])).await.expect("set");
            let code = stage
                .operator
                .run_refused(&format!("position withdraw {venue} all --yes"))
                .await
                .code;
            assert_eq!(code, Code::InsufficientFunds, "{poor} wei");
            for (status, answer) in
                [stage.supply(&venue, 100).await, stage.withdraw_all(&venue).await]
            {
                assert_eq!(status, 400, "{answer}");
                assert_eq!(answer["reason_code"], "INSUFFICIENT_FUNDS", "{answer}");
                assert!(answer["reason"].to_string().contains("for gas"), "{answer}");
            }
        }
        // The simulation has 3,000,000 gas, of which a withdrawal uses a tenth.
        let enough = gas_price(&stage).await * U256::from(1_200_000);
        stage.chain.request("anvil_setBalance", json!([stage.owner, enough])).await.expect("set");
        stage.operator.must(&format!("position withdraw {venue} all --yes")).await;
        stage.await_booked(1).await;
        assert_eq!(stage.shares(stage.contracts.lending.vaults()[0]).await, U256::ZERO);
    }
}

/// Returns the price of a unit of gas, in wei.
async fn gas_price(stage: &Stage) -> U256 {
    let number = |value: &serde_json::Value| -> U256 {
        value.as_str().expect("a number").parse().expect("a number")
    };
    let block = stage.chain.request("eth_getBlockByNumber", json!(["latest", false])).await;
    let tip = stage.chain.request("eth_maxPriorityFeePerGas", json!([])).await;
    number(&block.expect("a block")["baseFeePerGas"]) + number(&tip.expect("a tip"))
}

/// Two networks have Morpho, but only one has the venue, so the operator need not name the network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_network_of_a_withdrawal_follows_from_the_venue() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let venues: Vec<String> =
        stage.contracts.lending.vaults().iter().map(|one| one.to_checksum(None)).collect();
    for venue in &venues {
        let (status, answer) = stage.supply(venue, 500).await;
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(stage.counters().await["traded"], json!(venues.len()), "loans count as trades do");
    stage.operator.must(&format!("position withdraw {} all --yes", venues[0])).await;
    stage.operator.must(&format!("position withdraw {} all --yes", venues[1])).await;
    stage.await_booked(2).await;
    let code = stage
        .operator
        .run_refused(&format!("position withdraw {} all --yes", venues[0]))
        .await
        .code;
    assert_eq!(code, Code::InsufficientFunds, "nothing is left");
}

/// A vault that pays interest and is in no list: its shares are bought, and the rest of the allowance is revoked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_of_an_uncurated_vault_are_bought() {
    let policy = format!("{AUTOMATIC} --no-restrict");
    let Some(mut stage) = Stage::on(BASE, &policy).await else { return };
    let (owner, curator) = (Address::repeat_byte(0x77), Address::repeat_byte(0x78));
    let new = NewVault { owner, curator, factory: None };
    let vault = stage.chain.create_vault_v2(&new).await.expect("a vault");
    let market = stage.chain.loan_market().expect("a market");
    let adapter = stage.chain.add_market_adapter(vault, &market).await.expect("an adapter");
    stage.chain.allow_market(vault, adapter, &market).await.expect("allowed");
    let venue = vault.to_checksum(None);
    let mut lent = 0;
    for month in 0..3 {
        let (status, answer) = stage.supply(&venue, 100).await;
        assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
        stage.approve_held().await;
        let answer = stage.end_of(&answer).await;
        assert_eq!(answer["status"], "executed", "{month}: {answer}");
        let moved: u128 = answer["assets_moved"].to_string().trim_matches('"').parse().expect("it");
        assert!(moved > 99_900_000 && moved < 100 * DOLLAR, "{answer}");
        lent += moved;
        assert!(stage.worth(vault).await >= U256::from(lent - 5));
        stage.await_allowance(vault, U256::ZERO).await;
        stage.pass_month().await;
    }
    let (status, answer) = stage.withdraw_all(&venue).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
    assert_eq!(stage.shares(vault).await, U256::ZERO);
}
