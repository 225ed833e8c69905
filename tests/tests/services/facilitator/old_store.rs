//! A store of a facilitator that supported only the scheme `exact`. The facilitator was killed after it signed a
//! transaction and before it sent the transaction. Four payments are in flight, and two were settled and answered long
//! ago.

use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::payer::{PERMIT2, PROXY};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::facilitator::kills::{assert_no_gap_and_empty_pool, settle_all};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, prepared_home};

fn vector(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/facilitator-store").join(name)
}

fn payer_of(body: &Value) -> Address {
    let payload = &body["paymentPayload"]["payload"];
    let from = [&payload["authorization"]["from"], &payload["permit2Authorization"]["from"]];
    let from = from.into_iter().find_map(Value::as_str).expect("a payer");
    from.parse().expect("an address")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_exact_scheme_alone_opens_and_resumes() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let home = prepared_home(&chain, chain.url(), 1, "", "").await;
    std::fs::copy(vector("exact-only.redb"), home.folder().join("facilitator.redb"))
        .expect("copied");
    let bodies = std::fs::read_to_string(vector("exact-only.json")).expect("read");
    let bodies: Value = serde_json::from_str(&bodies).expect("JSON");
    let [settled, open] =
        ["settled", "open"].map(|key| bodies[key].as_array().expect("an array").clone());
    for body in settled.iter().chain(&open) {
        let payer = payer_of(body);
        chain.mint(payer, INITIAL_BALANCE).await.expect("minted");
        let coin = chain.network().stablecoin.address;
        chain.approve_as(payer, coin, PERMIT2).await.expect("approved");
    }
    let before = chain.balance_of(SHOP).await.expect("answered");
    // The callers that lost their answers ask again.
    settle_all(&chain, &home, None, &open, "an old store").await;
    let moved = chain.balance_of(SHOP).await.expect("answered") - before;
    assert_eq!(moved, U256::from(1_000 + 1_001 + 1_002 + 1_003));
    assert_no_gap_and_empty_pool(&chain, &home, "an old store").await;

    // The payments settled at that time are now duplicates, even with another amount and scheme
    // under the same Permit2 nonce.
    let facilitator = home.start_again().await;
    let mut copies = settled.clone();
    let permit = settled
        .iter()
        .find(|body| !body["paymentPayload"]["payload"]["permit2Authorization"].is_null());
    let mut other = permit.expect("one by permit2").clone();
    let signed = &mut other["paymentPayload"]["payload"]["permit2Authorization"];
    assert_eq!(signed["spender"], json!(PROXY));
    signed["permitted"]["amount"] = json!("7");
    other["paymentRequirements"]["amount"] = json!("7");
    copies.push(other);
    let answers = join_all(copies.iter().map(|body| facilitator.post("/settle", body))).await;
    for (_status, answer) in answers {
        assert_eq!(answer["errorReason"], "duplicate_settlement", "{answer}");
    }
    facilitator.stop().await;
}
