//! The allow and block lists of hosts that an agent may pay. Never resolves a name and never compares URLs as text:
//! hosts are compared in the form of the WHATWG URL parser.

mod entry;
mod name;

use serde::{Deserialize, Serialize};
use unicode_security::skeleton;
use url::{Host, Url};

pub use entry::HostEntry;
pub use name::HostError;
use name::{check_dns_lengths, without_root};

/// An allow list and a block list.
///
/// An entry covers its host and, if it is a name, all subdomains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLists {
    /// If not empty, only these hosts are allowed.
    pub allowed: Vec<HostEntry>,
    /// Never allowed, even if `allowed` covers them.
    pub blocked: Vec<HostEntry>,
}

/// The verdict on one URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostVerdict {
    Allowed,
    Blocked,
    NotAllowed,
    /// Not an http(s) URL with a host that can be compared.
    Invalid,
}

/// The verdict on a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairVerdict {
    Pass,
    /// The agent's URL is allowed, but a URL of the merchant is not: the operator decides.
    Hold,
    Refuse(HostRefusal),
}

/// The reason why a payment is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRefusal {
    UrlRequired,
    Blocked,
    NotAllowed,
    Invalid,
}

/// Returns the host that a client calls for an http(s) URL, even if the URL has user info, which [`host_of`] rejects.
///
/// Returns `None` for other invalid URLs, and for a host with characters that no DNS name has.
pub fn called_host(url: &str) -> Option<String> {
    let mut parsed = Url::parse(url).ok().filter(|_url| odd_character(url).is_none())?;
    parsed.set_username("").ok()?;
    parsed.set_password(None).ok()?;
    let host = acceptable_host(&parsed).ok()?;
    let is_dns = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    match host {
        Host::Domain(name) => Some(without_root(name).to_owned()).filter(|name| is_dns(name)),
        address @ (Host::Ipv4(_) | Host::Ipv6(_)) => Some(address.to_string()),
    }
}

/// Returns a host with its labels in Punycode decoded, whether or not they are valid (UTS 46).
pub fn decoded(host: &str) -> String {
    idna::domain_to_unicode(host).0
}

/// Returns a text that is equal for hosts that a reader may mistake for each other (UTS 39).
pub fn lookalike_key(host: &str) -> String {
    skeleton(&decoded(host)).collect::<String>().to_lowercase()
}

impl HostLists {
    /// Returns whether there are no entries, so that every URL is allowed.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.blocked.is_empty()
    }

    /// Checks one URL.
    pub fn check(&self, url: &str) -> HostVerdict {
        if !self.is_empty() && odd_character(url).is_some() {
            return HostVerdict::Invalid;
        }
        self.check_read(url)
    }

    /// Checks one URL as the WHATWG parser reads it, and allows no URL that another parser may read differently.
    fn check_read(&self, url: &str) -> HostVerdict {
        if self.is_empty() {
            return HostVerdict::Allowed;
        }
        let Ok(parsed) = Url::parse(url) else { return HostVerdict::Invalid };
        let covers =
            |list: &[HostEntry], host: &Host<&str>| list.iter().any(|entry| entry.covers(host));
        let is_covered = |list: &[HostEntry]| parsed.host().is_some_and(|host| covers(list, &host));
        let others = other_readings(url);
        let covers_other = |list: &[HostEntry], other: &Result<Host, url::ParseError>| {
            other.as_ref().is_ok_and(|host| covers(list, &borrowed(host)))
        };
        // Check the block list before the form of the URL. Otherwise a payment to a blocked host, written with user
        // info, would be held instead of refused.
        if is_covered(&self.blocked) || others.iter().any(|one| covers_other(&self.blocked, one)) {
            HostVerdict::Blocked
        } else if odd_character(url).is_some() || acceptable_host(&parsed).is_err() {
            HostVerdict::Invalid
        } else if self.allowed.is_empty() {
            HostVerdict::Allowed
        } else if !is_covered(&self.allowed) {
            HostVerdict::NotAllowed
        } else if others.iter().all(|one| covers_other(&self.allowed, one)) {
            HostVerdict::Allowed
        } else {
            HostVerdict::Invalid
        }
    }

    /// Checks the agent's `request_url` and the payment's `resource.url` together.
    ///
    /// An empty text counts as a missing URL, and an invalid URL as not allowed. Empty lists pass every payment.
    ///
    /// Refuses the payment if either URL is on the block list, if `request_url` is not allowed, or if both are
    /// missing. Without `request_url`, also refuses it if `resource.url` is not allowed. Holds it if `request_url` is
    /// allowed and `resource.url` is not.
    pub fn check_pair(&self, request_url: Option<&str>, resource_url: Option<&str>) -> PairVerdict {
        self.check_urls(request_url, resource_url)
    }

    /// Checks like [`Self::check_pair`], for a challenge that names several URLs.
    ///
    /// If the verdicts on these URLs differ, the worst one counts.
    pub fn check_urls<'a>(
        &self,
        request_url: Option<&'a str>,
        challenge_urls: impl IntoIterator<Item = &'a str>,
    ) -> PairVerdict {
        if self.is_empty() {
            return PairVerdict::Pass;
        }
        let verdict = |url: &'a str| (!url.is_empty()).then(|| self.check_read(url));
        let mut is_unclear = false;
        let challenge_urls = challenge_urls.into_iter().inspect(|url| {
            is_unclear |= odd_character(url).is_some();
        });
        let resource = challenge_urls.filter_map(verdict).max_by_key(|verdict| match verdict {
            HostVerdict::Allowed => 0,
            HostVerdict::Invalid => 1,
            HostVerdict::NotAllowed => 2,
            HostVerdict::Blocked => 3,
        });
        match (request_url.and_then(verdict), resource) {
            (None, None) => PairVerdict::Refuse(HostRefusal::UrlRequired),
            (Some(HostVerdict::Blocked), _) | (_, Some(HostVerdict::Blocked)) => {
                PairVerdict::Refuse(HostRefusal::Blocked)
            }
            // A URL with an odd character may lead to a blocked host, and the operator cannot approve a blocked host.
            _any if is_unclear && !self.blocked.is_empty() => {
                PairVerdict::Refuse(HostRefusal::Invalid)
            }
            (Some(HostVerdict::Allowed), None | Some(HostVerdict::Allowed)) => PairVerdict::Pass,
            (Some(HostVerdict::Allowed), Some(HostVerdict::NotAllowed | HostVerdict::Invalid)) => {
                PairVerdict::Hold
            }
            (None, Some(HostVerdict::Allowed)) => PairVerdict::Pass,
            (Some(HostVerdict::NotAllowed), _) | (None, Some(HostVerdict::NotAllowed)) => {
                PairVerdict::Refuse(HostRefusal::NotAllowed)
            }
            (Some(HostVerdict::Invalid), _) | (None, Some(HostVerdict::Invalid)) => {
                PairVerdict::Refuse(HostRefusal::Invalid)
            }
        }
    }
}

