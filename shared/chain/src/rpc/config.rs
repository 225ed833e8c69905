//! The configuration and limits of a chain over JSON-RPC. Never shows an endpoint's URL, which contains the
//! operator's API key.

use std::fmt;

use bursar_core::networks::ChainId;

use bursar_outbound::{EndpointLabel, PlainHttpHosts};

/// Timeout of one request, in milliseconds, from connecting to the last byte of the answer.
///
/// A healthy node needs well under a second, and an agent that waits for a payment tolerates one slow endpoint, not
/// two.
pub const ATTEMPT_TIMEOUT_MS: u64 = 10_000;

/// Timeout of one request over all endpoints, in milliseconds.
///
/// It is enough for three slow endpoints. The agent API gives a whole handler the same time.
pub const TOTAL_TIMEOUT_MS: u64 = 30_000;

/// The longest accepted answer, in bytes.
///
/// The largest honest answer, a receipt with thousands of events, stays below 2 MiB. A hostile node may send without
/// end.
pub const REPLY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Consecutive failures that open the breaker.
///
/// Two failures may have one cause, such as a lost connection.
pub const BREAKER_FAILURES: u32 = 3;

/// Cool-down of an open breaker, in milliseconds.
///
/// A node restarts in about this time, and rate limits count per minute.
pub const BREAKER_COOL_DOWN_MS: u64 = 30_000;

/// How long a matching chain id is trusted, in milliseconds.
///
/// The node at an address rarely changes.
pub const IDENTITY_VALID_MS: u64 = 24 * 60 * 60 * 1000;

/// Delay before an endpoint of another chain is checked again, in milliseconds.
///
/// A person has to correct such a setting, so minutes are soon enough, and every check delays the endpoints after it.
pub const IDENTITY_RETRY_MS: u64 = 60_000;

/// Maximum number of endpoints of a chain.
///
/// A longer list is a mistake in the settings: the total timeout would usually end before the last endpoints are tried.
pub const ENDPOINTS_MAX: usize = 8;

/// Maximum number of requests in one exchange: public nodes accept this many.
pub const BATCH_MAX: usize = 50;

/// The limits of [`RpcChain`](super::RpcChain).
///
/// Production uses the defaults; tests use smaller limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLimits {
    pub attempt_timeout_ms: u64,
    pub total_timeout_ms: u64,
    pub reply_bytes_max: usize,
    pub breaker_failures: u32,
    pub breaker_cool_down_ms: u64,
    pub identity_valid_ms: u64,
    pub identity_retry_ms: u64,
}

impl Default for RpcLimits {
    fn default() -> Self {
        Self {
            attempt_timeout_ms: ATTEMPT_TIMEOUT_MS,
            total_timeout_ms: TOTAL_TIMEOUT_MS,
            reply_bytes_max: REPLY_BYTES_MAX,
            breaker_failures: BREAKER_FAILURES,
            breaker_cool_down_ms: BREAKER_COOL_DOWN_MS,
            identity_valid_ms: IDENTITY_VALID_MS,
            identity_retry_ms: IDENTITY_RETRY_MS,
        }
    }
}

/// The chain and its endpoints.
#[derive(Clone)]
pub struct RpcConfig {
    /// The chain id that every endpoint must report (`eth_chainId`).
    pub chain: ChainId,
    /// URLs, in the order in which they are tried.
    pub endpoints: Vec<String>,
    pub limits: RpcLimits,
    /// Hosts whose endpoints may use http: this machine only, unless the operator allows more.
    pub plain_http: PlainHttpHosts,
}

impl RpcConfig {
    /// Creates a configuration with the default limits and http for this machine only.
    pub fn new<I>(chain: ChainId, endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let endpoints = endpoints.into_iter().map(Into::into).collect();
        Self {
            chain,
            endpoints,
            limits: RpcLimits::default(),
            plain_http: PlainHttpHosts::ThisMachine,
        }
    }

    /// Sets the hosts whose endpoints may use http.
    #[must_use]
    pub fn with_plain_http(mut self, hosts: PlainHttpHosts) -> Self {
        self.plain_http = hosts;
        self
    }
}

impl fmt::Debug for RpcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcConfig")
            .field("chain", &self.chain)
            .field("endpoints", &self.endpoints.len())
            .field("limits", &self.limits)
            .finish()
    }
}

/// Why the settings are not valid.
///
/// The texts name endpoints by their position, from 1, or by their label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("no RPC endpoint is set for this chain")]
    NoEndpoint,
    #[error("at most {ENDPOINTS_MAX} RPC endpoints can be set for a chain")]
    TooManyEndpoints,
    #[error("RPC endpoint {position} is not a URL such as https://node.example/key")]
    NotAUrl { position: usize },
    #[error("RPC endpoint {0} must begin with https:// (or http:// on this machine)")]
    Scheme(EndpointLabel),
    #[error(
        "RPC endpoint {0} is not encrypted; http:// is only for 127.0.0.1, [::1] and localhost, and in a \
         facilitator with allow_plain_http for private addresses: use https://"
    )]
    PlainHttp(EndpointLabel),
    #[error("RPC endpoint {0} contains a user name or password; put the key in the path or query")]
    UserInfo(EndpointLabel),
    #[error("the HTTPS client cannot be created: {0}")]
    Client(String),
}
