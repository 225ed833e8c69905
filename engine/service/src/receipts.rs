//! Receipts in AP2's form, as the original wallet writes them, for the agent server and the command `receipt`.

mod page;

use bursar_core::codes::Code;
use bursar_core::json::{Object, Value};
use bursar_core::money::Atoms;
use bursar_core::text;
use bursar_domain::loans::LoanAsk;
use bursar_domain::plan::{Execution, ExecutionEnd, PlanStep};
use bursar_domain::requests::Approver;
use bursar_domain::settlement::{Settlement, SettlementStatus};
use bursar_domain::trades::{TradeAsk, TradeToken};
use bursar_domain::{PaymentAsk, Request, Status};

pub use page::page;

/// The version of the receipt format.
const VERSION: &str = "ap2.primer/v0.1";

/// Returns the receipt of `request`.
///
/// `agent_key` is the name of the agent's code in it, and `agent_name` the agent's name, if it is known.
pub fn receipt(
    agent_key: &str,
    agent_name: Option<&str>,
    request: &Request,
    settlement: Option<&Settlement>,
) -> Object {
    let mut receipt = Object::new()
        .with("type", "AP2Receipt")
        .with("version", VERSION)
        .with("transactionId", request.id.to_string())
        .with("status", status(request, settlement))
        .with("timestamp", text::utc(request.created))
        .with("intent", intent(agent_key, agent_name, request))
        .with("authorization", authorization(request))
        .with(
            "payment",
            request.ask.payment().map_or(Value::Null, |ask| payment(request, ask).into()),
        )
        .with(
            "settlement",
            settlement.map_or(Value::Null, |known| Value::from(settlement_object(known))),
        );
    if let Some(asked) = request.trade() {
        receipt.insert("trade", trade(request, asked));
    }
    if let Some(asked) = request.loan() {
        receipt.insert("loan", loan(request, asked));
    }
    if let Some(reason) = rejection_text(request) {
        receipt.insert("rejection", Object::new().with("reason", reason));
    }
    if let Some(known) = settlement.filter(|known| known.status() == SettlementStatus::Failed) {
        let reported = known.error.as_deref().or(known.check.detail());
        let reason = reported.unwrap_or("the agent reported a failure");
        receipt.insert("failure", Object::new().with("reason", reason));
    }
    receipt
}

fn status(request: &Request, settlement: Option<&Settlement>) -> &'static str {
    match (&request.status, settlement.map(Settlement::status)) {
        (Status::Held { .. }, _) => "payment-required",
        (Status::Executing(execution) | Status::Ended(execution), _)
            if request.loan().is_some() =>
        {
            match &execution.end {
                None => "loan-executing",
                Some(ExecutionEnd::Executed { .. }) => "loan-completed",
                Some(ExecutionEnd::Rejected(_)) => "loan-rejected",
                Some(ExecutionEnd::Failed { .. }) => "loan-failed",
            }
        }
        (Status::Executing(execution) | Status::Ended(execution), _) => match &execution.end {
            None => "trade-executing",
            Some(ExecutionEnd::Executed { .. }) => "trade-completed",
            Some(ExecutionEnd::Rejected(_)) => "trade-rejected",
            Some(ExecutionEnd::Failed { .. }) => "trade-failed",
        },
        (
            Status::Refused { .. }
            | Status::Denied { .. }
            | Status::Expired { .. }
            | Status::NotSigned { .. },
            _,
        ) => "payment-rejected",
        (Status::AwaitingDevice(_), _) => "payment-required",
        (Status::Authorized { .. }, None) => "payment-verified",
        (
            Status::Authorized { .. },
            Some(SettlementStatus::Submitted | SettlementStatus::SettledByReport),
        ) => "payment-submitted",
        (Status::Authorized { .. }, Some(SettlementStatus::Refuted)) => "payment-refuted",
        (Status::Authorized { .. }, Some(SettlementStatus::Failed)) => "payment-failed",
        (Status::Authorized { .. }, Some(SettlementStatus::Verified)) => "payment-completed",
    }
}

fn intent(agent_key: &str, agent_name: Option<&str>, request: &Request) -> Object {
    let agent = Object::new()
        .with(agent_key, request.agent.as_str())
        .with("name", agent_name.map_or(Value::Null, Value::from));
    Object::new()
        .with("type", "IntentMandate")
        .with("mandateId", request.mandate.map_or(Value::Null, |id| Value::from(id.to_string())))
        .with("policyName", Value::Null)
        .with("agent", agent)
}

fn authorization(request: &Request) -> Object {
    let (method, at) = match &request.status {
        Status::Authorized { by, at, .. } => (method(*by), Value::from(text::utc(*at))),
        Status::Executing(execution) | Status::Ended(execution) => {
            (method(execution.by), Value::from(text::utc(execution.at)))
        }
        Status::AwaitingDevice(turn) => (method(turn.by), Value::from(text::utc(turn.at))),
        Status::Held { .. }
        | Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::NotSigned { .. } => (Value::Null, Value::Null),
    };
    let wallet = Object::new()
        .with("address", request.from.to_checksum(None))
        .with("id", request.label.as_str());
    Object::new().with("method", method).with("authorizedAt", at).with("wallet", wallet)
}

fn method(by: Approver) -> Value {
    Value::from(match by {
        Approver::Policy => "auto",
        Approver::Operator(_) => "manual",
    })
}

