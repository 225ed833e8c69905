//! Rules that trades and loans share, from the request and its decision to the steps and the end of a plan.

mod answers;
mod authority;
mod book;
mod calls;
mod decisions;
mod ends;
mod list;
mod merging;
mod record;
mod repeats;
pub(crate) mod slots;
mod states;
mod steps;

pub(crate) use authority::{Authorization, UNSIGNED_MS};
pub(crate) use book::PlanBook;
pub(crate) use record::{Denial, PlanIdentity, PlanRecord};
pub(crate) use steps::JudgedStep;

use crate::basics::{Id, Proof, Ticket};
use crate::clocks::Instant;
use crate::expect::OpenCall;
use crate::observations::Answer;
use crate::trades::Allowance;
use crate::trading::OpenAllowance;
use crate::{Auditor, Violation, violation};
use slots::{Kind, Slot, SlotKey, Slots};
use std::fmt::Debug;

/// The terms of a trade or a loan, and the differences between the two kinds.
pub(crate) trait Plan: Debug + Clone + PartialEq {
    type State: PlanState;
    /// The result object in an answer.
    type Answer: Debug;
    /// One state in which a call may have been judged.
    type Snapshot: Debug + Clone;
    /// The reason why the operator must approve a plan.
    type Reason: Debug + Copy;
    /// Fields that only the records of this kind of plan have.
    type Extra: Debug + Clone + Default;
    /// Loans for trades, and trades for loans.
    type Other: Plan;

    /// The kind of the main step: the swap of a trade, or the step that moves the money of a loan.
    const MAIN: Kind;

    /// Returns the first argument for trades, and the second for loans.
    fn either<T>(trade: T, loan: T) -> T;

    fn noun() -> &'static str {
        Self::either("trade", "loan")
    }

    fn book(auditor: &Auditor) -> &PlanBook<Self>;

    fn book_mut(auditor: &mut Auditor) -> &mut PlanBook<Self>;

    fn chain(&self) -> u64;

    fn deadline_s(&self) -> Option<u64>;

    /// Returns whether both plans need equal transactions.
    ///
    /// If so, only the id of the request shows to which plan a transaction belongs.
    fn has_same_calls(&self, other: &Self) -> bool;

    /// Returns the result object of an answer about a plan of this kind.
    fn result(answer: &Answer) -> Option<&Self::Answer>;

    /// Returns the id and the state of a result object.
    fn parts(answer: &Self::Answer) -> (Option<&Id>, &Self::State);

    /// Returns after how many blocks a transaction is final.
    fn confirmations(auditor: &Auditor, chain: u64) -> Option<u64>;

    /// Returns the transaction of the plan's main step.
    fn main_of(slots: &Slots, key: u64) -> Option<(&SlotKey, &Slot)>;

    /// Returns whether this plan may still revoke its allowance after its reported end.
    fn may_revoke_after_end(rec: &PlanRecord<Self>) -> bool;

    /// Returns whether an id belongs to a request of another lane.
    fn is_known_elsewhere(auditor: &Auditor, id: &str) -> bool;

    /// Notes whether a call may have been executed without an approval, and if not, the reason.
    fn note_automatic(auditor: &mut Auditor, call: &OpenPlan<Self>);

    /// Updates the record of a call with the states in which the wallet may have judged the call.
    fn note_snapshots(auditor: &mut Auditor, call: &OpenPlan<Self>);

    /// Checks that a call was rightly refused with these codes, where the specification is definite.
    fn check_refusal(
        auditor: &Auditor,
        open: &OpenCall,
        call: &OpenPlan<Self>,
        codes: &[&str],
    ) -> Result<(), Violation>;

    /// Checks a state by which a call was refused.
    fn check_refused(
        auditor: &Auditor,
        open: &OpenCall,
        call: &OpenPlan<Self>,
        state: &Self::State,
    ) -> Result<(), Violation>;

    /// Notes what the wallet recorded with the refusal of a call.
    fn note_refused(auditor: &mut Auditor, key: u64);

    /// Checks that a call was rightly accepted, and notes what the wallet recorded with it.
    fn check_acceptance(
        auditor: &mut Auditor,
        call: &OpenPlan<Self>,
        state: &Self::State,
    ) -> Result<(), Violation>;

    /// Notes what the wallet recorded with an approval that arrived at this observation.
    fn note_approved(auditor: &mut Auditor, key: u64, ordered: u64);

    /// Checks that one of these authorizations, an approval by the operator or the call itself, lets a step be signed.
    fn check_permission(
        auditor: &Auditor,
        key: u64,
        rec: &PlanRecord<Self>,
        in_time: &[&Authorization],
    ) -> Result<(), Violation>;

    /// Checks the code by which a decision of the operator was refused.
    fn check_decision_refused(auditor: &Auditor, key: u64, code: &str) -> Result<(), Violation>;

    /// Returns an allowance that a plan gave and had to revoke, but did not.
    fn left_allowance<'a>(
        auditor: &'a Auditor,
        key: u64,
        rec: &PlanRecord<Self>,
    ) -> Option<&'a OpenAllowance>;

    /// Checks a newly reported end.
    fn check_end(auditor: &Auditor, key: u64, state: &Self::State) -> Result<(), Violation>;
}

