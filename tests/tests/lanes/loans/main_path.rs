//! Supplies and withdrawals from end to end, on both networks, in vaults of both kinds and in a market.

use alloy_primitives::U256;
use bursar_tests::offers::BASE;
use serde_json::json;

use crate::loans::stage::{AUTOMATIC, DOLLAR, MANUAL, ROBINHOOD, Stage, atoms};

/// Makes an automatic supply, waits a month for interest, withdraws a part, and exits by all shares. Each answer
/// equals the contracts' own views.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_lends_and_takes_its_money_back() {
    for id in [BASE, ROBINHOOD] {
        let Some(mut stage) = Stage::on(id, AUTOMATIC).await else { return };
        for vault in stage.contracts.lending.vaults() {
            let venue = vault.to_checksum(None);
            let before = stage.dollars().await;
            let (status, answer) = stage.supply(&venue, 1_000).await;
            assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
            assert_eq!(atoms(&answer["assets_moved"]), U256::from(1_000 * DOLLAR), "{answer}");
            assert!(answer["tx_hash"].is_string() && answer["approval_tx_hash"].is_string());
            assert_eq!(before - stage.dollars().await, U256::from(1_000 * DOLLAR));
            assert_eq!(stage.allowance(vault).await, U256::ZERO);
            let position = atoms(&answer["position_after"]);
            assert!(position >= U256::from(1_000 * DOLLAR - 2), "{answer}");

            stage.pass_month().await;
            let listed = stage.venues().await;
            let own = listed["venues"].as_array().expect("a list").iter();
            let own = own.clone().find(|one| one["venue"] == venue.as_str());
            let own = own.unwrap_or_else(|| panic!("{listed}"));
            assert!(atoms(&own["your_position_assets"]) > position, "{own}");

            let mut part = stage.request("withdraw", &venue);
            part["amount"] = json!("400");
            let before = stage.dollars().await;
            let (status, answer) = stage.request_position(&part).await;
            assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
            assert_eq!(stage.dollars().await - before, U256::from(400 * DOLLAR));
            assert_eq!(atoms(&answer["assets_moved"]), U256::from(400 * DOLLAR));

            let before = stage.dollars().await;
            let (status, answer) = stage.withdraw_all(&venue).await;
            assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
            let moved = stage.dollars().await - before;
            assert_eq!(atoms(&answer["assets_moved"]), moved);
            assert_eq!(atoms(&answer["position_after"]), U256::ZERO);
            assert_eq!(stage.worth(vault).await, U256::ZERO);
            assert!(moved > U256::from(600 * DOLLAR), "a month of interest: {moved}");
        }
    }
}

/// A market that a trusted vault endorses accepts a direct supply, and returns it by shares.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_lends_to_an_endorsed_market() {
    for id in [BASE, ROBINHOOD] {
        let Some(mut stage) = Stage::on(id, AUTOMATIC).await else { return };
        let market = stage.chain.loan_market().expect("a market");
        let venue = format!("{:#x}", market.id());
        let (status, answer) = stage.supply(&venue, 500).await;
        assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
        assert!(stage.market_shares(market.id()).await > U256::ZERO);
        assert_eq!(stage.allowance(stage.contracts.lending.morpho).await, U256::ZERO);
        stage.pass_month().await;
        let before = stage.dollars().await;
        let (status, answer) = stage.withdraw_all(&venue).await;
        assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
        assert_eq!(atoms(&answer["assets_moved"]), stage.dollars().await - before);
        assert!(atoms(&answer["assets_moved"]) > U256::from(500 * DOLLAR), "{answer}");
        assert_eq!(stage.market_shares(market.id()).await, U256::ZERO);
    }
}

/// A held supply is executed after its approval, even if the engine dies in between, and counts against the ceiling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_supply_survives_a_restart() {
    let Some(mut stage) = Stage::on(BASE, MANUAL).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    let venue = vault.to_checksum(None);
    let (status, answer) = stage.supply(&venue, 1_000).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let card = stage.held().await.card.expect("a card");
    let loan = card.loan.expect("a loan");
    assert!(loan.is_trusted && loan.effects_proven, "{loan:?}");
    stage.crash_and_restart().await;
    stage.approve_held().await;
    let end = stage.end_of(&answer).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert!(stage.worth(vault).await >= U256::from(1_000 * DOLLAR - 2));
    // Of 4,000 dollars, 1,000 are lent. The last of the next supplies would exceed the ceiling.
    for dollars in [1_500, 1_400] {
        let (status, answer) = stage.supply(&venue, dollars).await;
        assert_eq!(status, 202, "{answer}");
    }
    let (status, answer) = stage.supply(&venue, 200).await;
    assert_eq!((status, &answer["code"]), (400, &json!("EXPOSURE_EXCEEDED")), "{answer}");
}
