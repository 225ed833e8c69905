//! The parts of a plan in which trades differ from loans.

use super::{Snapshot, TradeExtra, TradeRecord};
use crate::basics::Id;
use crate::expect::OpenCall;
use crate::lending::Loan;
use crate::observations::Answer;
use crate::plans::slots::{Kind, Slot, SlotKey, Slots};
use crate::plans::{Authorization, OpenPlan, Plan, PlanAsk, PlanBook, PlanState, Status};
use crate::trading::{OpenAllowance, Trade, TradeAnswer, TradeAsk, TradeState};
use crate::{Auditor, Violation};

impl From<&TradeAsk> for PlanAsk<Trade> {
    fn from(ask: &TradeAsk) -> Self {
        Self {
            agent: ask.agent.clone(),
            proof: ask.proof.clone(),
            content: ask.content.clone(),
            idempotency_key: ask.idempotency_key.clone(),
            terms: ask.trade.clone(),
        }
    }
}

impl Plan for Trade {
    type State = TradeState;
    type Answer = TradeAnswer;
    type Snapshot = Snapshot;
    type Reason = &'static str;
    type Extra = TradeExtra;
    type Other = Loan;

    const MAIN: Kind = Kind::Swap;

    fn either<T>(trade: T, _loan: T) -> T {
        trade
    }

    fn book(auditor: &Auditor) -> &PlanBook<Self> {
        &auditor.trades.book
    }

    fn book_mut(auditor: &mut Auditor) -> &mut PlanBook<Self> {
        &mut auditor.trades.book
    }

    fn chain(&self) -> u64 {
        self.chain
    }

    fn deadline_s(&self) -> Option<u64> {
        self.deadline_s
    }

    fn has_same_calls(&self, other: &Self) -> bool {
        self == other
    }

    fn result(answer: &Answer) -> Option<&TradeAnswer> {
        match answer {
            Answer::Trade(result) => Some(result),
            _ => None,
        }
    }

    fn parts(answer: &TradeAnswer) -> (Option<&Id>, &TradeState) {
        (answer.id.as_ref(), &answer.state)
    }

    fn confirmations(auditor: &Auditor, chain: u64) -> Option<u64> {
        auditor.trades.exchanges.get(&chain).map(|ex| ex.confirmations)
    }

    /// A swap uses up its allowance, so a revocation follows only if the trade may have ended without its swap.
    fn may_revoke_after_end(rec: &TradeRecord) -> bool {
        rec.may_have_failed()
    }

    /// The first swap counts, even if another transaction has displaced it.
    fn main_of(slots: &Slots, key: u64) -> Option<(&SlotKey, &Slot)> {
        slots.of_record(key).find(|(_, slot)| slot.kind == Self::MAIN)
    }

    /// Only loans compare the ids of their answers with those of other lanes.
    fn is_known_elsewhere(_auditor: &Auditor, _id: &str) -> bool {
        false
    }

    fn note_automatic(auditor: &mut Auditor, call: &OpenPlan<Self>) {
        auditor.note_automatic(call);
    }

    fn note_snapshots(auditor: &mut Auditor, call: &OpenPlan<Self>) {
        for snapshot in &call.snapshots {
            auditor.note_snapshot(call.rec, call.seq, snapshot);
        }
    }

    fn check_refusal(
        auditor: &Auditor,
        open: &OpenCall,
        call: &OpenPlan<Self>,
        codes: &[&str],
    ) -> Result<(), Violation> {
        auditor.check_refusal(open, call, codes.first().copied().unwrap_or_default())
    }

    /// Checks the reason of a refusal only if it came from the policy, that is, if it has no `code`.
    fn check_refused(
        auditor: &Auditor,
        open: &OpenCall,
        call: &OpenPlan<Self>,
        state: &TradeState,
    ) -> Result<(), Violation> {
        match state {
            TradeState::Rejected { code: None, reason_code } => {
                auditor.check_refusal(open, call, reason_code.as_deref().unwrap_or_default())
            }
            _ => Ok(()),
        }
    }

    /// No share price is recorded for a trade.
    fn note_refused(_auditor: &mut Auditor, _key: u64) {}

    fn check_acceptance(
        auditor: &mut Auditor,
        call: &OpenPlan<Self>,
        state: &TradeState,
    ) -> Result<(), Violation> {
        auditor.check_acceptance(call, state)?;
        auditor.trades.periods.insert(call.ask.agent.clone(), call.periods.clone());
        Ok(())
    }

    /// No share price is recorded for a trade.
    fn note_approved(_auditor: &mut Auditor, _key: u64, _ordered: u64) {}

    fn check_permission(
        auditor: &Auditor,
        key: u64,
        rec: &TradeRecord,
        in_time: &[&Authorization],
    ) -> Result<(), Violation> {
        auditor.check_permission(key, rec, in_time)
    }

    /// For a trade, any code may refuse the decision. For an operator's withdrawal, some codes may not.
    fn check_decision_refused(_auditor: &Auditor, _key: u64, _code: &str) -> Result<(), Violation> {
        Ok(())
    }

    fn left_allowance<'a>(
        auditor: &'a Auditor,
        key: u64,
        rec: &TradeRecord,
    ) -> Option<&'a OpenAllowance> {
        auditor.left_by_trade(key, rec)
    }

    fn check_end(auditor: &Auditor, key: u64, state: &TradeState) -> Result<(), Violation> {
        auditor.check_trade_end(key, state)
    }
}

impl PlanState for TradeState {
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
            Self::Rejected { code, reason_code } => [code.as_deref(), reason_code.as_deref()],
            Self::Failed { code } => [code.as_deref(), None],
            Self::Pending | Self::Executing | Self::Executed { .. } => [None, None],
        };
        all.into_iter().flatten().collect()
    }
}
