//! An agent written from docs/agents.md alone, which obeys it to the letter (`tests/agents/obedient.py`).
//!
//! The node is slow, and the price service often hangs. The agent repeats requests and gives up calls at random. The
//! chain must show at most one execution of each request, and exactly one if an answer reported it as executed.
//!
//! `BURSAR_OBEDIENT_SEEDS` is the number of runs, or a range of seeds, `from..to`. `BURSAR_OBEDIENT_SLOWEST` is the
//! longest time in milliseconds for which the node holds a call.

use std::path::Path;
use std::time::Duration;

use alloy_primitives::Address;
use bursar_control::answers::ActivityRow;
use bursar_core::status::EntryKind;
use bursar_tests::agent::Agent;
use bursar_tests::dice::Dice;
use bursar_tests::offers::{BASE, challenge, header};
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::trading::obedient_scene::{Scene, offer};
use crate::trading::stage::DOLLAR;

/// Default number of runs: each lane once in each mode.
const DEFAULT_RUNS: u64 = 9;
/// Default of the longest time for which the node holds a call.
const SLOWEST_CALL_MS: u64 = 2_500;
/// Number of runs with one engine, and of runs that are in flight at once.
const RUNS_PER_ENGINE: usize = 125;
const CONCURRENT_RUNS: usize = 40;
/// Amount that each run spends.
const AMOUNT: u128 = 7 * DOLLAR;
/// Times after which the agent gives up a call, in seconds; the last value repeats. It may give up
/// long before the wallet answers.
const CALL_TIMEOUTS_S: [&str; 6] = ["2", "5", "10", "35", "2,35", "5,2,10"];

/// One run of an agent with one request.
struct Run {
    seed: u64,
    lane: &'static str,
    /// The kind of authentication, and whether the agent sends an idempotency key.
    mode: (&'static str, bool),
    call_timeouts_s: &'static str,
    /// The agent's request, as arguments of the program.
    request_arguments: Vec<String>,
    agent: Agent,
    owner: Address,
    /// The token that leaves the address.
    token: Address,
}

impl Run {
    async fn prepare(scene: &mut Scene, index: usize, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let turn = usize::try_from(seed % 9).expect("small");
        let lane = ["sign", "trade", "position"][turn % 3];
        let mode = [("hmac", false), ("bearer", true), ("bearer", false)][turn / 3];
        let (agent, owner) = scene.create_agent(index, mode.0).await;
        let (dollar, patience) = (scene.dollar(), dice.one_of(&CALL_TIMEOUTS_S));
        let (wanted, token) = match lane {
            "sign" => payment(scene, &mut dice),
            "trade" => (vec!["--object".to_owned(), swap(scene, &mut dice).to_string()], dollar),
            _position => {
                (vec!["--object".to_owned(), supply(scene, &mut dice).to_string()], dollar)
            }
        };
        Self {
            seed,
            lane,
            mode,
            call_timeouts_s: patience,
            request_arguments: wanted,
            agent,
            owner,
            token,
        }
    }

    /// Runs the agent until it exits, and returns its report.
    async fn run_agent(&self, scene: &Scene) -> Value {
        scene.await_money(self.owner).await;
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("agents/obedient.py");
        let mut command = Command::new("python3");
        command
            .arg(program)
            .arg(self.lane)
            .args(&self.request_arguments)
            .args(["--timeout", self.call_timeouts_s]);
        command.args(self.mode.1.then_some("--key"));
        command
            .env("WALLET_URL", &scene.engine.url)
            .env("WALLET_AGENT_ID", &self.agent.id)
            .env("WALLET_AGENT_TOKEN", &self.agent.token)
            .env("WALLET_AUTH_MODE", self.mode.0)
            .kill_on_drop(true);
        let output = command.output().await.expect("python3");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_none| {
            panic!("no report: {}", String::from_utf8_lossy(&output.stderr))
        });
        // The shop settles every header that it gets.
        for header in told["headers"].as_array().expect("a list") {
            scene.settle(self.token, header.as_str().expect("a text")).await;
        }
        told
    }

