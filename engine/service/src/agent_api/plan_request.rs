//! Requests that a plan carries out: `POST /trade`, `POST /position`, and the polls of their results.

use std::sync::Arc;

use alloy_primitives::Address;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::Object;
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_domain::command::{Ask, Recall};
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::Identity;
use bursar_domain::plan::outbox_key;
use bursar_domain::state::State as WalletState;
use bursar_domain::{Action, LaneAsk, Refusal, Request};
use bursar_submit::Outbox;

use super::admit::{Caller, Incoming, admit};
use super::api::Api;
use super::body;
use super::call_time::CallTime;
use super::message::Endpoint;
use super::objects::{check_fields, required_object};
use super::path_id::{PathId, text_of};
use super::plan_result::{PlanResult, describe, describe_poll};
use super::plans::identity_of;
use super::reply::Answer;
use crate::core::ActionAnswer;
use crate::lanes::InputFault;

/// The differences between trades and loans. The parsed `trade` or `position` object implements it.
pub(super) trait PlanInput: Sized {
    /// The recorded form of the request.
    type Ask: PlanResult;

    const ENDPOINT: Endpoint;
    /// The field of the body that contains the object, and the error code if the field is missing.
    const FIELD: (&'static str, Code);
    /// The error code if the policy does not enable the lane.
    const DISABLED_CODE: Code;
    /// Maximum number of measurements of a request. The request is measured again if the core answered `BUSY`.
    const MEASUREMENTS_MAX: usize;

    fn is_enabled(policy: &Policy) -> bool;

    fn read(object: &Object) -> Result<Self, InputFault>;

    fn chain(&self) -> ChainId;

    /// Measures the request and rehearses its plan. Keeps the measurement for the first step, because the plan may
    /// begin as soon as the request is recorded.
    ///
    /// # Errors
    /// The refusal, if the request cannot be executed; `CHAIN_UNAVAILABLE` if no node answers.
    async fn propose(&self, api: &Api, payer: Payer<'_>) -> Result<Proposed, Refusal>;

    /// Answers a request that the rules refuse and that is not recorded.
    ///
    /// # Errors
    /// The refusal, if the lane reports it as an error instead of a result.
    fn answer_rule_refusal(refusal: Refusal) -> Result<Answer, Fault> {
        Ok(Self::Ask::answer_refused(&refusal))
    }
}

/// The ask to record, and the refusal if its plan cannot be made.
pub(super) type Proposed = (LaneAsk, Option<Refusal>);

/// The paying address of a new request, and the state in which it is measured.
pub(super) struct Payer<'a> {
    pub(super) state: &'a WalletState,
    pub(super) policy: &'a Policy,
    pub(super) owner: Address,
    /// The id of the new request.
    pub(super) id: RequestId,
    /// The address's outbox from before the measurement.
    pub(super) outbox: Arc<Outbox>,
}

/// A request that repeats no earlier one.
struct NewRequest<'a, P> {
    input: &'a P,
    id: RequestId,
    identity: Identity,
    time: &'a CallTime,
}

/// Handles `POST /trade` and `POST /position`.
pub(super) async fn request<P: PlanInput>(
    State(api): State<Arc<Api>>,
    request: HttpRequest,
) -> Response<Body> {
    let answer = try_request::<P>(&api, request).await.unwrap_or_else(Answer::from);
    api.counters.count_trade(&answer);
    answer.into_http()
}

async fn try_request<P: PlanInput>(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    incoming.named_agent(api)?;
    let (field, missing) = P::FIELD;
    let object = required_object(&incoming, field, missing)?;
    check_fields(object)?;
    let key = body::idempotency_key(&incoming.body)?;
    let mut caller = admit(api, P::ENDPOINT, &incoming)?;
    incoming.time.claim()?;
    let state = &caller.view.state;
    let policy = state.policy_of(caller.agent()).ok_or(Fault::new(Code::AgentNotCommissioned))?;
    let id = RequestId::from_entropy(api.random()?);
    let identity = identity_of(&caller, P::ENDPOINT, object, key.as_deref());
    // A repeat gets its answer before the chain is read again.
    if let Some(record) = earlier_request(api, &caller, &identity).await? {
        return Ok(result::<P>(api, record, &incoming.time).await);
    }
    if api.disk_room.is_short() {
        return Err(Fault::new(Code::DiskFull));
    }
    if !P::is_enabled(policy) {
        return P::answer_rule_refusal(Refusal::new(P::DISABLED_CODE));
    }
    let input = match P::read(object) {
        Ok(input) => input,
        Err(InputFault::Malformed(fault)) => return Err(fault),
        Err(InputFault::Refused(refusal)) => return Ok(P::Ask::answer_refused(&refusal)),
    };
    // Do not call the endpoints of a network that the agent may not use.
    if !state.is_network_enabled(input.chain()) {
        return Ok(P::Ask::answer_refused(&Refusal::new(Code::NetworkDisabled)));
    }
    if !policy.networks.allows(input.chain()) {
        return Ok(P::Ask::answer_refused(&Refusal::new(Code::NetworkNotAllowed)));
    }
    api.probe_chain_time(input.chain(), &caller.moment);
    let new = NewRequest { input: &input, id, identity, time: &incoming.time };
    let record = match new.record(api, &mut caller).await? {
        Ok(record) => record,
        Err(answer) => return Ok(answer),
    };
    if record.is_held() {
        let (id, agent, amount) = (record.id.short(), &record.agent, record.ask.amount_text());
        let lane = record.ask.lane().text();
        tracing::info!(id, %agent, amount, "a {lane} waits for approval: run `bursar requests`");
    }
    Ok(result::<P>(api, record, &incoming.time).await)
}

