//! The HTTP client. It connects only to permitted URLs.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Method, RequestBuilder};

use crate::target::Target;
use crate::tls;

/// Maximum number of idle connections per host.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// An HTTP client that connects only to a [`Target`].
///
/// It follows no redirects and uses no proxy from the environment. `localhost` is always this machine, whatever DNS
/// returns. The process reads the system's root certificates once, at the first request to an https target.
#[derive(Debug, Clone)]
pub struct Client {
    /// For http targets. It trusts no root certificates, so it does not read any.
    plain: reqwest::Client,
    /// For https targets, built at the first request to one.
    secure: Arc<OnceLock<reqwest::Client>>,
    timeouts: Timeouts,
}

/// The time limits of a client.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    connect: Duration,
    /// From connecting to the last byte of the reply; `None` if the callers limit this time themselves.
    exchange: Option<Duration>,
}

/// Begins like a browser's user agent, because public explorers behind Cloudflare answer 403 to other user agents.
const USER_AGENT: &str =
    concat!("Mozilla/5.0 (compatible; bursar/", env!("CARGO_PKG_VERSION"), ")");

impl Client {
    /// Creates a client with a timeout in milliseconds for each exchange.
    ///
    /// The timeout covers everything from connecting to the last byte of the reply.
    ///
    /// # Errors
    /// Describes why this machine cannot make connections.
    pub fn new(timeout_ms: u64) -> Result<Self, String> {
        let timeout = Duration::from_millis(timeout_ms);
        Self::with_timeouts(Timeouts { connect: timeout, exchange: Some(timeout) })
    }

    /// Creates a client with a timeout in milliseconds for connecting only.
    ///
    /// Callers bound the wait for the reply themselves.
    ///
    /// # Errors
    /// Describes why this machine cannot make connections.
    pub fn for_streaming(connect_ms: u64) -> Result<Self, String> {
        Self::with_timeouts(Timeouts { connect: Duration::from_millis(connect_ms), exchange: None })
    }

    fn with_timeouts(timeouts: Timeouts) -> Result<Self, String> {
        // Without this, reqwest would read the system's certificates here.
        let plain = build(timeouts, |builder| builder.tls_certs_only([]))?;
        Ok(Self { plain, secure: Arc::default(), timeouts })
    }

    /// Returns the client for the target's scheme.
    fn client_for_target(&self, target: &Target) -> Result<&reqwest::Client, String> {
        if !target.is_https() {
            return Ok(&self.plain);
        }
        if let Some(known) = self.secure.get() {
            return Ok(known);
        }
        let tls = tls::config()?;
        let built = build(self.timeouts, |builder| builder.tls_backend_preconfigured(tls))?;
        // If two requests build a client at the same time, both use the first one.
        Ok(self.secure.get_or_init(|| built))
    }

    /// Begins a request.
    ///
    /// # Errors
    /// Describes why this machine cannot make connections.
    pub(crate) fn request(
        &self,
        method: Method,
        target: &Target,
    ) -> Result<RequestBuilder, String> {
        Ok(self.client_for_target(target)?.request(method, target.url()))
    }
}

fn build(
    timeouts: Timeouts,
    set_tls: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<reqwest::Client, String> {
    // Port 0 means the port of the URL.
    let loopback = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()];
    let mut builder = reqwest::Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        // Idle connections cost memory on both sides, so only some outlive a burst.
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .resolve_to_addrs("localhost", &loopback)
        .user_agent(USER_AGENT)
        .connect_timeout(timeouts.connect);
    if let Some(exchange) = timeouts.exchange {
        builder = builder.timeout(exchange);
    }
    set_tls(builder).build().map_err(|error| root_cause(&error))
}

/// Describes a failure. reqwest's own text contains the URL, which may hold the API key.
pub(crate) fn describe_failure(target: &Target, error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connect() {
        format!("cannot connect: {}", target.scrub(&root_cause(error)))
    } else {
        "the connection was lost".to_owned()
    }
}

/// Returns the text of the innermost error: it names sockets and certificates, but no URL.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause.and_then(Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "unknown reason".to_owned(), ToString::to_string)
}
