//! `POST /trade` and `GET /trade/status/{id}`: an agent asks for a swap (wallet specification, "Trade request").

mod quote;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{Object, Value};
use bursar_core::money::Atoms;
use bursar_core::time::Moment;
use bursar_domain::command::{Ask, Recall};
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::Identity;
use bursar_domain::plan::{Execution, ExecutionEnd, outbox_key};
use bursar_domain::requests::Approver;
use bursar_domain::trades::TradeAsk;
use bursar_domain::{Action, LaneAsk, Refusal, Request, Status};

use self::quote::quote;
use super::admit::{Caller, Incoming, admit};
use super::api::Api;
use super::body;
use super::call_time::CallTime;
use super::message::Endpoint;
use super::objects::{check_fields, wanted};
use super::path_id::{PathId, text_of};
use super::plans::{approval_code, approval_hash, identity_of, integer};
use super::reply::{Answer, Outcome};
use crate::core::ActionAnswer;
use crate::lanes::InputFault;
use crate::lanes::trading::{Proposal, TradeInput};

pub(super) async fn trade(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    let answer = match try_trade(&api, request).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    };
    api.counters.count_trade(&answer);
    answer.into_http()
}

async fn try_trade(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    incoming.named_agent(api)?;
    let object = wanted(&incoming, "trade", Code::MissingTrade)?;
    check_fields(object)?;
    let key = body::idempotency_key(&incoming.body)?;
    let caller = admit(api, Endpoint::Trade, &incoming)?;
    incoming.time.claim()?;
    let state = &caller.view.state;
    let agent = caller.agent();
    let policy = state.policy_of(agent).ok_or(Fault::new(Code::AgentNotCommissioned))?;
    let id = RequestId::from_entropy(api.random()?);
    let identity = identity_of(&caller, Endpoint::Trade, object, key.as_deref());
    // A repeat gets its answer before the market is read again.
    let recall =
        Recall { agent: agent.id.clone(), identity: identity.clone(), prior: Prior::default() };
    let earlier = api.core.act(Action::Recall(Box::new(recall))).await;
    match earlier.map_err(|fault| caller.hide_lock(fault))?.answer {
        ActionAnswer::Request(record) | ActionAnswer::Earlier(record) => {
            let record = api.end_of(record, &incoming.time).await;
            return Ok(describe(&record, api.awaits_first_press(&record)).of_request(&record));
        }
        ActionAnswer::Done
        | ActionAnswer::Refused(_)
        | ActionAnswer::Settled(_)
        | ActionAnswer::Reported(_) => {}
    }
    if api.disk_room.is_short() {
        return Err(Fault::new(Code::DiskFull));
    }
    if !policy.trading.enabled {
        return Ok(refused(&Refusal::new(Code::TradingDisabled)));
    }
    let input = match TradeInput::read(object) {
        Ok(input) => input,
        Err(InputFault::Malformed(fault)) => return Err(fault),
        Err(InputFault::Refused(refusal)) => return Ok(refused(&refusal)),
    };
    // Endpoints of a network that may not be used are not asked.
    if !state.network_enabled(input.chain()) {
        return Ok(refused(&Refusal::new(Code::NetworkDisabled)));
    }
    if !policy.networks.allows(input.chain()) {
        return Ok(refused(&Refusal::new(Code::NetworkNotAllowed)));
    }
    api.probe_chain_time(input.chain(), &caller.moment);
    let record = match new_trade(api, &caller, &input, identity, id, &incoming.time).await? {
        Ok(record) => record,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    if record.is_held() {
        let (id, agent, amount) = (record.id.short(), &record.agent, record.ask.amount_text());
        tracing::info!(id, %agent, amount, "a trade waits for approval: run `bursar requests`");
    }
    let record = api.end_of(record, &incoming.time).await;
    Ok(describe(&record, api.awaits_first_press(&record)).of_request(&record))
}

/// Measures and records a new request. The inner error is a refusal that no record describes.
async fn new_trade(
    api: &Api,
    caller: &Caller,
    input: &TradeInput,
    identity: Identity,
    id: RequestId,
    time: &CallTime,
) -> Result<Result<Arc<Request>, Refusal>, Fault> {
    let (state, agent) = (&caller.view.state, caller.agent());
    let policy = state.policy_of(agent).ok_or(Fault::new(Code::AgentNotCommissioned))?;
    let address = agent
        .commission
        .as_ref()
        .and_then(|given| state.wallet.as_ref().and_then(|wallet| wallet.address(&given.label)));
    let owner = address.ok_or(Fault::new(Code::AgentNotCommissioned))?.address;
    let outbox = state.outboxes.get(&outbox_key(input.chain(), owner));
    let by_device = state.is_on_device(owner);
    let proposal = api.trading.propose(input, owner, by_device, &policy.trading);
    let Proposal { ask: trade, measured } = match time.limit(&*api.ports.clock, proposal).await? {
        Ok(proposal) => proposal,
        Err(refusal) if refusal.code == Code::ChainUnavailable => return Err(refusal.into()),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let refused = match measured {
        Ok(measured) => {
            // The plan may begin as soon as the request is recorded.
            api.trading.keep(id, outbox, measured);
            None
        }
        Err(refusal) => Some(refusal),
    };
    let ask = Ask {
        agent: agent.id.clone(),
        identity,
        ask: LaneAsk::Trade(Box::new(trade)),
        refused,
        prior: Prior::default(),
        id,
        nonce: [0; 32],
        bounds: api.ask_bounds(),
    };
    let asked = api.core.decide(Action::Ask(Box::new(ask))).await;
    match asked.map_err(|fault| caller.hide_lock(fault))?.answer {
        ActionAnswer::Request(record) | ActionAnswer::Earlier(record) => Ok(Ok(record)),
        // After many refusals, the next ones are not recorded.
        ActionAnswer::Refused(refusal) => Ok(Err(refusal)),
        ActionAnswer::Settled(_) | ActionAnswer::Done | ActionAnswer::Reported(_) => {
            Err(Fault::new(Code::InternalError))
        }
    }
}

pub(super) async fn status(State(api): State<Arc<Api>>, id: PathId) -> Response<Body> {
    let answer = match try_status(&api, &text_of(id)).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    };
    answer.into_http()
}

async fn try_status(api: &Api, id: &str) -> Result<Answer, Fault> {
    let id: RequestId = id.parse().map_err(|_bad| Fault::new(Code::InvalidRequestId))?;
    let moment = api.core.now();
    let record = api.request(id).await.filter(|record| record.trade().is_some());
    let record = record.ok_or(Fault::new(Code::RequestNotFound))?;
    if record.is_over(&moment) {
        // Commit the expiry before reporting it: a clock that is set back must not revive the request.
        if let Err(fault) = api.core.act(Action::Tick).await {
            tracing::warn!(code = %fault.code, "an expiry could not be recorded");
        }
    }
    Ok(polled(&record, api.awaits_first_press(&record), &moment).of_request(&record))
}

/// Answers a refusal that no record describes.
fn refused(refusal: &Refusal) -> Answer {
    let result = TradeResult { reason: Some(refusal), ..TradeResult::new("", "rejected") };
    Answer::new(400, result.body()).with_outcome(Outcome::Refused)
}

/// Answers a call with the trade's full result.
fn describe(record: &Request, awaits_first_press: bool) -> Answer {
    let Some(trade) = record.trade() else { return Answer::from(Fault::new(Code::InternalError)) };
    let id = record.id.to_string();
    let result = |status| TradeResult { trade: Some(trade), ..TradeResult::new(&id, status) };
    let pending = || Answer::new(202, result("pending").body()).with_outcome(Outcome::InProgress);
    match &record.status {
        Status::Held { .. } => pending(),
        Status::Executing(_) if awaits_first_press => pending(),
        Status::Refused { refusal, was_held, .. } => {
            let code = refusal_code(refusal, *was_held);
            let body = TradeResult { reason: Some(refusal), code, ..result("rejected") }.body();
            Answer::new(400, body).with_outcome(Outcome::Refused)
        }
        Status::Executing(execution) | Status::Ended(execution) => {
            let body = executed(&id, trade, execution).body();
            match &execution.end {
                None => Answer::new(200, body).with_outcome(Outcome::InProgress),
                Some(ExecutionEnd::Executed { .. }) => Answer::new(200, body),
                Some(ExecutionEnd::Rejected(_)) => Answer::new(400, body),
                Some(ExecutionEnd::Failed { .. }) => Answer::new(500, body),
            }
        }
        // Only payments are authorized, or have a status of their own while they wait for a device.
        Status::Denied { .. }
        | Status::Expired { .. }
        | Status::Authorized { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => Answer::new(400, over(record, trade).body()),
    }
}

/// Answers a poll: always 200, except while a person decides: the operator, or at a device.
fn polled(record: &Request, awaits_first_press: bool, moment: &Moment) -> Answer {
    let Some(trade) = record.trade() else {
        return Answer::from(Fault::new(Code::RequestNotFound));
    };
    let id = record.id.to_string();
    let short = |status: &str| {
        Object::new()
            .with("status", status)
            .with("request_id", id.as_str())
            .with("quote", quote(trade))
    };
    let pending = |left_ms: u64| {
        let left = left_ms.div_ceil(1_000);
        Answer::new(202, short("pending").with("expires_in_seconds", left))
            .with_outcome(Outcome::InProgress)
    };
    match &record.status {
        Status::Held { .. } if record.is_over(moment) => {
            let expired = Refusal::new(Code::RequestExpired);
            let result = TradeResult { trade: Some(trade), ..TradeResult::new(&id, "rejected") };
            Answer::new(200, TradeResult { reason: Some(&expired), ..result }.body())
        }
        Status::Held { deadline, .. } => pending(deadline.left_ms(moment)),
        Status::Executing(execution) if awaits_first_press => pending(execution.left_ms(moment)),
        Status::Executing(execution) if execution.end.is_none() => {
            Answer::new(200, short("executing")).with_outcome(Outcome::InProgress)
        }
        Status::Executing(execution) | Status::Ended(execution) => {
            Answer::new(200, executed(&id, trade, execution).body())
        }
        Status::Refused { refusal, was_held, .. } => {
            let result = TradeResult { trade: Some(trade), ..TradeResult::new(&id, "rejected") };
            let code = refusal_code(refusal, *was_held);
            Answer::new(200, TradeResult { reason: Some(refusal), code, ..result }.body())
        }
        // Only payments are authorized, or have a status of their own while they wait for a device.
        Status::Denied { .. }
        | Status::Expired { .. }
        | Status::Authorized { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => Answer::new(200, over(record, trade).body()),
    }
}

/// A trade that the operator denied or did not decide.
fn over<'a>(record: &'a Request, trade: &'a TradeAsk) -> TradeResult<'a> {
    let result = TradeResult { trade: Some(trade), ..TradeResult::new("", "rejected") };
    let result = TradeResult { id: record.id.to_string(), ..result };
    match &record.status {
        Status::Denied { reason, .. } => TradeResult {
            sentence: Some(reason.as_deref().unwrap_or(Code::RequestDenied.sentence())),
            reason_code: Some(Code::RequestDenied),
            ..result
        },
        _expired => TradeResult {
            sentence: Some(Code::RequestExpired.sentence()),
            reason_code: Some(Code::RequestExpired),
            ..result
        },
    }
}

fn executed<'a>(id: &str, trade: &'a TradeAsk, execution: &'a Execution) -> TradeResult<'a> {
    let result = TradeResult {
        trade: Some(trade),
        execution: Some(execution),
        approval: approval_hash(execution),
        ..TradeResult::new(id, "executing")
    };
    match &execution.end {
        None => result,
        Some(ExecutionEnd::Executed { hash, received, position: _ }) => TradeResult {
            status: "executed",
            hash: Some(hash.to_string()),
            received: *received,
            ..result
        },
        Some(ExecutionEnd::Rejected(refusal)) => {
            let by_operator = matches!(execution.by, Approver::Operator(_));
            let code =
                if by_operator { Some(approval_code(refusal.code)) } else { price_code(refusal) };
            TradeResult { status: "rejected", reason: Some(refusal), code, ..result }
        }
        Some(ExecutionEnd::Failed { refusal, hash }) => TradeResult {
            status: "failed",
            reason: Some(refusal),
            code: Some("EXECUTION_ERROR"),
            hash: hash.map(|hash| hash.to_string()),
            ..result
        },
    }
}

/// Returns the `code` of a refused trade. A trade that is refused before it is held has none.
fn refusal_code(refusal: &Refusal, was_held: bool) -> Option<&'static str> {
    was_held.then(|| approval_code(refusal.code))
}

fn price_code(refusal: &Refusal) -> Option<&'static str> {
    (refusal.code == Code::PriceMoved).then_some("PRICE_MOVED")
}

/// The result object of a trade. All keys are always present.
struct TradeResult<'a> {
    id: String,
    status: &'static str,
    trade: Option<&'a TradeAsk>,
    execution: Option<&'a Execution>,
    reason: Option<&'a Refusal>,
    sentence: Option<&'a str>,
    reason_code: Option<Code>,
    code: Option<&'static str>,
    hash: Option<String>,
    received: Option<Atoms>,
    approval: Option<String>,
}