/// Returns the earlier request that this one repeats; `None` if it is new.
async fn earlier_request(
    api: &Api,
    caller: &Caller,
    identity: &Identity,
) -> Result<Option<Arc<Request>>, Fault> {
    let (agent, identity) = (caller.agent().id.clone(), identity.clone());
    let recall = Recall { agent, identity, prior: Prior::default() };
    let earlier = api.core.act(Action::Recall(Box::new(recall))).await;
    Ok(match earlier.map_err(|fault| caller.hide_lock(fault))?.answer {
        ActionAnswer::Request(record) | ActionAnswer::Earlier(record) => Some(record),
        ActionAnswer::Done
        | ActionAnswer::Refused(_)
        | ActionAnswer::Settled(_)
        | ActionAnswer::Reported(_) => None,
    })
}

/// Waits for the end of an allowed request, and answers with the result.
async fn result<P: PlanInput>(api: &Api, record: Arc<Request>, time: &CallTime) -> Answer {
    let record = api.wait_for_end(record, time).await;
    describe::<P::Ask>(&record, api.awaits_first_device_signature(&record))
        .with_identity_of(&record)
}

impl<P: PlanInput> NewRequest<'_, P> {
    /// Measures and records the request. The inner error is the answer to a refusal that is not recorded.
    async fn record(
        &self,
        api: &Api,
        caller: &mut Caller,
    ) -> Result<Result<Arc<Request>, Answer>, Fault> {
        for _another_try in 1..P::MEASUREMENTS_MAX {
            match self.try_record(api, caller).await {
                Err(fault) if fault.code == Code::Busy => caller.view = api.core.view(),
                result => return result,
            }
        }
        self.try_record(api, caller).await
    }

    async fn try_record(
        &self,
        api: &Api,
        caller: &Caller,
    ) -> Result<Result<Arc<Request>, Answer>, Fault> {
        let gone = || Fault::new(Code::AgentNotCommissioned);
        let (state, agent) = (&caller.view.state, caller.agent());
        let policy = state.policy_of(agent).ok_or_else(gone)?;
        let owner = caller.paying_address().ok_or_else(gone)?.address;
        let outbox = state.outboxes.get(&outbox_key(self.input.chain(), owner));
        let payer = Payer { state, policy, owner, id: self.id, outbox };
        let proposal = self.input.propose(api, payer);
        let (ask, refused) = match self.time.limit(&*api.ports.clock, proposal).await? {
            Ok(proposed) => proposed,
            Err(refusal) if refusal.code == Code::ChainUnavailable => return Err(refusal.into()),
            Err(refusal) => return Ok(Err(P::Ask::answer_refused(&refusal))),
        };
        let ask = Ask {
            agent: agent.id.clone(),
            identity: self.identity.clone(),
            ask,
            lane_refusal: refused,
            prior: Prior::default(),
            id: self.id,
            nonce: [0; 32],
            bounds: api.ask_bounds(),
        };
        let asked = api.core.decide(Action::Ask(Box::new(ask))).await;
        match asked.map_err(|fault| caller.hide_lock(fault))?.answer {
            ActionAnswer::Request(record) | ActionAnswer::Earlier(record) => Ok(Ok(record)),
            // After too many refusals of an agent in one minute, the core records no further ones.
            ActionAnswer::Refused(refusal) => P::answer_rule_refusal(refusal).map(Err),
            ActionAnswer::Settled(_) | ActionAnswer::Done | ActionAnswer::Reported(_) => {
                Err(Fault::new(Code::InternalError))
            }
        }
    }
}

/// Answers a poll.
pub(super) async fn status<P: PlanInput>(
    State(api): State<Arc<Api>>,
    id: PathId,
) -> Response<Body> {
    try_status::<P>(&api, &text_of(id)).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_status<P: PlanInput>(api: &Api, id: &str) -> Result<Answer, Fault> {
    let id: RequestId = id.parse().map_err(|_bad| Fault::new(Code::InvalidRequestId))?;
    let moment = api.core.now();
    let record = api.request(id).await.filter(|record| P::Ask::of(record).is_some());
    let record = record.ok_or(Fault::new(Code::RequestNotFound))?;
    if record.is_hold_over(&moment) {
        // Commit the expiry before reporting it: a clock that is set back must not revive the request.
        if let Err(fault) = api.core.act(Action::Tick).await {
            tracing::warn!(code = %fault.code, "could not record that a request expired");
        }
    }
    let awaits_first_press = api.awaits_first_device_signature(&record);
    Ok(describe_poll::<P::Ask>(&record, awaits_first_press, &moment).with_identity_of(&record))
}
