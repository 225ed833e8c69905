//! Trades through nodes that lie, stall, forget or disagree, at each step. Every trade ends with at most one swap, no
//! allowance, and its volume counted once.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_devnet::install::chain_or_skip;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::offers::BASE;
use bursar_tests::two_faced_rpc::{Conduct, Family, TwoFacedRpc};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::trading::operations::Operation;
use crate::trading::stage::{DOLLAR, ROBINHOOD, Stage, TIMEOUT, atoms};

const POLICY: &str = "--trading --trade-daily 1000000 --trade-max 500 --trade-auto 200";
const DAILY_VOLUME_DOLLARS: f64 = 1_000_000.0;
/// The value of each trade, in dollars.
const TRADE_VALUE_DOLLARS: f64 = 30.0;

/// Duration of a node's dishonesty, unless its trade ends earlier.
const DISHONESTY_DURATION: Duration = Duration::from_millis(1_500);

/// The engine's timeout for a node, in milliseconds.
const NODE_TIMEOUT_MS: &str = "400";
const SLOW_ANSWER_DELAY: Duration = Duration::from_millis(1_000);

/// The moment at which the node begins to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Before the market is read.
    Request,
    /// The token's approval is in a block.
    Approved,
    /// The swap is in a block.
    Swapped,
}

/// The misconduct of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeFault {
    /// Lies in the next answers of one kind.
    Lie(Lie),
    /// Falsifies all answers of a family for a while.
    Family(Family, Conduct),
    /// Falsifies every family: the node serves another chain.
    AnotherChain,
}

const CONDUCTS: [Conduct; 7] = [
    Conduct::Behind(4),
    Conduct::OtherChain,
    Conduct::Repeats,
    Conduct::Garbage,
    Conduct::Refuses,
    Conduct::Stalls(SLOW_ANSWER_DELAY),
    Conduct::Alternates,
];

/// Returns every fault at every moment. Unless `all` is set, each fault of a family comes at one moment only.
fn cases(all: bool) -> Vec<(Moment, NodeFault)> {
    let moments = [Moment::Request, Moment::Approved, Moment::Swapped];
    let mut cases = Vec::new();
    // A lie about sending affects either the approval or the swap.
    for lie in Lie::ALL.into_iter().chain([Lie::NoSimulation]) {
        cases.extend(
            [Moment::Request, Moment::Approved].map(|moment| (moment, NodeFault::Lie(lie))),
        );
    }
    let families = Family::ALL.into_iter().filter(|family| *family != Family::Identity);
    let each =
        families.flat_map(|family| CONDUCTS.map(|conduct| NodeFault::Family(family, conduct)));
    for (number, fault) in each.enumerate() {
        let chosen = moments.iter().enumerate().filter(|(at, _moment)| all || number % 3 == *at);
        cases.extend(chosen.map(|(_at, moment)| (*moment, fault)));
    }
    cases.extend(moments.map(|moment| (moment, NodeFault::AnotherChain)));
    cases
}

/// An engine behind both proxies.
struct Scene {
    stage: Stage,
    two_faced_node: TwoFacedRpc,
    lying_node: LyingRpc,
    spent: f64,
    unknown: f64,
    fees: f64,
}

impl Scene {
    async fn set_up(other: &Devnet) -> Option<Self> {
        let chain = full_chain_or_skip(BASE).await?;
        let lies = LyingRpc::in_front_of(chain.url()).await;
        let faces = TwoFacedRpc::in_front_of(&lies.url, other.url()).await;
        let env = vec![("BURSAR_TEST_PATIENCE".to_owned(), NODE_TIMEOUT_MS.to_owned())];
        let stage = Stage::with_node(chain, faces.url.clone(), POLICY, env).await;
        Some(Self {
            stage,
            two_faced_node: faces,
            lying_node: lies,
            spent: 0.0,
            unknown: 0.0,
            fees: 0.0,
        })
    }

