//! Loans from an address of a Ledger, and the operator's own withdrawal from it.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_ledger_device::device::{Decision, Device};
use bursar_tests::ledger::{SEED_WORDS, decide, plug_in_blind, prompts};
use bursar_tests::operator::Expect;
use serde_json::json;

use crate::loans::stage::{AUTOMATIC, DOLLAR, Stage, atoms};

/// A scene with a Ledger, and a vault.
async fn start() -> Option<(Stage, Arc<Device>, Address)> {
    let (device, at) = plug_in_blind(SEED_WORDS);
    let stage = Stage::with_device(AUTOMATIC, at).await?;
    let vault = stage.contracts.lending.vaults()[0];
    Some((stage, device, vault))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supply_takes_two_presses_and_a_withdrawal_one() {
    let Some((mut stage, device, vault)) = start().await else { return };
    let venue = vault.to_checksum(None);
    let before = stage.dollars().await;
    let (_status, asked) = stage.supply(&venue, 1_000).await;
    decide(&device, Decision::Press).await;
    assert_eq!(stage.poll(&asked).await["status"], "executing");
    decide(&device, Decision::Press).await;
    let end = stage.end_of(&asked).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(before - stage.dollars().await, U256::from(1_000 * DOLLAR));
    assert_eq!(stage.allowance(vault).await, U256::ZERO);

    let (_status, asked) = stage.withdraw_all(&venue).await;
    decide(&device, Decision::Press).await;
    let end = stage.end_of(&asked).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(atoms(&end["position_after"]), U256::ZERO);
    assert_eq!(prompts(&device), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_supply_moves_nothing_and_takes_its_approval_back() {
    let Some((mut stage, device, vault)) = start().await else { return };
    let venue = vault.to_checksum(None);
    let before = stage.dollars().await;
    let (_status, refused) = stage.supply(&venue, 1_000).await;
    decide(&device, Decision::Refuse).await;
    let end = stage.end_of(&refused).await;
    assert_eq!(
        (&end["status"], &end["reason_code"]),
        (&json!("rejected"), &json!("LEDGER_REJECTED"))
    );
    assert_eq!(prompts(&device), 1, "nothing to take back");
    let (_status, refused) = stage.supply(&venue, 1_000).await;
    decide(&device, Decision::Press).await;
    decide(&device, Decision::Refuse).await;
    let end = stage.end_of(&refused).await;
    assert_eq!(end["reason_code"], "LEDGER_REJECTED", "{end}");
    decide(&device, Decision::Press).await;
    stage.await_allowance(vault, U256::ZERO).await;
    assert_eq!((stage.dollars().await, prompts(&device)), (before, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_withdraws_by_one_press() {
    let Some((mut stage, device, vault)) = start().await else { return };
    let venue = vault.to_checksum(None);
    let (_status, asked) = stage.supply(&venue, 100).await;
    decide(&device, Decision::Press).await;
    decide(&device, Decision::Press).await;
    assert_eq!(stage.end_of(&asked).await["status"], "executed");
    let line = format!("position withdraw {venue} all --yes");
    tokio::join!(stage.operator.must(&line), decide(&device, Decision::Press));
    stage.await_booked(1).await;
    assert_eq!(stage.worth(vault).await, U256::ZERO);
}
