//! Loans with a node 20 ms away, on the real singleton and vaults of a local chain with thirty venues.
//!
//! The bench measures a supply with its policy decision, the time from a request to its
//! broadcast, and the list of venues.
//!
//! The lower bound is the number of round trips to the node, which the bench counts. Run it with `cargo bench -p
//! bursar-tests --bench lending`.

#[path = "lanes/far_node.rs"]
#[expect(dead_code, reason = "only one of the benches counts searches")]
mod far_node;
#[path = "lanes/figures.rs"]
mod figures;
#[path = "lanes/stage.rs"]
mod stage;

use std::time::Duration;

use alloy_primitives::Address;
use bursar_devnet::full::{Contracts, NewVault, lending_chain_or_skip};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::figures::Figures;
use crate::stage::Stage;

/// Delay of a round trip to the node.
const NODE_DELAY: Duration = Duration::from_millis(20);

/// Number of requests in each measurement.
const REQUESTS_PER_MEASUREMENT: usize = 60;

/// Number of venues that count for the exposure.
const VENUES: usize = 30;

const POLICY: &str = "--networks 8453 --lending --lending-max 500 --lending-total 100000 --lending-auto 400 --lending-ops 1000";

fn main() {
    bursar_tests::bench::runtime().block_on(latencies());
}

/// Starts the scene; `None` if tests with a chain are skipped. The operator trusts as many new vaults as are missing.
async fn set_up() -> Option<(Stage, Address)> {
    let chain = lending_chain_or_skip(BASE).await?;
    let kit = Contracts::of(BASE).expect("a full chain").lending;
    let ready = kit.vaults();
    let market = chain.loan_market().expect("a market");
    let new = NewVault { owner: Address::repeat_byte(0x77), curator: kit.curator, factory: None };
    let mut added = Vec::new();
    for _one in ready.len()..VENUES {
        let vault = chain.create_vault_v2(&new).await.expect("a vault");
        let adapter = chain.add_market_adapter(vault, &market).await.expect("an adapter");
        chain.allow_market(vault, adapter, &market).await.expect("allowed");
        added.push(vault);
    }
    let (stage, mut operator, owner) = Stage::on(chain, POLICY, NODE_DELAY).await;
    stage.chain.mint(owner, 1_000_000_000_000).await.expect("minted");
    for vault in added {
        let vault = vault.to_checksum(None);
        operator.must(&format!("venue trust {vault} --network base --yes")).await;
    }
    Some((stage, ready[0]))
}

fn supply(stage: &Stage, venue: Address, micros: u64) -> Value {
    let amount = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let position = json!({
        "action": "supply", "venue": venue.to_checksum(None), "venue_kind": "vault",
        "chain_id": 8453, "amount": amount,
    });
    stage.agent.position(stage.engine.now_s(), &position)
}

async fn latencies() {
    let Some((stage, venue)) = set_up().await else { return };
    stage.mine_blocks();
    // The amount exceeds the policy's largest supply, so the request is measured, judged and then refused.
    let large = |at: usize| supply(&stage, venue, 600_000_000 + at as u64);
    for warm in 0..3 {
        stage.post("/position", &large(warm)).await;
    }
    let mut figures = Figures::default();
    for at in 3..REQUESTS_PER_MEASUREMENT + 3 {
        let body = large(at);
        let answer = stage.measure("/position", &body, &mut figures).await;
        assert_eq!(answer["code"], "PER_DEPOSIT_EXCEEDED", "{answer}");
    }
    figures.print(&format!("supply judged, {VENUES} venues"));

    let mut figures = Figures::default();
    for at in 0..REQUESTS_PER_MEASUREMENT as u64 {
        let listed = json!({ "chain_id": 8453 });
        let body = stage.agent.position(stage.engine.now_s() - (at % 200) as i64, &listed);
        let answer = stage.measure("/venues", &body, &mut figures).await;
        assert_eq!(answer["exposure_complete"], true, "{answer}");
    }
    figures.print(&format!("list of {VENUES} venues"));

    let mut figures = Figures::default();
    for at in 0..REQUESTS_PER_MEASUREMENT {
        let body = supply(&stage, venue, 1_000_000 + at as u64);
        stage.measure_broadcast("/position", &body, &mut figures).await;
    }
    figures.print("supply requested to broadcast");
}
