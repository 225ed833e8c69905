//! The parts of a plan in which loans differ from trades.

use super::judge::Snapshot;
use super::{LoanExtra, LoanRecord, Reason};
use crate::basics::Id;
use crate::expect::OpenCall;
use crate::lending::{Loan, LoanAnswer, LoanAsk, LoanState};
use crate::observations::Answer;
use crate::plans::slots::{Kind, Slot, SlotKey, Slots};
use crate::plans::{Authorization, OpenPlan, Plan, PlanAsk, PlanBook, PlanState, Status, add_new};
use crate::trading::{OpenAllowance, Trade};
use crate::{Auditor, Violation};

impl From<&LoanAsk> for PlanAsk<Loan> {
    fn from(ask: &LoanAsk) -> Self {
        Self {
            agent: ask.agent.clone(),
            proof: ask.proof.clone(),
            content: ask.content.clone(),
            idempotency_key: ask.idempotency_key.clone(),
            terms: Loan { venue: ask.loan.venue.to_lowercase(), ..ask.loan.clone() },
        }
    }
}

impl Plan for Loan {
    type State = LoanState;
    type Answer = LoanAnswer;
    type Snapshot = Snapshot;
    type Reason = Reason;
    type Extra = LoanExtra;
    type Other = Trade;

    const MAIN: Kind = Kind::Loan;

    fn either<T>(_trade: T, loan: T) -> T {
        loan
    }

    fn book(auditor: &Auditor) -> &PlanBook<Self> {
        &auditor.loans.book
    }

    fn book_mut(auditor: &mut Auditor) -> &mut PlanBook<Self> {
        &mut auditor.loans.book
    }

    fn chain(&self) -> u64 {
        self.chain
    }

    fn deadline_s(&self) -> Option<u64> {
        self.deadline_s
    }

    /// Ignores the deadline, because no transaction contains it.
    fn has_same_calls(&self, other: &Self) -> bool {
        let terms = |loan: &Self| Self { deadline_s: None, ..loan.clone() };
        terms(self) == terms(other)
    }

    fn result(answer: &Answer) -> Option<&LoanAnswer> {
        match answer {
            Answer::Loan(result) => Some(result),
            _ => None,
        }
    }

    fn parts(answer: &LoanAnswer) -> (Option<&Id>, &LoanState) {
        (answer.id.as_ref(), &answer.state)
    }

    fn confirmations(auditor: &Auditor, chain: u64) -> Option<u64> {
        auditor.loans.facts.get(&chain).map(|fact| fact.confirmations)
    }

    /// A supply that buys shares may leave a part of its allowance, so every loan may end with a revocation.
    fn may_revoke_after_end(_rec: &LoanRecord) -> bool {
        true
    }

    /// Returns the newest main transaction that no other transaction has displaced.
    fn main_of(slots: &Slots, key: u64) -> Option<(&SlotKey, &Slot)> {
        let mut all: Vec<_> =
            slots.of_record(key).filter(|(_, slot)| slot.kind == Self::MAIN).collect();
        all.sort_by_key(|(_, slot)| (!slot.is_nonce_taken, slot.signed_at));
        all.pop()
    }

    fn is_known_elsewhere(auditor: &Auditor, id: &str) -> bool {
        auditor.trades.book.by_id.contains_key(id) || auditor.book.by_id.contains_key(id)
    }

    fn note_automatic(auditor: &mut Auditor, call: &OpenPlan<Self>) {
        let verdicts = auditor.loan_verdicts(call.rec, call.seq, &call.snapshots);
        let Some(rec) = auditor.loans.book.records.get_mut(&call.rec) else { return };
        rec.may_be_automatic |= verdicts.iter().any(|v| v.must_hold.is_none());
        rec.not_automatic = verdicts.iter().find_map(|v| v.must_hold).or(rec.not_automatic);
    }

    fn note_snapshots(auditor: &mut Auditor, call: &OpenPlan<Self>) {
        let Some(rec) = auditor.loans.book.records.get_mut(&call.rec) else { return };
        for snapshot in &call.snapshots {
            rec.payers.extend(snapshot.payer.clone());
            add_new(&mut rec.acceptance_instants, [snapshot.now]);
        }
    }

    fn check_refusal(
        auditor: &Auditor,
        open: &OpenCall,
        call: &OpenPlan<Self>,
        codes: &[&str],
    ) -> Result<(), Violation> {
        auditor.check_loan_refusal(open, call, codes)
    }

    fn check_refused(
        auditor: &Auditor,
        open: &OpenCall,
        call: &OpenPlan<Self>,
        state: &LoanState,
    ) -> Result<(), Violation> {
        auditor.check_loan_refusal(open, call, &state.codes())?;
        auditor.check_retryable(call.rec, state)
    }

    fn note_refused(auditor: &mut Auditor, key: u64) {
        auditor.note_refused_price(key);
    }

    fn check_acceptance(
        auditor: &mut Auditor,
        call: &OpenPlan<Self>,
        state: &LoanState,
    ) -> Result<(), Violation> {
        auditor.check_loan_acceptance(call, state)?;
        auditor.note_accepted_price(call.rec);
        Ok(())
    }

    fn note_approved(auditor: &mut Auditor, key: u64, ordered: u64) {
        auditor.note_approved_price(key, ordered);
    }

    fn check_permission(
        auditor: &Auditor,
        key: u64,
        rec: &LoanRecord,
        in_time: &[&Authorization],
    ) -> Result<(), Violation> {
        auditor.check_loan_permission(key, rec, in_time)
    }

    fn check_decision_refused(auditor: &Auditor, key: u64, code: &str) -> Result<(), Violation> {
        auditor.check_money_refusal(key, &[code])
    }

    fn left_allowance<'a>(
        auditor: &'a Auditor,
        key: u64,
        rec: &LoanRecord,
    ) -> Option<&'a OpenAllowance> {
        auditor.left_by_loan(key, rec)
    }

    fn check_end(auditor: &Auditor, key: u64, state: &LoanState) -> Result<(), Violation> {
        auditor.check_loan_end(key, state)
    }
}

impl PlanState for LoanState {
    fn status(&self) -> Status {
        match self {
            Self::Pending => Status::Pending,
            Self::Executing => Status::Executing,
            Self::Executed { .. } => Status::Executed,
            Self::Rejected { .. } => Status::Rejected,
            Self::Failed { .. } => Status::Failed,
        }
    }

    fn codes(&self) -> Vec<&str> {
        let all = match self {
            Self::Rejected { code, reason_code, .. } => [code.as_deref(), reason_code.as_deref()],
            Self::Failed { code, .. } => [code.as_deref(), None],
            Self::Pending | Self::Executing | Self::Executed { .. } => [None, None],
        };
        all.into_iter().flatten().collect()
    }
}
