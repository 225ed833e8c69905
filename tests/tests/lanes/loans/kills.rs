//! kill -9 at every point of a plan, on both networks.
//!
//! After each loan there is at most one deposit or withdrawal, balances are exact to the unit, no allowance and no
//! reservation remain, and one operation is counted.

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_core::status::EntryKind;
use bursar_devnet::full::VaultLie;
use bursar_tests::offers::BASE;
use bursar_tests::plan_kills::{ANY_MOMENT, KilledLane, Kills, named_points, points_of_plan};
use bursar_tests::sent;
use serde_json::{Value, json};

use crate::loans::stage::{DOLLAR, ROBINHOOD, Stage, atoms};

/// Number of kills on both networks together, unless `BURSAR_LOAN_KILLS` overrides it.
const KILLS: usize = 32;

/// Every point of a plan, and the points of outbox and journal that it passes. The last entry stands for any moment.
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

const LANE: KilledLane =
    KilledLane { points: &POINTS, path: "/position", closing_entry: EntryKind::LoanClosed };

const POLICY: &str = "--lending --lending-max 2000 --lending-total 1000000 --lending-auto 1500 \
                      --lending-ops 1000000";
/// Amounts in dollars: of an automatic supply, and of one that needs approval.
const AUTOMATIC_DOLLARS: u128 = 100;
const APPROVED_DOLLARS: u128 = 1_600;

/// A loan that the loop makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoanKind {
    Supply(u128),
    /// Withdraws one dollar.
    WithdrawPart,
    WithdrawAll,
    /// Supplies to a vault that reports itself as closed after it got its approval, so that
    /// the plan revokes the approval.
    SupplyToClosed,
}

/// A chain, an engine that is killed, and the expected results.
struct Run {
    stage: Stage,
    kills: Kills,
    /// Vaults and a market; the first vault can lie.
    venues: Vec<(String, Address)>,
    executed: u64,
    first_block: u64,
    day: i64,
}

impl Run {
    async fn set_up(chain: ChainId, seed: u64) -> Option<Self> {
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
            kills: Kills::new(LANE, seed),
            executed: 0,
        })
    }

    /// Chooses a venue, and a loan that passes the planned point.
    async fn choose_loan(&mut self) -> (usize, LoanKind) {
        let point = self.kills.point();
        if point.starts_with("plan.revocation") || self.kills.dice.roll(8) == 0 {
            return (0, LoanKind::SupplyToClosed);
        }
        let count = u64::try_from(self.venues.len()).expect("few");
        let at = usize::try_from(self.kills.dice.roll(count)).expect("few");
        let supplies = point.starts_with("plan.supply") || point.starts_with("plan.allowance");
        if supplies || self.shares(at).await.is_zero() {
            let amount =
                if self.kills.dice.roll(4) == 0 { APPROVED_DOLLARS } else { AUTOMATIC_DOLLARS };
            return (at, LoanKind::Supply(amount));
        }
        let deal = match self.kills.dice.roll(3) {
            0 => LoanKind::WithdrawPart,
            1 => LoanKind::WithdrawAll,
            _other if point.starts_with("plan.withdrawal") => LoanKind::WithdrawAll,
            _other => LoanKind::Supply(AUTOMATIC_DOLLARS),
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

    /// Makes one loan through all its kills, and checks its effects.
    async fn run_loan(&mut self) {
        self.kills.plan(&mut self.stage.scene()).await;
        let (at, deal) = self.choose_loan().await;
        let lie = if deal == LoanKind::SupplyToClosed {
            VaultLie::ShutOnceApproved
        } else {
            VaultLie::None
        };
        self.stage.chain.set_vault_lie(self.venues[0].1, lie).await.expect("set");
        let held = self.shares(at).await;
        let venue = self.venues[at].0.clone();
        let mut asked = match deal {
            LoanKind::Supply(_) | LoanKind::SupplyToClosed => self.stage.request("supply", &venue),
            LoanKind::WithdrawPart | LoanKind::WithdrawAll => {
                self.stage.request("withdraw", &venue)
            }
        };
        match deal {
            LoanKind::Supply(dollars) => asked["amount"] = json!(dollars.to_string()),
            LoanKind::SupplyToClosed => asked["amount"] = json!(AUTOMATIC_DOLLARS.to_string()),
            LoanKind::WithdrawPart => asked["amount"] = json!("1"),
            LoanKind::WithdrawAll => asked["withdraw_all"] = json!(true),
        }
        let body = self.stage.request_body(None, &asked);
        let before = self.stage.dollars().await;
        let answer = self.kills.finish(&mut self.stage.scene(), &body).await;
        let case = format!("{deal:?} {venue} after {} kills: {answer}", self.kills.count());
        self.check_chain(deal, at, (before, held), &answer, &case).await;
        self.executed += u64::from(answer["status"] == "executed");
        self.check_counts(&case).await;
    }

    async fn check_chain(
        &mut self,
        deal: LoanKind,
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
            (usize::from(deal != LoanKind::SupplyToClosed), deal != LoanKind::SupplyToClosed),
            "{case}"
        );
        let (after, shares) = (self.stage.dollars().await, self.shares(at).await);
        match deal {
            LoanKind::Supply(dollars) => {
                let moved = U256::from(dollars * DOLLAR);
                assert_eq!(
                    (before - after, atoms(&answer["assets_moved"])),
                    (moved, moved),
                    "{case}"
                );
                assert!(shares > held, "{case}");
            }
            LoanKind::WithdrawPart => {
                assert_eq!(after - before, U256::from(DOLLAR), "{case}");
                assert_eq!(atoms(&answer["assets_moved"]), U256::from(DOLLAR), "{case}");
                assert!(shares < held && !shares.is_zero(), "{case}");
            }
            LoanKind::WithdrawAll => {
                assert_eq!(atoms(&answer["assets_moved"]), after - before, "{case}");
                assert_eq!(shares, U256::ZERO, "{case}");
            }
            LoanKind::SupplyToClosed => assert_eq!((after, shares), (before, held), "{case}"),
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
        let mandate = self.kills.read(&mut self.stage.scene(), "/mandate", &body).await;
        let morpho = &mandate["policy"]["morpho"];
        assert_eq!(morpho["reserved_usd"].as_f64(), Some(0.0), "{mandate}: {case}");
        let same_day = self.stage.engine.now_s() / 86_400 == self.day;
        assert!(!same_day || morpho["ops_today"] == self.executed, "{mandate}: {case}");
    }
}

async fn kill(chain: ChainId, wanted: usize, seed: u64) -> usize {
    let Some(mut run) = Run::set_up(chain, seed).await else { return 0 };
    let mut loans = 0;
    while run.kills.count() < wanted {
        run.run_loan().await;
        loans += 1;
    }
    println!("{chain}: {} kills, {loans} loans, {} executed", run.kills.count(), run.executed);
    if wanted >= POINTS.len() {
        let missed = run.kills.points_not_reached();
        assert!(missed.is_empty(), "no kill at {missed:?}");
    }
    run.kills.count()
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

/// If the plan gets a new point, the kills must include it.
#[test]
fn every_point_of_a_plan_is_killed_at() {
    let source = include_str!("../../../../engine/service/src/lanes/plans.rs");
    // Loans do not pass the points of trades. A plan ends without a revocation only if the token has forgotten its
    // approval, which no stablecoin of our table does.
    let named = named_points(source, &["swap", "permit", "close"]);
    assert_eq!(named, points_of_plan(&POINTS));
}
