//! The entry point of every authenticated endpoint: reads the body, checks the proof, and rejects agents that may not
//! act.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request as HttpRequest;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::json::{Object, Value};
use bursar_core::status::AgentStatus;
use bursar_core::time::Moment;
use bursar_domain::agents::Agent;
use bursar_domain::identity::Identity;
use bursar_domain::wallets::PayingAddress;

use super::api::Api;
use super::auth::{AuthenticatedCaller, Proof, ProvenBy, TimestampWindow, authenticate, identity};
use super::body;
use super::call_time::CallTime;
use super::message::Endpoint;
use super::rate::WaitMs;
use crate::core::View;

/// A request whose body has been parsed, but whose proof has not been checked.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) body: Object,
    pub(super) peer: Option<SocketAddr>,
    pub(super) time: CallTime,
    rate_verdict: RateVerdictCell,
}

impl Incoming {
    pub(super) async fn read(api: &Api, request: HttpRequest<Body>) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        let mark = parts.extensions.get::<RateVerdictCell>().cloned().unwrap_or_default();
        let time = CallTime::of(&parts.extensions, &*api.ports.clock);
        Ok(Self { body: body::object(&parts.headers, body).await?, peer, time, rate_verdict: mark })
    }

    /// Returns the agent's id that the body names, before any proof is checked.
    pub(super) fn named_agent(&self, api: &Api) -> Result<&str, Fault> {
        let named = self.body.get(api.edition.wire.field).and_then(Value::as_str).unwrap_or("");
        if named.is_empty() {
            return Err(Fault::new(api.edition.wire.missing));
        }
        Ok(named)
    }

    /// Counts a call that acts without a proof, before it acts.
    ///
    /// # Errors
    /// `RATE_LIMIT_EXCEEDED`.
    pub(super) fn count_unproven(&self, api: &Api) -> Result<(), Fault> {
        let Some(peer) = self.peer else { return Ok(()) };
        match api.rate.count_unproven(peer.ip(), api.rate_limit()) {
            Ok(()) => {
                self.rate_verdict.set(RateVerdict::Unproven);
                Ok(())
            }
            Err(wait) => {
                self.rate_verdict.set(RateVerdict::UnprovenWaits(wait));
                Err(Fault::new(Code::RateLimitExceeded))
            }
        }
    }

    /// Returns a text field that the endpoint requires. `missing` is the error code if the field is absent or empty.
    pub(super) fn required(&self, name: &str, missing: Code) -> Result<&str, Fault> {
        let text = body::text(&self.body, name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| Fault::new(missing))
    }
}

/// The result of the rate check of a call: [`prove`] sets it and the guard reads it.
///
/// It stays empty if the proof is invalid and the caller has not failed too often.
#[derive(Debug, Clone, Default)]
pub(super) struct RateVerdictCell(Arc<OnceLock<RateVerdict>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateVerdict {
    /// The call counts against the rate of its proven agent.
    ForAgent,
    /// The agent has exceeded its rate and must wait this long.
    AgentWaits(WaitMs),
    /// The caller sent too many wrong proofs for the named agent and must wait this long.
    FailedProofWaits(WaitMs),
    /// The call acts without a proof and was counted against the rate of its address.
    Unproven,
    /// The address has exceeded its rate of calls without a proof and must wait this long.
    UnprovenWaits(WaitMs),
}

impl RateVerdict {
    pub(super) fn is_of_an_agent(self) -> bool {
        matches!(self, Self::ForAgent | Self::AgentWaits(_))
    }
}

impl RateVerdictCell {
    pub(super) fn get(&self) -> Option<RateVerdict> {
        self.0.get().copied()
    }

    fn set(&self, counted: RateVerdict) {
        let _first = self.0.set(counted);
    }
}

/// An authenticated agent, with the view and the moment of its authentication.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) view: Arc<View>,
    pub(super) moment: Moment,
    pub(super) proven: AuthenticatedCaller,
}

impl Caller {
    pub(super) fn agent(&self) -> &Arc<Agent> {
        &self.proven.agent
    }

