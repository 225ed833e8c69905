//! `POST /position` and `GET /position/status/{id}`: an agent asks to lend, or to take lent money back (wallet
//! specification, "Lending rules").

mod result;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::time::Moment;
use bursar_domain::command::{Ask, Recall};
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::Identity;
use bursar_domain::plan::outbox_key;
use bursar_domain::{Action, LaneAsk, Refusal, Request, Status};

use self::result::{executed, over, pending, polled_quote, refused, rejected};
use super::admit::{Caller, Incoming, admit};
use super::api::Api;
use super::body;
use super::call_time::CallTime;
use super::message::Endpoint;
use super::objects::{check_fields, wanted};
use super::path_id::{PathId, text_of};
use super::plans::identity_of;
use super::reply::{Answer, Outcome};
use crate::core::ActionAnswer;
use crate::lanes::InputFault;
use crate::lanes::lending::{Known, LoanInput};

/// Most times that a loan is measured for one request, because another loan of its address ended meanwhile.
const MEASURED_MAX: usize = 3;

pub(super) async fn position(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    let answer = match try_position(&api, request).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    };
    api.counters.count_trade(&answer);
    answer.into_http()
}

async fn try_position(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    incoming.named_agent(api)?;
    let object = wanted(&incoming, "position", Code::MissingPosition)?;
    check_fields(object)?;
    let key = body::idempotency_key(&incoming.body)?;
    let caller = admit(api, Endpoint::Position, &incoming)?;
    incoming.time.claim()?;
    let state = &caller.view.state;
    let agent = caller.agent();
    let policy = state.policy_of(agent).ok_or(Fault::new(Code::AgentNotCommissioned))?;
    let id = RequestId::from_entropy(api.random()?);
    let identity = identity_of(&caller, Endpoint::Position, object, key.as_deref());
    // A repeat gets its answer before the chain is read again.
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
    if !policy.lending.enabled {
        return Err(Fault::new(Code::DefiDisabled));
    }
    let input = match LoanInput::read(object) {
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
    let record = match new_loan(api, caller, &input, identity, id, &incoming.time).await? {
        Ok(record) => record,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    if record.is_held() {
        let (id, agent, amount) = (record.id.short(), &record.agent, record.ask.amount_text());
        tracing::info!(id, %agent, amount, "a loan waits for approval: run `bursar requests`");
    }
    let record = api.end_of(record, &incoming.time).await;
    Ok(describe(&record, api.awaits_first_press(&record)).of_request(&record))
}

/// Measures and records a new request. The inner error is a refusal that no record describes.
async fn new_loan(
    api: &Api,
    mut caller: Caller,
    input: &LoanInput,
    identity: Identity,
    id: RequestId,
    time: &CallTime,
) -> Result<Result<Arc<Request>, Refusal>, Fault> {
    for measured in 1..=MEASURED_MAX {
        match try_loan(api, &caller, input, identity.clone(), id, time).await {
            Err(fault) if fault.code == Code::Busy && measured < MEASURED_MAX => {
                caller.view = api.core.view();
            }
            result => return result,
        }
    }
    Err(Fault::new(Code::Busy))
}

async fn try_loan(
    api: &Api,
    caller: &Caller,
    input: &LoanInput,
    identity: Identity,
    id: RequestId,
    time: &CallTime,
) -> Result<Result<Arc<Request>, Refusal>, Fault> {
    let gone = || Fault::new(Code::AgentNotCommissioned);
    let (state, agent) = (&caller.view.state, caller.agent());
    let policy = state.policy_of(agent).ok_or_else(gone)?;
    let address = agent
        .commission
        .as_ref()
        .and_then(|given| state.wallet.as_ref().and_then(|wallet| wallet.address(&given.label)));
    let owner = address.ok_or_else(gone)?.address;
    let outbox = state.outboxes.get(&outbox_key(input.chain(), owner));
    let known = Known::new(state, policy, owner);
    let proposal = api.lending.propose(input, owner, &known);
    let proposal = match time.limit(&*api.ports.clock, proposal).await? {
        Ok(proposal) => proposal,
        Err(refusal) if refusal.code == Code::ChainUnavailable => return Err(refusal.into()),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let refused = proposal.refusal().cloned();
    if let Ok(measured) = proposal.measured
        && refused.is_none()
    {
        // The plan may begin as soon as the request is recorded.
        api.lending.keep(id, outbox, measured);
    }
    let ask = Ask {
        agent: agent.id.clone(),
        identity,
        ask: LaneAsk::Loan(Box::new(proposal.ask)),
        refused,
        prior: Prior::default(),
        id,
        nonce: [0; 32],
        bounds: api.ask_bounds(),
    };
    let asked = api.core.decide(Action::Ask(Box::new(ask))).await;
    match asked.map_err(|fault| caller.hide_lock(fault))?.answer {
        ActionAnswer::Request(record) | ActionAnswer::Earlier(record) => Ok(Ok(record)),
        // These two are errors of a call: only a recorded request has them as its result.
        ActionAnswer::Refused(refusal)
            if matches!(refusal.code, Code::DefiDisabled | Code::InvalidRequest) =>
        {
            Err(refusal.into())
        }
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
    let record = api.request(id).await.filter(|record| record.loan().is_some());
    let record = record.ok_or(Fault::new(Code::RequestNotFound))?;
    if record.is_over(&moment) {
        // Commit the expiry before reporting it: a clock that is set back must not revive the request.
        if let Err(fault) = api.core.act(Action::Tick).await {
            tracing::warn!(code = %fault.code, "an expiry could not be recorded");
        }
    }
    Ok(polled(&record, api.awaits_first_press(&record), &moment).of_request(&record))
}

/// Answers a call with the loan's full result.
fn describe(record: &Request, awaits_first_press: bool) -> Answer {
    let Some(loan) = record.loan() else { return Answer::from(Fault::new(Code::InternalError)) };
    let id = record.id.to_string();
    match &record.status {
        Status::Held { .. } => pending(&id, loan),
        Status::Executing(_) if awaits_first_press => pending(&id, loan),
        Status::Refused { refusal, was_held, .. } => rejected(&id, loan, refusal, *was_held),
        Status::Executing(execution) | Status::Ended(execution) => executed(&id, loan, execution),
        // Only payments are authorized, or have a status of their own while they wait for a device.
        Status::Denied { .. }
        | Status::Expired { .. }
        | Status::Authorized { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => over(record, loan),
    }
}

/// Answers a poll: always 200, except while a person decides: the operator, or at a device.
fn polled(record: &Request, awaits_first_press: bool, moment: &Moment) -> Answer {
    let Some(loan) = record.loan() else {
        return Answer::from(Fault::new(Code::RequestNotFound));
    };
    let id = record.id.to_string();
    let pending = |left_ms: u64| {
        let left = left_ms.div_ceil(1_000);
        let body = polled_quote("pending", &id, loan).with("expires_in_seconds", left);
        Answer::new(202, body).with_outcome(Outcome::InProgress)
    };
    match &record.status {
        Status::Held { .. } if record.is_over(moment) => {
            rejected(&id, loan, &Refusal::new(Code::RequestExpired), true).with_status(200)
        }
        Status::Held { deadline, .. } => pending(deadline.left_ms(moment)),
        Status::Executing(execution) if awaits_first_press => pending(execution.left_ms(moment)),
        Status::Executing(execution) if execution.end.is_none() => {
            let body = polled_quote("executing", &id, loan);
            Answer::new(200, body).with_outcome(Outcome::InProgress)
        }
        Status::Executing(_)
        | Status::Ended(_)
        | Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. }
        | Status::Authorized { .. } => describe(record, awaits_first_press).with_status(200),
    }
}