fn payment(request: &Request, ask: &PaymentAsk) -> Object {
    let url = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let micro = if ask.is_unpriced() { Value::Null } else { Value::from(ask.usd.0) };
    let amount = Object::new()
        .with("micro", micro)
        .with("atomic", ask.amount.to_string())
        .with("formatted", request.ask.amount_text());
    let payment = Object::new()
        .with("amount", amount)
        .with("asset", ask.asset.to_checksum(None))
        .with("recipient", ask.payee.to_checksum(None))
        .with("network", format!("eip155:{}", ask.chain))
        .with("resource", url(&ask.resource_url))
        .with("requestUrl", url(&ask.request_url));
    if ask.other_urls.is_empty() {
        return payment;
    }
    let others = ask.other_urls.iter().map(|url| Value::from(url.as_str()));
    payment.with("otherResources", Value::from(others.collect::<Vec<_>>()))
}

fn trade(request: &Request, asked: &TradeAsk) -> Object {
    let token = |token: &TradeToken| {
        Object::new()
            .with("address", token.address.unwrap_or_default().to_checksum(None))
            .with("symbol", token.symbol.as_str())
            .with("decimals", u64::from(token.decimals))
    };
    let execution = request.execution();
    let received = match execution.and_then(|execution| execution.end.as_ref()) {
        Some(ExecutionEnd::Executed { received: Some(atoms), .. }) => {
            Value::from(atoms.to_string())
        }
        _unknown => Value::Null,
    };
    let swap = execution.and_then(Execution::main_step).and_then(PlanStep::hash);
    let gives = asked.input_text();
    let formatted = match execution.and_then(|execution| execution.end.as_ref()) {
        Some(ExecutionEnd::Executed { received: Some(atoms), .. }) => {
            format!("{gives} for {}", asked.amount_text(&asked.token_out, *atoms))
        }
        _no_known_output => format!("{gives} for {}", asked.symbol_text(&asked.token_out)),
    };
    Object::new()
        .with("formatted", formatted)
        .with("network", format!("eip155:{}", asked.chain))
        .with("tokenIn", token(&asked.token_in))
        .with("tokenOut", token(&asked.token_out))
        .with("amountIn", asked.amount_in.to_string())
        .with("minimumOut", asked.floor(&asked.quote).to_string())
        .with("amountOut", received)
        .with("pool", asked.venue.pool_text())
        .with("txHash", swap.map_or(Value::Null, |hash| Value::from(hash.to_string())))
}

fn loan(request: &Request, asked: &LoanAsk) -> Object {
    let execution = request.execution();
    let (moved, position) = match execution.and_then(|execution| execution.end.as_ref()) {
        Some(ExecutionEnd::Executed { received, position, .. }) => (*received, *position),
        _unknown => (None, None),
    };
    let atoms = |value: Option<Atoms>| value.map_or(Value::Null, |one| one.to_string().into());
    let hash = execution.and_then(Execution::main_step).and_then(PlanStep::hash);
    let name = asked.quote.venue.as_ref().map(|venue| Value::from(venue.name.as_str()));
    let coin = request.ask.network().map(|network| network.stablecoin.address);
    let formatted = match moved {
        Some(moved) => asked.assets_text(moved),
        None => asked.amount_text(),
    };
    Object::new()
        .with("formatted", format!("{} {formatted}", asked.action.text()))
        .with("network", format!("eip155:{}", asked.chain))
        .with("action", asked.action.text())
        .with("venue", asked.venue.to_string())
        .with("venueName", name.unwrap_or(Value::Null))
        .with("asset", coin.map_or(Value::Null, |coin| coin.to_checksum(None).into()))
        .with("assetsQuoted", asked.quote.assets.to_string())
        .with("assetsMoved", atoms(moved))
        .with("positionAfter", atoms(position))
        .with("txHash", hash.map_or(Value::Null, |hash| Value::from(hash.to_string())))
}

fn settlement_object(known: &Settlement) -> Object {
    let at = known.settled.filter(|_at| known.status() == SettlementStatus::Verified);
    let verification = known.check.text().map_or(Value::Null, |status| {
        let block = known.check.block().map_or(Value::Null, Value::from);
        let detail = known.check.detail().map_or(Value::Null, Value::from);
        Value::from(
            Object::new().with("status", status).with("block", block).with("detail", detail),
        )
    });
    Object::new()
        .with("txHash", known.tx_hash.map_or(Value::Null, |hash| Value::from(hash.to_string())))
        .with("settledAt", at.map_or(Value::Null, |at| Value::from(text::utc(at))))
        .with("verification", verification)
}

fn rejection_text(request: &Request) -> Option<&str> {
    match &request.status {
        Status::Refused { refusal, .. } => Some(refusal.sentence()),
        Status::Denied { reason, .. } => {
            Some(reason.as_deref().unwrap_or(Code::RequestDenied.sentence()))
        }
        Status::Expired { .. } => Some(Code::RequestExpired.sentence()),
        Status::NotSigned { end, .. } => Some(end.sentence()),
        Status::Executing(execution) | Status::Ended(execution) => match &execution.end {
            Some(ExecutionEnd::Rejected(refusal) | ExecutionEnd::Failed { refusal, .. }) => {
                Some(refusal.sentence())
            }
            Some(ExecutionEnd::Executed { .. }) | None => None,
        },
        Status::Held { .. } | Status::Authorized { .. } | Status::AwaitingDevice(_) => None,
    }
}