    /// Returns the address that the agent pays from.
    pub(super) fn paying_address(&self) -> Option<&Arc<PayingAddress>> {
        let commission = self.agent().commission.as_ref()?;
        self.view.state.wallet.as_ref()?.address(&commission.label)
    }

    /// Converts a fault of the core for this caller. An HMAC agent gets `AUTH_FAILED` instead of `WALLET_LOCKED`, so
    /// it cannot determine that the wallet was locked during its request.
    pub(super) fn hide_lock(&self, fault: Fault) -> Fault {
        let hidden =
            fault.code == Code::WalletLocked && matches!(self.proven.by, ProvenBy::Hmac { .. });
        if hidden { Fault::new(Code::AuthFailed) } else { fault }
    }

    /// Returns the request's identity: in HMAC mode from the signature, else from `content`.
    pub(super) fn identity(&self, endpoint: Endpoint, content: &[u8]) -> Identity {
        match &self.proven.by {
            ProvenBy::Hmac { day, digest } => Identity::Hmac { day: *day, digest: *digest },
            ProvenBy::Bearer => bearer_identity(&self.agent().id, endpoint, content),
        }
    }
}

/// Returns the identity of a request that no signature identifies.
pub(super) fn bearer_identity(agent: &AgentId, endpoint: Endpoint, content: &[u8]) -> Identity {
    let agent = agent.as_str().as_bytes();
    let digest = identity(&[b"bearer", agent, endpoint.text().as_bytes(), content]);
    Identity::Bearer { digest, key: None }
}

/// Authenticates the caller and rejects agents that may not act, in the same way at every endpoint.
///
/// # Errors
/// `MISSING_AGENT_ID`; `LAN_BEARER_REFUSED`; `AUTH_FAILED`; `WALLET_LOCKED` to a bearer agent;
/// `RATE_LIMIT_EXCEEDED`; then the code of the agent's status, or `AGENTS_FROZEN`.
pub(super) fn admit(api: &Api, endpoint: Endpoint, incoming: &Incoming) -> Result<Caller, Fault> {
    incoming.named_agent(api)?;
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

/// Checks the proof but not the agent's status, because `/status` also answers suspended agents.
pub(super) fn prove(api: &Api, endpoint: Endpoint, incoming: &Incoming) -> Result<Caller, Fault> {
    let (view, moment) = (api.core.view(), api.core.now());
    let signature = incoming.body.get("signature").and_then(Value::as_str);
    let by_bearer = matches!(signature.and_then(Proof::parse), Some(Proof::Bearer { .. }));
    if let Some(peer) = incoming.peer {
        api.lan_bearers.judge(view.lan_bearer(), peer.ip(), by_bearer)?;
    }
    let proven = authenticate(
        &view,
        api.vault.gate(),
        TimestampWindow { now: moment.utc, window_s: api.signature_window_s() },
        endpoint,
        &api.edition.wire,
        &incoming.body,
        signature,
    );
    match (proven, incoming.peer) {
        (Ok(proven), peer) => {
            if let Some(peer) = peer {
                api.lan_bearers.record(peer.ip(), by_bearer, &proven.agent.id);
            }
            if let Err(wait) = api.rate.count_proven(&proven.agent.id, api.rate_limit()) {
                incoming.rate_verdict.set(RateVerdict::AgentWaits(wait));
                return Err(Fault::new(Code::RateLimitExceeded));
            }
            incoming.rate_verdict.set(RateVerdict::ForAgent);
            Ok(Caller { view, moment, proven })
        }
        // This limit counts only failures and never rejects a correct proof, so failures in an agent's name
        // cannot lock the agent out.
        (Err(fault), Some(peer)) if fault.code == Code::AuthFailed => {
            let named =
                incoming.body.get(api.edition.wire.field).and_then(Value::as_str).unwrap_or("");
            Err(match api.failed_auth.count(named, peer.ip()) {
                Ok(()) => fault,
                Err(wait) => {
                    incoming.rate_verdict.set(RateVerdict::FailedProofWaits(wait));
                    Fault::new(Code::RateLimitExceeded)
                }
            })
        }
        (Err(fault), _) => Err(fault),
    }
}
