//! The rules for loans, from the call and the transactions of the plan to the reported end.

mod amounts;
mod answers;
mod authority;
mod calls;
mod ceiling;
mod content;
mod ends;
mod exposure;
mod judge;
mod operations;
mod plan;
mod prices;
mod readings;
mod steps;
mod trust;
mod withdrawals;

use crate::basics::{Address, Ticket};
use crate::clocks::Instant;
use crate::lending::{LendingFact, Loan, LoanAction, LoanAmount};
use crate::plans::{PlanBook, PlanRecord};
use crate::{Auditor, Violation};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type LoanRecord = PlanRecord<Loan>;

/// The name of a rule, and how it is broken.
pub(crate) type Reason = (&'static str, &'static str);

/// What the auditor knows about loans.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    pub(crate) book: PlanBook<Loan>,
    pub(crate) facts: BTreeMap<u64, LendingFact>,
    pub(crate) readings: readings::Readings,
    /// The states in which each approval may have been decided.
    pub(crate) snapshots: BTreeMap<Ticket, Vec<judge::Snapshot>>,
    /// Losses that the operator booked or may have booked: order, observation, chain and venue.
    pub(crate) written_off: Vec<(Ticket, u64, u64, Address)>,
    /// The first signature of each loan's main transaction: loan, observation and instant.
    pub(crate) operations: Vec<(u64, u64, Instant)>,
}

/// Fields that only the record of a loan has.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoanExtra {
    /// The largest ceiling that was in force for the agent during the life of the loan.
    pub(crate) largest_total: u128,
    /// The chains on which that ceiling counts, in every possible configuration.
    pub(crate) counted_chains: Option<BTreeSet<u64>>,
}

impl LoanRecord {
    pub(crate) fn is_supply(&self) -> bool {
        self.terms.action == LoanAction::Supply
    }

    /// Returns the chain and the venue.
    pub(crate) fn network_and_venue(&self) -> (u64, &str) {
        (self.terms.chain, &self.terms.venue)
    }

    /// Returns the assets that a supply moves; `None` for a withdrawal.
    pub(crate) fn supplied_assets(&self) -> Option<u128> {
        match self.terms.amount {
            LoanAmount::Assets(assets) if self.is_supply() => Some(assets),
            _ => None,
        }
    }
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
        self.plan_violation::<Loan>(key, rule, what)
    }
}
