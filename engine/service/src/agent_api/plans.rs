//! Functions that the answers about trades and loans share: identities of requests, waits for their ends, and codes.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::json::{Number, Object, Value};
use bursar_core::money::Atoms;
use bursar_domain::Request;
use bursar_domain::identity::{Identity, KeyClaim};
use bursar_domain::plan::{Execution, StepPurpose};

use super::admit::Caller;
use super::api::Api;
use super::auth::{ProvenBy, identity};
use super::call_time::CallTime;
use super::message::Endpoint;

/// Returns the identity of a trade or a loan. Without a signature and an idempotency key, its content identifies it.
pub(super) fn identity_of(
    caller: &Caller,
    endpoint: Endpoint,
    object: &Object,
    key: Option<&str>,
) -> Identity {
    if let ProvenBy::Hmac { day, digest } = &caller.proven.by {
        return Identity::Hmac { day: *day, digest: *digest };
    }
    let (agent, endpoint) = (caller.agent().id.as_str().as_bytes(), endpoint.text().as_bytes());
    let text = bursar_core::canonical::to_python(&Value::Object(object.clone()));
    let content = identity(&[endpoint, text.as_bytes()]);
    match key.map(str::as_bytes) {
        Some(key) => Identity::Bearer {
            digest: identity(&[b"bearer", agent, endpoint, &content, key]),
            key: Some(KeyClaim { name: identity(&[b"key", agent, endpoint, key]), content }),
        },
        None => Identity::Bearer {
            digest: identity(&[b"bearer", agent, endpoint, &content]),
            key: None,
        },
    }
}

impl Api {
    /// Returns whether the request is allowed and its device has not been prompted yet.
    pub(super) fn awaits_first_device_signature(&self, record: &Request) -> bool {
        self.core.view().state.awaits_first_device_signature(record)
    }

    /// Waits until an allowed trade or loan has ended, the call's time is over or the server stops. Returns the
    /// request in its state at that time.
    ///
    /// If a person signs the request on a device, it returns at once.
    pub(super) async fn wait_for_end(&self, record: Arc<Request>, time: &CallTime) -> Arc<Request> {
        if !record.is_running() || self.core.view().state.is_on_device(record.from) {
            return record;
        }
        let id = record.id;
        // Cancel-safe: the waits change nothing.
        tokio::select! {
            () = self.core.trade_ended(id) => {}
            () = time.wait_until_over(&*self.ports.clock) => {}
            () = self.stopping.cancelled() => {}
        }
        self.request(id).await.unwrap_or(record)
    }
}

/// Returns the hash of the token approval of a plan, once it is final.
pub(super) fn approval_hash(execution: &Execution) -> Option<String> {
    let approval = execution.steps.iter().find(|step| step.purpose == StepPurpose::Allowance);
    approval.and_then(|step| step.hash()).map(|hash| hash.to_string())
}

/// Returns the code that agents of the original wallet know for a refusal at approval.
pub(super) fn approval_code(code: Code) -> &'static str {
    match code {
        Code::PriceMoved => "PRICE_MOVED",
        Code::AgentSuspended => "AGENT_SUSPENDED",
        Code::AgentNotCommissioned => "UNKNOWN_AGENT",
        Code::InsufficientLiquidity => "INSUFFICIENT_LIQUIDITY",
        Code::RequestNoLongerValid => "REQUEST_NO_LONGER_VALID",
        Code::NoPool | Code::PoolTooSmall | Code::QuoteFailed | Code::WouldFail => "REQUOTE_FAILED",
        _policy => "POLICY_REJECTED",
    }
}

/// Returns an amount as a JSON integer. It may exceed what a double can hold.
pub(super) fn integer(atoms: Atoms) -> Value {
    atoms.to_string().parse::<Number>().map_or(Value::Null, Value::from)
}