    fn begin_fault(&self, fault: NodeFault) {
        match fault {
            NodeFault::Lie(lie) => self.lying_node.queue_lies([lie]),
            NodeFault::Family(family, conduct) => self.two_faced_node.set_conduct(family, conduct),
            NodeFault::AnotherChain => {
                for family in Family::ALL {
                    self.two_faced_node.set_conduct(family, Conduct::OtherChain);
                }
            }
        }
    }

    /// Waits until the owner has sent `count` transactions, or the trade is over.
    async fn await_sent<T>(&self, count: u64, trade: &tokio::task::JoinHandle<T>) {
        let end = Instant::now() + TIMEOUT;
        while self.stage.nonce().await < count && !trade.is_finished() {
            assert!(Instant::now() < end, "nothing is sent");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs one trade, and checks its result and its effects.
    async fn run(&mut self, number: usize, moment: Moment, fault: NodeFault) {
        let (sold, weth) = (self.stage.dollar(), self.stage.contracts.weth);
        let v4 = number % 2 == 1;
        let bought = if v4 { Address::ZERO } else { weth };
        let sale = Operation { sold, bought, units: 30 * DOLLAR, amount: "30", v4 };
        let asked = sale.request(&self.stage);
        let body = self.stage.request_body(None, &asked);
        let before = (self.stage.balance(sold).await, self.stage.balance(weth).await);
        let (first, sent) = (self.stage.head().await + 1, self.stage.nonce().await);
        if moment == Moment::Request {
            self.begin_fault(fault);
        }
        let client = self.stage.client();
        let trade = tokio::spawn(async move { client.post("/trade", &body).await });
        if moment != Moment::Request {
            let count = if moment == Moment::Approved { 1 } else { 2 };
            self.await_sent(sent + count, &trade).await;
            self.begin_fault(fault);
        }
        let until = Instant::now() + DISHONESTY_DURATION;
        while Instant::now() < until && !trade.is_finished() {
            sleep(Duration::from_millis(20)).await;
        }
        self.two_faced_node.be_honest();
        let (_status, answer) = trade.await.expect("an answer");
        let case = format!("{moment:?} {fault:?} v4 {v4}");
        let answer = match answer["request_id"].as_str() {
            // A trade that was refused at once has no record.
            None | Some("") => answer,
            Some(_recorded) => self.end_of(&answer, &case).await,
        };
        self.lying_node.be_honest();
        println!("{case}: {} {}", answer["status"], answer["reason_code"]);
        self.check(first, before, v4, &answer, &case).await;
    }

    /// Returns the answer once the trade has ended and its plan is closed. Denies a held request.
    async fn end_of(&mut self, answer: &Value, case: &str) -> Value {
        use bursar_tests::operator::Expect;
        let id = &answer["request_id"];
        if answer["status"] == "pending" {
            let held = self.stage.only_held().await;
            self.stage.operator.must(&format!("deny {}", held.id)).await;
            return self.stage.end_of(id).await;
        }
        let end = self.stage.end_of(id).await;
        assert!(end["status"] != "executing", "{case}: {end}");
        // A trade without a fresh quote ends without a plan.
        if end["code"] != "REQUOTE_FAILED" {
            self.stage.await_trade_over(id).await;
        }
        end
    }

    async fn check(
        &mut self,
        first: u64,
        before: (U256, U256),
        v4: bool,
        answer: &Value,
        case: &str,
    ) {
        let (dollar, weth) = (self.stage.dollar(), self.stage.contracts.weth);
        let sent = self.stage.mined_since(first).await;
        let swaps = sent.iter().filter(|one| !one.is_approval()).count();
        assert!(swaps <= 1, "a double swap: {case}: {sent:?}");
        let executed = answer["status"] == "executed";
        let sold = before.0 - self.stage.balance(dollar).await;
        let gained = self.stage.balance(weth).await - before.1;
        if executed {
            assert_eq!((swaps, sold), (1, U256::from(30 * DOLLAR)), "{case}: {answer}");
            if !v4 {
                assert_eq!(gained, atoms(&answer["amount_out"]), "{case}: {answer}");
            }
            self.spent += TRADE_VALUE_DOLLARS;
            // The gas of an executed trade counts too: less than a dollar, or one dollar if it has no price.
            self.fees += 1.0;
        } else {
            assert_eq!(sold, U256::ZERO, "{case}: {answer}");
            assert_eq!(gained, U256::ZERO, "{case}: {answer}");
        }
        self.stage.assert_no_allowance().await;
        // If the effect is unknown, the volume counts as spent.
        if answer["status"] == "failed" && answer["tx_hash"].is_null() {
            self.unknown += TRADE_VALUE_DOLLARS;
        }
        let left = self.stage.volume_left().await;
        let spent = DAILY_VOLUME_DOLLARS - left;
        assert!(
            spent >= self.spent && spent <= self.spent + self.unknown + self.fees,
            "{case}: {answer} {spent}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trades_among_liars_end_with_one_swap_at_most_and_no_allowance() {
    if chain_or_skip().is_none() {
        return;
    }
    let all = std::env::var("BURSAR_TRADE_LIARS").is_ok_and(|text| text == "all");
    let other = full_chain_or_skip(ROBINHOOD).await.expect("a chain");
    let cases = cases(all);
    let scene = async |part: usize| {
        let mut scene = Scene::set_up(&other).await.expect("a chain");
        for (number, (moment, fault)) in cases.iter().enumerate() {
            if number % 4 == part {
                scene.run(number / 4, *moment, *fault).await;
            }
        }
    };
    tokio::join!(scene(0), scene(1), scene(2), scene(3));
}

/// A node that is some blocks behind shows no allowance after the approval was mined. The plan revokes it all the
/// same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_behind_hides_no_allowance_from_its_plan() {
    if chain_or_skip().is_none() {
        return;
    }
    let other = full_chain_or_skip(ROBINHOOD).await.expect("a chain");
    let mut scene = Scene::set_up(&other).await.expect("a chain");
    let (sold, bought) = (scene.stage.dollar(), scene.stage.contracts.weth);
    let sale = Operation { sold, bought, units: 30 * DOLLAR, amount: "30", v4: false };
    let request = sale.request(&scene.stage);
    let body = scene.stage.request_body(None, &request);
    // Until the end of the plan, reads show the state before the approval.
    scene.stage.chain.mine(8).await.expect("mined");
    scene.begin_fault(NodeFault::Family(Family::Reads, Conduct::Behind(8)));
    let (_status, answer) = scene.stage.client().post("/trade", &body).await;
    let end = scene.end_of(&answer, "behind").await;
    assert_eq!((&end["status"], &end["reason_code"]), (&json!("rejected"), &json!("WOULD_FAIL")));
    assert!(!end["approval_tx_hash"].is_null(), "{end}");
    scene.stage.assert_no_allowance().await;
}

/// Nodes tell matching lies about price or time. The floor, the value outside the pools and the
/// rehearsal still protect the trade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lies_about_price_or_time_gets_no_swap() {
    if chain_or_skip().is_none() {
        return;
    }
    let other = full_chain_or_skip(ROBINHOOD).await.expect("a chain");
    let mut scene = Scene::set_up(&other).await.expect("a chain");
    let quoter = scene.stage.contracts.v3.quoter;
    let half = Conduct::Quotes { quoter, percent: 50 };
    let twice = Conduct::Quotes { quoter, percent: 200 };
    for (moment, conduct) in [
        (Moment::Request, half),
        (Moment::Request, twice),
        (Moment::Request, Conduct::Clock(3_600)),
        (Moment::Approved, half),
        (Moment::Approved, twice),
        (Moment::Approved, Conduct::Clock(3_600)),
    ] {
        let before = scene.spent;
        scene.run(0, moment, NodeFault::Family(Family::Reads, conduct)).await;
        assert_eq!(scene.spent, before, "{moment:?} {conduct:?}: a swap was made");
    }
}