    /// Compares the agent's report with the chain and the journal. Returns a description of
    /// the fault, if there is one.
    async fn check(&self, scene: &Scene, told: &Value, journal: &[ActivityRow]) -> Option<String> {
        let (count, amount) = scene.sent_transfers(self.token, self.owner).await;
        let outcome = told["outcome"].as_str().expect("a text");
        let own = |row: &&ActivityRow| row.agent_id.as_deref() == Some(self.agent.id.as_str());
        let own = journal.iter().filter(own);
        let signed = own.filter(|row| row.kind == EntryKind::PaymentAuthorized).count();
        let expected = match outcome {
            "success" | "executed" => count == 1,
            "rejected" => count == 0,
            _unknown => count <= 1,
        };
        let (lane, mode, patience) = (self.lane, self.mode, self.call_timeouts_s);
        let run = format!("seed {}: {lane} {mode:?}, gives up after {patience} s", self.seed);
        let calls = told["answers"].as_array().expect("a list").len();
        let why = (&told["code"], &told["reason"]);
        eprintln!("{run}: {outcome} {why:?} after {calls} calls, {count} on the chain");
        let is_right = expected
            && amount == count as u128 * AMOUNT
            && signed <= 1
            && told["problems"] == json!([]);
        (!is_right)
            .then(|| format!("{run}: {count} transfers, {amount} in all, {signed} signed: {told}"))
    }
}

/// Returns an offer in the network's stablecoin, or in a token that needs a price.
fn payment(scene: &Scene, dice: &mut Dice) -> (Vec<String>, Address) {
    let atoms = u64::try_from(AMOUNT).expect("small");
    let url = "https://api.example.com/1";
    let (token, name) = match dice.chance(1, 2) {
        true => (scene.gold, Some("Gold")),
        false => (scene.dollar(), None),
    };
    let offer = header(&offer(challenge(BASE, atoms, url), token, name));
    let arguments = ["--payment-required", &offer, "--request-url", url];
    (arguments.map(str::to_owned).to_vec(), token)
}

fn swap(scene: &Scene, dice: &mut Dice) -> Value {
    let sold = scene.dollar().to_string();
    let weth = scene.contracts.weth.to_string();
    let mut trade =
        json!({"chain_id": 8453, "token_in": sold, "token_out": weth, "amount_in": "7"});
    match dice.roll(3) {
        0 => trade["fee_tier"] = json!(500),
        1 => trade["route"] = json!("best"),
        _v4 => {
            trade["token_out"] = json!("ETH");
            trade["fee_tier"] = json!(500);
            trade["tick_spacing"] = json!(10);
            trade["hooks"] = json!(Address::ZERO);
        }
    }
    trade
}

fn supply(scene: &Scene, dice: &mut Dice) -> Value {
    let vaults = scene.contracts.lending.vaults();
    let venue = dice.one_of(&vaults).to_checksum(None);
    json!({
        "chain_id": 8453, "action": "supply", "venue": venue, "venue_kind": "vault", "amount": "7",
    })
}

/// Returns the seeds from the environment, or else the first few.
fn seeds() -> Vec<u64> {
    let text =
        std::env::var("BURSAR_OBEDIENT_SEEDS").unwrap_or_else(|_unset| DEFAULT_RUNS.to_string());
    let number = |text: &str| text.parse().expect("a number of runs, or from..to");
    match text.split_once("..") {
        Some((from, to)) => (number(from)..number(to)).collect(),
        None => (0..number(&text)).collect(),
    }
}

fn slowest_call() -> Duration {
    let text = std::env::var("BURSAR_OBEDIENT_SLOWEST");
    Duration::from_millis(text.map_or(SLOWEST_CALL_MS, |text| text.parse().expect("milliseconds")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_obeys_the_page_never_makes_a_second_execution() {
    let mut wrong = Vec::new();
    for seeds in seeds().chunks(RUNS_PER_ENGINE) {
        let Some(mut scene) = Scene::set_up(slowest_call(), Dice::new(seeds[0])).await else {
            return;
        };
        let mut runs = Vec::new();
        for (index, seed) in seeds.iter().enumerate() {
            runs.push(Run::prepare(&mut scene, index, *seed).await);
        }
        let all = runs.iter().map(|run| run.run_agent(&scene));
        let told: Vec<Value> = tokio::select! {
            told = run_concurrently(all) => told,
            never = scene.decide_forever() => match never {},
        };
        let journal = scene.finish_all_plans().await;
        for (run, told) in runs.iter().zip(&told) {
            wrong.extend(run.check(&scene, told, &journal).await);
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs some futures concurrently, and returns their results in order.
async fn run_concurrently<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let all = all.enumerate().map(|(index, one)| async move { (index, one.await) });
    let mut done: Vec<(usize, T)> =
        stream::iter(all).buffer_unordered(CONCURRENT_RUNS).collect().await;
    done.sort_by_key(|(index, _result)| *index);
    done.into_iter().map(|(_index, result)| result).collect()
}
