//! How money, time and foreign text are worded for people, in one place for console, command line and log.

use crate::time::Utc;

/// Text that somebody else wrote, made safe to show: in quotes, with every character that could move the
/// cursor, hide or reorder what follows written as `\u{..}`, and cut at `width` characters.
pub fn quoted(foreign: &str, width: usize) -> String {
    let mut shown = String::with_capacity(foreign.len().saturating_add(2));
    shown.push('"');
    for (count, ch) in foreign.chars().enumerate() {
        if count >= width {
            shown.push('…');
            break;
        }
        if ch == '"' {
            // Else it could end the quotation and go on in our own words.
            shown.push_str("\\\"");
        } else if is_unsafe(ch) {
            shown.extend(ch.escape_unicode());
        } else {
            shown.push(ch);
        }
    }
    shown.push('"');
    shown
}

/// Room for a host of any length that names have, its port and some user info before it.
const HOST_ROOM: usize = 300;

/// A URL cut after `most` characters, with its host whole: a host that is cut could be anybody's. Whoever
/// writes much before the host, as user info, does not push it out of sight.
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
    let skipped = authority.chars().count().saturating_sub(HOST_ROOM);
    let host: String = authority.chars().skip(skipped).collect();
    let scheme: String = scheme.chars().take(HOST_ROOM).collect();
    let cut = if skipped > 0 { "…" } else { "" };
    // What was cut in a list before ends so already.
    format!("{scheme}://{cut}{}…", host.trim_end_matches('…'))
}

/// Our own line, in which foreign text may stand in quotes: only what could move the cursor, hide or
/// reorder is written as `\u{..}`.
pub fn visible(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for ch in line.chars() {
        if is_unsafe(ch) {
            shown.extend(ch.escape_unicode());
        } else {
            shown.push(ch);
        }
    }
    shown
}

/// Control, zero-width, bidirectional and tag characters.
fn is_unsafe(ch: char) -> bool {
    ch.is_control()
        || matches!(
            ch,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Minutes and seconds left, `14:59`.
pub fn countdown(seconds: u64) -> String {
    let minutes = seconds.checked_div(60).unwrap_or(0);
    let rest = seconds.checked_rem(60).unwrap_or(0);
    format!("{minutes:02}:{rest:02}")
}

/// UTC as RFC 3339 with seconds; the bare milliseconds if it lies beyond the calendar.
pub fn utc(at: Utc) -> String {
    match jiff::Timestamp::from_second(at.seconds()) {
        Ok(stamp) => stamp.to_string(),
        Err(_beyond_the_calendar) => format!("{} ms", at.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_moves_the_cursor_or_hides() {
        let attack = "a\x1b[2J\u{9b}31m\u{202e}evil\u{200b}\u{e0041}\r\n";
        let shown = quoted(attack, 100);
        assert!(shown.chars().all(|ch| !is_unsafe(ch)), "{shown}");
        assert!(shown.starts_with("\"a\\u{1b}[2J"));
        assert_eq!(quoted("abcdef", 3), "\"abc…\"");
        assert_eq!(quoted("grüße", 9), "\"grüße\"");
        assert_eq!(quoted("a\"  (checked)", 20), "\"a\\\"  (checked)\"");
    }

    #[test]
    fn a_long_url_is_cut_and_its_host_is_not() {
        assert_eq!(short_url("https://a.example/b", 19), "https://a.example/b");
        assert_eq!(short_url("https://a.example/bcd", 19), "https://a.example/b…");
        let host = format!("{}.example:8443", "a".repeat(200));
        let long = format!("https://{host}/{}", "p".repeat(9000));
        assert_eq!(short_url(&long, 120), format!("https://{host}…"));
        for before in ["bank.example%2f".to_owned(), "x".repeat(9000)] {
            let url = format!("https://{before}@evil.example?{}", "q".repeat(9000));
            let shown = short_url(&url, 40);
            assert!(shown.contains("@evil.example") && shown.chars().count() < 400, "{shown}");
            let again = short_url(&shown, 40);
            assert!(again.ends_with("@evil.example…") || again == shown, "{again}");
        }
        assert!(short_url(&"x".repeat(9000), 200).chars().count() < 400);
    }

    #[test]
    fn times_read_as_people_write_them() {
        assert_eq!(countdown(899), "14:59");
        assert_eq!(utc(Utc(1_767_225_600_999)), "2026-01-01T00:00:00Z");
        assert_eq!(utc(Utc(i64::MAX)), format!("{} ms", i64::MAX));
    }
}
