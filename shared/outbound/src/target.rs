//! URLs that the HTTP client may connect to.

use std::fmt;
use std::net::Ipv4Addr;

use url::{Host, Url};

use crate::label::EndpointLabel;

/// A permitted URL.
///
/// Only the HTTP client receives the full URL.
#[derive(Clone)]
pub struct Target {
    url: Url,
    label: EndpointLabel,
}

/// Why a URL is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFault {
    NotAUrl,
    Scheme(EndpointLabel),
    PlainHttp(EndpointLabel),
    UserInfo(EndpointLabel),
}

/// Hosts to which HTTP without encryption is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttpHosts {
    /// This machine only.
    ThisMachine,
    /// This machine, private addresses, and names that only a local network resolves. The setting `allow_plain_http`
    /// permits these. Public addresses still need https.
    Private,
    /// Any host, because the caller vouches for this URL.
    Any,
}

impl PlainHttpHosts {
    /// Returns the hosts that the setting `allow_plain_http` permits.
    pub fn from_setting(allow_plain_http: bool) -> Self {
        if allow_plain_http { Self::Private } else { Self::ThisMachine }
    }

    fn covers(self, url: &Url) -> bool {
        match self {
            Self::ThisMachine => is_loopback(url),
            Self::Private => is_loopback(url) || is_private(url),
            Self::Any => true,
        }
    }
}

impl Target {
    /// Parses a URL and checks that it is permitted.
    ///
    /// # Errors
    /// [`TargetFault`] if the URL is not permitted.
    pub fn parse(text: &str, plain_http: PlainHttpHosts) -> Result<Self, TargetFault> {
        let url = Url::parse(text).map_err(|_shows_the_url| TargetFault::NotAUrl)?;
        let label = EndpointLabel::of(&url);
        match url.scheme() {
            "https" => {}
            "http" if plain_http.covers(&url) => {}
            "http" => return Err(TargetFault::PlainHttp(label)),
            _other => return Err(TargetFault::Scheme(label)),
        }
        // https://mainnet.base.org@evil.test looks like the first host and connects to the second.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetFault::UserInfo(label));
        }
        Ok(Self { url, label })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(crate) fn url(&self) -> Url {
        self.url.clone()
    }

    /// Returns the whole URL in its normal spelling.
    ///
    /// It may hold a key: only settings show it.
    pub fn full_text(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the name of the endpoint for errors and logs.
    pub fn label(&self) -> &EndpointLabel {
        &self.label
    }

    /// Returns the URL with further path segments.
    ///
    /// The query stays, because it may hold the key.
    pub fn with_segments(&self, segments: &[&str]) -> Self {
        let mut url = self.url.clone();
        // Only a URL without a host has no path segments, and such a URL is not permitted.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        Self { url, label: self.label.clone() }
    }

    /// Returns the URL with another query parameter.
    pub fn with_query(&self, name: &str, value: &str) -> Self {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair(name, value);
        Self { url, label: self.label.clone() }
    }

    /// Cleans a third party's text for errors and logs.
    ///
    /// It replaces every long part of this URL in the text, because providers often quote the API key. It also replaces
    /// control characters, and limits the length to 300 characters.
    pub fn scrub(&self, text: &str) -> String {
        const CHARS_MAX: usize = 300;
        let mut clean = text.to_owned();
        for secret in secrets(&self.url) {
            clean = clean.replace(&secret, "[key]");
        }
        clean.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(CHARS_MAX).collect()
    }
}

/// Shows only the label, because the URL holds the API key.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("label", &self.label).finish_non_exhaustive()
    }
}

/// Returns whether the host is on this machine. The HTTP client pins `localhost` to the loopback addresses.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Returns whether the host is an address or a name of a local network.
///
/// The internet does not route these addresses, and public DNS does not serve these names. Local names are single
/// labels, such as those of containers, and names below a top-level name reserved for local networks.
fn is_private(url: &Url) -> bool {
    const LOCAL_DOMAIN_SUFFIXES: [&str; 5] =
        ["local", "internal", "lan", "localdomain", "home.arpa"];
    match url.host() {
        Some(Host::Ipv4(address)) => is_private_v4(address),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(address) => is_private_v4(address),
            None => address.is_unique_local() || address.is_unicast_link_local(),
        },
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let below = |top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
            !name.contains('.') || LOCAL_DOMAIN_SUFFIXES.iter().any(|top| below(top))
        }
        None => false,
    }
}

