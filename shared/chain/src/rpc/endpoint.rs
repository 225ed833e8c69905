//! One endpoint: its validated URL, its label, and its state (breaker, identity). The URL never leaves its
//! [`Target`].

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bursar_core::networks::ChainId;
use tracing::{error, info, warn};

use crate::rpc::breaker::{Breaker, FailureEffect};
use crate::rpc::config::{ConfigError, RpcLimits};
use crate::rpc::health::Health;
use crate::rpc::identity::{Identity, IdentityCheck};
use bursar_outbound::EndpointLabel;
use bursar_outbound::{PlainHttpHosts, Target, TargetFault};

pub(super) struct Endpoint {
    target: Target,
    limits: RpcLimits,
    /// A mutex instead of an owning task: concurrent requests hold it briefly, and never across an await.
    state: Mutex<EndpointState>,
}

#[derive(Debug, Default)]
struct EndpointState {
    breaker: Breaker,
    identity: Identity,
    batch_limit: Option<BatchLimit>,
}

/// How long, in milliseconds, an endpoint that refused a batch receives only smaller batches. After that, a large
/// batch is tried again.
const BATCH_LIMIT_VALID_MS: u64 = 10 * 60 * 1000;

/// The largest batch that an endpoint accepted after it refused a larger batch.
#[derive(Debug, Clone, Copy)]
struct BatchLimit {
    size: usize,
    until_ms: u64,
}

/// Whether a request may be sent to an endpoint now.
#[derive(Debug)]
pub(super) enum Admission<'a> {
    Admitted(Permit<'a>),
    Cooling,
    Foreign { answered: ChainId },
}

impl Endpoint {
    pub(super) fn new(
        position: usize,
        text: &str,
        limits: RpcLimits,
        plain_http: PlainHttpHosts,
    ) -> Result<Self, ConfigError> {
        let target = Target::parse(text, plain_http).map_err(|fault| match fault {
            TargetFault::NotAUrl => ConfigError::NotAUrl { position },
            TargetFault::Scheme(label) => ConfigError::Scheme(label),
            TargetFault::PlainHttp(label) => ConfigError::PlainHttp(label),
            TargetFault::UserInfo(label) => ConfigError::UserInfo(label),
        })?;
        Ok(Self { target, limits, state: Mutex::default() })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn label(&self) -> &EndpointLabel {
        self.target.label()
    }

    pub(super) fn admit(&self, now_ms: u64) -> Admission<'_> {
        let mut state = self.state();
        if let IdentityCheck::Refuse { answered } = state.identity.check(now_ms) {
            return Admission::Foreign { answered };
        }
        if state.breaker.admit(now_ms) {
            Admission::Admitted(Permit { endpoint: self, settled: false })
        } else {
            Admission::Cooling
        }
    }

    /// Returns a permit although the breaker is open. Use it only if no other endpoint can be queried.
    pub(super) fn admit_anyway(&self) -> Permit<'_> {
        Permit { endpoint: self, settled: false }
    }

    pub(super) fn last_failure_ms(&self) -> u64 {
        self.state().breaker.last_failure_ms()
    }

    pub(super) fn failing_since_ms(&self) -> Option<u64> {
        self.state().breaker.failing_since_ms()
    }

    /// Returns whether a request has failed since `mono_ms`. Failures are a missing answer, an invalid answer, and
    /// a refusal that is not about the request itself. A recorded time of zero means that no request has failed
    /// yet.
    pub(super) fn has_failed_since(&self, mono_ms: u64) -> bool {
        self.last_failure_ms() >= mono_ms.max(1)
    }

    /// Returns the largest batch that the endpoint is known to accept, or `usize::MAX` if no limit is known.
    pub(super) fn batch_max(&self, now_ms: u64) -> usize {
        let known = self.state().batch_limit.filter(|limit| now_ms < limit.until_ms);
        known.map_or(usize::MAX, |limit| limit.size)
    }

    /// Records that the endpoint accepts batches of this size but no larger batches; returns whether the size is new.
    pub(super) fn learn_batch_max(&self, size: usize, now_ms: u64) -> bool {
        let limit = BatchLimit { size, until_ms: now_ms.saturating_add(BATCH_LIMIT_VALID_MS) };
        self.state().batch_limit.replace(limit).is_none_or(|before| before.size != size)
    }

    pub(super) fn identity_is_due(&self, now_ms: u64) -> bool {
        self.state().identity.check(now_ms) != IdentityCheck::NotNeeded
    }

    /// Records the answer to `eth_chainId`; returns whether it is the expected chain.
    pub(super) fn learn_identity(&self, answered: ChainId, expected: ChainId, now_ms: u64) -> bool {
        let ours = self.state().identity.learn(answered, expected, now_ms, &self.limits);
        if !ours {
            error!(endpoint = %self.label(), %expected, %answered, "endpoint serves another chain");
        }
        ours
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows only the label: the URL contains the API key.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("label", self.label()).finish_non_exhaustive()
    }
}

