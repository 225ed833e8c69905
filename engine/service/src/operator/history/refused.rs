//! Explains a refusal to the operator, with the amounts at that time and the agent's current policy.

use bursar_control::answers::RefusedAnswer;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::text::quoted;
use bursar_domain::agents::PolicyRecord;
use bursar_domain::plan::ExecutionEnd;
use bursar_domain::refusal::Refusal;
use bursar_domain::{Request, State, Status};

/// Returns the explanation, or `None` if the request was neither refused nor denied.
pub(super) fn explain(state: &State, request: &Request) -> Option<RefusedAnswer> {
    if let Status::Denied { by, reason, .. } = &request.status {
        let reason = reason.as_deref().map(|reason| format!(": {}", quoted(reason, usize::MAX)));
        let why = format!("you denied it with {by}{}", reason.unwrap_or_default());
        return Some(RefusedAnswer { why, policy: None, option: None });
    }
    let refusal = refusal_of(request)?;
    let commission = state.agents.get(&request.agent).and_then(|agent| agent.commission.as_ref());
    let record = commission.and_then(|given| state.policy(&given.policy));
    let Some((asked, bound)) = refusal.requested.zip(refusal.bound) else {
        let policy =
            record.filter(|_known| is_of_a_policy(refusal.code)).map(|record| record.as_ref());
        return Some(RefusedAnswer {
            why: refusal.sentence().to_owned(),
            policy: policy.map(|record| record.name.as_str().to_owned()),
            option: None,
        });
    };
    let limit = match record {
        // The agent has no policy now, so show only the refusal in the record.
        None => {
            let why = refusal.describe();
            return Some(RefusedAnswer { why, policy: None, option: None });
        }
        Some(record) => Limit::of(refusal, record, asked, bound),
    };
    // Suggests no option if the limit per payment now allows the amount. For the daily limit, always suggests one.
    let policy = limit.still_refuses.then(|| limit.policy.to_owned());
    let option = policy.is_some().then(|| limit.option.to_owned());
    Some(RefusedAnswer { why: format!("{asked} USD requested, {}", limit.text), policy, option })
}

/// Returns why a request was refused, or why its trade ended without an effect.
fn refusal_of(request: &Request) -> Option<&Refusal> {
    match &request.status {
        Status::Refused { refusal, .. } => Some(refusal),
        Status::Executing(execution) | Status::Ended(execution) => match &execution.end {
            Some(ExecutionEnd::Rejected(refusal) | ExecutionEnd::Failed { refusal, .. }) => {
                Some(refusal)
            }
            Some(ExecutionEnd::Executed { .. }) | None => None,
        },
        Status::Held { .. }
        | Status::Authorized { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => None,
    }
}

struct Limit<'a> {
    policy: &'a str,
    text: String,
    option: &'static str,
    still_refuses: bool,
}

impl<'a> Limit<'a> {
    /// Explains the limit. The record contains the limit's amount, but not its policy, so the text names the current
    /// policy.
    fn of(refusal: &Refusal, record: &'a PolicyRecord, asked: Usd, bound: Usd) -> Self {
        let policy = record.name.as_str();
        let named = format!("`{policy}` v{}", record.version);
        let (payments, trading) = (&record.policy.payments, &record.policy.trading);
        let lending = &record.policy.lending;
        let each = match refusal.code {
            Code::ExceedsPerRequestMax => Some((payments.per_request, "payment", "--txn")),
            Code::ExceedsPerTradeMax => Some((trading.per_trade, "trade", "--trade-max")),
            Code::PerDepositExceeded => Some((lending.max_deposit, "deposit", "--lending-max")),
            _of_a_day => None,
        };
        if let Some((limit, what, option)) = each {
            let text = if limit == bound {
                format!("{named} allows {limit} per {what}")
            } else {
                format!("{bound} per {what} was allowed then; {named} allows {limit} now")
            };
            return Self { policy, text, option, still_refuses: asked > limit };
        }
        if refusal.code == Code::ExposureExceeded {
            let total = lending.max_total;
            let left = if bound == Usd::ZERO { "nothing".to_owned() } else { bound.to_string() };
            let text = format!("{left} was left below the ceiling; {named} allows {total} in all");
            return Self { policy, text, option: "--lending-total", still_refuses: true };
        }
        let (daily, option) = match refusal.code {
            Code::ExceedsDailyVolume => (trading.daily, "--trade-daily"),
            _of_payments => (payments.daily, "--day"),
        };
        let left = if bound == Usd::ZERO { "nothing".to_owned() } else { bound.to_string() };
        let text = format!("{left} was left for the day; {named} allows {daily} per day");
        Self { policy, text, option, still_refuses: true }
    }
}

/// Whether a policy's rule refused the request, so that another policy could allow it.
fn is_of_a_policy(code: Code) -> bool {
    matches!(
        code,
        Code::X402Disabled
            | Code::TradingDisabled
            | Code::DefiDisabled
            | Code::VenueNotPermitted
            | Code::DailyOpsExceeded
            | Code::ExceedsMaxSlippage
            | Code::NetworkNotAllowed
            | Code::DomainNotAllowed
            | Code::DomainUrlRequired
    )
}
