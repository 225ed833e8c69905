//! Which URLs may be asked.

use std::fmt;
use std::net::Ipv4Addr;

use url::{Host, Url};

use crate::label::EndpointLabel;

/// A URL of the settings that may be asked. It leaves this crate only towards the HTTP client.
#[derive(Clone)]
pub struct Target {
    url: Url,
    label: EndpointLabel,
}

/// Why a text of the settings may not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFault {
    NotAUrl,
    Scheme(EndpointLabel),
    PlainHttp(EndpointLabel),
    UserInfo(EndpointLabel),
}

/// Where HTTP without encryption is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// To this machine only.
    Here,
    /// Also to private addresses and to names that only a local network resolves: the operator's setting
    /// `allow_plain_http`. A public address always needs https.
    Private,
    /// To any host: a person allowed it for this one URL.
    Anywhere,
}

impl Plain {
    /// The meaning of the setting `allow_plain_http`.
    pub fn allowed(allow_plain_http: bool) -> Self {
        if allow_plain_http { Self::Private } else { Self::Here }
    }

    fn covers(self, url: &Url) -> bool {
        match self {
            Self::Here => is_loopback(url),
            Self::Private => is_loopback(url) || is_private(url),
            Self::Anywhere => true,
        }
    }
}

impl Target {
    /// # Errors
    /// Why the text may not be asked.
    pub fn parse(text: &str, plain: Plain) -> Result<Self, TargetFault> {
        let url = Url::parse(text).map_err(|_shows_the_url| TargetFault::NotAUrl)?;
        let label = EndpointLabel::of(&url);
        match url.scheme() {
            "https" => {}
            "http" if plain.covers(&url) => {}
            "http" => return Err(TargetFault::PlainHttp(label)),
            _other => return Err(TargetFault::Scheme(label)),
        }
        // https://mainnet.base.org@evil.test reads like the one and goes to the other.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetFault::UserInfo(label));
        }
        Ok(Self { url, label })
    }

    pub(crate) fn url(&self) -> Url {
        self.url.clone()
    }

    pub fn label(&self) -> &EndpointLabel {
        &self.label
    }

    /// The place below this one, with the same query: it may hold the key.
    pub fn below(&self, segments: &[&str]) -> Self {
        let mut url = self.url.clone();
        // Only URLs without a host have no path to extend, and those are no targets.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        Self { url, label: self.label.clone() }
    }

    /// A stranger's text, fit for errors and logs: without what may be our API key (providers like to
    /// quote it), without control characters, and of bounded length.
    pub fn scrub(&self, text: &str) -> String {
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

/// Addresses that cannot leave this machine. `localhost` is pinned to them by the HTTP client.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Addresses that are not routed on the internet, and names that public DNS does not serve: a single label
/// such as a container's name, and the top-level names reserved for local networks.
fn is_private(url: &Url) -> bool {
    const LOCAL_NAMES: [&str; 5] = ["local", "internal", "lan", "localdomain", "home.arpa"];
    match url.host() {
        Some(Host::Ipv4(address)) => is_private_v4(address),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(address) => is_private_v4(address),
            None => address.is_unique_local() || address.is_unicast_link_local(),
        },
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let below = |top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
            !name.contains('.') || LOCAL_NAMES.iter().any(|top| below(top))
        }
        None => false,
    }
}

/// RFC 1918, link-local, and the shared range of carriers (RFC 6598), which private overlays use too.
fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let shared = first == 100 && (64..128).contains(&second);
    address.is_private() || address.is_link_local() || shared
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
            let made = Target::parse(base, Plain::Here).unwrap().below(&["x", "y/.."]);
            assert_eq!(made.url.as_str(), below);
            assert!(!format!("{made:?}").contains("api"), "{made:?}");
        }
    }

    #[test]
    fn plain_http_reaches_this_machine_then_private_networks_and_never_the_internet() {
        let accepts = |url: &str, plain| Target::parse(url, plain).is_ok();
        for url in ["http://127.0.0.1:8545", "http://localhost", "http://[::1]/v1"] {
            assert!(
                accepts(url, Plain::allowed(false)) && accepts(url, Plain::allowed(true)),
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
            assert!(!accepts(url, Plain::allowed(false)), "{url}");
            assert!(accepts(url, Plain::allowed(true)), "{url}");
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
            assert!(!accepts(url, Plain::allowed(true)), "{url}");
            assert!(accepts(url, Plain::Anywhere), "{url}");
        }
    }

    #[test]
    fn a_strangers_text_loses_our_key_its_control_characters_and_its_length() {
        let url = "https://node.test/v3/0123456789abcdef?token=fedcba9876543210";
        let target = Target::parse(url, Plain::Here).unwrap();
        let said = "bad key 0123456789abcdef, fedcba9876543210\u{1b}[2J\r\n in v3";
        assert_eq!(target.scrub(said), "bad key [key], [key]\u{fffd}[2J\u{fffd}\u{fffd} in v3");
        assert_eq!(target.scrub(&"ä".repeat(1000)).chars().count(), 300);
    }
}
