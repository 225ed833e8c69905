//! Plays random orders of a payer, a merchant, a stranger and a facilitator against the escrow, and compares every step
//! with a model. Every unit of money is accounted for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::U256;
use bursar_core::networks::ChainId;
use bursar_devnet::full::full_chain_or_skip;
use futures::StreamExt;
use serde_json::json;

use crate::facilitator::channel_audit::{SpoilableCalls, audit};
use crate::facilitator::channel_play::play;
use crate::facilitator::channel_world::World;
use crate::facilitator::stage::{BASE, ROBINHOOD, Stage};

const DEFAULT_SEEDS: u64 = 200;
/// Number of seeds that are played concurrently on a chain.
const CONCURRENT_SEEDS: usize = 16;
/// Number of seeds that are played one at a time first. Without load, the next request comes within a tenth of a
/// second, while the facilitator may still use an older state of the channel.
const QUIET_SEEDS: usize = 8;
/// Number of seeds between two audits of the transactions.
const AUDITED_SEEDS: usize = 100;
/// Number of failures after which no further seeds are played.
const FAILURES_MAX: usize = 3;
/// Timeout of one seed; only a seed that hangs reaches it.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Steps and their ends that the default seeds must reach, on a machine of any speed.
const REQUIRED_STEPS: [&str; 34] = [
    "claim claim_payload",
    "claim claim_simulation_failed",
    "claim cumulative_exceeds_balance",
    "claim done",
    "claim duplicate",
    "claim nothing to do",
    "claim voucher_signature",
    "deposit again",
    "deposit cumulative_below_claimed",
    "deposit done",
    "deposit insufficient_balance",
    "deposit invalid_signature",
    "deposit permit2_allowance_required",
    "deposit voucher_signature",
    "finalize mined",
    "finalize reverted",
    "initiate mined",
    "own claim mined",
    "own deposit mined",
    "own sweep mined",
    "pair: claim done",
    "pair: deposit done",
    "pair: refund done",
    "pair: sweep done",
    "refund done",
    "refund refund_nonce_mismatch",
    "refund with claims done",
    "report shown",
    "seen claim mined",
    "seen refund mined",
    "sweep done",
    "sweep nothing_to_settle",
    "voucher cumulative_below_claimed",
    "voucher valid",
];

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The results of one chain's seeds.
#[derive(Debug, Default)]
struct Summary {
    failures: usize,
    /// Number of steps of each kind, by how they ended.
    tally: BTreeMap<String, u32>,
}

/// Plays seeds on one chain. Returns `None` if chains are not available.
async fn play_all(chain: ChainId, seeds: Vec<u64>, general: &str) -> Option<Summary> {
    let chain = full_chain_or_skip(chain).await?;
    let more = "confirmations = 2\ngas_budget_caller_percent = 100\ngas_budget_percent = 100";
    let stage = Stage::on(chain, 4, general, more).await;
    stage.fund_signers(U256::from(10).pow(U256::from(26))).await;
    stage.chain.request("anvil_autoImpersonateAccount", json!([true])).await.expect("set");
    let _mining = stage.keep_mining();
    let world = Arc::new(World::new(stage));
    let races = Arc::new(SpoilableCalls::default());
    let (mut failures, mut audited, mut calls, mut count) = (0, 0, 0, 0);
    let (quiet, busy) = seeds.split_at(seeds.len().min(QUIET_SEEDS));
    for some in std::iter::once(quiet).chain(busy.chunks(AUDITED_SEEDS)) {
        let at_once = if count == 0 { 1 } else { CONCURRENT_SEEDS };
        let played = futures::stream::iter(some.to_vec())
            .map(|seed| play_one(Arc::clone(&world), Arc::clone(&races), seed));
        let ends: Vec<bool> = played.buffer_unordered(at_once).collect().await;
        failures += ends.iter().filter(|is_good| !**is_good).count();
        match audit(&world, &races, audited).await {
            Ok((newest, checked)) => (audited, calls) = (newest, calls + checked),
            Err(fault) => {
                println!("among the seeds {some:?}: {fault}");
                failures += 1;
            }
        }
        count += some.len();
        println!("{count} seeds, {calls} calls in {audited} blocks, {failures} failures");
        if failures >= FAILURES_MAX {
            break;
        }
    }
    Some(Summary { failures, tally: world.tally() })
}

/// Plays a seed. Returns whether the model and the chain agree, and prints a difference.
async fn play_one(world: Arc<World>, races: Arc<SpoilableCalls>, seed: u64) -> bool {
    let task = tokio::spawn(async move { play(&world, &races, seed).await });
    let fault = match tokio::time::timeout(TIMEOUT, task).await {
        Ok(Ok(Ok(()))) => return true,
        Ok(Ok(Err(fault))) => fault,
        Ok(Err(panic)) => panic.to_string(),
        Err(_late) => "it hangs".to_owned(),
    };
    println!("seed {seed}: {fault}\nplay it alone: BURSAR_CHANNEL_SEED={seed}");
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn random_orders_of_all_actors_keep_the_books_of_the_model() {
    let seeds: Vec<u64> = match setting("BURSAR_CHANNEL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = setting("BURSAR_CHANNEL_FIRST").unwrap_or(1);
            let count = setting("BURSAR_CHANNEL_SEEDS").unwrap_or(DEFAULT_SEEDS);
            (first..first + count).collect()
        }
    };
    let is_whole = seeds.len() as u64 >= DEFAULT_SEEDS;
    let (even, odd): (Vec<u64>, Vec<u64>) = seeds.into_iter().partition(|seed| seed % 2 == 0);
    // On one chain jobs share transactions; on the other, each job has its own transaction.
    let alone = "batch_calls = 1\nbatch_window_ms = 0";
    let (one, other) = tokio::join!(play_all(BASE, even, ""), play_all(ROBINHOOD, odd, alone));
    let (Some(one), Some(other)) = (one, other) else { return };
    let mut tally = one.tally;
    for (step, count) in other.tally {
        *tally.entry(step).or_default() += count;
    }
    tally.iter().for_each(|(step, count)| println!("{count:>6} {step}"));
    assert_eq!(one.failures + other.failures, 0, "the seeds are above");
    let missed: Vec<_> = REQUIRED_STEPS.iter().filter(|step| !tally.contains_key(**step)).collect();
    assert!(!is_whole || missed.is_empty(), "no seed reached {missed:?}");
}
