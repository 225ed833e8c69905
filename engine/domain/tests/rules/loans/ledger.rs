//! A ledger of amounts that are lent or may still be lent, computed from the entries alone.
//!
//! It uses none of the rules under test, and also knows what the chain really did.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::Address;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::time::Utc;
use bursar_domain::LaneAsk;
use bursar_domain::event::{Entry, Event, RequestDraft};
use bursar_domain::loans::{LoanPlace, LoanQuote};
use bursar_domain::plan::{ExecutionEnd, StepPurpose};
use bursar_submit::{Event as OutboxEvent, Kind, Outcome, SubmissionId};

use crate::loans::bench::Bench;
use crate::support::build;

/// Number of operations that the policy of these histories allows in a day.
pub(crate) const OPERATIONS: u32 = 5;

#[derive(Debug)]
struct Loan {
    agent: AgentId,
    place: LoanPlace,
    supplies: bool,
    /// The most that the loan moves, in micro-dollars.
    size: u64,
    /// Whether the loan still counts as an operation; for a supply, also whether it still reserves its value.
    open: bool,
    /// When the hold expires; `None` if the loan is not held.
    expires: Option<Utc>,
    until: Option<Utc>,
    main: Option<(StepPurpose, SubmissionId)>,
    /// The amount that the main transaction moved.
    moved: Option<u64>,
    ended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    loans: BTreeMap<RequestId, Loan>,
    /// The amount at each place on the chain, if every transaction that may have taken effect did so.
    pub(crate) on_chain: BTreeMap<LoanPlace, u64>,
    /// The amount that the journal must expect at each place.
    expected: BTreeMap<LoanPlace, u64>,
    /// Number of finished operations in each agent's running allowance.
    finished_operations: BTreeMap<AgentId, u32>,
    frozen: bool,
    suspended: BTreeSet<AgentId>,
    /// Maximum value that may be lent, in micro-dollars.
    pub(crate) limit: u64,
    entries_read: usize,
    pub(crate) reached: BTreeSet<String>,
}

