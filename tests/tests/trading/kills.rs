//! kill -9 at every point of a plan, on both networks. After each trade: at most one swap, balances to the unit, no
//! allowance, and the volume counted once.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_control::answers::Answer;
use bursar_core::networks::ChainId;
use bursar_core::status::EntryKind;
use bursar_devnet::TokenQuirk;
use bursar_tests::dice::Dice;
use bursar_tests::offers::BASE;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::operations::Operation;
use crate::stage::{DOLLAR, ROBINHOOD, Stage, TIMEOUT, atoms};

/// Kills on both networks together, unless `BURSAR_TRADE_KILLS` names another number.
const KILLS: usize = 40;

/// Every point of a plan, and those of the outbox and the journal that it passes. The last is any moment.
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
const ANY_MOMENT: &str = "any moment";

/// Trades that a planned kill may miss before another is planned.
const TRIES: usize = 3;

const POLICY: &str = "--trading --trade-daily 1000000 --trade-max 500 --trade-auto 200";
const DAILY: f64 = 1_000_000.0;
/// The value of every operation, in dollars.
const VALUE: f64 = 30.0;

/// A trade that the loop makes.
#[derive(Debug, Clone, Copy)]
enum Deal {
    Swap(Operation),
    /// Sells a token that refuses its transfer after the approval: the plan takes the approval back.
    Refused,
    /// Sells a token that forgets its approval: there is nothing to take back.
    Forgotten,
}

/// A chain, an engine that is killed, and what must be true.
struct Run {
    stage: Stage,
    dice: Dice,
    /// A token that refuses, and one that forgets.
    tokens: [Address; 2],
    operations: Vec<Operation>,
    wanted: usize,
    kills: usize,
    reached: BTreeSet<&'static str>,
    /// The point of the running engine's kill, and the trades that it missed.
    armed: Option<(&'static str, usize)>,
    executed: usize,
    first_block: u64,
    day: i64,
}

impl Run {
    async fn set_up(chain: ChainId, wanted: usize, seed: u64) -> Option<Self> {
        let mut stage = Stage::on(chain, POLICY).await?;
        let tokens = [
            stage.add_token("Later", TokenQuirk::RefusesLater).await,
            stage.add_token("Forgets", TokenQuirk::Forgets).await,
        ];
        stage.add_weth_pool().await;
        let coin = U256::from(crate::stage::ETHER * 1_000);
        let rich = json!([stage.owner, coin]);
        stage.chain.request("anvil_setBalance", rich).await.expect("set");
        stage.chain.mint(stage.owner, 1_000_000 * DOLLAR).await.expect("minted");
        stage.wrap_as(stage.owner, crate::stage::ETHER * 100).await;
        stage.engine.kill();
        Some(Self {
            operations: Operation::all(&stage),
            first_block: stage.head().await + 1,
            day: stage.engine.now_s() / 86_400,
            stage,
            dice: Dice::new(seed),
            tokens,
            wanted,
            kills: 0,
            reached: BTreeSet::new(),
            armed: None,
            executed: 0,
        })
    }

    /// Draws the next kill and starts an engine with it. Some die before they take commands.
    async fn start(&mut self) {
        loop {
            let point = POINTS[self.kills % POINTS.len()];
            let most = if point.starts_with("journal.") { 16 } else { 2 };
            let nth = 1 + self.dice.roll(most);
            self.armed = Some((point, 0));
            let fault = (point != ANY_MOMENT).then(|| format!("kill:{point}:{nth}"));
            if self.stage.try_restart(fault).await {
                return;
            }
            self.kills += 1;
            self.reached.insert(point);
        }
    }

