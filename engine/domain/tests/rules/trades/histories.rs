//! Random histories of agents, operator, lane and chain.
//!
//! A ledger sums up volumes from the entries alone. Every step is checked, and the journal of each history is
//! replayed at its end.

use std::collections::{BTreeMap, BTreeSet};

use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_domain::plan::{ExecutionEnd, StepPurpose, outbox_key};
use bursar_domain::trades::TradeQuote;
use bursar_domain::{Action, Refusal, Status};
use bursar_submit::{Input, OutboxKey, Outcome};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::properties::quiet::quietly;
use crate::support::build;
use crate::support::cases::config;
use crate::support::clock::SECOND;
use crate::trades::bench::{
    BASE, Bench, Fate, ROBINHOOD, in_v4, quote, signatures, trade, trade_on, with_quote,
};
use crate::trades::ledger::Ledger;
use crate::trades::workload::{Step, any_history};

struct Run {
    bench: Bench,
    ledger: Ledger,
    /// The furthest status of each request, as its [`rank`].
    ranks: BTreeMap<RequestId, u8>,
}

/// Returns the position of a status in the life of a trade, which never moves back (I-p).
fn rank(status: &Status) -> u8 {
    match status {
        Status::Held { .. } => 0,
        Status::Executing(_) => 1,
        Status::Ended(_)
        | Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. } => 2,
        Status::Authorized { .. } | Status::AwaitingDevice(_) | Status::NotSigned { .. } => {
            panic!("a trade signs no payment")
        }
    }
}

fn scaled_quote(quote: TradeQuote, per_mille: u64) -> TradeQuote {
    let scale = |usd: Usd| Usd(usd.0 * per_mille / 1000);
    TradeQuote {
        out: Atoms(
            quote.out.0 * alloy_primitives::U256::from(per_mille)
                / alloy_primitives::U256::from(1000),
        ),
        value_in: quote.value_in.map(scale),
        value_out: quote.value_out.map(scale),
        ..quote
    }
}

impl Run {
    fn run_history(history: &[Step]) -> Self {
        let bench = Bench::new();
        let mut run = Self { bench, ledger: Ledger::default(), ranks: BTreeMap::new() };
        for step in history {
            run.step(step);
            run.ledger.follow(&run.bench);
            for (id, request) in &run.bench.world.records {
                let now = rank(&request.status);
                let before = run.ranks.insert(*id, now).unwrap_or(0);
                assert!(before < 2 && before <= now || before == now, "{:?}", request.status);
            }
        }
        assert_eq!(run.bench.world.restarted().state, run.bench.world.state);
        run
    }

    fn pick(&self, pick: usize, wanted: impl Fn(&Status) -> bool) -> Option<RequestId> {
        let records = self.bench.world.records.values();
        let found: Vec<_> = records.filter(|one| wanted(&one.status)).map(|one| one.id).collect();
        found.get(pick.checked_rem(found.len())?).copied()
    }

    fn pick_held(&self, pick: usize) -> Option<RequestId> {
        self.pick(pick, |status| matches!(status, Status::Held { .. }))
    }

    fn pick_running(&self, pick: usize) -> Option<RequestId> {
        self.pick(pick, |status| matches!(status, Status::Executing(_)))
    }

