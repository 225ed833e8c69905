//! A ledger of volumes and open steps, computed from the entries alone. It uses none of the rules under test.

use std::collections::BTreeMap;

use bursar_core::ids::{AgentId, RequestId};
use bursar_domain::event::{Entry, Event, RequestDraft};
use bursar_domain::plan::{ExecutionEnd, StepPurpose, Volume};
use bursar_submit::Outcome;

use crate::trades::bench::Bench;

/// Volumes of one agent, in micro-dollars.
#[derive(Debug, Default)]
struct Account {
    /// The total that was ever reserved.
    reserved_total: u64,
    spent: u64,
    returned: u64,
    /// The volume spent in the running allowance.
    spent_today: u64,
}

#[derive(Debug)]
struct Trade {
    agent: AgentId,
    /// Chain and paying address.
    outbox: (u64, [u8; 20]),
    /// The value that is reserved for the trade; `None` once that value is spent or returned.
    reserved_value: Option<u64>,
    /// Whether the value was spent.
    is_spent: bool,
    /// The purpose of the unfinished step.
    step: Option<StepPurpose>,
    ended: bool,
    closed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<AgentId, Account>,
    trades: BTreeMap<RequestId, Trade>,
    entries_read: usize,
    pub(crate) reached: std::collections::BTreeSet<String>,
}

impl Ledger {
    /// Reads the new entries and compares the sums with the state.
    pub(crate) fn follow(&mut self, bench: &Bench) {
        for entry in &bench.world.entries[self.entries_read..] {
            self.record_entry(entry);
        }
        self.entries_read = bench.world.entries.len();
        for (id, account) in &self.accounts {
            let own = self.trades.values().filter(|trade| trade.agent == *id);
            let open: u64 = own.filter_map(|trade| trade.reserved_value).sum();
            assert_eq!(account.reserved_total, account.spent + account.returned + open, "{id}");
            let agent = &bench.world.state.agents[id];
            assert_eq!(agent.reserved.trade.0, open, "{id}");
            let window = &agent.commission.as_ref().expect("a commission").window;
            assert_eq!(window.spent.trade.0, account.spent_today, "{id}");
            let now = bench.world.state.spent(agent, &bench.world.now()).trade.0;
            assert!(now + open <= 500_000_000, "{id} exceeds its volume: {now} + {open}");
        }
        for (id, trade) in &self.trades {
            let Some(execution) = bench.world.records[id].execution() else { continue };
            let volume = match (trade.reserved_value, trade.is_spent) {
                (Some(_reserved), _any) => Volume::Reserved,
                (None, true) => Volume::Spent,
                (None, false) => Volume::Returned,
            };
            assert_eq!(execution.volume, volume, "{id:?}");
        }
        let mut busy = BTreeMap::new();
        for (id, trade) in self.trades.iter().filter(|(_id, trade)| trade.step.is_some()) {
            assert_eq!(busy.insert(trade.outbox, id), None, "two steps of one line");
        }
    }

    fn record_entry(&mut self, entry: &Entry) {
        match &entry.event {
            Event::RequestHeld { draft: asked, .. }
            | Event::ExecutionStarted { draft: asked, .. } => {
                self.begin(asked);
            }
            Event::ExecutionApproved { id, counted_value: counted, .. } => {
                self.settle(id, false);
                let trade = self.trades.get_mut(id).expect("it was held");
                trade.reserved_value = Some(counted.0);
                let account = self.accounts.get_mut(&trade.agent).expect("an account");
                account.reserved_total += counted.0;
            }
            Event::RequestDenied { id, .. }
            | Event::RequestExpired { id, .. }
            | Event::RequestRejected { id, .. } => {
                assert!(self.settle(id, false), "it was held");
            }
            Event::StepOpened { id, purpose, quote } => {
                let trade = self.trades.get_mut(id).expect("a trade");
                assert_eq!(trade.step.replace(*purpose), None, "the step before has no end");
                assert!(!trade.closed);
                assert!(!trade.ended || *purpose == StepPurpose::Revocation, "{purpose:?}");
                // A step reserves the value of its own quote if that is higher.
                if let (Some(open), Some(value)) = (trade.reserved_value, quote.value())
                    && *purpose != StepPurpose::Revocation
                    && value.0 > open
                {
                    trade.reserved_value = Some(value.0);
                    let account = self.accounts.get_mut(&trade.agent).expect("an account");
                    account.reserved_total += value.0 - open;
                }
            }
            Event::StepEnded { id, outcome } => {
                let trade = self.trades.get_mut(id).expect("a trade");
                let purpose = trade.step.take().expect("an open step");
                if purpose == StepPurpose::Swap {
                    let spends = matches!(outcome, Outcome::Succeeded { .. } | Outcome::NonceTaken);
                    assert!(self.settle(id, spends), "a swap ends once");
                }
                self.reached
                    .insert(format!("{purpose:?} {}", variant_name(&format!("{outcome:?}"))));
            }
            Event::ExecutionEnded { id, end } => {
                let trade = self.trades.get_mut(id).expect("a trade");
                assert!(!std::mem::replace(&mut trade.ended, true), "a trade ends once");
                self.settle(id, false);
                self.reached.insert(variant_name(&format!("{end:?}")).to_owned());
                if let ExecutionEnd::Rejected(refusal) = end {
                    self.reached.insert(refusal.code.to_string());
                }
            }
            Event::PlanClosed { id } => {
                let trade = self.trades.get_mut(id).expect("a trade");
                assert!(!std::mem::replace(&mut trade.closed, true), "a plan closes once");
                assert!(trade.ended && trade.step.is_none() && trade.reserved_value.is_none());
            }
            Event::AllowanceRenewed { agent, .. } => {
                self.accounts.entry(agent.clone()).or_default().spent_today = 0;
            }
            _other => {}
        }
        self.reached.insert(variant_name(&format!("{:?}", entry.event)).to_owned());
    }

    fn begin(&mut self, asked: &RequestDraft) {
        let counted = asked.ask.usd().0;
        let trade = Trade {
            agent: asked.agent.clone(),
            outbox: (asked.ask.chain().0, asked.from.into_array()),
            reserved_value: Some(counted),
            is_spent: false,
            step: None,
            ended: false,
            closed: false,
        };
        assert!(self.trades.insert(asked.id, trade).is_none(), "one id, one request");
        self.accounts.entry(asked.agent.clone()).or_default().reserved_total += counted;
    }

    /// Spends or returns the reserved value. Returns whether any was reserved.
    fn settle(&mut self, id: &RequestId, spends: bool) -> bool {
        let trade = self.trades.get_mut(id).expect("a trade");
        let Some(open) = trade.reserved_value.take() else { return false };
        let account = self.accounts.get_mut(&trade.agent).expect("an account");
        trade.is_spent = spends;
        if spends {
            account.spent += open;
            account.spent_today += open;
        } else {
            account.returned += open;
        }
        true
    }
}

/// Returns the name of a variant from its `Debug` text.
fn variant_name(text: &str) -> &str {
    text.split(|end: char| !end.is_alphanumeric()).next().unwrap_or_default()
}