/// Returns the host of an http(s) URL in its WHATWG form, without one trailing dot.
///
/// # Errors
/// [`HostError`], if the URL is invalid, is not http or https, has user info or a character that parsers read
/// differently, or has a host that does not fit DNS.
pub fn host_of(url: &str) -> Result<String, HostError> {
    if let Some(character) = odd_character(url) {
        return Err(HostError::OddCharacter(character));
    }
    let parsed = Url::parse(url).map_err(HostError::Unreadable)?;
    match acceptable_host(&parsed)? {
        Host::Domain(name) => Ok(without_root(name).to_owned()),
        address @ (Host::Ipv4(_) | Host::Ipv6(_)) => Ok(address.to_string()),
    }
}

/// Returns the first character of a URL that makes parsers find different hosts. The WHATWG parser reads a backslash as
/// a slash and drops tabs and line breaks. Other parsers keep these characters, or take the text after them as the
/// host.
fn odd_character(url: &str) -> Option<char> {
    url.chars().find(|&character| character == '\\' || character.is_control())
}

/// Returns the hosts that other parsers may read in a URL, in addition to the host that the WHATWG parser reads.
fn other_readings(url: &str) -> Vec<Result<Host, url::ParseError>> {
    let rest = url.split_once(':').map_or("", |(_scheme, rest)| rest);
    let authority = rest.trim_start_matches('/').split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    truncated_reading(name).into_iter().chain(idna_2003_reading(name)).collect()
}

/// Returns the host as read by parsers that end a name at the first character that DNS does not allow, such as `%` or
/// `;`. They read `https://evil.example%2eshop.example/` as `evil.example`.
///
/// Returns `None` if the name has no such character or begins with it. Also returns `None` for an escaped letter or
/// digit (`%61`) in the first label.
fn truncated_reading(name: &str) -> Option<Result<Host, url::ParseError>> {
    let is_of_names =
        |one: char| !one.is_ascii() || one.is_ascii_alphanumeric() || "-._+".contains(one);
    let (cut, rest) = name.split_at(name.find(|one| !is_of_names(one))?);
    let escaped = rest.strip_prefix('%').and_then(|digits| digits.get(..2));
    let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match Host::parse(cut) {
        _none if cut.is_empty() => None,
        Ok(Host::Domain(label))
            if !label.contains('.') && escaped.is_some_and(|one| one.is_ascii_alphanumeric()) =>
        {
            None
        }
        host => Some(host),
    }
}

