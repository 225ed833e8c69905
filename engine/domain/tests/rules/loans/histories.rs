//! Random histories of agents, operator, lane and chain, with trades among the loans.
//!
//! A ledger computes the sums from the entries alone. Every step is checked, and the journal of each history is
//! replayed at its end.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_domain::loans::{LoanAsk, LoanPlace, LoanQuote};
use bursar_domain::plan::{ExecutionEnd, Quote, StepPurpose, outbox_key};
use bursar_domain::{Action, LaneAsk, Refusal, Status};
use bursar_morpho::VenueId;
use bursar_submit::{Input, OutboxKey, Outcome};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::loans::asks::{self, BASE, ROBINHOOD, market, mint_calls, nothing_lent, vault};
use crate::loans::bench::{Bench, Fate, loan, policy, signatures};
use crate::loans::ledger::{Ledger, OPERATIONS};
use crate::loans::workload::{Reading, Step, any_history};
use crate::properties::quiet::quietly;
use crate::support::build;
use crate::support::cases::config;
use crate::support::clock::SECOND;
use crate::trades::asks as trades;

/// The places at which these histories lend.
fn place_at(at: usize) -> (ChainId, VenueId) {
    let places = [
        (BASE, vault(0x77)),
        (BASE, market(0x66)),
        (ROBINHOOD, vault(0x77)),
        (ROBINHOOD, vault(1)),
    ];
    places[at % places.len()]
}

struct Run {
    bench: Bench,
    ledger: Ledger,
}

