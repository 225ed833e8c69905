//! Kills the process at every failpoint and restarts it: each payment settles once, every caller receives its success,
//! and no nonce is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use alloy_primitives::U256;
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::{FacilitatorHome, ask};
use bursar_tests::payer::{PERMIT2, Payer, TransferMethod};
use bursar_tests::sponsored::ApprovalTerms;
use bursar_tests::upto_contract;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, prepared_home};

const TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Each failpoint, and the hits (counted from 1) at which the process dies, one per run.
pub(crate) const POINTS: [(&str, &[u8]); 20] = [
    ("settle.before accept", &[1, 4]),
    ("settle.after accept", &[1, 4]),
    ("settle.before approval", &[1]),
    ("settle.after approval", &[1]),
    ("settle.before batch", &[1, 2]),
    ("settle.after batch", &[1, 2]),
    ("settle.after submit", &[1, 2]),
    ("outbox.before commit", &[1, 2, 3, 4, 5, 6, 7, 8]),
    ("outbox.after commit", &[1, 2, 3, 4, 5, 6, 7, 8]),
    ("outbox.signed", &[1, 2]),
    ("outbox.send", &[1, 2]),
    ("outbox.sent", &[1, 2]),
    ("settle.before verdict", &[1, 2]),
    ("settle.after verdict", &[1, 2]),
    ("settle.before close", &[1]),
    ("settle.after close", &[1]),
    ("settle.before answered", &[1, 3]),
    ("settle.after answered", &[1, 3]),
    ("settle.before withdraw", &[]),
    ("settle.after withdraw", &[]),
];

#[test]
fn every_failpoint_of_the_source_is_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut folders: Vec<PathBuf> =
        ["facilitator/src", "shared/outbox/src"].iter().map(|folder| root.join(folder)).collect();
    let mut files = vec![root.join("shared/chain/src/tx_driver.rs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("text");
        for call in [".hit(\"", ".pass(\""] {
            let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
    let listed = POINTS.iter().map(|(point, _times)| (*point).to_owned()).collect();
    assert_eq!(found, listed);
}

/// Settles all bodies, restarting the process when it dies. Returns the number of deaths.
pub(crate) async fn settle_all(
    chain: &Devnet,
    home: &FacilitatorHome,
    fault: Option<&str>,
    bodies: &[Value],
    case: &str,
) -> usize {
    let mut process = home.start_process(fault);
    let mut deaths = 0;
    let end = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < end, "{case}: {}", log(home));
        let asked = bodies.iter().map(|body| ask(&process.url, "/settle", body));
        let answers = join_all(asked).await;
        if process.has_exited() {
            deaths += 1;
            process = home.start_process(None);
            continue;
        }
        for answer in answers.iter().flatten() {
            let (_status, reply) = answer;
            // If no node has the transaction when the answer is due, the payment is
            // withdrawn or its state is unknown.
            let reasons = ["settlement_pending", "settlement_withdrawn", "unexpected_settle_error"];
            let reason = reply["errorReason"].as_str().unwrap_or_default();
            assert!(reply["success"] == true || reasons.contains(&reason), "{case}: {reply}");
        }
        let settled = |answer: &Option<(u16, Value)>| {
            answer.as_ref().is_some_and(|(_status, reply)| reply["success"] == true)
        };
        if answers.iter().all(settled) {
            if fault.is_none() || deaths > 0 {
                return deaths;
            }
            // Some failpoints are reached only once blocks are final.
            chain.mine(1).await.expect("mined");
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn log(home: &FacilitatorHome) -> String {
    std::fs::read_to_string(home.folder().join("log")).unwrap_or_default()
}

/// Asserts that no nonce is missing and no transaction is left in the pool.
pub(crate) async fn assert_no_gap_and_empty_pool(
    chain: &Devnet,
    home: &FacilitatorHome,
    case: &str,
) {
    for signer in &home.signers {
        let count = async |tag: &str| {
            let answer = chain.request("eth_getTransactionCount", json!([signer, tag])).await;
            answer.expect("answered").as_str().expect("text").to_owned()
        };
        assert_eq!(count("latest").await, count("pending").await, "{case}");
    }
    let pool = chain.request("txpool_status", json!([])).await.expect("answered");
    assert_eq!(pool["queued"], "0x0", "{case}: a nonce is missing");
}

/// Builds a payment whose payer has no allowance but pays the gas of its approval.
async fn payment_with_approval(chain: &Devnet, amount: u64) -> Value {
    let payer = Payer::random();
    let terms = payer.terms(chain.network(), SHOP, amount);
    let mut body = payer.pay(TransferMethod::Permit2, &terms).body(2);
    body["paymentPayload"]["extensions"] = funded_approval(chain, &payer).await;
    body
}

/// Gives an account tokens, and coin for an approval; returns the approval as `extensions`.
pub(crate) async fn funded_approval(chain: &Devnet, payer: &Payer) -> Value {
    let network = chain.network();
    let terms = ApprovalTerms::new(network.chain.0, network.stablecoin.address);
    chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
    let coin = json!([payer.address(), terms.coin()]);
    chain.request("anvil_setBalance", coin).await.expect("set");
    payer.approval(&terms)
}

async fn kill_at_failpoint(point: &str, time: u8) {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let fault = format!("{point}:{time}");
    // Six payments make at least two transactions, however quickly they arrive.
    let home = prepared_home(
        &chain,
        chain.url(),
        1,
        "wait_ms = 1500\nin_flight = 2\nbatch_calls = 3",
        &upto_contract::setting(&[&[0]]),
    )
    .await;
    let contract = upto_contract::deploy(&chain, &[0]).await;
    let mut bodies = Vec::new();
    for n in 0..6 {
        let payer = Payer::random();
        chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        let terms = payer.terms(chain.network(), SHOP, 1_000 + n);
        bodies.push(payer.pay(TransferMethod::Eip3009, &terms).body(2));
    }
    // `upto` payments: a signer settles a part of one and zero of another, and the contract settles parts of two.
    let coin = chain.network().stablecoin.address;
    for (facilitator, amount) in
        [(home.signers[0], 500), (home.signers[0], 0), (contract, 300), (contract, 400)]
    {
        let payer = Payer::random();
        chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        chain.approve_as(payer.address(), coin, PERMIT2).await.expect("approved");
        let mut terms = payer.terms(chain.network(), SHOP, 1_000);
        terms.facilitator = facilitator;
        bodies.push(payer.pay(TransferMethod::Upto, &terms).settle_body(amount));
    }
    // A payment with a signed approval of Permit2.
    bodies.push(payment_with_approval(&chain, 2_000).await);
    let before = chain.balance_of(SHOP).await.expect("answered");
    let deaths = settle_all(&chain, &home, Some(&fault), &bodies, &fault).await;
    assert_eq!(deaths, 1, "{fault}: it was not reached");
    let moved = chain.balance_of(SHOP).await.expect("answered") - before;
    assert_eq!(moved, U256::from(6_015 + 500 + 300 + 400 + 2_000), "{fault}");
    assert_no_gap_and_empty_pool(&chain, &home, &fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_failpoint_settles_each_payment_once() {
    for (point, times) in POINTS {
        join_all(times.iter().map(|time| kill_at_failpoint(point, *time))).await;
    }
}
