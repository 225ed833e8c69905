//! The recorded contract data of x402 must match the pinned version of the official package. The local chain kit
//! compares its own contracts with the record (`tests/devnet/tests/kit/x402_abi.rs`).

use bursar_devnet::install::chain_or_skip;
use bursar_tests::sdk::Script;
use serde_json::{Value, json};

const RECORD: &str = include_str!("../../devnet/tests/kit/x402_abi.json");

#[tokio::test]
async fn the_record_of_the_package_is_current() {
    // The record belongs to the local chain kit, so the switch that skips the kit's tests skips this one too.
    if chain_or_skip().is_none() {
        return;
    }
    let recorded: Value = serde_json::from_str(RECORD).expect("JSON");
    let mut script = Script::start("x402_abi.mjs", &[]).await;
    let found = script.ask(&json!({})).await;
    assert_eq!(found, recorded, "the package changed: write {found:#} to x402_abi.json");
}
