//! The one way out of this machine: which URLs may be asked, how they are named, and one bounded exchange
//! over HTTP. Never follows a redirect, never uses a proxy, never shows a URL. Plain reqwest and not alloy's
//! transport: that one reads a reply of any length into memory, and writes the whole URL, API key included,
//! into its tracing span.

use std::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, StatusCode};
use url::{Host, Url};

use crate::ports::EndpointLabel;

/// A URL of the settings that may be asked. It leaves this file only towards the HTTP client.
#[derive(Clone)]
pub(crate) struct Target {
    url: Url,
    label: EndpointLabel,
}

/// Why a text of the settings may not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetFault {
    NotAUrl,
    Scheme(EndpointLabel),
    PlainHttp(EndpointLabel),
    UserInfo(EndpointLabel),
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Self, TargetFault> {
        let url = Url::parse(text).map_err(|_shows_the_url| TargetFault::NotAUrl)?;
        let label = EndpointLabel::of(&url);
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            "http" => return Err(TargetFault::PlainHttp(label)),
            _other => return Err(TargetFault::Scheme(label)),
        }
        // https://mainnet.base.org@evil.test reads like the one and goes to the other.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetFault::UserInfo(label));
        }
        Ok(Self { url, label })
    }

    pub(crate) fn label(&self) -> &EndpointLabel {
        &self.label
    }

    /// The place below this one, with the same query: it may hold the key.
    pub(crate) fn below(&self, segments: &[&str]) -> Self {
        let mut url = self.url.clone();
        // Only URLs without a host have no path to extend, and those are no targets.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        Self { url, label: self.label.clone() }
    }

    /// A stranger's text, fit for errors and logs: without what may be our API key (providers like to
    /// quote it), without control characters, and of bounded length.
    pub(crate) fn scrub(&self, text: &str) -> String {
        const CHARS_MAX: usize = 300;
        let mut clean = text.to_owned();
        for secret in secrets(&self.url) {
            clean = clean.replace(&secret, "[key]");
        }
        clean.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(CHARS_MAX).collect()
    }
}

/// Shows the label alone: the URL holds the API key.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("label", &self.label).finish_non_exhaustive()
    }
}

/// What came back, whatever its status; never a redirect.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// Goes where the settings say and nowhere else: no redirects, no proxy from the environment, and
/// `localhost` is this machine whatever a name server thinks of it.
#[derive(Debug, Clone)]
pub(crate) struct Client(reqwest::Client);

impl Client {
    /// The timeout is for one exchange, from connecting to the last byte of the answer.
    pub(crate) fn new(timeout_ms: u64) -> Result<Self, String> {
        // Port 0: the port of the URL.
        let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()];
        let timeout = Duration::from_millis(timeout_ms);
        reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .resolve_to_addrs("localhost", &here)
            .connect_timeout(timeout)
            .timeout(timeout)
            .user_agent(concat!("bursar/", env!("CARGO_PKG_VERSION")))
            .build()
            .map(Self)
            .map_err(|error| root_cause(&error))
    }

    /// Sends JSON. The error says in our own words why nothing usable came back.
    pub(crate) async fn post(
        &self,
        target: &Target,
        question: Vec<u8>,
        bytes_max: usize,
    ) -> Result<Reply, String> {
        let request = self.0.post(target.url.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(question);
        exchange(request, target, bytes_max).await
    }

    /// Asks for JSON.
    pub(crate) async fn get(&self, target: &Target, bytes_max: usize) -> Result<Reply, String> {
        exchange(self.0.get(target.url.clone()), target, bytes_max).await
    }
}

async fn exchange(
    request: RequestBuilder,
    target: &Target,
    bytes_max: usize,
) -> Result<Reply, String> {
    let failed = |error: reqwest::Error| unreachable(target, &error);
    let response = request.header(ACCEPT, "application/json").send().await.map_err(failed)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(format!("HTTP {status}: redirects are not followed"));
    }
    let body = read(response, bytes_max, failed).await?;
    Ok(Reply { status, body })
}

async fn read(
    mut response: Response,
    bytes_max: usize,
    failed: impl Fn(reqwest::Error) -> String,
) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(&failed)? {
        // The announced length is a claim, and optional: what arrives is counted.
        if chunk.len() > bytes_max.saturating_sub(body.len()) {
            return Err(format!("the answer is longer than {bytes_max} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// reqwest's own text quotes the URL; this one is ours.
fn unreachable(target: &Target, error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connect() {
        format!("cannot connect: {}", target.scrub(&root_cause(error)))
    } else {
        "the connection broke off".to_owned()
    }
}

/// The innermost error, which knows sockets and certificates but no URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause.and_then(Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "unknown reason".to_owned(), ToString::to_string)
}

/// Addresses that cannot leave this machine. `localhost` is pinned to them by the HTTP client.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The parts of a URL that may be a key: whatever is longer than the usual words of a path.
fn secrets(url: &Url) -> Vec<String> {
    const WORD_CHARS_MAX: usize = 7;
    let segments = url.path_segments().into_iter().flatten().map(str::to_owned);
    let values = url.query_pairs().map(|(_name, value)| value.into_owned());
    segments.chain(values).filter(|part| part.len() > WORD_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_below_keeps_the_query_and_takes_no_other_host() {
        for (base, below) in [
            ("https://a.test/api/v2?apikey=K", "https://a.test/api/v2/x/y%2F..?apikey=K"),
            ("https://a.test/api/v2/", "https://a.test/api/v2/x/y%2F.."),
            ("https://a.test", "https://a.test/x/y%2F.."),
        ] {
            let made = Target::parse(base).unwrap().below(&["x", "y/.."]);
            assert_eq!(made.url.as_str(), below);
            assert!(!format!("{made:?}").contains("api"), "{made:?}");
        }
    }

    #[test]
    fn a_strangers_text_loses_our_key_its_control_characters_and_its_length() {
        let url = "https://node.test/v3/0123456789abcdef?token=fedcba9876543210";
        let target = Target::parse(url).unwrap();
        let said = "bad key 0123456789abcdef, fedcba9876543210\u{1b}[2J\r\n in v3";
        assert_eq!(target.scrub(said), "bad key [key], [key]\u{fffd}[2J\u{fffd}\u{fffd} in v3");
        assert_eq!(target.scrub(&"ä".repeat(1000)).chars().count(), 300);
    }
}
