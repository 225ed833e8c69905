//! URLs as they are shown.

/// Room for the longest host name, its port and some user info before it.
pub(super) const HOST_CHARS_MAX: usize = 300;

/// Returns the URL without the fragment that `bursar pay` adds: `#` and 32 hex digits.
///
/// It only tells purchases apart; no server receives it.
pub fn without_pay_fragment(url: &str) -> &str {
    let is_ours = |fragment: &str| {
        fragment.len() == 32 && fragment.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    match url.rsplit_once('#') {
        Some((rest, fragment)) if is_ours(fragment) => rest,
        _other => url,
    }
}

/// Cuts a URL after `most` characters, but never within the host.
///
/// A truncated host could be mistaken for another host. Long user info before the host is cut instead of the host.
pub fn short_url(url: &str, most: usize) -> String {
    if url.chars().count() <= most {
        return url.to_owned();
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or(rest);
    let before = scheme.chars().count().saturating_add("://".len());
    let ends = before.saturating_add(authority.chars().count());
    if ends <= most {
        let mut shown: String = url.chars().take(most).collect();
        shown.push('…');
        return shown;
    }
    let skipped = authority.chars().count().saturating_sub(HOST_CHARS_MAX);
    let host: String = authority.chars().skip(skipped).collect();
    let scheme: String = scheme.chars().take(HOST_CHARS_MAX).collect();
    let cut = if skipped > 0 { "…" } else { "" };
    // A URL that a list has truncated already ends with an ellipsis.
    format!("{scheme}://{cut}{}…", host.trim_end_matches('…'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fragment_of_bursar_pay_is_hidden() {
        let own = format!("https://a.example/x?y#{}", "0a".repeat(16));
        assert_eq!(without_pay_fragment(&own), "https://a.example/x?y");
        for url in ["https://a.example/#top", "https://a.example/", "https://a.example/#0A0B"] {
            assert_eq!(without_pay_fragment(url), url);
        }
    }
}
