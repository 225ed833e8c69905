//! One entry of a host list. Rejects text that would match no host, or more hosts than the operator wrote, instead of
//! guessing its meaning.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Host;

use super::name::{HostError, check_dns_lengths, without_root};

/// A host in the form used for comparison.
///
/// A lower-case ASCII name without trailing dot, an IPv4 address, or an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostEntry(String);

impl HostEntry {
    /// Parses an operator's text into the stored form.
    ///
    /// # Errors
    /// [`HostError`], whose message names the fault or the remedy.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let text = text.trim();
        if let Some(error) = more_than_a_host(text) {
            return Err(error);
        }
        if let Ok(address) = without_brackets(text).parse::<Ipv6Addr>() {
            return Ok(Self(address_text(address.into())));
        }
        if text.contains([':', '[', ']']) {
            return Err(HostError::EntryWithPort);
        }
        match Host::parse(text).map_err(HostError::Unreadable)? {
            Host::Domain(name) => Self::from_name(without_root(&name)),
            // A URL parser reads `0x7f.1` and `3221225991` as addresses, but an operator may not recognize them.
            Host::Ipv4(address) if without_root(text) != address.to_string() => {
                Err(HostError::EntryIsOddAddress)
            }
            Host::Ipv4(address) => Ok(Self(address.to_string())),
            Host::Ipv6(address) => Ok(Self(address_text(address.into()))),
        }
    }

    fn from_name(name: &str) -> Result<Self, HostError> {
        check_dns_lengths(name)?;
        // The URL parser accepts more characters in a host, such as `;` and `,`. In an entry they most likely separate
        // two hosts. A block list with such an entry would silently cover neither host.
        let odd = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if let Some(character) = name.chars().find(odd) {
            return Err(HostError::EntryWithOddCharacter(character));
        }
        if !name.contains('.') && name != "localhost" {
            return Err(HostError::EntryIsOneLabel);
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the stored form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the entry covers a host: the host itself, or a subdomain of a name.
    pub(super) fn covers(&self, host: &Host<&str>) -> bool {
        match host {
            Host::Domain(name) => without_root(name)
                .strip_suffix(&self.0)
                .is_some_and(|front| front.is_empty() || front.ends_with('.')),
            Host::Ipv4(address) => self.0 == address_text((*address).into()),
            Host::Ipv6(address) => self.0 == address_text((*address).into()),
        }
    }
}

/// Returns why the text is not one host: it is empty, has other parts of a URL, or names several hosts.
fn more_than_a_host(text: &str) -> Option<HostError> {
    let is_range = |(address, _): (&str, &str)| without_brackets(address).parse::<IpAddr>().is_ok();
    if text.is_empty() {
        Some(HostError::EmptyEntry)
    } else if text.contains("://") {
        Some(HostError::EntryWithScheme)
    } else if text.split_once('/').is_some_and(is_range) {
        Some(HostError::EntryIsRange)
    } else if text.contains(['/', '\\', '?', '#']) {
        Some(HostError::EntryWithPath)
    } else if text.contains('@') {
        Some(HostError::UserInfo)
    } else if text.contains('*') || text.starts_with('.') {
        Some(HostError::EntryWithStar)
    } else {
        // A percent sign starts an encoded letter or the zone of an address.
        let odd = |c: &char| c.is_whitespace() || c.is_control() || *c == '%';
        text.chars().find(odd).map(HostError::EntryWithOddCharacter)
    }
}

fn without_brackets(text: &str) -> &str {
    text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text)
}

/// Formats an address in its stored form.
///
/// An IPv4-mapped IPv6 address (`::ffff:192.0.2.7`) reaches the same machine, so it is compared as the IPv4 address.
fn address_text(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => Host::<String>::Ipv6(address).to_string(),
    }
}

impl FromStr for HostEntry {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for HostEntry {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        Self::parse(&text)
    }
}

impl From<HostEntry> for String {
    fn from(entry: HostEntry) -> String {
        entry.0
    }
}

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn host_entries_are_normalized_or_refused() {
        let kept = |text: &str| HostEntry::parse(text).map(String::from);
        assert_eq!(kept(" Example.COM。 "), Ok("example.com".to_owned()));
        assert_eq!(kept("192.0.2.7."), Ok("192.0.2.7".to_owned()));
        assert_eq!(kept("[::FFFF:192.0.2.7]"), Ok("192.0.2.7".to_owned()));
        assert_eq!(kept("2001:DB8:0:0::1"), Ok("[2001:db8::1]".to_owned()));
        for (text, error) in [
            ("a.org,b.org", HostError::EntryWithOddCharacter(',')),
            ("a.org;b.org", HostError::EntryWithOddCharacter(';')),
            ("ex%61mple.com", HostError::EntryWithOddCharacter('%')),
            ("[2001:db8::1]:443", HostError::EntryWithPort),
            ("[2001:db8::1", HostError::EntryWithPort),
            ("2001:db8::/32", HostError::EntryIsRange),
            ("3221225991", HostError::EntryIsOddAddress),
            ("１９２.0.2.7", HostError::EntryIsOddAddress),
            ("example.com..", HostError::EmptyLabel),
            (".", HostError::EntryWithStar),
        ] {
            assert_eq!(kept(text), Err(error), "{text}");
        }
    }

    #[test]
    fn stored_host_entries_are_validated_when_loaded() {
        let read = |text| serde_json::from_str::<HostEntry>(text);
        assert_eq!(serde_json::to_string(&read("\"a.ORG\"").unwrap()).unwrap(), "\"a.org\"");
        assert!(read("\"org\"").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn host_entry_normalization_is_idempotent(
            text in prop_oneof![
                any::<String>(),
                "[a-zA-Z0-9é。ßа-я.:_-]{1,16}\\.[a-zа-я]{2,5}",
                "[0-9a-f:]{2,20}",
                "(xn--)?[a-z0-9-]{1,12}\\.[a-z]{2,4}",
            ]
        ) {
            if let Ok(entry) = HostEntry::parse(&text) {
                prop_assert_eq!(HostEntry::parse(entry.as_str()), Ok(entry));
            }
        }
    }
}
