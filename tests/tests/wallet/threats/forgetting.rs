//! A clock that runs ahead while the engine writes snapshots: the engine neither signs a signed request again
//! nor refuses honest requests.

use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_control::answers::{Answer, CheckAnswer, CheckResult};
use bursar_core::limits::CHAIN_TIME_INTERVAL_MS;
use bursar_core::time::Utc;
use bursar_engine::edition::Retention;
use bursar_engine::journal::{MemoryStore, Store};
use bursar_tests::agent::Agent;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::threats::node::{Block, BlockTimeChain};
use crate::threats::stage::{
    POLICY, authorized_count, engine_with, offer_with, unlimited_in_memory,
};

const DAY_S: i64 = 86_400;
const AHEAD_S: i64 = 40 * DAY_S;
/// Takes a snapshot every eight entries, so that a few payments trigger the next one.
const RETENTION: Retention = Retention { snapshot_every: 8, signed_days: 30 };
/// The first day still served after the engine accepted a clock that is 40 days ahead.
const FIRST_SERVED: &str = "2026-01-11T00:00:00Z";

const SIGNED_ANSWER: (u16, &str) = (200, "");
/// While the clock disagrees with the chain, every payment needs approval.
const HELD_ANSWER: (u16, &str) = (202, "APPROVAL_REQUIRED");

/// A wallet whose snapshots the test can inspect.
struct Wallet {
    engine: TestEngine,
    agent: Agent,
    store: MemoryStore,
    chain: Option<Arc<BlockTimeChain>>,
    paid: usize,
    /// The captured request and its answer.
    captured: (Value, (u16, Value)),
}

impl Wallet {
    /// Starts with one signed payment that can be redeemed for an hour.
    async fn with_a_payment(block: Option<Block>) -> Self {
        let store = MemoryStore::default();
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
        let chain = block.map(|block| BlockTimeChain::new(&clock, block));
        let setup = setup(&store, clock, chain.as_ref());
        let (engine, agent) = engine_with(setup, POLICY, "hmac").await;
        let header = offer_with(12_000, 0, |offer| {
            offer["accepts"][0]["maxTimeoutSeconds"] = json!(3_600);
        });
        let body = agent.ask(engine.now_s(), &header, None);
        let answer = engine.post("/sign", &body).await;
        assert_eq!(answer.0, 200, "{}", answer.1);
        if let Some(chain) = &chain {
            chain.until_probed(1).await;
        }
        Self { engine, agent, store, chain, paid: 0, captured: (body, answer) }
    }

    fn set_clock(&self, seconds: i64) {
        self.engine.clock.set_utc(Utc::from_seconds(seconds));
    }

    /// Makes the engine probe the chain again, with the same time on its clock.
    async fn check_again(&mut self) {
        let engine_time = self.engine.now_s();
        self.engine.clock.advance(CHAIN_TIME_INTERVAL_MS);
        self.set_clock(engine_time);
        let probes = self.chain.as_ref().expect("a chain").probes();
        self.pay().await;
        self.chain.as_ref().expect("a chain").until_probed(probes + 1).await;
    }

