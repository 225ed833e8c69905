//! `/sign` while the wallet searches the events of Morpho's contracts, and while the search is paused. The node is 20
//! ms away, in front of a local chain with the block numbers of the real one.
//!
//! Rounds of both kinds alternate on one engine, and one connection sends its requests one after another. The ratio
//! of the two kinds is the result. Run it with `cargo bench -p bursar-tests --bench scan`.

#[path = "lanes/far_node.rs"]
mod far_node;
#[path = "lanes/figures.rs"]
#[expect(dead_code, reason = "only the other benches count round trips")]
mod figures;
#[path = "lanes/stage.rs"]
#[expect(dead_code, reason = "only the other benches count round trips")]
mod stage;

use std::time::{Duration, Instant};

use bursar_devnet::full::lending_chain_or_skip;
use bursar_tests::offers::{BASE, offer};

use crate::far_node::FarNode;
use crate::stage::Stage;

/// Delay of a round trip to the node.
const NODE_DELAY: Duration = Duration::from_millis(20);

/// Maximum number of blocks in a search.
const SEARCH_BLOCKS_MAX: u64 = 10_000;

/// Number of requests in a round.
const REQUESTS_PER_ROUND: usize = 1_000;

/// Number of rounds of each kind.
const ROUNDS: usize = 24;

const POLICY: &str = "--networks 8453 --day 1000000 --txn 10 --auto 5 --lending";

fn main() {
    bursar_tests::bench::runtime().block_on(compare());
}

/// The measurements of one kind of round.
#[derive(Default)]
struct RoundMeasurements {
    times: Vec<Duration>,
    searches: usize,
    blocks: u64,
}

async fn compare() {
    let Some(chain) = lending_chain_or_skip(BASE).await else { return };
    let node = FarNode::start_limited(chain.url(), NODE_DELAY, SEARCH_BLOCKS_MAX).await;
    let (stage, _operator, _owner) = Stage::with_node(node, chain, POLICY, NODE_DELAY).await;
    let (mut still, mut searching, mut number) =
        (RoundMeasurements::default(), RoundMeasurements::default(), 0);
    // The first round warms up.
    round(&stage, &mut RoundMeasurements::default(), &mut number).await;
    for _each in 0..ROUNDS {
        stage.node.hold_logs(true);
        round(&stage, &mut still, &mut number).await;
        stage.node.hold_logs(false);
        round(&stage, &mut searching, &mut number).await;
    }
    for (name, kind) in [("still", &mut still), ("searching", &mut searching)] {
        kind.times.sort_unstable();
        println!(
            "{name}: p50 {:.2} ms, p99 {:.2} ms; {} searches of {} blocks meanwhile",
            kind.quantile_ms(50),
            kind.quantile_ms(99),
            kind.searches,
            kind.blocks
        );
    }
    let ratio = |share| 100.0 * searching.quantile_ms(share) / still.quantile_ms(share);
    println!("searching, of still: p50 {:.0} %, p99 {:.0} %", ratio(50), ratio(99));
}

impl RoundMeasurements {
    /// Returns the time below which this percentage of the requests lies, in milliseconds. The times must be sorted.
    fn quantile_ms(&self, percent: usize) -> f64 {
        self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1_000.0
    }
}

async fn round(stage: &Stage, kind: &mut RoundMeasurements, number: &mut u64) {
    stage.node.take_calls();
    for _request in 0..REQUESTS_PER_ROUND {
        *number += 1;
        let body = stage.agent.ask(stage.engine.now_s(), &offer(1_000, *number), None);
        let begun = Instant::now();
        let answer = stage.post("/sign", &body).await;
        kind.times.push(begun.elapsed());
        assert_eq!(answer["status"], "success", "{answer}");
    }
    for call in stage.node.take_calls().iter().filter(|call| call.method == "eth_getLogs") {
        kind.searches += 1;
        kind.blocks += call.blocks;
    }
}