/// The right to send one request. If dropped without [`Permit::settle`], for example because the caller stops
/// waiting, it counts neither for nor against the endpoint.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    endpoint: &'a Endpoint,
    settled: bool,
}

impl Permit<'_> {
    /// Counts the outcome of the request.
    pub(super) fn settle(mut self, health: Health, now_ms: u64) {
        self.settled = true;
        let mut state = self.endpoint.state();
        match health {
            Health::Healthy => {
                if state.breaker.record_success() {
                    info!(endpoint = %self.endpoint.label(), "the endpoint answers again");
                }
            }
            Health::Unknown => state.breaker.record_no_result(),
            Health::Failing => {
                let effect = state.breaker.record_failure(now_ms, &self.endpoint.limits);
                if effect != FailureEffect::StaysClosed {
                    state.identity.require_new_check();
                }
                // Log only once, not after every failed trial.
                if effect == FailureEffect::Opens {
                    warn!(
                        endpoint = %self.endpoint.label(),
                        "the endpoint gives no usable answers: requests to it are paused, then retried"
                    );
                }
            }
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.endpoint.state().breaker.record_no_result();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::new(
            1,
            url,
            RpcLimits { breaker_failures: 1, ..RpcLimits::default() },
            PlainHttpHosts::ThisMachine,
        )
        .unwrap()
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for url in
            ["http://127.0.0.1:8545", "http://127.9.9.9", "http://[::1]:1", "http://localhost:1"]
        {
            assert!(
                Endpoint::new(1, url, RpcLimits::default(), PlainHttpHosts::ThisMachine).is_ok(),
                "{url}"
            );
        }
        for url in [
            "http://node.test/KEYKEYKEY",
            "http://localhost.node.test",
            "http://10.0.0.1",
            "http://0.0.0.0",
            "http://[::ffff:127.0.0.1]",
            "http://192.168.1.7:8545/?key=KEYKEYKEY",
        ] {
            let refused = Endpoint::new(1, url, RpcLimits::default(), PlainHttpHosts::ThisMachine)
                .unwrap_err();
            assert!(matches!(refused, ConfigError::PlainHttp(_)), "{url}: {refused}");
            assert!(!format!("{refused} {refused:?}").contains("KEY"));
        }
    }

    #[test]
    fn invalid_endpoint_urls_are_refused_without_quoting_them() {
        for url in
            ["ws://127.0.0.1/KEY", "file:///KEY", "https://u:KEY@node.test", "https://KEY@a", "KEY"]
        {
            let refused = Endpoint::new(2, url, RpcLimits::default(), PlainHttpHosts::ThisMachine)
                .unwrap_err();
            assert!(!format!("{refused} {refused:?}").contains("KEY"), "{url}");
        }
    }

    #[test]
    fn an_endpoint_shows_only_its_label() {
        let endpoint = endpoint("https://node.test/v3/0123456789abcdef?token=fedcba9876543210");
        assert_eq!(
            format!("{endpoint:?}"),
            "Endpoint { label: EndpointLabel(https://node.test:443), .. }"
        );
    }

    #[test]
    fn a_dropped_permit_frees_the_trial() {
        let endpoint = endpoint("https://node.test");
        let cool = RpcLimits::default().breaker_cool_down_ms;
        let Admission::Admitted(permit) = endpoint.admit(0) else { panic!("closed at first") };
        permit.settle(Health::Failing, 0);
        assert!(matches!(endpoint.admit(cool - 1), Admission::Cooling));
        let trial = endpoint.admit(cool);
        assert!(matches!(trial, Admission::Admitted(_)));
        assert!(matches!(endpoint.admit(cool), Admission::Cooling), "one at a time");
        drop(trial);
        assert!(matches!(endpoint.admit(cool), Admission::Admitted(_)));
    }
}
