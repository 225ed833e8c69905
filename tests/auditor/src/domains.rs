//! The domain lists of a policy: the hosts that an agent may pay.

use url::{Host, Url};

/// The verdict of the lists on the URLs of one payment.
///
/// More than one field is set where the specification leaves a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ruling {
    pub(crate) allow: bool,
    pub(crate) hold: bool,
    pub(crate) deny: bool,
    /// Whether the reason of the refusal is, or may be, that there is no URL at all.
    pub(crate) may_lack_url: bool,
}

fn labels_are_sound(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| !label.is_empty() && label.len() <= 63)
}

/// Returns the host of a URL as a browser reads it; `None` if the wallet must not rely on it.
pub(crate) fn host_of(url: &str) -> Option<String> {
    // Programs read different hosts from a URL with such a character.
    if url.chars().any(|one| one == '\\' || one.is_control()) {
        return None;
    }
    let url = Url::parse(url).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    if !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    canonical_host(&url.host()?.to_owned())
}

fn canonical_host<S: AsRef<str>>(host: &Host<S>) -> Option<String> {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref();
            let name = name.strip_suffix('.').unwrap_or(name);
            labels_are_sound(name).then(|| name.to_owned())
        }
        Host::Ipv4(ip) => Some(ip.to_string()),
        // Format the address as in a URL, so that each address has only one text.
        Host::Ipv6(ip) => Some(Host::<&str>::Ipv6(*ip).to_string()),
    }
}

/// Returns the canonical form of an operator's entry; `None` if the entry is invalid.
pub(crate) fn canonical_entry(entry: &str) -> Option<String> {
    let entry = entry.trim();
    if entry.is_empty() {
        return None;
    }
    let bare = entry.strip_prefix('[').and_then(|e| e.strip_suffix(']')).unwrap_or(entry);
    if let Ok(ip) = bare.parse::<std::net::Ipv6Addr>() {
        return Some(Host::<&str>::Ipv6(ip).to_string());
    }
    if entry.chars().any(|c| {
        matches!(c, '/' | ':' | '@' | '?' | '#' | '*' | '\\' | '[' | ']' | '%') || c.is_whitespace()
    }) {
        return None;
    }
    match Host::parse(entry).ok()? {
        Host::Ipv4(ip) => (ip.to_string() == entry.trim_end_matches('.')).then(|| ip.to_string()),
        Host::Ipv6(_) => None,
        Host::Domain(name) => {
            let name = canonical_host(&Host::Domain(name))?;
            // A single label would cover a whole top-level domain.
            (name.contains('.') || name == "localhost").then_some(name)
        }
    }
}

/// Returns the IPv4 address inside an IPv4-mapped IPv6 host. The lists treat the host as that address.
fn mapped_ipv4(host: &str) -> Option<String> {
    let inner = host.strip_prefix('[')?.strip_suffix(']')?;
    let ip: std::net::Ipv6Addr = inner.parse().ok()?;
    ip.to_ipv4_mapped().map(|v4| v4.to_string())
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

fn covers(entry: &str, host: &str) -> bool {
    if entry == host || mapped_ipv4(host).is_some_and(|v4| v4 == entry) {
        return true;
    }
    !is_address(host)
        && !is_address(entry)
        && host.strip_suffix(entry).is_some_and(|front| front.ends_with('.'))
}

/// Returns whether the host equals one of the entries or is a subdomain of one.
pub(crate) fn is_listed(list: &[String], host: &str) -> bool {
    list.iter().filter_map(|e| canonical_entry(e)).any(|e| covers(&e, host))
}

/// The relation of one URL to the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMatch {
    Inside,
    Outside,
    Blocked,
    Unreadable,
}

pub(crate) fn match_url(url: &str, allowed: &[String], blocked: &[String]) -> ListMatch {
    let Some(host) = host_of(url) else { return ListMatch::Unreadable };
    if is_listed(blocked, &host) {
        ListMatch::Blocked
    } else if allowed.is_empty() || is_listed(allowed, &host) {
        ListMatch::Inside
    } else {
        ListMatch::Outside
    }
}

/// Judges the agent's URL and the payment's own URL together.
pub(crate) fn judge_urls(
    request: Option<&str>,
    resource: Option<&str>,
    allowed: &[String],
    blocked: &[String],
) -> Ruling {
    if allowed.is_empty() && blocked.is_empty() {
        return Ruling { allow: true, ..Ruling::default() };
    }
    let deny = Ruling { deny: true, ..Ruling::default() };
    let at = |u: Option<&str>| u.map(|u| match_url(u, allowed, blocked));
    // An empty text is not a URL. The specification does not define whether the code is for a missing URL or for a
    // domain.
    let empty = |u: Option<&str>| u.is_none_or(|u| u.trim().is_empty());
    if empty(request) && empty(resource) {
        return Ruling { may_lack_url: true, ..deny };
    }
    match (at(request), at(resource)) {
        (Some(ListMatch::Blocked), _) | (_, Some(ListMatch::Blocked)) => deny,
        (Some(ListMatch::Outside | ListMatch::Unreadable), _) => deny,
        (Some(ListMatch::Inside), None | Some(ListMatch::Inside)) => {
            Ruling { allow: true, ..Ruling::default() }
        }
        (Some(ListMatch::Inside), Some(ListMatch::Outside | ListMatch::Unreadable)) => {
            if allowed.is_empty() {
                // There is only a block list, and the second URL is unreadable: the specification does not define this
                // case.
                Ruling { allow: true, hold: true, deny: true, may_lack_url: false }
            } else {
                Ruling { hold: true, ..Ruling::default() }
            }
        }
        (None, Some(ListMatch::Inside)) => Ruling { allow: true, ..Ruling::default() },
        (None, _) => deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(v: &serde_json::Value) -> Vec<String> {
        v.as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect()
    }

    fn vectors() -> serde_json::Value {
        serde_json::from_str(include_str!("../../vectors/domain-matching.json")).unwrap()
    }

    #[test]
    fn domain_vector_cases_are_judged_as_expected() {
        for case in vectors()["cases"].as_array().unwrap() {
            let url = case["url"].as_str().unwrap();
            let (allowed, blocked) = (strings(&case["allowed"]), strings(&case["blocked"]));
            assert_eq!(host_of(url).as_deref(), case["host"].as_str(), "{case}");
            let ruling = judge_urls(Some(url), None, &allowed, &blocked);
            let expect = case["expect"].as_str().unwrap();
            assert_eq!(ruling.allow, expect == "allow", "{case}");
            assert_eq!(ruling.deny, expect != "allow", "{case}");
        }
    }

    #[test]
    fn domain_vector_entries_parse_as_expected() {
        for entry in vectors()["entries"].as_array().unwrap() {
            let read = canonical_entry(entry["entry"].as_str().unwrap());
            assert_eq!(read.as_deref(), entry["canonical"].as_str(), "{entry}");
        }
    }

    #[test]
    fn domain_vector_url_pairs_are_judged_as_expected() {
        for pair in vectors()["pairs"].as_array().unwrap() {
            let (allowed, blocked) = (strings(&pair["allowed"]), strings(&pair["blocked"]));
            let ruling = judge_urls(
                pair["request_url"].as_str(),
                pair["resource_url"].as_str(),
                &allowed,
                &blocked,
            );
            let expect = pair["expect"].as_str().unwrap();
            assert_eq!(
                (ruling.allow, ruling.hold, ruling.deny),
                (expect == "allow", expect == "hold", expect == "deny"),
                "{pair}"
            );
        }
    }
}
