//! kill -9 at every point of a plan, on both networks. After each loan: at most one deposit or withdrawal, balances to
//! the unit, no allowance, nothing reserved, and one operation counted.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_control::answers::Answer;
use bursar_core::networks::ChainId;
use bursar_core::status::EntryKind;
use bursar_devnet::full::VaultLie;
use bursar_tests::dice::Dice;
use bursar_tests::offers::BASE;
use bursar_tests::sent;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{DOLLAR, ROBINHOOD, Stage, TIMEOUT, atoms};

/// Kills on both networks together, unless `BURSAR_LOAN_KILLS` names another number.
const KILLS: usize = 32;

/// Every point of a plan, and those of the outbox and the journal that it passes. The last is any moment.
const POINTS: [&str; 16] = [
    "plan.allowance_open",
    "plan.allowance_opened",
    "plan.supply_open",
    "plan.supply_opened",
    "plan.withdrawal_open",
    "plan.withdrawal_opened",
    "plan.revocation_open",
    "plan.revocation_opened",
    "plan.end",
    "plan.ended",
    "outbox.signed",
    "outbox.send",
    "outbox.sent",
    "journal.before_commit",
    "journal.after_commit",
    ANY_MOMENT,
];
const ANY_MOMENT: &str = "any moment";

/// Loans that a planned kill may miss before another is planned.
const TRIES: usize = 3;

const POLICY: &str = "--lending --lending-max 2000 --lending-total 1000000 --lending-auto 1500 \
                      --lending-ops 1000000";
/// The dollars of an automatic supply, and of one that needs approval.
const SMALL: u128 = 100;
const LARGE: u128 = 1_600;

/// A loan that the loop makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deal {
    Supply(u128),
    /// Withdraws one dollar.
    Part,
    All,
    /// Supplies to a vault that says it is closed once it has an approval: the plan takes the approval back.
    Refused,
}