    /// Sends an honest request signed now.
    async fn pay(&mut self) -> (u16, String) {
        self.paid += 1;
        let header = offer_with(12_000, self.paid, |_offer| ());
        let body = self.agent.ask(self.engine.now_s(), &header, None);
        let (status, answer) = self.engine.post("/sign", &body).await;
        (status, answer["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the entry number of the newest snapshot.
    fn snapshot(&self) -> u64 {
        self.store.snapshot().expect("readable").map_or(0, |snapshot| snapshot.head.seq)
    }

    /// Sends honest requests until two more snapshots exist; each must return `wanted`.
    async fn pay_until_two_snapshots(&mut self, wanted: (u16, &str), when: &str) {
        for _snapshot in 0..2 {
            let before = self.snapshot();
            for _payment in 0..60 {
                let (status, code) = self.pay().await;
                assert_eq!((status, code.as_str()), wanted, "{when}");
                if self.snapshot() > before {
                    break;
                }
            }
            assert!(self.snapshot() > before, "{when}: no snapshot");
        }
    }

    /// The captured request gets its first answer again, and no new payment.
    async fn assert_signed_once(&self, when: &str) {
        let (body, answer) = &self.captured;
        let payments = authorized_count(&self.engine);
        assert_eq!(&self.engine.post("/sign", body).await, answer, "{when}");
        assert_eq!(authorized_count(&self.engine), payments, "{when}");
    }

    /// Returns what `status` and `doctor` report about refused requests.
    async fn reported_refusals(&self) -> (Option<String>, Option<CheckAnswer>) {
        let mut operator = self.engine.operator();
        let Answer::Status(status) = operator.must("status").await else { panic!("no status") };
        let Answer::Doctor { checks } = operator.must("doctor").await else { panic!("no checks") };
        let line = checks.into_iter().find(|check| check.check == "signed requests");
        (status.refused_before, line)
    }

    async fn restart(mut self) -> Self {
        let clock = Arc::clone(&self.engine.clock);
        let setup = setup(&self.store, clock, self.chain.as_ref());
        self.engine = self.engine.restart(setup).await;
        self.engine.operator().must("wallet open").await;
        self
    }
}

fn setup(
    store: &MemoryStore,
    clock: Arc<ManualClock>,
    chain: Option<&Arc<BlockTimeChain>>,
) -> Setup {
    let store = Some(Box::new(store.clone()) as _);
    let mut setup = Setup { store, clock, retention: RETENTION, ..unlimited_in_memory() };
    setup.chains.extend(chain.map(|chain| (BASE, Arc::clone(chain) as _)));
    setup
}

/// The engine does not accept a clock that no chain confirms, so it forgets nothing.
#[tokio::test]
async fn t_41_a_clock_that_was_ahead_forgets_no_request() {
    let true_time = Block::Since(Utc::from_seconds(NEW_YEAR_S));
    for (block, ahead) in [(None, SIGNED_ANSWER), (Some(true_time), HELD_ANSWER)] {
        let mut wallet = Wallet::with_a_payment(block).await;
        wallet.assert_signed_once("at once").await;
        wallet.set_clock(NEW_YEAR_S + AHEAD_S);
        wallet.pay_until_two_snapshots(ahead, "40 days ahead").await;
        assert_eq!(wallet.reported_refusals().await, (None, None), "40 days ahead");
        wallet.set_clock(NEW_YEAR_S + 1);
        wallet.assert_signed_once("right again").await;
        wallet.pay_until_two_snapshots(SIGNED_ANSWER, "right again").await;
        wallet.assert_signed_once("after two more snapshots").await;
        assert_eq!(wallet.reported_refusals().await, (None, None), "right again");
        let mut wallet = wallet.restart().await;
        wallet.assert_signed_once("after a restart").await;
        wallet.pay_until_two_snapshots(SIGNED_ANSWER, "after a restart").await;
        wallet.assert_signed_once("in the end").await;
    }
}

/// A node confirms a clock that is ahead. Requests are refused and not signed again; `status` and `doctor` show the
/// operator the date and the command that corrects it.
#[tokio::test]
async fn t_41_the_operator_recovers_after_a_node_confirmed_a_wrong_clock() {
    let mut wallet = Wallet::with_a_payment(Some(Block::Behind(0))).await;
    wallet.set_clock(NEW_YEAR_S + AHEAD_S);
    wallet.check_again().await;
    wallet.pay_until_two_snapshots(SIGNED_ANSWER, "40 days ahead").await;
    assert_eq!(wallet.reported_refusals().await, (None, None), "no date of the future is refused");

    wallet.set_clock(NEW_YEAR_S + 1);
    let refused = (401, "AUTH_FAILED".to_owned());
    for round in 0..2 {
        let payments = authorized_count(&wallet.engine);
        let (status, answer) = wallet.engine.post("/sign", &wallet.captured.0).await;
        assert_eq!((status, answer["code"].as_str()), (401, Some("AUTH_FAILED")), "{round}");
        assert_eq!(wallet.pay().await, refused, "{round}");
        assert_eq!(authorized_count(&wallet.engine), payments, "{round}: no second payment");
        let (status, line) = wallet.reported_refusals().await;
        assert_eq!(status.as_deref(), Some(FIRST_SERVED), "{round}");
        let line = line.expect("a line of doctor");
        assert_eq!(line.result, CheckResult::Fail);
        assert!(line.finding.contains(FIRST_SERVED), "{line:?}");
        assert!(line.advice.expect("advice").contains("audit accept"));
        wallet = wallet.restart().await;
    }

    wallet.engine.operator().must("audit accept").await;
    assert_eq!(wallet.reported_refusals().await, (None, None), "corrected");
    wallet.check_again().await;
    wallet.assert_signed_once("corrected").await;
    wallet.pay_until_two_snapshots(SIGNED_ANSWER, "corrected").await;
    wallet.assert_signed_once("after two more snapshots").await;
    let wallet = wallet.restart().await;
    wallet.assert_signed_once("after a restart").await;
}
