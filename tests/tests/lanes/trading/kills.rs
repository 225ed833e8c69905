//! kill -9 at every point of a plan, on both networks. After each trade there was at most one swap, balances are
//! exact to the unit, no allowance remains, and the volume is counted once.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_core::status::EntryKind;
use bursar_devnet::TokenQuirk;
use bursar_ledger_device::device::Decision;
use bursar_tests::ledger::{SEED_WORDS, plug_in_blind, prompts};
use bursar_tests::offers::BASE;
use bursar_tests::plan_kills::{ANY_MOMENT, KilledLane, Kills, named_points, points_of_plan};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::trading::operations::Operation;
use crate::trading::stage::{DOLLAR, ROBINHOOD, Stage, atoms};

/// Number of kills on both networks together, unless `BURSAR_TRADE_KILLS` overrides it.
const KILLS: usize = 40;

/// Number of kills of plans by device, unless `BURSAR_TRADE_KILLS` overrides it: enough to pass the permit, the
/// allowance and the swap. It is smaller, because a person takes longer than a key.
const KILLS_BY_DEVICE: usize = 9;

/// Every point of a plan, and the points of outbox and journal that it passes. The last entry stands for any moment.
const POINTS: [&str; 22] = [
    "plan.permit_order",
    "plan.permit_ordered",
    "plan.permit_sign",
    "plan.permit_signed",
    "plan.permit_recorded",
    "plan.allowance_open",
    "plan.allowance_opened",
    "plan.swap_open",
    "plan.swap_opened",
    "plan.revocation_open",
    "plan.revocation_opened",
    "plan.end",
    "plan.ended",
    "plan.close",
    "plan.closed",
    "outbox.signed",
    "outbox.send",
    "outbox.sent",
    "journal.before_sync",
    "journal.before_commit",
    "journal.after_commit",
    ANY_MOMENT,
];

const LANE: KilledLane =
    KilledLane { points: &POINTS, path: "/trade", closing_entry: EntryKind::TradeClosed };

const POLICY: &str = "--trading --trade-daily 1000000 --trade-max 500 --trade-auto 200";
const DAILY_VOLUME_DOLLARS: f64 = 1_000_000.0;
/// The value of every operation, in dollars.
const OPERATION_VALUE_DOLLARS: f64 = 30.0;

/// A trade that the loop makes.
#[derive(Debug, Clone, Copy)]
enum TradeKind {
    Swap(Operation),
    /// Sells a token that refuses its transfer after the approval, so that the plan revokes the approval.
    TransferRefused,
    /// Sells a token that forgets its approval, so that there is nothing to revoke.
    ApprovalForgotten,
}

/// A chain, an engine that is killed, and the expected results.
struct Run {
    stage: Stage,
    kills: Kills,
    /// A token that refuses transfers, and one that forgets approvals.
    tokens: [Address; 2],
    operations: Vec<Operation>,
    executed: usize,
    first_block: u64,
    day: i64,
}

impl Run {
    async fn set_up(mut stage: Stage, seed: u64) -> Self {
        let tokens = [
            stage.add_token("Later", TokenQuirk::RefusesLater).await,
            stage.add_token("Forgets", TokenQuirk::Forgets).await,
        ];
        stage.add_weth_pool().await;
        let coin = U256::from(crate::trading::stage::ETHER * 1_000);
        let rich = json!([stage.owner, coin]);
        stage.chain.request("anvil_setBalance", rich).await.expect("set");
        stage.chain.mint(stage.owner, 1_000_000 * DOLLAR).await.expect("minted");
        stage.wrap_as(stage.owner, crate::trading::stage::ETHER * 100).await;
        stage.engine.kill();
        Self {
            operations: Operation::all(&stage),
            first_block: stage.head().await + 1,
            day: stage.engine.now_s() / 86_400,
            stage,
            kills: Kills::new(LANE, seed),
            tokens,
            executed: 0,
        }
    }

    /// Chooses a trade that passes the planned point.
    fn choose_trade(&mut self) -> TradeKind {
        let point = self.kills.point();
        match self.kills.dice.roll(10) {
            _any if point.starts_with("plan.revocation") => return TradeKind::TransferRefused,
            _any if point.starts_with("plan.close") => return TradeKind::ApprovalForgotten,
            0 => return TradeKind::TransferRefused,
            1 => return TradeKind::ApprovalForgotten,
            _most => {}
        }
        let native = Address::ZERO;
        let fits = |one: &&Operation| match point {
            point if point.starts_with("plan.permit") => one.v4 && one.sold != native,
            point if point.starts_with("plan.allowance") => {
                one.sold != native && one.bought != native
            }
            _any => true,
        };
        let fitting: Vec<&Operation> = self.operations.iter().filter(fits).collect();
        let count = u64::try_from(fitting.len()).expect("few");
        let drawn = usize::try_from(self.kills.dice.roll(count)).expect("few");
        TradeKind::Swap(*fitting[drawn])
    }

    /// Makes one trade through all its kills, and checks its effects.
    async fn run_trade(&mut self) {
        self.kills.plan(&mut self.stage.scene()).await;
        let deal = self.choose_trade();
        let asked = match deal {
            TradeKind::Swap(operation) => operation.request(&self.stage),
            TradeKind::TransferRefused => self.stage.sale_of(self.tokens[0], true),
            TradeKind::ApprovalForgotten => self.stage.sale_of(self.tokens[1], true),
        };
        let body = self.stage.request_body(None, &asked);
        let before = self.balances().await;
        let answer = self.kills.finish(&mut self.stage.scene(), &body).await;
        let case = format!("{deal:?} after {} kills: {answer}", self.kills.count());
        self.check_chain(deal, before, &answer, &case).await;
        self.executed += usize::from(answer["status"] == "executed");
        self.check_volume(&case).await;
    }

