//! The result object of a trade. All keys are always present.

use bursar_core::codes::Code;
use bursar_core::json::{Object, Value};
use bursar_core::money::Atoms;
use bursar_domain::plan::{Execution, ExecutionEnd};
use bursar_domain::requests::Approver;
use bursar_domain::trades::TradeAsk;
use bursar_domain::{Refusal, Request};

use super::quote::quote;
use crate::agent_api::plan_result::PlanResult;
use crate::agent_api::plans::{approval_code, approval_hash, integer};
use crate::agent_api::reply::{Answer, Outcome};

impl PlanResult for TradeAsk {
    fn of(record: &Request) -> Option<&Self> {
        record.trade()
    }

    fn quote(&self) -> Value {
        quote(self)
    }

    fn answer_refused(refusal: &Refusal) -> Answer {
        let result = TradeResult { reason: Some(refusal), ..TradeResult::new("", "rejected") };
        Answer::new(400, result.body()).with_outcome(Outcome::Refused)
    }

    fn answer_pending(&self, id: &str) -> Answer {
        let result = TradeResult::of(id, "pending", self);
        Answer::new(202, result.body()).with_outcome(Outcome::InProgress)
    }

    // A trade that is refused before it is held has no `code`.
    fn answer_rejected(&self, id: &str, refusal: &Refusal, was_held: bool) -> Answer {
        let code = was_held.then(|| approval_code(refusal.code));
        let result = TradeResult::of(id, "rejected", self);
        let body = TradeResult { reason: Some(refusal), code, ..result }.body();
        Answer::new(400, body).with_outcome(Outcome::Refused)
    }

    fn answer_executed(&self, id: &str, execution: &Execution) -> Answer {
        let result = TradeResult {
            execution: Some(execution),
            approval: approval_hash(execution),
            ..TradeResult::of(id, "executing", self)
        };
        match &execution.end {
            None => Answer::new(200, result.body()).with_outcome(Outcome::InProgress),
            Some(ExecutionEnd::Executed { hash, received, position: _ }) => {
                let hash = Some(hash.to_string());
                let received = *received;
                let result = TradeResult { status: "executed", hash, received, ..result };
                Answer::new(200, result.body())
            }
            Some(ExecutionEnd::Rejected(refusal)) => {
                let by_operator = matches!(execution.by, Approver::Operator(_));
                let code = if by_operator {
                    Some(approval_code(refusal.code))
                } else {
                    price_code(refusal)
                };
                let reason = Some(refusal);
                let result = TradeResult { status: "rejected", reason, code, ..result };
                Answer::new(400, result.body())
            }
            Some(ExecutionEnd::Failed { refusal, hash }) => {
                let (reason, code) = (Some(refusal), Some("EXECUTION_ERROR"));
                let hash = hash.map(|hash| hash.to_string());
                let result = TradeResult { status: "failed", reason, code, hash, ..result };
                Answer::new(500, result.body())
            }
        }
    }
}

fn price_code(refusal: &Refusal) -> Option<&'static str> {
    (refusal.code == Code::PriceMoved).then_some("PRICE_MOVED")
}

/// The result object of a trade. All keys are always present.
#[derive(Default)]
struct TradeResult<'a> {
    id: &'a str,
    status: &'static str,
    trade: Option<&'a TradeAsk>,
    execution: Option<&'a Execution>,
    reason: Option<&'a Refusal>,
    code: Option<&'static str>,
    hash: Option<String>,
    received: Option<Atoms>,
    approval: Option<String>,
}

impl<'a> TradeResult<'a> {
    fn new(id: &'a str, status: &'static str) -> Self {
        Self { id, status, ..Self::default() }
    }

    fn of(id: &'a str, status: &'static str, trade: &'a TradeAsk) -> Self {
        Self { trade: Some(trade), ..Self::new(id, status) }
    }

    fn body(&self) -> Object {
        let newest = self.execution.and_then(|execution| execution.quote.trade());
        let measured = self.trade.filter(|trade| trade.quote.is_measured());
        let quoted = newest.or(measured.map(|trade| &trade.quote));
        Object::new()
            .with("request_id", self.id)
            .with("status", self.status)
            .with("reason", self.reason.map(|refusal| refusal.sentence().to_owned()))
            .with("tx_hash", self.hash.clone())
            .with("amount_out", self.received.map_or(Value::Null, integer))
            .with("amount_out_quoted", quoted.map_or(Value::Null, |quote| integer(quote.out)))
            .with("quote", measured.map_or(Value::Null, quote))
            .with("code", self.code.map(str::to_owned))
            .with("approval_tx_hash", self.approval.clone())
            .with("reason_code", self.reason.map(|refusal| refusal.code.text().to_owned()))
            .with("identity", Value::Null)
    }
}