    /// Chooses a trade that passes the planned point.
    fn deal(&mut self) -> Deal {
        let point = self.armed.map_or(ANY_MOMENT, |(point, _missed)| point);
        match self.dice.roll(10) {
            _any if point.starts_with("plan.revocation") => return Deal::Refused,
            _any if point.starts_with("plan.close") => return Deal::Forgotten,
            0 => return Deal::Refused,
            1 => return Deal::Forgotten,
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
        let drawn = usize::try_from(self.dice.roll(count)).expect("few");
        Deal::Swap(*fitting[drawn])
    }

    /// Notes a death and starts the next engine; returns whether the engine was dead.
    async fn revive(&mut self) -> bool {
        if !self.stage.engine.has_exited() {
            return false;
        }
        assert!(self.stage.engine.wait_killed(), "the engine ended, and no kill was the reason");
        self.kills += 1;
        self.reached.extend(self.armed.map(|(point, _missed)| point));
        self.start().await;
        true
    }

    /// Repeats one request until its trade has ended and its plan is closed.
    async fn finish(&mut self, body: &Value) -> Value {
        let end = Instant::now() + 2 * TIMEOUT;
        let mut moment = (self.armed.map(|(point, _missed)| point) == Some(ANY_MOMENT))
            .then(|| Instant::now() + Duration::from_millis(self.dice.roll(2_500)));
        loop {
            assert!(Instant::now() < end, "{:?}: no end of {body}", self.armed);
            if self.revive().await {
                continue;
            }
            let asked = self.stage.client();
            let asking = asked.try_post("/trade", body);
            let answer = match moment {
                None => asking.await,
                Some(at) => tokio::select! {
                    answer = asking => answer,
                    () = tokio::time::sleep_until(at) => {
                        self.stage.engine.kill();
                        moment = None;
                        continue;
                    }
                },
            };
            let Ok((_status, answer)) = answer else {
                sleep(Duration::from_millis(5)).await;
                continue;
            };
            match answer["status"].as_str() {
                Some("pending") => self.approve().await,
                Some("executed" | "rejected" | "failed") if self.is_closed(&answer).await => {
                    return answer;
                }
                Some("executed" | "rejected" | "failed" | "executing") => {}
                // A node that is not read yet, or a wallet that is just opening.
                _other => assert_eq!(answer["status"], "error", "{answer}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Approves the held request, if the engine lives long enough.
    async fn approve(&mut self) {
        let Ok(listed) = self.stage.operator.run("requests").await else { return };
        let Ok(Answer::Requests { requests }) = listed.reply.result else { return };
        let Some(held) = requests.into_iter().next() else { return };
        let Some(card) = held.card else { return };
        let (id, digest, usd) = (held.id, card.digest, card.usd);
        let line = format!("approve {id} --card {digest} --yes --confirm {usd}");
        // A refusal shows in the answer of the trade.
        let _approved = self.stage.operator.run(&line).await;
    }

    async fn is_closed(&mut self, answer: &Value) -> bool {
        let id = answer["request_id"].as_str().expect("an id");
        let Ok(shown) = self.stage.operator.run("activity").await else { return false };
        let Ok(Answer::Activity(activity)) = shown.reply.result else { return false };
        activity
            .entries
            .iter()
            .any(|row| row.request.as_deref() == Some(id) && row.kind == EntryKind::TradeClosed)
    }

    /// Makes one trade through all its kills, and checks what it did.
    async fn trade(&mut self) {
        if self.armed.is_none_or(|(_point, missed)| missed >= TRIES) {
            if !self.stage.engine.has_exited() {
                self.stage.engine.kill();
            }
            self.start().await;
        }
        let deal = self.deal();
        let asked = match deal {
            Deal::Swap(operation) => operation.request(&self.stage),
            Deal::Refused => self.stage.sale_of(self.tokens[0], true),
            Deal::Forgotten => self.stage.sale_of(self.tokens[1], true),
        };
        let body = self.stage.body(None, &asked);
        let before = self.balances().await;
        let answer = self.finish(&body).await;
        self.armed = self.armed.map(|(point, missed)| (point, missed + 1));
        let case = format!("{deal:?} after {} kills: {answer}", self.kills);
        self.check_chain(deal, before, &answer, &case).await;
        self.executed += usize::from(answer["status"] == "executed");
        self.check_volume(&case).await;
    }

    /// The dollar token, WETH, the native coin, and the tokens that are never sold.
    async fn balances(&self) -> [U256; 5] {
        let (dollar, weth) = (self.stage.dollar(), self.stage.contracts.weth);
        let mut all = [U256::ZERO; 5];
        let [refuses, forgets] = self.tokens;
        for (slot, token) in all.iter_mut().zip([dollar, weth, Address::ZERO, refuses, forgets]) {
            *slot = self.stage.balance(token).await;
        }
        all
    }

    async fn check_chain(&mut self, deal: Deal, before: [U256; 5], answer: &Value, case: &str) {
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
            let Deal::Swap(operation) = deal else { panic!("{case}") };
            let place = |token: Address| {
                let all = [self.stage.dollar(), self.stage.contracts.weth, Address::ZERO];
                all.iter().position(|one| *one == token).expect("a known token")
            };
            expected[place(operation.sold)] -= U256::from(operation.units);
            expected[place(operation.bought)] += atoms(&answer["amount_out"]);
        } else {
            assert!(matches!(deal, Deal::Refused | Deal::Forgotten), "{case}");
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
        let mandate = loop {
            // The kill of this engine may still be to come.
            self.revive().await;
            match self.stage.client().try_post("/mandate", &body).await {
                Ok((200, mandate)) => break mandate,
                _dead_or_opening => sleep(Duration::from_millis(20)).await,
            }
        };
        let left = mandate["policy"]["trading"]["remaining_today_usd"].as_f64();
        let spent = VALUE * f64::from(u32::try_from(self.executed).expect("few"));
        let same_day = self.stage.engine.now_s() / 86_400 == self.day;
        assert!(!same_day || left == Some(DAILY - spent), "{left:?}, {spent} spent: {case}");
    }
}

async fn kill(chain: ChainId, wanted: usize, seed: u64) -> usize {
    let Some(mut run) = Run::set_up(chain, wanted, seed).await else { return 0 };
    let mut trades = 0;
    while run.kills < run.wanted {
        run.trade().await;
        trades += 1;
    }
    println!("{chain}: {} kills, {trades} trades, {} executed", run.kills, run.executed);
    if wanted >= POINTS.len() {
        let missed: Vec<_> = POINTS.iter().filter(|point| !run.reached.contains(*point)).collect();
        assert!(missed.is_empty(), "no kill at {missed:?}");
    }
    run.kills
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_point_of_a_plan_swaps_at_most_once() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let kills = number("BURSAR_TRADE_KILLS").map_or(KILLS, |kills: u64| kills as usize);
    let seed = number("BURSAR_TRADE_SEED").unwrap_or(1);
    println!("seed {seed}");
    let half = kills.div_ceil(2);
    let (one, other) = tokio::join!(kill(BASE, half, seed), kill(ROBINHOOD, half, seed + 1));
    println!("{} kills, 0 double swaps", one + other);
}

/// A new point of the plan must be among those that are killed at.
#[test]
fn every_point_of_a_plan_is_killed_at() {
    let source = include_str!("../../../engine/service/src/lanes/plans.rs");
    let named: BTreeSet<&str> = source
        .split('"')
        .filter(|text| text.starts_with("plan.") && !text.contains(char::is_whitespace))
        // Trades do not pass the points of loans.
        .filter(|text| !text.contains("supply") && !text.contains("withdrawal"))
        .collect();
    let killed: BTreeSet<&str> =
        POINTS.into_iter().filter(|point| point.starts_with("plan.")).collect();
    assert_eq!(named, killed);
}
