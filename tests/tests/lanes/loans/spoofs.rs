//! Venues that must not be used, each built on a local chain. The wallet supplies nothing to them, and can still
//! withdraw existing positions.

use alloy_primitives::{Address, U256};
use bursar_devnet::full::{GateSide, NewVault, VaultLie};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::loans::stage::{AUTOMATIC, DOLLAR, ROBINHOOD, Stage};

/// Asserts a refusal with this code, and that nothing left the address.
async fn refuses(stage: &mut Stage, venue: Address, code: &str) -> Value {
    let before = stage.dollars().await;
    let (status, answer) = stage.supply(&venue.to_checksum(None), 100).await;
    assert_eq!(answer["status"], "rejected", "{answer}");
    let shown = if answer["code"].is_null() { &answer["reason_code"] } else { &answer["code"] };
    assert_eq!((status, shown), (400, &json!(code)), "{answer}");
    assert_eq!(stage.dollars().await, before);
    assert_eq!(stage.allowance(venue).await, U256::ZERO);
    answer
}

async fn executes(stage: &mut Stage, venue: Address) {
    let (status, answer) = stage.supply(&venue.to_checksum(None), 100).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
}

/// A pinned vault that was used before gets an adapter of no official factory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_adapter_stops_supplies_but_no_withdrawal() {
    let Some(mut stage) = Stage::on(ROBINHOOD, AUTOMATIC).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    executes(&mut stage, vault).await;
    stage.chain.add_unofficial_adapter(vault).await.expect("an adapter");
    let answer = refuses(&mut stage, vault, "VENUE_NOT_PERMITTED").await;
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(reason.contains("changed") && reason.contains("no official factory"), "{reason}");
    let (status, answer) = stage.withdraw_all(&vault.to_checksum(None)).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
}

/// Two vaults name a trusted curator: one from an unofficial factory, and one that a stranger owns. The operator
/// trusts the second, until it names another curator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_curators_name_proves_nothing() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let kit = stage.contracts.lending;
    let market = stage.chain.loan_market().expect("a market");
    let stranger = Address::repeat_byte(0x77);
    let new = NewVault { owner: stranger, curator: kit.curator, factory: None };
    let factory = stage.chain.deploy_vault_v2_factory().await.expect("a factory");
    let spoof = NewVault { factory: Some(factory), ..new };
    let spoof = stage.chain.create_vault_v2(&spoof).await.expect("a vault");
    refuses(&mut stage, spoof, "VENUE_NOT_PERMITTED").await;

    let vault = stage.chain.create_vault_v2(&new).await.expect("a vault");
    let adapter = stage.chain.add_market_adapter(vault, &market).await.expect("an adapter");
    stage.chain.allow_market(vault, adapter, &market).await.expect("allowed");
    let answer = refuses(&mut stage, vault, "VENUE_NOT_PERMITTED").await;
    assert!(answer["reason"].as_str().expect("a reason").contains("not confirmed"), "{answer}");
    let venue = vault.to_checksum(None);
    stage.operator.must(&format!("venue trust {venue} --network base --yes")).await;
    // The vault's liquidity is thin, so the operator decides.
    let (status, answer) = stage.supply(&venue, 100).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    stage.approve_held().await;
    assert_eq!(stage.end_of(&answer).await["status"], "executed");

    stage.chain.set_curator(vault, stranger, Address::repeat_byte(7)).await.expect("changed");
    let answer = refuses(&mut stage, vault, "VENUE_NOT_PERMITTED").await;
    assert!(answer["reason"].as_str().expect("a reason").contains("changed"), "{answer}");
    let (status, answer) = stage.withdraw_all(&venue).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
}

/// A vault whose gate for withdrawals is closed gets no deposit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_exit_gate_refuses_deposits() {
    let Some(mut stage) = Stage::on(ROBINHOOD, AUTOMATIC).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    for side in [
        GateSide::SendShares,
        GateSide::ReceiveAssets,
        GateSide::ReceiveShares,
        GateSide::SendAssets,
    ] {
        let gate = stage.chain.add_gate(vault, side).await.expect("a gate");
        executes(&mut stage, vault).await;
        stage.chain.set_gate_open(gate, false).await.expect("closed");
        refuses(&mut stage, vault, "VENUE_NOT_PERMITTED").await;
        stage.chain.set_gate_open(gate, true).await.expect("opened");
    }
}

/// The vault takes a fee of more than a thousandth, which shows only in the deposit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_entry_fee_is_refused() {
    let Some(mut stage) = Stage::on(ROBINHOOD, AUTOMATIC).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    executes(&mut stage, vault).await;
    stage.chain.corrupt_vault_v2(vault).await.expect("corrupted");
    for lie in [VaultLie::EntryFee(1), VaultLie::EntryFeeWhenSent(1)] {
        stage.chain.set_vault_lie(vault, lie).await.expect("it lies");
        refuses(&mut stage, vault, "WOULD_FAIL").await;
    }
}

/// Forged events stop nothing. A venue that cannot be read stops every supply, even to other venues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_venue_stops_supplies_and_a_forged_deposit_does_not() {
    let Some(mut stage) = Stage::on(ROBINHOOD, AUTOMATIC).await else { return };
    let [first, second] = stage.contracts.lending.vaults()[..] else { panic!("two vaults") };
    executes(&mut stage, second).await;
    let forger = stage.chain.deploy_forger().await.expect("a forger");
    stage.chain.forge_deposit(forger, stage.owner, 5_000 * DOLLAR).await.expect("forged");
    executes(&mut stage, first).await;

    let code = stage.chain.request("eth_getCode", json!([second, "latest"])).await.expect("code");
    // The code is one invalid instruction, so every call fails.
    stage.chain.request("anvil_setCode", json!([second, "0xfe"])).await.expect("set");
    refuses(&mut stage, first, "EXPOSURE_UNREADABLE").await;
    // Once the vault has its own code again, other venues accept supplies.
    stage.chain.request("anvil_setCode", json!([second, code])).await.expect("set");
    executes(&mut stage, first).await;
}