impl TradeResult<'_> {
    fn new(id: &str, status: &'static str) -> Self {
        Self {
            id: id.to_owned(),
            status,
            trade: None,
            execution: None,
            reason: None,
            sentence: None,
            reason_code: None,
            code: None,
            hash: None,
            received: None,
            approval: None,
        }
    }

    fn body(&self) -> Object {
        let sentence = self.reason.map(Refusal::sentence).or(self.sentence);
        let reason_code = self.reason.map(|refusal| refusal.code).or(self.reason_code);
        let newest = self.execution.and_then(|execution| execution.quote.trade());
        let measured = self.trade.filter(|trade| trade.quote.is_measured());
        let quoted = newest.or(measured.map(|trade| &trade.quote));
        Object::new()
            .with("request_id", self.id.as_str())
            .with("status", self.status)
            .with("reason", sentence.map(str::to_owned))
            .with("tx_hash", self.hash.clone())
            .with("amount_out", self.received.map_or(Value::Null, integer))
            .with("amount_out_quoted", quoted.map_or(Value::Null, |quote| integer(quote.out)))
            .with("quote", measured.map_or(Value::Null, quote))
            .with("code", self.code.map(str::to_owned))
            .with("approval_tx_hash", self.approval.clone())
            .with("reason_code", reason_code.map(|code| code.text().to_owned()))
            .with("identity", Value::Null)
    }
}
