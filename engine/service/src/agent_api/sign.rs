//! `POST /sign`: an agent asks for a payment.

pub(super) mod status;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::Value;
use bursar_core::networks::ChainId;
use bursar_domain::command::{Ask, Recall};
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::{Identity, KeyClaim};
use bursar_domain::{Action, Request};

use super::admit::{Caller, Incoming, admit};
use super::api::Api;
use super::auth::{ProvenBy, identity};
use super::body;
use super::message::Endpoint;
use super::reply::Answer;
use crate::core::ActionAnswer;
use crate::lanes::payments::{PaymentInput, execute, propose};

pub(super) async fn sign(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    let answer = match try_sign(&api, request).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    };
    api.counters.count(&answer);
    answer.into_http()
}

async fn try_sign(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    incoming.named_agent(api)?;
    let input = read(&incoming)?;
    let caller = admit(api, Endpoint::Sign, &incoming)?;
    incoming.time.claim()?;
    let agent = caller.agent();
    let state = &caller.view.state;
    let policy = state.policy_of(agent);
    let usable = |chain: ChainId| {
        state.is_network_enabled(chain) && policy.is_some_and(|p| p.networks.allows(chain))
    };
    let mut payment =
        propose(&input.payment, input.request_url, &api.edition.rules, &usable, &api.domains)
            .await?;
    api.probe_chain_time(payment.chain, &caller.moment);
    let identity = identity_of(&caller, &input.payment, input.idempotency_key.as_deref());
    // A repeat needs no disk space, so it gets its recorded answer.
    if api.disk_room.is_short() && api.is_new(&caller, &identity).await? {
        return Err(Fault::new(Code::DiskFull));
    }
    // The market is read only for a payment that the policy could allow, and not again for a repeat.
    if payment.foreign().is_some()
        && usable(payment.chain)
        && policy.is_some_and(|policy| policy.payments.enabled)
        && api.is_new(&caller, &identity).await?
        // A price that does not arrive in time is unknown.
        && let Ok(Some(asset)) =
            incoming.time.limit(&*api.ports.clock, api.trading.appraise(&payment)).await
    {
        payment.set_asset(asset);
    }
    let ask = Ask {
        agent: agent.id.clone(),
        identity,
        ask: payment.into(),
        lane_refusal: None,
        prior: Prior::default(),
        id: RequestId::from_entropy(api.random()?),
        nonce: api.random()?,
        bounds: api.ask_bounds(),
    };
    let asked = api.core.act(Action::Ask(Box::new(ask))).await;
    let outcome = asked.map_err(|fault| caller.hide_lock(fault))?;
    let record = match outcome.answer {
        ActionAnswer::Request(record) | ActionAnswer::Earlier(record) => record,
        ActionAnswer::Settled(record) => return Ok(status::answer_settled(&record)),
        ActionAnswer::Done | ActionAnswer::Refused(_) | ActionAnswer::Reported(_) => {
            return Err(Fault::new(Code::InternalError));
        }
    };
    if record.is_held() {
        let (id, agent, amount) = (record.id.short(), &record.agent, record.ask.amount_text());
        tracing::info!(id, %agent, amount, "a payment waits for approval: run `bursar requests`");
    }
    let mut signature = None;
    for order in outcome.orders {
        // If the signer refuses, or the operator freezes agents before it signs, the authorization stays unsigned: a
        // poll returns `executing`, and a later slip may still be signed.
        signature = execute(&api.execution, order).await.unwrap_or(None);
    }
    let reached = api.ports.failpoints.hit("reply.before");
    reached.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    Ok(status::describe(&api.edition.wire, &record, signature.as_ref(), &caller.moment))
}

/// The input of `/sign`.
struct Input {
    payment: PaymentInput,
    request_url: Option<String>,
    idempotency_key: Option<String>,
}

/// Checks the form of the body. Runs before the proof, because it reveals nothing about any agent.
fn read(incoming: &Incoming) -> Result<Input, Fault> {
    let body = &incoming.body;
    let payment = match (body.get("payment_required"), body.get("x402_data")) {
        (Some(_), Some(_)) => {
            return Err(Fault::because(
                Code::InvalidRequest,
                "Send payment_required or x402_data, not both.",
            ));
        }
        (Some(Value::String(text)), None) => PaymentInput::Header(text.clone()),
        (Some(_other), None) => return Err(Fault::new(Code::InvalidPaymentRequired)),
        (None, Some(data @ Value::Object(_))) => PaymentInput::Data(data.clone()),
        (None, Some(_other)) => return Err(Fault::new(Code::InvalidX402Data)),
        (None, None) => return Err(Fault::new(Code::MissingX402Data)),
    };
    let request_url = body::text(body, "request_url")?.filter(|url| !url.is_empty());
    let key = body::idempotency_key(body)?;
    Ok(Input { payment, request_url: request_url.map(str::to_owned), idempotency_key: key })
}

/// Returns the request's identity. In HMAC mode it is the signature alone: the idempotency key is not signed, so
/// changing it must not create a second payment.
fn identity_of(caller: &Caller, payment: &PaymentInput, key: Option<&str>) -> Identity {
    if let ProvenBy::Hmac { day, digest } = &caller.proven.by {
        return Identity::Hmac { day: *day, digest: *digest };
    }
    let (agent, endpoint) =
        (caller.agent().id.as_str().as_bytes(), Endpoint::Sign.text().as_bytes());
    let content = match payment {
        PaymentInput::Header(text) => identity(&[b"header", text.as_bytes()]),
        PaymentInput::Data(data) => {
            identity(&[b"data", bursar_core::canonical::to_python(data).as_bytes()])
        }
    };
    let key = key.map(str::as_bytes);
    let digest = match key {
        Some(key) => identity(&[b"bearer", agent, endpoint, &content, key]),
        None => identity(&[b"bearer", agent, endpoint, &content]),
    };
    let claim =
        key.map(|key| KeyClaim { name: identity(&[b"key", agent, endpoint, key]), content });
    Identity::Bearer { digest, key: claim }
}

impl Api {
    /// Returns a request in its current state, open or finished.
    pub(super) async fn request(&self, id: RequestId) -> Option<Arc<Request>> {
        let view = self.core.view();
        if let Some(held) = view.state.held.get(&id) {
            return Some(Arc::clone(held));
        }
        match self.core.request(id).await {
            Ok(found) => found,
            // The core has stopped or cannot read the record; a reader of the journal may still find it.
            Err(_failed) => self.core.reader().request(id).ok().flatten().map(Arc::new),
        }
    }

    /// Returns whether a request does not repeat an earlier one.
    async fn is_new(&self, caller: &Caller, identity: &Identity) -> Result<bool, Fault> {
        let agent = caller.agent().id.clone();
        let recall = Recall { agent, identity: identity.clone(), prior: Prior::default() };
        let earlier = self.core.act(Action::Recall(Box::new(recall))).await;
        let answer = earlier.map_err(|fault| caller.hide_lock(fault))?.answer;
        Ok(matches!(answer, ActionAnswer::Done))
    }

    pub(super) fn random<const N: usize>(&self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.ports
            .random
            .fill(&mut bytes)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(bytes)
    }
}
