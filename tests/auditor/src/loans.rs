//! The rules for loans: from the call over the plan's transactions to the reported end.

mod amounts;
mod answers;
mod approvals;
mod authority;
mod calls;
mod ceiling;
mod chain;
mod content;
mod ends;
mod exposure;
mod judge;
mod list;
mod operations;
mod plans;
mod prices;
mod readings;
mod refusals;
mod repeats;
mod states;
mod steps;
mod trust;
mod withdrawals;

use crate::basics::{Address, Ticket};
use crate::clocks::Instant;
use crate::lending::{LendingFact, LoanAsk};
use crate::loan_book::LoanBook;
use crate::trade_slots::{Body, SlotKey};
use crate::{Auditor, Violation, violation};
use std::collections::{BTreeMap, BTreeSet};

/// A rule, and how it is broken.
pub(crate) type Reason = (&'static str, &'static str);

/// What the auditor knows of loans.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    pub(crate) book: LoanBook,
    pub(crate) facts: BTreeMap<u64, LendingFact>,
    pub(crate) readings: readings::Readings,
    /// The open `POST /position` calls.
    pub(crate) open: BTreeMap<Ticket, OpenLoan>,
    /// The states in which each open call, and each approval, may have been decided.
    pub(crate) snapshots: BTreeMap<Ticket, Vec<judge::Snapshot>>,
    /// Transactions that were signed after the end of their plans.
    pub(crate) void: BTreeSet<(SlotKey, Body)>,
    /// The instants at which open polls and orders arrived.
    pub(crate) arrived: BTreeMap<Ticket, Instant>,
    /// Losses that the operator booked, or may have: order, observation, chain and venue.
    pub(crate) written_off: Vec<(Ticket, u64, u64, Address)>,
    /// When the money of each loan was first signed for: loan, observation and instant.
    pub(crate) operations: Vec<(u64, u64, Instant)>,
}

/// An open `POST /position` call.
#[derive(Debug, Clone)]
pub(crate) struct OpenLoan {
    pub(crate) rec: u64,
    pub(crate) ask: LoanAsk,
    pub(crate) seq: u64,
    /// Answers that are correct because the agent may not lend: HTTP status and code.
    pub(crate) errors: Vec<(u16, &'static str)>,
}

impl Loans {
    pub(crate) fn new(facts: &[LendingFact]) -> Self {
        let lower = |all: &[String]| all.iter().map(|one| one.to_lowercase()).collect();
        let facts = facts.iter().map(|fact| {
            let fact = LendingFact {
                chain: fact.chain,
                singleton: fact.singleton.to_lowercase(),
                interest_model: fact.interest_model.to_lowercase(),
                trusted_curators: lower(&fact.trusted_curators),
                trusted_owners: lower(&fact.trusted_owners),
                pinned: lower(&fact.pinned),
                confirmations: fact.confirmations,
            };
            (fact.chain, fact)
        });
        Self { facts: facts.collect(), ..Self::default() }
    }
}

impl Auditor {
    pub(crate) fn loan_violation(&self, key: u64, rule: &'static str, what: &str) -> Violation {
        let rec = self.loans.book.recs.get(&key);
        let who = rec.map(|r| format!("loan {:?} of {}: {:?}", r.id, r.agent, r.loan));
        violation(rule, format!("{what} ({})", who.unwrap_or_default()))
    }

    /// Returns whether a trade or a loan may be executed from this address.
    pub(crate) fn plans_may_use(&self, from: &str) -> bool {
        self.trades.book.may_use(from) || self.loans.book.may_use(from)
    }
}