    /// Returns the balances of the dollar token, of WETH, of the native coin, and of the two
    /// tokens that are never sold.
    async fn balances(&self) -> [U256; 5] {
        let (dollar, weth) = (self.stage.dollar(), self.stage.contracts.weth);
        let mut all = [U256::ZERO; 5];
        let [refuses, forgets] = self.tokens;
        for (slot, token) in all.iter_mut().zip([dollar, weth, Address::ZERO, refuses, forgets]) {
            *slot = self.stage.balance(token).await;
        }
        all
    }

    async fn check_chain(
        &mut self,
        deal: TradeKind,
        before: [U256; 5],
        answer: &Value,
        case: &str,
    ) {
        let sent = self.stage.mined_since(self.first_block).await;
        let swaps: Vec<_> = sent.iter().filter(|one| !one.is_approval()).collect();
        let executed = answer["status"] == "executed";
        assert!(swaps.len() <= 1, "a double swap: {case}: {swaps:?}");
        assert_eq!(swaps.len(), usize::from(executed), "{case}");
        let mut gas = U256::ZERO;
        for one in &sent {
            gas += self.stage.gas_of_hash(&one.hash).await;
        }
        let mut expected = before;
        expected[2] -= gas;
        if executed {
            let TradeKind::Swap(operation) = deal else { panic!("{case}") };
            let place = |token: Address| {
                let all = [self.stage.dollar(), self.stage.contracts.weth, Address::ZERO];
                all.iter().position(|one| *one == token).expect("a known token")
            };
            expected[place(operation.sold)] -= U256::from(operation.units);
            expected[place(operation.bought)] += atoms(&answer["amount_out"]);
        } else {
            assert!(
                matches!(deal, TradeKind::TransferRefused | TradeKind::ApprovalForgotten),
                "{case}"
            );
        }
        assert_eq!(self.balances().await, expected, "{case}");
        self.stage.assert_no_allowance().await;
        let router = self.stage.contracts.v3.router;
        for token in self.tokens {
            assert_eq!(self.stage.allowance(token, router).await, U256::ZERO, "{case}");
        }
        assert_eq!(self.stage.pending().await.len(), 0, "{case}");
        self.first_block = self.stage.head().await + 1;
    }

    async fn check_volume(&mut self, case: &str) {
        let body = self.stage.mandate_body();
        let mandate = self.kills.read(&mut self.stage.scene(), "/mandate", &body).await;
        let left = mandate["policy"]["trading"]["remaining_today_usd"].as_f64();
        let spent = OPERATION_VALUE_DOLLARS * f64::from(u32::try_from(self.executed).expect("few"));
        let same_day = self.stage.engine.now_s() / 86_400 == self.day;
        // The gas of each executed trade counts as volume too.
        let most = DAILY_VOLUME_DOLLARS - spent;
        let least = most - f64::from(u32::try_from(self.executed).expect("few"));
        let fits = left.is_some_and(|left| (least..=most).contains(&left));
        assert!(!same_day || fits, "{left:?}, {spent} spent: {case}");
    }
}

async fn kill(stage: Option<Stage>, wanted: usize, seed: u64) -> usize {
    let Some(stage) = stage else { return 0 };
    let chain = stage.id();
    let mut run = Run::set_up(stage, seed).await;
    let mut trades = 0;
    while run.kills.count() < wanted {
        run.run_trade().await;
        trades += 1;
    }
    println!("{chain}: {} kills, {trades} trades, {} executed", run.kills.count(), run.executed);
    if wanted >= POINTS.len() {
        let missed = run.kills.points_not_reached();
        assert!(missed.is_empty(), "no kill at {missed:?}");
    }
    run.kills.count()
}

fn number_from_environment<N: FromStr<Err: Debug>>(name: &str) -> Option<N> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_point_of_a_plan_swaps_at_most_once() {
    let kills = number_from_environment("BURSAR_TRADE_KILLS").unwrap_or(KILLS);
    let seed = number_from_environment("BURSAR_TRADE_SEED").unwrap_or(1);
    println!("seed {seed}");
    let half = kills.div_ceil(2);
    let (base, robinhood) = (Stage::on(BASE, POLICY).await, Stage::on(ROBINHOOD, POLICY).await);
    let (one, other) = tokio::join!(kill(base, half, seed), kill(robinhood, half, seed + 1));
    println!("{} kills, 0 double swaps", one + other);
}

/// Like the test before, with a Ledger on which a person signs every prompt, even those of killed engines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_point_of_a_plan_by_device_swaps_at_most_once() {
    let (device, at) = plug_in_blind(SEED_WORDS);
    let signs = Arc::clone(&device);
    let person = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(30)).await;
            signs.press(Decision::Press);
        }
    });
    let wanted = number_from_environment("BURSAR_TRADE_KILLS").unwrap_or(KILLS_BY_DEVICE);
    let kills = kill(Stage::with_device(POLICY, at).await, wanted, 3).await;
    person.abort();
    println!("{kills} kills, 0 double swaps, {} prompts", prompts(&device));
}

/// If the plan gets a new point, the kills must include it.
#[test]
fn every_point_of_a_plan_is_killed_at() {
    let source = include_str!("../../../../engine/service/src/lanes/plans.rs");
    // Trades do not pass the points of loans.
    let named = named_points(source, &["supply", "withdrawal"]);
    assert_eq!(named, points_of_plan(&POINTS));
}