    /// Picks an outbox; a busy one, if there is one.
    fn key(&self, pick: usize) -> OutboxKey {
        let busy: Vec<_> =
            self.bench.world.state.outboxes.with_open_submissions().map(|one| one.key).collect();
        if let Some(key) = pick.checked_rem(busy.len()).and_then(|pick| busy.get(pick)) {
            return *key;
        }
        let chain = if pick.is_multiple_of(2) { BASE } else { ROBINHOOD };
        let label = if pick % 4 < 2 { "main" } else { "spare" };
        outbox_key(chain, build::address(label))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Ask { agent, micros, on_base: base, is_listed_token: known } => {
                self.ask(agent, micros, base, known)
            }
            Step::Approve { pick, quote } => self.approve(pick, quote),
            Step::Deny(pick) => {
                if let Some(id) = self.pick_held(pick) {
                    let _refused = self.bench.world.deny(id);
                }
            }
            Step::Open { pick, purpose, quote, stale } => self.open(pick, purpose, quote, stale),
            Step::Permit { pick, quote, signs } => self.permit(pick, quote, signs),
            Step::Price(pick) => {
                let key = self.key(pick);
                self.bench.price(key);
            }
            Step::Sign(pick) => self.sign(self.key(pick)),
            Step::Mine { pick, fate } => self.mine(self.key(pick), fate),
            Step::Cancel(pick) => {
                let key = self.key(pick);
                let outbox = self.bench.world.state.outboxes.get(&key);
                for id in outbox.open.keys() {
                    let _refused = self.bench.input(key, Input::Cancel { id: *id });
                }
                self.bench.price(key);
                self.sign(key);
            }
            Step::Probe(pick) => {
                let key = self.key(pick);
                let _refused = self.bench.input(key, Input::Tick);
            }
            Step::Advance { pick, fate } => self.advance(pick, fate),
            Step::End(pick) => {
                if let Some(id) = self.pick_running(pick) {
                    let refusal = Refusal::new(bursar_core::codes::Code::NoPool);
                    let _refused = self.bench.end(id, ExecutionEnd::Rejected(refusal));
                }
            }
            Step::Close(pick) => {
                if let Some(id) = self.pick_running(pick) {
                    let _locked = self.bench.world.run(Action::ClosePlan { id });
                }
            }
            Step::Pass(ms) => self.bench.world.clock.pass(ms),
            Step::Tick => {
                self.bench.world.tick();
            }
            Step::Freeze => {
                self.bench.world.must(Action::Freeze);
            }
            Step::Thaw => {
                let _locked = self.bench.world.run(Action::Thaw);
            }
            Step::Suspend(agent) => {
                self.bench.world.must(Action::Suspend { agent: build::agent(agent) });
            }
            Step::Resume(agent) => {
                let _locked = self.bench.world.run(Action::Resume { agent: build::agent(agent) });
            }
            Step::Lock if self.bench.world.unlocked => self.bench.world.lock(),
            Step::Unlock if !self.bench.world.unlocked => self.bench.world.unlock(),
            Step::Crash => {
                self.bench.world.unlocked = false;
                self.bench.world.clock.reboot(SECOND);
            }
            Step::Lock | Step::Unlock => {}
        }
    }

    fn ask(&mut self, agent: usize, micros: u64, base: bool, known: bool) {
        let asked = if base { trade(micros) } else { in_v4(trade_on(ROBINHOOD, trade(micros))) };
        let unknown = TradeQuote { value_in: None, ..quote(micros) };
        let asked = if known { asked } else { with_quote(asked, unknown, Usd::dollars(100)) };
        let _refused = self.bench.ask(agent, asked);
    }

    fn approve(&mut self, pick: usize, per_mille: u64) {
        let Some(id) = self.pick_held(pick) else { return };
        let request = self.bench.record(id);
        let asked = request.trade().expect("a trade");
        let fresh = scaled_quote(asked.quote.clone(), per_mille);
        let _refused = self.bench.approve(id, Ok(fresh));
    }

    fn open(&mut self, pick: usize, purpose: StepPurpose, per_mille: u64, stale: bool) {
        let Some(id) = self.pick_running(pick) else { return };
        let mut order = self.bench.step(id, purpose);
        order.quote = scaled_quote(order.quote.trade().unwrap().clone(), per_mille).into();
        if stale {
            order.index = order.index.wrapping_sub(1);
            let before = self.bench.world.entries.len();
            assert!(self.bench.order(order).is_err());
            assert_eq!(self.bench.world.entries.len(), before);
        } else {
            let _refused = self.bench.order(order);
        }
    }

    fn permit(&mut self, pick: usize, per_mille: u64, signs: bool) {
        let Some(id) = self.pick_running(pick) else { return };
        let mut order = self.bench.permit(id);
        order.quote = scaled_quote(order.quote, per_mille);
        let permit = order.permit;
        let _refused = self.bench.order_permit(order);
        if signs {
            let _locked = self.bench.record_permit(id, permit);
        }
    }

    fn sign(&mut self, key: OutboxKey) {
        let due = self.bench.world.must(Action::ResumeOutbox(key));
        self.bench.sign(key, &due);
        assert!(self.bench.world.unlocked || signatures(&due).is_empty());
    }

    fn mine(&mut self, key: OutboxKey, fate: Fate) {
        let outbox = self.bench.world.state.outboxes.get(&key);
        for id in outbox.open.keys() {
            self.bench.mine(key, *id, fate);
        }
    }

    /// Opens the step that the lane would open next, and drives it to its end.
    fn advance(&mut self, pick: usize, fate: Fate) {
        let Some(id) = self.pick_running(pick) else { return };
        let execution = self.bench.execution(id).clone();
        let key = self.bench.key(id);
        if let Some(step) = execution.open_step() {
            if self.bench.is_signed(key, step.submission) {
                self.mine(key, fate);
            } else {
                self.bench.price(key);
                self.sign(key);
            }
        } else if execution.end.is_some() {
            let _refused = self.bench.try_open(id, StepPurpose::Revocation);
        } else if let Some(swap) = execution.main_step() {
            let Some(Outcome::Succeeded { hash, .. }) = swap.outcome else {
                panic!("a trade without an end after {swap:?}");
            };
            let _locked =
                self.bench.end(id, ExecutionEnd::Executed { hash, received: None, position: None });
        } else {
            let first = execution.steps.is_empty();
            let next = if first { StepPurpose::Allowance } else { StepPurpose::Swap };
            let _refused = self.bench.try_open(id, next);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// Checks I-a, I-d and I-p, one unfinished step per address and network, and the replay.
    #[test]
    fn no_history_breaks_an_invariant(history in any_history()) {
        quietly(|| drop(Run::run_history(&history)))?;
    }
}

/// Another transaction takes the nonce of an allowance while its plan is overdue. Either event alone would end the
/// trade.
#[test]
fn an_overdue_plan_whose_nonce_was_taken_ends_once() {
    let history = [
        Step::Ask { agent: 0, micros: 0, on_base: false, is_listed_token: false },
        Step::Approve { pick: 0, quote: 1000 },
        Step::Open { pick: 0, purpose: StepPurpose::Allowance, quote: 1000, stale: false },
        Step::Pass(299_999),
        Step::Advance { pick: 0, fate: Fate::Succeeded },
        Step::Advance { pick: 0, fate: Fate::NonceTaken },
    ];
    drop(Run::run_history(&history));
}

/// The revocation of an ended trade becomes possible while another plan of the address has an open transaction.
#[test]
fn a_resumed_agents_revocation_waits_for_the_plan_that_has_begun() {
    let ask = |agent| Step::Ask { agent, micros: 0, on_base: false, is_listed_token: true };
    let advance = |pick| Step::Advance { pick, fate: Fate::Succeeded };
    let history = [
        ask(1),
        advance(0),
        Step::Ask { agent: 0, micros: 50_000_000, on_base: false, is_listed_token: false },
        advance(0),
        Step::Suspend(1),
        advance(0),
        ask(0),
        advance(5),
        Step::Resume(1),
        ask(0),
        ask(0),
        advance(4),
    ];
    drop(Run::run_history(&history));
}

/// Checks that the random histories reach every event, end and code. A property proves nothing about unreached cases.
#[test]
fn the_workload_reaches_every_end() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _case in 0..512 {
        let history = any_history().new_tree(&mut runner).unwrap().current();
        seen.append(&mut Run::run_history(&history).ledger.reached);
    }
    let missing: Vec<_> = MUST_REACH.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}\nreached: {seen:?}");
}

/// The events, ends, step outcomes and codes that the histories must reach, as the ledger notes them.
const MUST_REACH: &[&str] = &[
    "AGENTS_FROZEN",
    "AGENT_SUSPENDED",
    "AllowanceRenewed",
    "Allowance Cancelled",
    "Allowance Dropped",
    "Allowance NonceTaken",
    "Allowance Reverted",
    "Allowance Succeeded",
    "Executed",
    "Failed",
    "PLAN_EXPIRED",
    "PRICE_MOVED",
    "PermitOrdered",
    "PermitSigned",
    "PlanClosed",
    "Rejected",
    "RequestDenied",
    "RequestExpired",
    "RequestHeld",
    "RequestRefused",
    "RequestRejected",
    "Revocation Dropped",
    "Revocation Reverted",
    "Revocation Succeeded",
    "Swap Cancelled",
    "Swap Dropped",
    "Swap NonceTaken",
    "Swap Reverted",
    "Swap Succeeded",
    "ExecutionApproved",
    "ExecutionStarted",
    "WALLET_LOCKED",
];
