//! The result object of a loan. All keys are always present.

use bursar_core::codes::Code;
use bursar_core::json::{Object, Value};
use bursar_core::money::Atoms;
use bursar_core::networks;
use bursar_domain::effects::Effects;
use bursar_domain::loan_text;
use bursar_domain::loans::{LoanAsk, LoanQuote, LoanSize};
use bursar_domain::plan::{Execution, ExecutionEnd, Role};
use bursar_domain::requests::Approver;
use bursar_domain::{Refusal, Request};
use bursar_morpho::VenueId;
use bursar_submit::Outcome as StepOutcome;

use crate::agent_api::numbers::decimal;
use crate::agent_api::plan_result::PlanResult;
use crate::agent_api::plans::{approval_code, approval_hash, integer};
use crate::agent_api::reply::{Answer, Outcome};

/// Seconds that an agent should wait before it asks again at a venue without free money.
const LIQUIDITY_WAIT_S: u64 = 60;

/// The parts of a result that differ between statuses.
#[derive(Default)]
struct LoanResult<'a> {
    id: &'a str,
    status: &'static str,
    loan: Option<&'a LoanAsk>,
    execution: Option<&'a Execution>,
    reason: Option<&'a Refusal>,
    code: Option<&'static str>,
    hash: Option<String>,
    moved: Option<Atoms>,
    position: Option<Atoms>,
}

impl<'a> LoanResult<'a> {
    fn new(id: &'a str, status: &'static str) -> Self {
        Self { id, status, ..Self::default() }
    }

    fn of(id: &'a str, status: &'static str, loan: &'a LoanAsk) -> Self {
        Self { loan: Some(loan), ..Self::new(id, status) }
    }

    fn with_refusal(self, refusal: &'a Refusal) -> Self {
        Self { reason: Some(refusal), ..self }
    }

    fn is_retryable(&self) -> bool {
        self.reason.is_some_and(|refusal| refusal.code == Code::InsufficientLiquidity)
    }

    /// Answers with `status`; a refusal because the venue has no free money gets 503 and a time to retry.
    fn answer(&self, status: u16) -> Answer {
        let newest = self.execution.and_then(|execution| execution.quote.loan());
        let measured = self.loan.filter(|loan| loan.quote.is_measured());
        let quoted = newest.or(measured.map(|loan| &loan.quote));
        let text = |value: &Option<String>| value.clone();
        let atoms = |value: Option<Atoms>| value.map_or(Value::Null, integer);
        let body = Object::new()
            .with("request_id", self.id)
            .with("status", self.status)
            .with("reason", self.reason.map(|refusal| refusal.sentence().to_owned()))
            .with("tx_hash", text(&self.hash))
            .with("assets_moved", atoms(self.moved))
            .with("assets_quoted", atoms(quoted.map(|quote| quote.assets)))
            .with("position_after", atoms(self.position))
            .with("quote", measured.map_or(Value::Null, quote))
            .with("code", self.code.map(str::to_owned))
            .with("retryable", self.is_retryable())
            .with("approval_tx_hash", self.execution.and_then(approval_hash))
            .with("reason_code", self.reason.map(|refusal| refusal.code.text().to_owned()))
            .with("identity", Value::Null);
        if self.is_retryable() && status >= 400 {
            return Answer::new(503, body)
                .retry_after(LIQUIDITY_WAIT_S)
                .with_outcome(Outcome::Refused);
        }
        Answer::new(status, body)
    }
}

impl PlanResult for LoanAsk {
    fn of(record: &Request) -> Option<&Self> {
        record.loan()
    }

    fn quote(&self) -> Value {
        quote(self)
    }

    fn answer_refused(refusal: &Refusal) -> Answer {
        let code = intake_code(refusal.code);
        let result = LoanResult { code, ..LoanResult::new("", "rejected") };
        result.with_refusal(refusal).answer(400).with_outcome(Outcome::Refused)
    }

    fn answer_pending(&self, id: &str) -> Answer {
        LoanResult::of(id, "pending", self).answer(202).with_outcome(Outcome::InProgress)
    }

    fn answer_rejected(&self, id: &str, refusal: &Refusal, was_held: bool) -> Answer {
        let code = match refusal.code {
            Code::RequestExpired => Some("EXPIRED"),
            code if was_held => Some(approval_code(code)),
            code => intake_code(code),
        };
        let result = LoanResult { code, ..LoanResult::of(id, "rejected", self) };
        result.with_refusal(refusal).answer(400).with_outcome(Outcome::Refused)
    }

