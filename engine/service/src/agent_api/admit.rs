//! The way into every authenticated endpoint: body, proof, and whether the agent may work at all.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request as HttpRequest;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{Object, Value};
use bursar_core::time::Moment;
use bursar_domain::agents::{Agent, AgentStatus};
use bursar_domain::idempotency::Identity;

use super::Api;
use super::auth::{Proof, Proven, ProvenBy, authenticate, identity};
use super::body;
use super::message::Endpoint;
use crate::core::View;

/// A request whose body was read and nothing else.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) body: Object,
    pub(super) peer: Option<SocketAddr>,
}

impl Incoming {
    pub(super) async fn read(request: HttpRequest<Body>) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        Ok(Self { body: body::object(&parts.headers, body).await?, peer })
    }

    /// Whether the body names an agent at all.
    pub(super) fn names_agent(&self, api: &Api) -> Result<&str, Fault> {
        let named = self.body.get(api.agent_field).and_then(Value::as_str).unwrap_or("");
        if named.is_empty() {
            let message = format!("Send {}.", api.agent_field);
            return Err(Fault::because(Code::MissingAgentId, message));
        }
        Ok(named)
    }

    /// A field that a request cannot do without.
    pub(super) fn required(&self, name: &str, missing: Code) -> Result<&str, Fault> {
        let text = body::text(&self.body, name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| Fault::new(missing))
    }
}

/// An agent that proved itself, with what its request is judged by.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) view: Arc<View>,
    pub(super) moment: Moment,
    pub(super) proven: Proven,
}

impl Caller {
    pub(super) fn agent(&self) -> &Arc<Agent> {
        &self.proven.agent
    }

    /// A fault of the core, as this caller may hear it: an HMAC agent is not told of a lock that came while
    /// its request was on its way.
    pub(super) fn hide_lock(&self, fault: Fault) -> Fault {
        let hidden =
            fault.code == Code::WalletLocked && matches!(self.proven.by, ProvenBy::Hmac { .. });
        if hidden { Fault::new(Code::AuthFailed) } else { fault }
    }

    /// What makes this request the same as another one: in hmac mode the signature, else `content`.
    pub(super) fn identity(&self, endpoint: Endpoint, content: &[u8]) -> Identity {
        match &self.proven.by {
            ProvenBy::Hmac { day, digest } => Identity::Hmac { day: *day, digest: *digest },
            ProvenBy::Bearer => {
                let agent = self.agent().id.as_str().as_bytes();
                let digest = identity(&[b"bearer", agent, endpoint.text().as_bytes(), content]);
                Identity::Bearer { digest, key: None }
            }
        }
    }
}

/// Proves the caller and turns away who may not work: the same at every endpoint.
///
/// # Errors
/// `MISSING_AGENT_ID`; `AUTH_FAILED`; `WALLET_LOCKED` to a bearer agent; then by the agent's status.
pub(super) fn admit(api: &Api, endpoint: Endpoint, incoming: &Incoming) -> Result<Caller, Fault> {
    incoming.names_agent(api)?;
    let caller = prove(api, endpoint, incoming)?;
    match caller.view.state.status(caller.agent(), &caller.moment) {
        AgentStatus::Uncommissioned => return Err(Fault::new(Code::AgentNotCommissioned)),
        AgentStatus::Suspended => return Err(Fault::new(Code::AgentSuspended)),
        AgentStatus::Active | AgentStatus::LimitReached => {}
    }
    if caller.view.state.frozen.is_some() {
        return Err(Fault::new(Code::AgentsFrozen));
    }
    Ok(caller)
}

/// The proof alone: `/status` tells a suspended agent that it is suspended.
pub(super) fn prove(api: &Api, endpoint: Endpoint, incoming: &Incoming) -> Result<Caller, Fault> {
    let (view, moment) = (api.core.view(), api.core.now());
    let signature = incoming.body.get("signature").and_then(Value::as_str);
    let by_bearer = matches!(signature.and_then(Proof::parse), Some(Proof::Bearer { .. }));
    if let Some(peer) = incoming.peer {
        api.lan.judge(peer.ip(), by_bearer)?;
    }
    let proven = authenticate(
        &view,
        api.vault.gate(),
        moment.utc,
        endpoint,
        api.agent_field,
        &incoming.body,
        signature,
    );
    match (proven, incoming.peer) {
        (Ok(proven), peer) => {
            if let Some(peer) = peer {
                api.lan.note(peer.ip(), by_bearer, &proven.agent.id);
            }
            Ok(Caller { view, moment, proven })
        }
        // Only a failure is counted, so that nobody can shut an agent out by failing in its name.
        (Err(fault), Some(peer)) if fault.code == Code::AuthFailed => {
            let named = incoming.body.get(api.agent_field).and_then(Value::as_str).unwrap_or("");
            let told = api.failed_auth.allows(named, peer.ip());
            Err(if told { fault } else { Fault::new(Code::RateLimitExceeded) })
        }
        (Err(fault), _) => Err(fault),
    }
}
