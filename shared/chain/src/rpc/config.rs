//! What a chain over JSON-RPC is made from, and the bounds it keeps. Never shows an endpoint's URL: it
//! holds the operator's API key.

use std::fmt;

use bursar_core::networks::ChainId;

use bursar_outbound::{EndpointLabel, Plain};

/// One request, from connecting to the last byte of the answer: a healthy node needs well under a second,
/// and an agent that waits for a payment has patience for one slow endpoint, not for two.
pub const ATTEMPT_TIMEOUT_MS: u64 = 10_000;

/// One question over all endpoints. Three slow ones and the caller is told; the agent API gives a whole
/// handler the same time.
pub const TOTAL_TIMEOUT_MS: u64 = 30_000;

/// The longest answer that is read. The largest honest one, a receipt with thousands of events, stays
/// under 2 MiB; a hostile node may send without end.
pub const REPLY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Failures in a row after which an endpoint is left alone: two may be one lost connection and its echo.
pub const BREAKER_FAILURES: u32 = 3;

/// How long it is left alone: a node restarts in about that time, and rate limits count by the minute.
pub const BREAKER_COOL_DOWN_MS: u64 = 30_000;

/// How long a matching chain id is believed: an address may be given to another node, but seldom.
pub const IDENTITY_VALID_MS: u64 = 24 * 60 * 60 * 1000;

/// How long a refused endpoint is not asked again which chain it serves: a wrong setting is corrected by
/// a person, so minutes are soon enough, and every question would delay the endpoints after it.
pub const IDENTITY_RETRY_MS: u64 = 60_000;

/// More endpoints than the total time could ever reach are a mistake in the settings.
pub const ENDPOINTS_MAX: usize = 8;

/// Requests in one batch: the limit of public nodes.
pub(super) const BATCH_MAX: usize = 50;

/// The bounds of [`RpcChain`](super::RpcChain). Production takes the defaults; tests take smaller ones.
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

/// Which chain, and who is asked about it.
#[derive(Clone)]
pub struct RpcConfig {
    /// What every endpoint must answer to `eth_chainId`.
    pub chain: ChainId,
    /// URLs in the order in which they are tried.
    pub endpoints: Vec<String>,
    pub limits: RpcLimits,
    /// Where an endpoint may be asked over http. This machine only, unless the operator allows more.
    pub plain: Plain,
}

impl RpcConfig {
    pub fn new<I>(chain: ChainId, endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let endpoints = endpoints.into_iter().map(Into::into).collect();
        Self { chain, endpoints, limits: RpcLimits::default(), plain: Plain::Here }
    }

    /// Sets where an endpoint may be asked over http.
    #[must_use]
    pub fn over(mut self, plain: Plain) -> Self {
        self.plain = plain;
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

/// Why the settings make no chain. Endpoints are named by their place, from 1, or by their label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("no RPC endpoint is set for this chain")]
    NoEndpoint,
    #[error("at most {ENDPOINTS_MAX} RPC endpoints can be set for a chain")]
    TooManyEndpoints,
    #[error("RPC endpoint {place} is not a URL such as https://node.example/key")]
    NotAUrl { place: usize },
    #[error("RPC endpoint {0} must begin with https:// (or http:// on this machine)")]
    Scheme(EndpointLabel),
    #[error(
        "RPC endpoint {0} is not encrypted; http:// is only for 127.0.0.1, [::1] and localhost, and with \
         allow_plain_http for private addresses: use https://"
    )]
    PlainHttp(EndpointLabel),
    #[error("RPC endpoint {0} contains a user name or password; put the key in the path or query")]
    UserInfo(EndpointLabel),
    #[error("the HTTPS client cannot be made: {0}")]
    Client(String),
}