/// Returns the host as read by parsers that follow IDNA 2003, which replaces letters that IDNA 2008 keeps, such as `ß`.
/// `None` if the name has no such letter or joiner.
fn idna_2003_reading(name: &str) -> Option<Result<Host, url::ParseError>> {
    let replaced = name.replace(['\u{df}', '\u{1e9e}'], "ss").replace('\u{3c2}', "\u{3c3}");
    // IDNA 2003 removes joiners.
    let replaced = replaced.replace(['\u{200c}', '\u{200d}'], "");
    (replaced != name).then(|| Host::parse(&replaced))
}

fn borrowed(host: &Host) -> Host<&str> {
    match host {
        Host::Domain(name) => Host::Domain(name),
        Host::Ipv4(address) => Host::Ipv4(*address),
        Host::Ipv6(address) => Host::Ipv6(*address),
    }
}

fn acceptable_host(url: &Url) -> Result<Host<&str>, HostError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HostError::OtherScheme);
    }
    // Other parsers may read another part of a URL with user info as the host.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(HostError::UserInfo);
    }
    let host = url.host().ok_or(HostError::NoHost)?;
    if let Host::Domain(name) = host {
        check_dns_lengths(without_root(name))?;
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(names: &[&str]) -> Vec<HostEntry> {
        names.iter().map(|name| HostEntry::parse(name).unwrap()).collect()
    }

    #[test]
    fn hosts_that_can_be_mistaken_have_the_same_key() {
        let key = lookalike_key("paypal.com");
        for alike in ["xn--pypal-4ve.com", "paypa1.com"] {
            assert_eq!(lookalike_key(alike), key, "{alike}");
        }
        assert_eq!(lookalike_key("rnicrosoft.com"), lookalike_key("microsoft.com"));
        for other in ["paypal.org", "paypall.com", "pay.com"] {
            assert_ne!(lookalike_key(other), key, "{other}");
        }
        let called = called_host("https://paypal.com@evil.example:8443/a?b");
        assert_eq!(called.as_deref(), Some("evil.example"));
        let long = format!("https://{}.example/", "a.".repeat(130));
        for none in
            ["nothing", "x://PayPal/", "https://a\"b.example/", "https://a\\@b.example/", &long]
        {
            assert_eq!(called_host(none), None, "{none}");
        }
    }

    /// For each of these URLs, some HTTP clients call the host before the odd character, and other clients call a
    /// subdomain of `good.example`.
    #[test]
    fn a_url_with_two_hosts_passes_no_list() {
        for (url, other) in [
            ("https://bad.example%2egood.example/", "bad.example"),
            ("https://bad\u{3002}example%2egood.example/", "bad.example"),
            ("https://bad\u{ff0e}example;.good.example/", "bad.example"),
            ("https://\u{ff42}ad.example%2egood.example/", "bad.example"),
            ("https://bad.example%61.good.example/", "bad.example"),
            ("http://3405803785;.good.example/", "203.0.113.9"),
            ("http://0xcb007109%2egood.example:80/", "203.0.113.9"),
            ("http://localhost%2egood.example/", "localhost"),
            ("https://bad.example'.good.example/", "bad.example"),
        ] {
            let allow = HostLists { allowed: list(&["good.example"]), blocked: Vec::new() };
            let refused = PairVerdict::Refuse(HostRefusal::Invalid);
            assert_eq!(allow.check_pair(Some(url), None), refused, "{url}");
            let both = HostLists { allowed: list(&["good.example", other]), blocked: Vec::new() };
            assert_eq!(both.check_pair(Some(url), None), PairVerdict::Pass, "{url}");
            let block = HostLists { allowed: Vec::new(), blocked: list(&[other]) };
            let refused = PairVerdict::Refuse(HostRefusal::Blocked);
            assert_eq!(block.check_pair(Some(url), None), refused, "{url}");
        }
    }

    #[test]
    fn a_letter_that_two_versions_of_idna_read_differently_passes_no_list() {
        let block = HostLists { allowed: Vec::new(), blocked: list(&["fass.example"]) };
        let refused = PairVerdict::Refuse(HostRefusal::Blocked);
        assert_eq!(block.check_pair(Some("https://fa\u{df}.example/"), None), refused);
        let allow = HostLists { allowed: list(&["fa\u{df}.example"]), blocked: Vec::new() };
        let refused = PairVerdict::Refuse(HostRefusal::Invalid);
        assert_eq!(allow.check_pair(Some("https://fa\u{df}.example:443/"), None), refused);
        assert_eq!(allow.check_pair(Some("https://xn--fa-hia.example/"), None), PairVerdict::Pass);
    }

    #[test]
    fn a_challenge_with_an_unclear_url_is_not_held_while_hosts_are_blocked() {
        let lists = HostLists { allowed: list(&["in.example"]), blocked: list(&["bad.example"]) };
        let unclear = Some("https://in.example\\@bad.example/");
        let verdict = lists.check_pair(Some("https://in.example/"), unclear);
        assert_eq!(verdict, PairVerdict::Refuse(HostRefusal::Invalid));
    }

    fn lists(allowed: &[&str], blocked: &[&str]) -> HostLists {
        let read =
            |list: &[&str]| list.iter().map(|text| HostEntry::parse(text).unwrap()).collect();
        HostLists { allowed: read(allowed), blocked: read(blocked) }
    }

    #[test]
    fn empty_host_lists_allow_every_url() {
        let none = HostLists::default();
        assert_eq!(none.check("not a url"), HostVerdict::Allowed);
        assert_eq!(none.check_pair(None, Some("ftp://x")), PairVerdict::Pass);
    }

    #[test]
    fn a_blocked_host_is_blocked_in_every_url_form() {
        let lists = lists(&["example.com"], &["bad.org", "192.0.2.7"]);
        for url in [
            "https://u@bad.org/",
            "ftp://BAD.org/",
            "https://bad.org./",
            "https://a..bad.org/",
            "http://[::ffff:192.0.2.7]/",
            "http://x:y@3221225991/",
        ] {
            assert_eq!(lists.check(url), HostVerdict::Blocked, "{url}");
            let pair = lists.check_pair(Some("https://example.com/"), Some(url));
            assert_eq!(pair, PairVerdict::Refuse(HostRefusal::Blocked), "{url}");
        }
    }

    #[test]
    fn every_combination_of_url_verdicts_is_decided() {
        use HostRefusal::*;
        use PairVerdict::*;
        let lists = lists(&["in.example"], &["bad.example"]);
        let (inside, outside, blocked, unreadable) = (
            Some("https://in.example/"),
            Some("https://out.example/"),
            Some("https://bad.example/"),
            Some("/only/a/path"),
        );
        let rows = [
            (
                None,
                [Refuse(UrlRequired), Pass, Refuse(NotAllowed), Refuse(Blocked), Refuse(Invalid)],
            ),
            (inside, [Pass, Pass, Hold, Refuse(Blocked), Hold]),
            (outside, [NotAllowed, NotAllowed, NotAllowed, Blocked, NotAllowed].map(Refuse)),
            (blocked, [Refuse(Blocked); 5]),
            (unreadable, [Invalid, Invalid, Invalid, Blocked, Invalid].map(Refuse)),
        ];
        for (request, answers) in rows {
            for (resource, answer) in
                [None, inside, outside, blocked, unreadable].into_iter().zip(answers)
            {
                assert_eq!(lists.check_pair(request, resource), answer, "{request:?} {resource:?}");
            }
        }
        assert_eq!(lists.check_pair(Some(""), Some("")), Refuse(UrlRequired));
        assert_eq!(lists.check_pair(Some(""), outside), Refuse(NotAllowed));
    }

    #[test]
    fn a_url_without_an_acceptable_host_is_refused_with_its_reason() {
        let unreadable = |url| matches!(host_of(url), Err(HostError::Unreadable(_)));
        assert_eq!(host_of("ftp://example.com/"), Err(HostError::OtherScheme));
        assert_eq!(host_of("https://:pw@example.com/"), Err(HostError::UserInfo));
        assert_eq!(host_of("https://example.com../"), Err(HostError::EmptyLabel));
        assert_eq!(
            host_of(&format!("https://{}.com/", "a".repeat(64))),
            Err(HostError::LabelTooLong)
        );
        assert_eq!(
            host_of(&format!("https://{}cd/", "a.".repeat(126))),
            Err(HostError::NameTooLong)
        );
        assert!(host_of(&format!("https://{}c./", "a.".repeat(126))).is_ok());
        assert!(unreadable("https://example.com:99999/") && unreadable("example.com/x"));
        assert!(unreadable("http://[fe80::1%25eth0]/"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn checking_a_url_never_panics(
            text in any::<String>(),
            host in "[a-z0-9.:@%\\[\\]]{0,20}",
        ) {
            let lists = lists(&["example.com"], &["bad.org"]);
            lists.check(&text);
            lists.check(&format!("https://{host}/{text}"));
            lists.check(&format!("https://{text}/"));
        }

        /// An entry covers its own host on every port, but not a longer name that ends with the same characters.
        #[test]
        fn an_entry_covers_its_own_host_and_no_longer_name(text in "[a-z0-9_-]{1,8}(\\.[a-zA-Z0-9é-]{1,8}){0,3}") {
            if let Ok(entry) = HostEntry::parse(&text) {
                let lists = HostLists { allowed: vec![entry], blocked: vec![] };
                let own = lists.check(&format!("https://{text}:8443/x"));
                prop_assert_eq!(own, HostVerdict::Allowed);
                let longer = lists.check(&format!("https://x{text}/"));
                prop_assert_ne!(longer, HostVerdict::Allowed);
            }
        }
    }
}