impl Run {
    fn run_history(history: &[Step]) -> Self {
        let mut policy = policy();
        policy.lending.max_total = Usd::dollars(200);
        policy.lending.operations_per_day = OPERATIONS;
        let ledger = Ledger::with_limit(200_000_000);
        let mut run = Self { bench: Bench::with_policy(&policy), ledger };
        for (agent, at) in [(0, 0), (2, 2)] {
            let (chain, venue) = place_at(at);
            run.bench.lends(agent, asks::loan_at(chain, venue, asks::supply(30_000_000)));
        }
        run.ledger.follow(&run.bench);
        for step in history {
            run.step(step);
            run.ledger.follow(&run.bench);
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
        outbox_key(chain, build::address(if pick % 4 < 2 { "main" } else { "spare" }))
    }

    /// Measures a loan as `reading` specifies: correctly, from a node that lies, or too long ago.
    fn measure(&self, place: LoanPlace, asked: &LoanAsk, reading: Reading) -> LoanQuote {
        let size = u64::try_from(asked.amount().0).expect("a small amount");
        let mut quote = asks::quote(size);
        let seq = self.bench.world.state.seq;
        quote.as_of_entry = seq.saturating_sub(reading.age);
        let own = self
            .ledger
            .on_chain
            .iter()
            .filter(|(one, lent)| one.owner == place.owner && **lent > 0);
        let shown = own.filter(|_any| !reading.lies);
        let shown = shown.map(|(one, lent)| (one.chain, one.venue, Usd(*lent)));
        quote.exposure.positions = shown.collect();
        let here = self.ledger.on_chain.get(&place).copied().unwrap_or(0);
        (quote.held_shares, quote.position) = (U256::from(here), Atoms(U256::from(here)));
        quote.withdrawable = None;
        if asked.is_supply() && reading.shortfall_micros > 0 {
            // The supply buys shares, and its simulation took less than its size.
            quote.calls = mint_calls(size);
            quote.assets = Atoms(U256::from(size.saturating_sub(reading.shortfall_micros).max(1)));
        }
        assert_eq!(quote.exposure.networks, nothing_lent().networks);
        quote
    }

    fn ask(&mut self, agent: usize, micros: u64, at: usize, supplies: bool, reading: Reading) {
        let owner = build::address(if agent < 2 { "main" } else { "spare" });
        let own =
            self.ledger.on_chain.iter().filter(|(one, lent)| one.owner == owner && **lent > 0);
        let own: Vec<_> = own.map(|(one, _lent)| (one.chain, one.venue)).collect();
        let lent_at = at.checked_rem(own.len()).filter(|_any| !supplies).map(|at| own[at]);
        let (chain, venue) = lent_at.unwrap_or_else(|| place_at(at));
        let place = LoanPlace { owner, chain, venue };
        let here = self.ledger.on_chain.get(&place).copied().unwrap_or(0);
        let asked =
            if supplies { asks::supply(micros) } else { asks::withdrawal(micros.min(here)) };
        let mut asked = asks::loan_at(chain, venue, asked);
        asked.quote = self.measure(place, &asked, reading);
        asked.counted_value = asked.counted_value_at(&asked.quote);
        let newest = self.bench.world.state.loans.lent.iter();
        let newest =
            newest.filter(|(one, _lent)| one.owner == owner).map(|(_, lent)| lent.changed_entry);
        let is_old =
            supplies && newest.max().is_some_and(|changed| changed > asked.quote.as_of_entry);
        let before = self.bench.world.entries.len();
        let answer = self.bench.ask_lane(agent, loan(asked));
        if is_old {
            assert!(answer.is_err(), "an old measurement decides nothing");
            assert_eq!(self.bench.world.entries.len(), before);
        }
        if let Err(refusal) = answer {
            self.ledger.reached.insert(refusal.code.to_string());
            let is_money = matches!(
                refusal.code,
                Code::PerDepositExceeded
                    | Code::ExposureExceeded
                    | Code::ExposureUnreadable
                    | Code::DailyOpsExceeded
                    | Code::Busy
            );
            assert!(supplies || !is_money, "a withdrawal is refused: {refusal:?}");
        }
    }

    fn approve(&mut self, pick: usize, reading: Reading) {
        let Some(id) = self.pick_held(pick) else { return };
        let request = self.bench.record(id);
        let quote: Quote = match &request.ask {
            LaneAsk::Loan(loan) => self.measure(loan.place(request.from), loan, reading).into(),
            LaneAsk::Trade(trade) => trade.quote.clone().into(),
            LaneAsk::Payment(_) => return,
        };
        if let Err(refusal) = self.bench.approve(id, Ok(quote)) {
            self.ledger.reached.insert(format!("approval {}", refusal.code));
        }
    }

    fn open(&mut self, id: RequestId, purpose: StepPurpose, reading: Reading) {
        let request = self.bench.record(id);
        let mut order = self.bench.step(id, purpose);
        if let LaneAsk::Loan(loan) = &request.ask {
            // The lane takes only steps of the loan's kind, and none after the main transaction.
            let wrong =
                if loan.is_supply() { StepPurpose::Withdrawal } else { StepPurpose::Supply };
            if purpose == wrong || purpose == StepPurpose::Swap {
                return;
            }
            // A revocation needs no measurement.
            if purpose != StepPurpose::Revocation {
                order.quote = self.measure(loan.place(request.from), loan, reading).into();
            }
        } else if matches!(purpose, StepPurpose::Supply | StepPurpose::Withdrawal) {
            return;
        }
        if let Err(refusal) = self.bench.order(order) {
            self.ledger.reached.insert(format!("step {}", refusal.code));
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
    fn advance(&mut self, pick: usize, fate: Fate, reading: Reading, shows: bool) {
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
            self.open(id, StepPurpose::Revocation, reading);
        } else if let Some(main) = execution.main_step() {
            let Some(Outcome::Succeeded { hash, .. }) = main.outcome else {
                panic!("a request without an end after {main:?}");
            };
            let less =
                if main.purpose == StepPurpose::Supply { reading.shortfall_micros } else { 0 };
            let received = self.ledger.moved(&id).filter(|_known| shows).map(|moved| {
                let moved = moved - less.min(moved);
                Atoms(U256::from(moved))
            });
            let _locked =
                self.bench.end(id, ExecutionEnd::Executed { hash, received, position: None });
        } else {
            let first = execution.steps.is_empty();
            let main = match self.bench.record(id).loan().map(LoanAsk::is_supply) {
                Some(true) => StepPurpose::Supply,
                Some(false) => StepPurpose::Withdrawal,
                None => StepPurpose::Swap,
            };
            let next = if first && reading.age.is_multiple_of(2) && main != StepPurpose::Withdrawal
            {
                StepPurpose::Allowance
            } else {
                main
            };
            self.open(id, next, reading);
        }
    }

    /// The chain loses a part of a position, and the operator writes it off.
    fn write_off(&mut self, pick: usize, left: u64) {
        let places: Vec<_> = self.ledger.on_chain.keys().copied().collect();
        let Some(place) = pick.checked_rem(places.len()).map(|pick| places[pick]) else { return };
        let left = self.ledger.on_chain[&place] * left / 1000;
        match self.bench.write_off(place, left) {
            Ok(_booked) => drop(self.ledger.on_chain.insert(place, left)),
            Err(refusal) => drop(self.ledger.reached.insert(format!("write-off {}", refusal.code))),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Supply { agent, micros, place_index: at, reading } => {
                self.ask(agent, micros, at, true, reading);
            }
            Step::Withdraw { agent, micros, place_index: at } => {
                let reading = Reading { lies: false, age: 40, shortfall_micros: 0 };
                self.ask(agent, micros, at, false, reading);
            }
            Step::Trade { agent, micros, on_base: base } => {
                let trade = trades::trade(micros);
                let trade = if base { trade } else { trades::trade_on(ROBINHOOD, trade) };
                let _refused = self.bench.ask_lane(agent, LaneAsk::Trade(Box::new(trade)));
            }
            Step::Approve { pick, reading } => self.approve(pick, reading),
            Step::Deny(pick) => {
                if let Some(id) = self.pick_held(pick) {
                    let _refused = self.bench.world.deny(id);
                }
            }
            Step::Open { pick, purpose, reading } => {
                if let Some(id) = self.pick_running(pick) {
                    self.open(id, purpose, reading);
                }
            }
            Step::Price(pick) => drop(self.bench.price(self.key(pick))),
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
            Step::Advance { pick, fate, reading, shows_receipt: shows } => {
                self.advance(pick, fate, reading, shows);
            }
            Step::End(pick) => {
                if let Some(id) = self.pick_running(pick) {
                    let refusal = Refusal::new(Code::WouldFail);
                    let end = if self.ledger.moved(&id).is_some() {
                        ExecutionEnd::Failed { refusal, hash: None }
                    } else {
                        ExecutionEnd::Rejected(refusal)
                    };
                    let _refused = self.bench.end(id, end);
                }
            }
            Step::Close(pick) => {
                if let Some(id) = self.pick_running(pick) {
                    let _locked = self.bench.world.run(Action::ClosePlan { id });
                }
            }
            Step::WriteOff { pick, left } => self.write_off(pick, left),
            Step::Limit(dollars) => {
                let total = Usd::dollars(dollars);
                if self.bench.world.edit(|policy| policy.lending.max_total = total).is_ok() {
                    self.ledger.follow(&self.bench);
                    self.ledger.limit = total.0;
                }
            }
            Step::Pass(ms) => self.bench.world.clock.pass(ms),
            Step::Tick => drop(self.bench.world.tick()),
            Step::Freeze => drop(self.bench.world.must(Action::Freeze)),
            Step::Thaw => drop(self.bench.world.run(Action::Thaw)),
            Step::Suspend(agent) => {
                self.bench.world.must(Action::Suspend { agent: build::agent(agent) });
            }
            Step::Resume(agent) => {
                let _locked = self.bench.world.run(Action::Resume { agent: build::agent(agent) });
            }
            Step::Lock if self.bench.world.unlocked => self.bench.world.lock(),
            Step::Unlock if !self.bench.world.unlocked => self.bench.world.unlock(),
            Step::Crash => {
                self.bench.world = self.bench.world.restarted();
                self.bench.world.unlocked = false;
                self.bench.world.clock.reboot(SECOND);
            }
            Step::Lock | Step::Unlock => {}
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// Checks I-d and I-r, the number of operations, one plan per address and network, and the replay.
    #[test]
    fn no_history_breaks_an_invariant(history in any_history()) {
        quietly(|| drop(Run::run_history(&history)))?;
    }
}

/// Checks that the random histories reach every event, end and code. A property proves nothing about unreached cases.
#[test]
fn the_workload_reaches_every_end() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _case in 0..160 {
        let history = any_history().new_tree(&mut runner).unwrap().current();
        seen.append(&mut Run::run_history(&history).ledger.reached);
    }
    let missing: Vec<_> = MUST_REACH.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}\nreached: {seen:?}");
}

/// The events, ends, step outcomes and codes that the histories must reach.
const MUST_REACH: &[&str] = &[
    "AGENTS_FROZEN",
    "AGENT_SUSPENDED",
    "AllowanceRenewed",
    "Allowance Dropped",
    "Allowance Reverted",
    "Allowance Succeeded",
    "BUSY",
    "DAILY_OPS_EXCEEDED",
    "EXPOSURE_EXCEEDED",
    "ExecutionApproved",
    "ExecutionStarted",
    "LoanWrittenOff",
    "PER_DEPOSIT_EXCEEDED",
    "PLAN_EXPIRED",
    "PlanClosed",
    "RequestDenied",
    "RequestExpired",
    "RequestHeld",
    "RequestRejected",
    "Revocation Succeeded",
    "Supply Cancelled",
    "Supply Dropped",
    "Supply NonceTaken",
    "Supply Reverted",
    "Supply Succeeded",
    "WALLET_LOCKED",
    "Withdrawal NonceTaken",
    "Withdrawal Reverted",
    "Withdrawal Succeeded",
    "approval BUSY",
    "step BUSY",
    "write-off BUSY",
];