impl Ledger {
    pub(crate) fn with_limit(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Reads the new entries and compares the sums with the state.
    pub(crate) fn follow(&mut self, bench: &Bench) {
        for entry in &bench.world.entries[self.entries_read..] {
            self.record_entry(entry, bench);
        }
        self.entries_read = bench.world.entries.len();
        let state = &bench.world.state;
        for (place, lent) in &state.loans.lent {
            let expected = self.expected.get(place).copied().unwrap_or(0);
            assert_eq!(lent.net.0, expected, "{place:?}");
            assert!(lent.net.0 >= self.on_chain.get(place).copied().unwrap_or(0), "{place:?}");
        }
        assert_eq!(state.loans.lent.len(), self.expected.len(), "a venue is read for ever");
        for (id, agent) in state.agents.iter() {
            let own = self.loans.values().filter(|loan| loan.agent == *id && loan.open);
            let reserved: u64 = own.filter(|loan| loan.supplies).map(|loan| loan.size).sum();
            assert_eq!(agent.reserved.loan.0, reserved, "{id}");
            let window = &agent.commission.as_ref().expect("a commission").window;
            assert_eq!(
                window.operations,
                self.finished_operations.get(id).copied().unwrap_or(0),
                "{id}"
            );
        }
        for (index, label) in [(0, "main"), (2, "spare")] {
            let now = bench.world.now().utc;
            let counts = |loan: &&Loan| loan.open && loan.expires.is_none_or(|at| now < at);
            let owner = build::address(label);
            let open = self.loans.values().filter(|loan| loan.place.owner == owner);
            let open = open.filter(|loan| loan.supplies).filter(counts);
            assert_eq!(bench.reserved(label), open.map(|loan| loan.size).sum::<u64>(), "{label}");
            let agent = build::agent(index);
            let own = self.loans.values().filter(|loan| loan.agent == agent).filter(counts);
            let window = &state.agents[&agent].commission.as_ref().expect("a commission").window;
            let done = window.operations_at(&bench.world.now());
            assert_eq!(bench.operations(index) as usize, done as usize + own.count());
        }
    }

    /// Returns the amount that a loan moved by its receipt.
    pub(crate) fn moved(&self, id: &RequestId) -> Option<u64> {
        self.loans.get(id)?.moved
    }

    fn record_entry(&mut self, entry: &Entry, bench: &Bench) {
        match &entry.event {
            Event::RequestHeld { draft: asked, deadline, .. } => {
                self.begin(asked, Some(deadline.utc), None);
            }
            Event::ExecutionStarted { draft: asked, until } => {
                self.begin(asked, None, Some(until.utc))
            }
            Event::ExecutionApproved { id, until, .. } => {
                let Some(loan) = self.loans.get_mut(id) else { return };
                assert!(loan.open && loan.expires.take().is_some_and(|at| entry.at < at));
                loan.until = Some(until.utc);
                let owner = loan.place.owner;
                if loan.supplies {
                    self.assert_within(owner);
                }
            }
            Event::RequestDenied { id, .. }
            | Event::RequestExpired { id, .. }
            | Event::RequestRejected { id, .. } => {
                let Some(loan) = self.loans.get_mut(id) else { return };
                assert!(std::mem::replace(&mut loan.open, false), "a reservation ends once");
                assert!(loan.expires.take().is_some(), "it was held");
                loan.ended = true;
            }
            Event::StepOpened { id, purpose, .. } => {
                let Some(loan) = self.loans.get_mut(id) else { return };
                let execution = bench.world.records[id].execution().expect("a plan");
                let revokes = *purpose == StepPurpose::Revocation;
                assert!(!loan.ended || revokes, "{purpose:?}");
                assert!(revokes || loan.open, "{purpose:?} without a reservation");
                if purpose.is_main() {
                    let step = execution.main_step().expect("the main step");
                    assert!(loan.main.replace((*purpose, step.submission)).is_none());
                    if *purpose == StepPurpose::Supply {
                        self.reached.insert("supply opened".to_owned());
                    }
                }
            }
            Event::Outbox { event, .. } => self.check_signature(event),
            Event::StepEnded { id, outcome } => self.end_step(id, *outcome, bench),
            Event::ExecutionEnded { id, end } => self.end(id, end, bench),
            Event::LoanWrittenOff { place, from, to } => {
                assert_eq!(self.expected.insert(*place, to.0), Some(from.0));
            }
            Event::AllowanceRenewed { agent, .. } => {
                self.finished_operations.insert(agent.clone(), 0);
            }
            Event::Frozen => self.frozen = true,
            Event::Thawed => self.frozen = false,
            Event::AgentSuspended { agent } => drop(self.suspended.insert(agent.clone())),
            Event::AgentResumed { agent } => drop(self.suspended.remove(agent)),
            Event::RequestRefused { draft: asked, refusal }
                if matches!(asked.ask, LaneAsk::Loan(_)) =>
            {
                self.reached.insert(refusal.code.to_string());
            }
            _other => {}
        }
        let text = format!("{:?}", entry.event);
        let name = text.split(|end: char| !end.is_alphanumeric()).next().unwrap_or_default();
        self.reached.insert(name.to_owned());
    }

    /// Checks I-g: nothing is signed for a stopped agent. Only an empty transaction may be authorized, and it stays
    /// unsigned.
    fn check_signature(&self, event: &OutboxEvent) {
        let signs = match event {
            OutboxEvent::Authorized { kind, .. } => *kind == Kind::Call,
            OutboxEvent::Signed { .. } => true,
            _other => false,
        };
        let id = event.submission();
        let is_main = |loan: &&Loan| loan.main.is_some_and(|(_purpose, main)| main == id);
        if let Some(loan) = self.loans.values().find(is_main).filter(|_any| signs) {
            assert!(!self.frozen && !self.suspended.contains(&loan.agent), "{event:?}");
        }
    }

    fn begin(&mut self, asked: &RequestDraft, expires: Option<Utc>, until: Option<Utc>) {
        let LaneAsk::Loan(loan) = &asked.ask else { return };
        let size = u64::try_from(loan.amount().0).expect("a small amount");
        let (supplies, place) = (loan.is_supply(), loan.place(asked.from));
        if supplies {
            assert_eq!(asked.ask.usd().0, size, "all of it counts");
            let own = self.loans.values().filter(|one| one.agent == asked.agent && one.open);
            let done = self.finished_operations.get(&asked.agent).copied().unwrap_or(0);
            assert!(own.count() + (done as usize) < OPERATIONS as usize, "too many operations");
        }
        let loan = Loan {
            agent: asked.agent.clone(),
            place,
            supplies,
            size,
            open: true,
            expires,
            until,
            main: None,
            moved: None,
            ended: false,
        };
        assert!(self.loans.insert(asked.id, loan).is_none(), "one id, one request");
        if supplies {
            self.assert_within(place.owner);
        }
    }

    /// Checks I-r: the amounts that an address has lent and may still lend fit the limit together.
    fn assert_within(&self, owner: Address) {
        let lent = self.on_chain.iter().filter(|(place, _lent)| place.owner == owner);
        let lent: u64 = lent.map(|(_place, lent)| lent).sum();
        let open = self.loans.values().filter(|loan| loan.place.owner == owner);
        let open: u64 = open.filter(|loan| loan.supplies && loan.open).map(|loan| loan.size).sum();
        assert!(lent + open <= self.limit, "{lent} + {open} exceed {}", self.limit);
    }

    fn end_step(&mut self, id: &RequestId, outcome: Outcome, bench: &Bench) {
        let Some(loan) = self.loans.get_mut(id) else { return };
        let step = bench.world.records[id].execution().and_then(|one| {
            one.steps.iter().rev().find(|step| step.outcome == Some(outcome)).cloned()
        });
        let step = step.expect("the step that ended");
        let took_effect = matches!(outcome, Outcome::Succeeded { .. } | Outcome::NonceTaken);
        let name = format!("{outcome:?}");
        let name = name.split(' ').next().unwrap_or_default().to_owned();
        self.reached.insert(format!("{:?} {name}", step.purpose));
        if loan.main.is_none_or(|(_purpose, submission)| submission != step.submission) {
            return;
        }
        if loan.moved.is_some() || !loan.open {
            return;
        }
        loan.open = false;
        if !took_effect {
            return;
        }
        *self.finished_operations.entry(loan.agent.clone()).or_default() += 1;
        let truth = self.on_chain.entry(loan.place).or_default();
        if loan.supplies {
            *self.expected.entry(loan.place).or_default() += loan.size;
            *truth += loan.size;
            loan.moved = Some(loan.size);
        } else {
            // After any outcome but success, another transaction may have used the nonce instead.
            let is_sure = matches!(outcome, Outcome::Succeeded { .. });
            let moved = if is_sure { loan.size.min(*truth) } else { 0 };
            *truth -= moved;
            loan.moved = Some(moved);
        }
    }

    fn end(&mut self, id: &RequestId, end: &ExecutionEnd, bench: &Bench) {
        let record = bench.record(*id);
        let quote = record.execution().and_then(|execution| execution.quote.loan());
        let buys = quote.is_some_and(LoanQuote::buys_shares);
        let Some(loan) = self.loans.get_mut(id) else { return };
        assert!(!std::mem::replace(&mut loan.ended, true), "one end");
        loan.open = false;
        match end {
            ExecutionEnd::Executed { received, .. } => {
                let moved = loan.moved.expect("it took effect");
                let Some(received) = received else { return };
                let received = u64::try_from(received.0).expect("a small amount");
                let expected = self.expected.entry(loan.place).or_default();
                if loan.supplies {
                    // Only a purchase of shares can take less than it was allowed to, and at most a thousandth less.
                    let spared = if buys { loan.size / 1_000 } else { 0 };
                    *expected -= (loan.size - received).min(spared);
                    *self.on_chain.get_mut(&loan.place).expect("a place") -= loan.size - received;
                } else {
                    assert_eq!(received, moved);
                    *expected = expected.saturating_sub(received);
                }
            }
            ExecutionEnd::Rejected(refusal) | ExecutionEnd::Failed { refusal, .. } => {
                self.reached.insert(refusal.code.to_string());
            }
        }
    }
}