    fn answer_executed(&self, id: &str, execution: &Execution) -> Answer {
        let result =
            LoanResult { execution: Some(execution), ..LoanResult::of(id, "executing", self) };
        match &execution.end {
            None => result.answer(200).with_outcome(Outcome::InProgress),
            Some(ExecutionEnd::Executed { hash, received, position }) => LoanResult {
                status: "executed",
                hash: Some(hash.to_string()),
                moved: *received,
                position: *position,
                ..result
            }
            .answer(200),
            Some(ExecutionEnd::Rejected(refusal)) => {
                let by_operator = matches!(execution.by, Approver::Operator(_));
                let code = match refusal.code {
                    Code::PlanExpired => Some("EXPIRED"),
                    code if by_operator => Some(approval_code(code)),
                    code => intake_code(code),
                };
                LoanResult { status: "rejected", code, ..result }.with_refusal(refusal).answer(400)
            }
            Some(ExecutionEnd::Failed { refusal, hash }) => {
                let hash = hash.map(|hash| hash.to_string());
                let code = Some(failure_code(execution));
                LoanResult { status: "failed", code, hash, ..result }
                    .with_refusal(refusal)
                    .answer(500)
            }
        }
    }
}

/// Returns the code of a loan that is refused before it is held; `None` where the original wallet has no code.
fn intake_code(code: Code) -> Option<&'static str> {
    matches!(
        code,
        Code::UnsupportedNetwork
            | Code::VenueNotPermitted
            | Code::DeadlinePassed
            | Code::DailyOpsExceeded
            | Code::PerDepositExceeded
            | Code::ExposureUnreadable
            | Code::ExposureExceeded
            | Code::TooManyPending
            | Code::InsufficientLiquidity
            | Code::RequestNoLongerValid
    )
    .then(|| code.text())
}

fn failure_code(execution: &Execution) -> &'static str {
    let last = execution.steps.iter().rev().find(|step| step.purpose.role() != Role::After);
    match last.map(|step| (step.purpose.role(), step.outcome)) {
        Some((Role::Main, Some(StepOutcome::Reverted { .. }))) => "REVERTED",
        Some((Role::Before, Some(StepOutcome::Reverted { .. }))) => "APPROVAL_REVERTED",
        _other => "EXECUTION_ERROR",
    }
}

/// Returns the `quote` object of a loan: its measurement.
fn quote(loan: &LoanAsk) -> Value {
    let quote = &loan.quote;
    let coin = networks::by_chain(loan.chain).map(|network| &network.stablecoin);
    let venue = quote.venue.as_deref();
    let kind = match loan.venue {
        VenueId::Vault(_) => "vault",
        VenueId::Market(_) => "market",
    };
    let approvals = quote.calls.len().saturating_sub(1);
    let notional = loan.value(quote).map_or(Value::Null, |usd| decimal(&usd.to_string()));
    let free = venue.and_then(|venue| venue.free_liquidity);
    Object::new()
        .with("venue", loan.venue.to_string())
        .with("venue_kind", kind)
        .with("protocol", "morpho")
        .with("action", loan.action.text())
        .with("asset", coin.map(|coin| coin.address.to_checksum(None)))
        .with("asset_decimals", coin.map(|coin| u64::from(coin.decimals)))
        .with("share_decimals", venue.map(|venue| u64::from(venue.share_decimals)))
        .with("assets", integer(quote.assets))
        .with("shares", integer(Atoms(quote.shares)))
        .with("by_shares", !matches!(loan.size, LoanSize::Assets(_)))
        .with("notional_usd", notional)
        .with("current_position_assets", integer(quote.position))
        .with("venue_withdrawable", free.map_or(Value::Null, integer))
        .with("withdrawable_now", quote.withdrawable.map_or(Value::Null, integer))
        .with("asset_symbol", coin.map(|coin| coin.symbol.to_owned()))
        .with("venue_name", venue.map(|venue| venue.name.clone()))
        .with("curator", venue.and_then(|venue| venue.curator).map(|one| one.to_checksum(None)))
        .with("gas_estimate", quote.gas)
        .with("approvals_needed", u64::try_from(approvals).unwrap_or(u64::MAX))
        .with("effects", effects(loan, quote))
        .into()
}

/// Returns the `effects` object of a loan: the results of rehearsing its plan.
fn effects(loan: &LoanAsk, quote: &LoanQuote) -> Value {
    let calls: Vec<Value> = loan_text::calls(loan, quote).into_iter().map(Value::from).collect();
    Object::new()
        .with("proven", quote.effects == Effects::Proven)
        .with("transactions", u64::try_from(quote.calls.len()).unwrap_or(u64::MAX))
        .with("calls", Value::from(calls))
        .into()
}
