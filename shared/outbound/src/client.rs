//! The HTTP client: connects only to permitted URLs.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Method, RequestBuilder};

use crate::target::Target;

/// Idle connections kept per host.
const IDLE_MAX: usize = 64;

/// An HTTP client that connects only to a [`Target`].
///
/// Follows no redirects and uses no proxy from the environment. `localhost` is always this machine, whatever DNS
/// returns.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

/// Begins like a browser's user agent: public explorers behind Cloudflare answer others with 403.
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
        Self::build(|builder| builder.connect_timeout(timeout).timeout(timeout))
    }

    /// Creates a client with a timeout in milliseconds for connecting only.
    ///
    /// Callers bound the wait for the reply themselves.
    ///
    /// # Errors
    /// Describes why this machine cannot make connections.
    pub fn for_streaming(connect_ms: u64) -> Result<Self, String> {
        Self::build(|builder| builder.connect_timeout(Duration::from_millis(connect_ms)))
    }

    fn build(set_timeouts: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Self, String> {
        // Port 0 means the port of the URL.
        let loopback =
            [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()];
        let builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            // Idle connections cost memory on both sides, so only some outlive a burst.
            .pool_max_idle_per_host(IDLE_MAX)
            .resolve_to_addrs("localhost", &loopback)
            .user_agent(USER_AGENT);
        set_timeouts(builder).build().map(Self).map_err(|error| root_cause(&error))
    }

    pub(crate) fn request(&self, method: Method, target: &Target) -> RequestBuilder {
        self.0.request(method, target.url())
    }
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
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause.and_then(Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "unknown reason".to_owned(), ToString::to_string)
}