/// A call that asks for a trade or a loan.
#[derive(Debug, Clone)]
pub(crate) struct PlanAsk<P> {
    pub(crate) agent: String,
    pub(crate) proof: Proof,
    pub(crate) content: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) terms: P,
}

/// An open call that asks for a trade or a loan.
#[derive(Debug, Clone)]
pub(crate) struct OpenPlan<P: Plan> {
    pub(crate) rec: u64,
    pub(crate) ticket: Ticket,
    pub(crate) ask: PlanAsk<P>,
    /// The observation and the instant at which the call arrived.
    pub(crate) seq: u64,
    pub(crate) arrived_at: Instant,
    /// Answers that are correct because the agent may not act: HTTP status and code.
    pub(crate) errors: Vec<(u16, &'static str)>,
    /// States in which the wallet may have judged the call.
    pub(crate) snapshots: Vec<P::Snapshot>,
    /// For a trade, the daily volumes of its agent that may be in force.
    pub(crate) periods: Vec<Allowance>,
}

/// Adds the items that the list does not contain yet.
pub(crate) fn add_new<T: PartialEq>(all: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

impl Auditor {
    pub(crate) fn plan_violation<P: Plan>(
        &self,
        key: u64,
        rule: &'static str,
        what: &str,
    ) -> Violation {
        let rec = P::book(self).records.get(&key);
        let who = rec.map(|r| format!("{} {:?} of {}: {:?}", P::noun(), r.id, r.agent, r.terms));
        violation(rule, format!("{what} ({})", who.unwrap_or_default()))
    }

    /// Returns whether a trade or a loan may be executed from this address.
    pub(crate) fn plans_may_use(&self, from: &str) -> bool {
        self.trades.book.may_use(from) || self.loans.book.may_use(from)
    }
}

/// The status of a trade or loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Executing,
    Executed,
    Rejected,
    Failed,
}

/// The state of a trade or loan, as an answer shows it.
pub(crate) trait PlanState: Debug + Clone + PartialEq {
    fn status(&self) -> Status;

    /// Returns `code` and `reason_code`.
    fn codes(&self) -> Vec<&str>;

    /// Returns the phase of a state: 0 pending, 1 executing, 2 ended.
    fn phase(&self) -> u8 {
        match self.status() {
            Status::Pending => 0,
            Status::Executing => 1,
            Status::Executed | Status::Rejected | Status::Failed => 2,
        }
    }

    fn is_executed(&self) -> bool {
        self.status() == Status::Executed
    }

    /// Returns whether the plan has ended without effect.
    fn is_without_effect(&self) -> bool {
        matches!(self.status(), Status::Rejected | Status::Failed)
    }
}