/// A chain, an engine that is killed, and what must be true.
struct Run {
    stage: Stage,
    dice: Dice,
    /// Vaults and a market. The first can lie.
    venues: Vec<(String, Address)>,
    wanted: usize,
    kills: usize,
    reached: BTreeSet<&'static str>,
    /// The point of the running engine's kill, and the loans that it missed.
    armed: Option<(&'static str, usize)>,
    executed: u64,
    first_block: u64,
    day: i64,
}

impl Run {
    async fn set_up(chain: ChainId, wanted: usize, seed: u64) -> Option<Self> {
        let mut stage = Stage::on(chain, POLICY).await?;
        stage.chain.mint(stage.owner, 1_000_000 * DOLLAR).await.expect("minted");
        let vaults = stage.contracts.lending.vaults();
        stage.chain.corrupt_vault_v2(vaults[0]).await.expect("corrupted");
        let mut venues: Vec<(String, Address)> =
            vaults.iter().map(|vault| (vault.to_checksum(None), *vault)).collect();
        let market = stage.chain.loan_market().expect("a market");
        venues.push((format!("{:#x}", market.id()), stage.contracts.lending.morpho));
        stage.engine.kill();
        Some(Self {
            venues,
            first_block: sent::head(&stage.chain).await + 1,
            day: stage.engine.now_s() / 86_400,
            stage,
            dice: Dice::new(seed),
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

    /// Chooses a venue, and a loan that passes the planned point.
    async fn deal(&mut self) -> (usize, Deal) {
        let point = self.armed.map_or(ANY_MOMENT, |(point, _missed)| point);
        if point.starts_with("plan.revocation") || self.dice.roll(8) == 0 {
            return (0, Deal::Refused);
        }
        let count = u64::try_from(self.venues.len()).expect("few");
        let at = usize::try_from(self.dice.roll(count)).expect("few");
        let supplies = point.starts_with("plan.supply") || point.starts_with("plan.allowance");
        if supplies || self.shares(at).await.is_zero() {
            let amount = if self.dice.roll(4) == 0 { LARGE } else { SMALL };
            return (at, Deal::Supply(amount));
        }
        let deal = match self.dice.roll(3) {
            0 => Deal::Part,
            1 => Deal::All,
            _other if point.starts_with("plan.withdrawal") => Deal::All,
            _other => Deal::Supply(SMALL),
        };
        (at, deal)
    }

    async fn shares(&self, venue: usize) -> U256 {
        let (name, address) = &self.venues[venue];
        match name.parse() {
            Ok(market) if name.len() > 42 => self.stage.market_shares(market).await,
            _vault => self.stage.shares(*address).await,
        }
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

    /// Repeats one request until its loan has ended and its plan is closed.
    async fn finish(&mut self, body: &Value) -> Value {
        let end = Instant::now() + 2 * TIMEOUT;
        let mut moment = (self.armed.map(|(point, _missed)| point) == Some(ANY_MOMENT))
            .then(|| Instant::now() + Duration::from_millis(self.dice.roll(2_500)));
        loop {
            assert!(Instant::now() < end, "{:?}: no end of {body}", self.armed);
            if self.revive().await {
                continue;
            }
            let asking = self.stage.try_post("/position", body);
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
        // A refusal shows in the answer of the loan.
        let _approved = self.stage.operator.run(&line).await;
    }

    async fn is_closed(&mut self, answer: &Value) -> bool {
        let id = answer["request_id"].as_str().expect("an id");
        let Ok(shown) = self.stage.operator.run("activity").await else { return false };
        let Ok(Answer::Activity(activity)) = shown.reply.result else { return false };
        let rows = || activity.entries.iter().filter(|row| row.request.as_deref() == Some(id));
        let has = |kind| rows().any(|row| row.kind == kind);
        has(EntryKind::LoanClosed) || !(has(EntryKind::LoanStarted) || has(EntryKind::LoanApproved))
    }

    /// Makes one loan through all its kills, and checks what it did.
    async fn lend(&mut self) {
        if self.armed.is_none_or(|(_point, missed)| missed >= TRIES) {
            if !self.stage.engine.has_exited() {
                self.stage.engine.kill();
            }
            self.start().await;
        }
        let (at, deal) = self.deal().await;
        let lie = if deal == Deal::Refused { VaultLie::ShutOnceApproved } else { VaultLie::None };
        self.stage.chain.set_vault_lie(self.venues[0].1, lie).await.expect("set");
        let held = self.shares(at).await;
        let venue = self.venues[at].0.clone();
        let mut asked = match deal {
            Deal::Supply(_) | Deal::Refused => self.stage.request("supply", &venue),
            Deal::Part | Deal::All => self.stage.request("withdraw", &venue),
        };
        match deal {
            Deal::Supply(dollars) => asked["amount"] = json!(dollars.to_string()),
            Deal::Refused => asked["amount"] = json!(SMALL.to_string()),
            Deal::Part => asked["amount"] = json!("1"),
            Deal::All => asked["withdraw_all"] = json!(true),
        }
        let body = self.stage.body(None, &asked);
        let before = self.stage.dollars().await;
        let answer = self.finish(&body).await;
        self.armed = self.armed.map(|(point, missed)| (point, missed + 1));
        let case = format!("{deal:?} {venue} after {} kills: {answer}", self.kills);
        self.check_chain(deal, at, (before, held), &answer, &case).await;
        self.executed += u64::from(answer["status"] == "executed");
        self.check_counts(&case).await;
    }

    async fn check_chain(
        &mut self,
        deal: Deal,
        at: usize,
        (before, held): (U256, U256),
        answer: &Value,
        case: &str,
    ) {
        let (chain, owner) = (&self.stage.chain, self.stage.owner);
        let sent = sent::mined_since(chain, owner, self.first_block).await;
        let moves = sent.iter().filter(|one| !one.is_approval()).count();
        let executed = answer["status"] == "executed";
        assert!(moves <= 1, "executed twice: {case}: {sent:?}");
        assert_eq!(
            (moves, executed),
            (usize::from(deal != Deal::Refused), deal != Deal::Refused),
            "{case}"
        );
        let (after, shares) = (self.stage.dollars().await, self.shares(at).await);
        match deal {
            Deal::Supply(dollars) => {
                let moved = U256::from(dollars * DOLLAR);
                assert_eq!(
                    (before - after, atoms(&answer["assets_moved"])),
                    (moved, moved),
                    "{case}"
                );
                assert!(shares > held, "{case}");
            }
            Deal::Part => {
                assert_eq!(after - before, U256::from(DOLLAR), "{case}");
                assert_eq!(atoms(&answer["assets_moved"]), U256::from(DOLLAR), "{case}");
                assert!(shares < held && !shares.is_zero(), "{case}");
            }
            Deal::All => {
                assert_eq!(atoms(&answer["assets_moved"]), after - before, "{case}");
                assert_eq!(shares, U256::ZERO, "{case}");
            }
            Deal::Refused => assert_eq!((after, shares), (before, held), "{case}"),
        }
        for (_name, spender) in &self.venues {
            assert_eq!(self.stage.allowance(*spender).await, U256::ZERO, "{case}");
        }
        assert_eq!(sent::pending(chain, owner).await.len(), 0, "{case}");
        self.first_block = sent::head(chain).await + 1;
    }

    /// Checks that nothing is reserved, and that each executed loan counts as one operation.
    async fn check_counts(&mut self, case: &str) {
        let body = self.stage.read_body();
        let mandate = loop {
            // The kill of this engine may still be to come.
            self.revive().await;
            match self.stage.try_post("/mandate", &body).await {
                Ok((200, mandate)) => break mandate,
                _dead_or_opening => sleep(Duration::from_millis(20)).await,
            }
        };
        let morpho = &mandate["policy"]["morpho"];
        assert_eq!(morpho["reserved_usd"].as_f64(), Some(0.0), "{mandate}: {case}");
        let same_day = self.stage.engine.now_s() / 86_400 == self.day;
        assert!(!same_day || morpho["ops_today"] == self.executed, "{mandate}: {case}");
    }
}

async fn kill(chain: ChainId, wanted: usize, seed: u64) -> usize {
    let Some(mut run) = Run::set_up(chain, wanted, seed).await else { return 0 };
    let mut loans = 0;
    while run.kills < run.wanted {
        run.lend().await;
        loans += 1;
    }
    println!("{chain}: {} kills, {loans} loans, {} executed", run.kills, run.executed);
    if wanted >= POINTS.len() {
        let missed: Vec<_> = POINTS.iter().filter(|point| !run.reached.contains(*point)).collect();
        assert!(missed.is_empty(), "no kill at {missed:?}");
    }
    run.kills
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_point_of_a_plan_lends_at_most_once() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let kills = number("BURSAR_LOAN_KILLS").map_or(KILLS, |kills: u64| kills as usize);
    let seed = number("BURSAR_LOAN_SEED").unwrap_or(1);
    println!("seed {seed}");
    let half = kills.div_ceil(2);
    let (one, other) = tokio::join!(kill(BASE, half, seed), kill(ROBINHOOD, half, seed + 1));
    println!("{} kills, 0 double loans", one + other);
}

/// A new point of the plan must be among those that are killed at.
#[test]
fn every_point_of_a_plan_is_killed_at() {
    let source = include_str!("../../../engine/service/src/lanes/plans.rs");
    let named: BTreeSet<&str> = source
        .split('"')
        .filter(|text| text.starts_with("plan.") && !text.contains(char::is_whitespace))
        // Loans do not pass the points of trades. A plan is closed without a revocation only if the token has forgotten its
        // approval, which no stablecoin of our table does.
        .filter(|text| !["swap", "permit", "close"].iter().any(|other| text.contains(other)))
        .collect();
    let killed: BTreeSet<&str> =
        POINTS.into_iter().filter(|point| point.starts_with("plan.")).collect();
    assert_eq!(named, killed);
}