/// Returns whether an address is private (RFC 1918), link-local, or shared (RFC 6598).
///
/// Private overlay networks use the shared address space.
fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let shared = first == 100 && (64..128).contains(&second);
    address.is_private() || address.is_link_local() || shared
}

/// Returns the parts of a URL that may be an API key: all path segments and query values of 8 or more bytes.
///
/// Shorter parts are usual words of a path.
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
    fn a_url_below_a_target_keeps_its_host_and_query() {
        for (base, below) in [
            ("https://a.test/api/v2?apikey=K", "https://a.test/api/v2/x/y%2F..?apikey=K"),
            ("https://a.test/api/v2/", "https://a.test/api/v2/x/y%2F.."),
            ("https://a.test", "https://a.test/x/y%2F.."),
        ] {
            let made = Target::parse(base, PlainHttpHosts::ThisMachine)
                .unwrap()
                .with_segments(&["x", "y/.."]);
            assert_eq!(made.url.as_str(), below);
            assert!(!format!("{made:?}").contains("api"), "{made:?}");
            let asked = made.with_query("id", "a&b=c");
            let separator = if below.contains('?') { '&' } else { '?' };
            assert_eq!(asked.url.as_str(), format!("{below}{separator}id=a%26b%3Dc"));
        }
    }

    #[test]
    fn plain_http_targets_are_limited_by_the_setting() {
        let accepts = |url: &str, plain| Target::parse(url, plain).is_ok();
        for url in ["http://127.0.0.1:8545", "http://localhost", "http://[::1]/v1"] {
            assert!(
                accepts(url, PlainHttpHosts::from_setting(false))
                    && accepts(url, PlainHttpHosts::from_setting(true)),
                "{url}"
            );
        }
        for url in [
            "http://10.1.2.3",
            "http://172.16.0.1:8545",
            "http://172.31.255.255",
            "http://192.168.1.9",
            "http://169.254.1.1",
            "http://100.64.0.1",
            "http://100.127.255.255",
            "http://[fd00::1]",
            "http://[fe80::1]",
            "http://[::ffff:10.0.0.1]",
            "http://geth:8545",
            "http://node.lan",
            "http://node.home.arpa",
            "http://a.b.internal.",
        ] {
            assert!(!accepts(url, PlainHttpHosts::from_setting(false)), "{url}");
            assert!(accepts(url, PlainHttpHosts::from_setting(true)), "{url}");
        }
        for url in [
            "http://8.8.8.8",
            "http://172.15.255.255",
            "http://172.32.0.1",
            "http://192.169.0.1",
            "http://100.63.255.255",
            "http://100.128.0.1",
            "http://0.0.0.0",
            "http://[2001:db8::1]",
            "http://[::ffff:8.8.8.8]",
            "http://node.example",
            "http://notlocal.example",
            "http://xlan.example",
            "http://internal.example",
        ] {
            assert!(!accepts(url, PlainHttpHosts::from_setting(true)), "{url}");
            assert!(accepts(url, PlainHttpHosts::Any), "{url}");
        }
    }

    #[test]
    fn scrubbed_text_has_no_key_or_control_characters_and_is_bounded() {
        let url = "https://node.test/v3/0123456789abcdef?token=fedcba9876543210";
        let target = Target::parse(url, PlainHttpHosts::ThisMachine).unwrap();
        let said = "bad key 0123456789abcdef, fedcba9876543210\u{1b}[2J\r\n in v3";
        assert_eq!(target.scrub(said), "bad key [key], [key]\u{fffd}[2J\u{fffd}\u{fffd} in v3");
        assert_eq!(target.scrub(&"ä".repeat(1000)).chars().count(), 300);
    }
}
