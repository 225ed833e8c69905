//! How money, time and untrusted text are shown to people, in one place for console, command line and log.

mod program;
mod urls;

use std::fmt;

use icu_properties::props::{
    BidiControl, DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup,
};
use icu_properties::{CodePointMapData, CodePointSetData};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use unicode_security::skeleton;

pub use program::{for_program, hints_for_program, hints_for_window};
pub use urls::{short_url, without_pay_fragment};

use crate::hosts;
use crate::time::Utc;

/// Quotes untrusted text so that it is safe to show, cut after `width` characters.
///
/// Every character that could move the cursor, or hide or reorder other text, is written as `\u{..}`.
pub fn quoted(foreign: &str, width: usize) -> String {
    let mut shown = String::with_capacity(foreign.len().saturating_add(2));
    shown.push('"');
    let mut escaper = Escaper::after_a_quotation_mark();
    for (count, ch) in foreign.chars().enumerate() {
        if count >= width {
            shown.push('…');
            break;
        }
        if ch == '"' {
            // Unescaped, the text could close the quotation and imitate our own words.
            shown.push_str("\\\"");
            escaper = Escaper::after_a_quotation_mark();
        } else {
            escaper.push(&mut shown, ch);
        }
    }
    shown.push('"');
    shown
}

/// Maximum number of characters of foreign text that a message repeats.
const SNIPPET_CHARS_MAX: usize = 200;

/// Returns foreign text as a message may repeat it: on one line, and cut after 200 characters.
///
/// It is for names, paths and values from a caller, a file or a command line. It adds no quotation marks; [`quoted`]
/// does.
pub fn snippet(foreign: &str) -> String {
    excerpt(foreign, SNIPPET_CHARS_MAX)
}

/// Returns foreign text on one line, cut after `width` characters.
///
/// It is for sentences that contain foreign text.
pub fn excerpt(foreign: &str, width: usize) -> String {
    let mut shown: String = foreign.chars().take(width).collect();
    shown = visible(&shown);
    if foreign.chars().nth(width).is_some() {
        shown.push('…');
    }
    shown
}

/// Maximum number of characters that are shown of a token's symbol.
const SYMBOL_WIDTH: usize = 16;

/// Returns how to show the symbol of a token outside our table.
///
/// It is in quotation marks, because any token may take any symbol. A symbol that is empty, too long, or has
/// characters that must be escaped is replaced by the token's address.
pub fn symbol(own: &str, address: &str) -> String {
    let is_odd = own.is_empty()
        || own.trim() != own
        || own.chars().count() > SYMBOL_WIDTH
        || own.contains(['"', '\\'])
        || visible(own) != own;
    if is_odd { address.to_owned() } else { quoted(own, SYMBOL_WIDTH) }
}

/// Combining marks allowed on one letter; more would cover the lines above and below.
const CONSECUTIVE_MARKS_MAX: usize = 2;

/// Writes untrusted characters so that each of them is visible.
#[derive(Default)]
struct Escaper {
    /// Combining marks since the last character of another kind.
    consecutive_marks: usize,
}

impl Escaper {
    /// Creates an escaper for text after our own quotation mark, which a combining mark would change.
    fn after_a_quotation_mark() -> Self {
        Self { consecutive_marks: CONSECUTIVE_MARKS_MAX }
    }

    fn push(&mut self, shown: &mut String, ch: char) {
        let is_mark = CodePointMapData::<GeneralCategory>::new().get(ch);
        let is_mark = GeneralCategoryGroup::Mark.contains(is_mark);
        self.consecutive_marks = if is_mark { self.consecutive_marks.saturating_add(1) } else { 0 };
        if is_unsafe(ch) || self.consecutive_marks > CONSECUTIVE_MARKS_MAX {
            shown.extend(ch.escape_unicode());
        } else {
            shown.push(ch);
        }
    }
}

/// Returns a note on a URL's host if the URL's text does not show the host as it is.
///
/// The note names the form that the text does not show: the ASCII form (WHATWG), or the Unicode form of a host in
/// Punycode. It reports letters that imitate ASCII ones (UTS 39). Returns `None` if the text shows the host as it is,
/// or has no `://`.
pub fn host_note(url: &str) -> Option<String> {
    let (_scheme, rest) = url.split_once("://")?;
    let parsed = url::Url::parse(url).ok();
    let Some(host) = parsed.as_ref().and_then(url::Url::host_str) else {
        return Some("no valid host".to_owned());
    };
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or(rest);
    let written = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _no_port => authority,
    };
    let decoded = hosts::decoded(host);
    let imitates = !decoded.is_ascii() && skeleton(&decoded).all(|ch| ch.is_ascii());
    let mark = if imitates { ", a LOOK-ALIKE" } else { "" };
    if !written.eq_ignore_ascii_case(host) {
        return Some(format!("host {}{mark}", visible(host)));
    }
    (decoded != host)
        .then(|| format!("host {} in Unicode{mark}", quoted(&decoded, urls::HOST_CHARS_MAX)))
}

/// Makes one of our own lines safe to show, although it may quote untrusted text.
///
/// Characters that could move the cursor, or hide or reorder other text, are written as `\u{..}`.
pub fn visible(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut escaper = Escaper::default();
    for ch in line.chars() {
        escaper.push(&mut shown, ch);
    }
    shown
}

/// Returns whether a character is invisible or changes how others are shown.
///
/// That includes control and bidirectional characters, blanks other than the space, Unicode's default ignorables, and
/// private-use characters, which look different in every font and place pictures in some terminals (kitty's U+10EEEE).
fn is_unsafe(ch: char) -> bool {
    ch.is_control()
        || (ch.is_whitespace() && ch != ' ')
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(ch)
        || CodePointSetData::new::<BidiControl>().contains(ch)
        // A Braille pattern without dots, and interlinear annotation characters.
        || matches!(ch, '\u{2800}' | '\u{fff9}'..='\u{fffb}')
        || matches!(ch, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// Formats the minutes and seconds left: `14:59`.
pub fn countdown(seconds: u64) -> String {
    let minutes = seconds.checked_div(60).unwrap_or(0);
    let rest = seconds.checked_rem(60).unwrap_or(0);
    format!("{minutes:02}:{rest:02}")
}

/// Formats an approximate duration: `3 h`, `15 min`, `under a minute`.
pub fn approximate_duration(seconds: u64) -> String {
    match seconds {
        0..60 => "under a minute".to_owned(),
        60..7_200 => format!("{} min", seconds.div_ceil(60)),
        _hours => format!("{} h", seconds.div_ceil(3_600)),
    }
}

/// Formats a time as RFC 3339 in UTC with seconds.
///
/// A time beyond the calendar's range is shown as milliseconds.
pub fn utc(at: Utc) -> String {
    match Timestamp::from_second(at.seconds()) {
        Ok(stamp) => stamp.to_string(),
        Err(_beyond_the_calendar) => format!("{} ms", at.0),
    }
}

/// The time zone in which a console shows times of day; UTC by default.
///
/// The methods accept times in the format of [`utc`], and return any other text unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zone(Option<TimeZone>);

impl Zone {
    /// Shows times in this zone.
    pub fn of(zone: TimeZone) -> Self {
        Self(Some(zone))
    }

    /// Returns the zone's offset from UTC at a time.
    pub fn offset_at(&self, at: &str) -> UtcOffset {
        let known = parse_timestamp(at).zip(self.0.as_ref());
        UtcOffset(known.map_or(Offset::UTC, |(at, zone)| zone.to_offset(at)))
    }

    /// Formats date, time and offset: `2026-07-01 14:05 UTC+2`.
    pub fn moment(&self, at: &str) -> String {
        let offset = self.offset_at(at);
        offset.civil(at).map_or(at.to_owned(), |time| {
            format!("{} {} {offset}", time.date(), format_minute(time))
        })
    }

    /// Formats time and offset: `14:05 UTC+2`.
    pub fn time_of_day(&self, at: &str) -> String {
        let offset = self.offset_at(at);
        offset.civil(at).map_or(at.to_owned(), |time| format!("{} {offset}", format_minute(time)))
    }

    /// Formats the time alone: `14:05`.
    pub fn minute(&self, at: &str) -> String {
        self.offset_at(at).civil(at).map_or(at.to_owned(), format_minute)
    }

    /// Formats the date: `2026-07-01`.
    pub fn date(&self, at: &str) -> String {
        self.offset_at(at).civil(at).map_or(at.to_owned(), |time| time.date().to_string())
    }
}

/// An offset from UTC, written `UTC`, `UTC+2` or `UTC-3:30`.
///
/// All times below one heading use the heading's offset, even if summer time begins or ends between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcOffset(Offset);

impl UtcOffset {
    /// Formats day and time: `07-01 14:05`.
    pub fn day_and_minute(self, at: &str) -> String {
        self.civil(at).map_or(at.to_owned(), |time| {
            format!("{:02}-{:02} {}", time.month(), time.day(), format_minute(time))
        })
    }

    fn civil(self, at: &str) -> Option<DateTime> {
        parse_timestamp(at).map(|at| self.0.to_datetime(at))
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.seconds();
        let minutes = seconds.unsigned_abs().div_euclid(60);
        let (hours, minutes) = (minutes.div_euclid(60), minutes.rem_euclid(60));
        let sign = if seconds < 0 { '-' } else { '+' };
        match (hours, minutes) {
            (0, 0) => f.write_str("UTC"),
            (hours, 0) => write!(f, "UTC{sign}{hours}"),
            (hours, minutes) => write!(f, "UTC{sign}{hours}:{minutes:02}"),
        }
    }
}

fn parse_timestamp(at: &str) -> Option<Timestamp> {
    at.parse().ok()
}

fn format_minute(time: DateTime) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_cannot_move_the_cursor_or_hide_text() {
        let attack = "a\x1b[2J\u{9b}31m\u{202e}evil\u{200b}\u{e0041}\u{10eeee}\u{f8ff}\r\n";
        let shown = quoted(attack, 100);
        assert!(shown.chars().all(|ch| !is_unsafe(ch)), "{shown}");
        assert!(shown.starts_with("\"a\\u{1b}[2J"));
        assert_eq!(quoted("abcdef", 3), "\"abc…\"");
        assert_eq!(quoted("grüße", 9), "\"grüße\"");
        assert_eq!(quoted("a\"  (checked)", 20), "\"a\\\"  (checked)\"");
    }

    #[test]
    fn a_foreign_symbol_is_quoted_and_an_odd_one_is_replaced_by_the_address() {
        let token = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
        for own in ["USDC", "USD₮0", "a b", "0123456789abcdef"] {
            assert_eq!(symbol(own, token), format!("\"{own}\""));
        }
        for odd in
            ["", " ", " USDC", "USDC ", "0123456789abcdefg", "US\"DC", "US\\DC", "US\u{200b}DC"]
        {
            assert_eq!(symbol(odd, token), token, "{odd:?}");
        }
    }

    #[test]
    fn t_44_invisible_characters_are_shown_as_escapes() {
        for hidden in "\u{3164}\u{115f}\u{1160}\u{ffa0}\u{34f}\u{fe00}\u{fe0f}\u{2800}\u{17b4}\u{17b5}\u{180b}\u{180d}\u{180e}\u{a0}\u{2003}\u{3000}\u{e0100}\u{ad}\u{2028}\u{2066}\u{61c}\u{feff}".chars() {
            let code = hidden.escape_unicode().to_string();
            let text = format!("a{hidden}b");
            assert_eq!(quoted(&text, 9), format!("\"a{code}b\""));
            assert_eq!(visible(&text), format!("a{code}b"));
        }
        let stack = format!("e{}x", "\u{301}".repeat(9));
        let kept = format!("e\u{301}\u{301}{}x", "\\u{301}".repeat(7));
        assert_eq!(visible(&stack), kept);
        assert_eq!(quoted("\u{301}a", 9), "\"\\u{301}a\"", "our own quotation mark is not changed");
        assert_eq!(quoted("\"\u{301}a", 9), "\"\\\"\\u{301}a\"");
        assert_eq!(quoted("Việt e\u{301} 東京", 20), "\"Việt e\u{301} 東京\"");
    }

    #[test]
    fn a_snippet_is_one_line_of_at_most_200_characters() {
        assert_eq!(snippet("grüße"), "grüße");
        assert_eq!(snippet("a\u{1b}[31m\r\nb\u{202e}"), "a\\u{1b}[31m\\u{d}\\u{a}b\\u{202e}");
        assert_eq!(snippet(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(snippet(&"é".repeat(100_000)), format!("{}…", "é".repeat(200)));
        assert!(snippet(&"\0".repeat(100_000)).len() < 2_000);
    }

    #[test]
    fn t_44_a_url_that_misrepresents_its_host_gets_a_note() {
        for (url, note) in [
            ("https://apple.com/x", None),
            ("https://Apple.COM:8443/x", None),
            ("https://[2001:db8::1]:80/", None),
            ("not a url", None),
            ("https://\u{430}pple.com/x", Some("host xn--pple-43d.com, a LOOK-ALIKE")),
            (
                "https://\u{430}\u{440}\u{440}\u{4cf}\u{435}.com",
                Some("host xn--80ak6aa92e.com, a LOOK-ALIKE"),
            ),
            ("https://gr\u{fc}\u{df}e.de", Some("host xn--gre-6ka8l.de")),
            ("https://xn--pple-43d.com", Some("host \"\u{430}pple.com\" in Unicode, a LOOK-ALIKE")),
            ("https://xn--gre-6ka8l.de/", Some("host \"gr\u{fc}\u{df}e.de\" in Unicode")),
            ("https://apple\u{2024}com/", Some("no valid host")),
            ("https://apple\u{3002}com/", Some("host apple.com")),
            ("https://ap%70le.com/", Some("host apple.com")),
            ("http://0x7f.1/", Some("host 127.0.0.1")),
            ("https://apple.com@evil.example/", Some("host evil.example")),
        ] {
            assert_eq!(host_note(url).as_deref(), note, "{url}");
        }
    }

    #[test]
    fn a_long_url_is_truncated_but_never_its_host() {
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
    fn countdowns_and_utc_times_are_formatted_for_people() {
        assert_eq!(countdown(899), "14:59");
        assert_eq!(utc(Utc(1_767_225_600_999)), "2026-01-01T00:00:00Z");
        assert_eq!(utc(Utc(i64::MAX)), format!("{} ms", i64::MAX));
    }

    #[test]
    fn local_times_show_their_utc_offset() {
        let zone = |seconds| Zone::of(TimeZone::fixed(Offset::from_seconds(seconds).unwrap()));
        let late = "2025-12-31T22:45:59Z";
        for (zone, moment) in [
            (Zone::default(), "2025-12-31 22:45 UTC"),
            (zone(0), "2025-12-31 22:45 UTC"),
            (zone(7_200), "2026-01-01 00:45 UTC+2"),
            (zone(19_800), "2026-01-01 04:15 UTC+5:30"),
            (zone(-12_600), "2025-12-31 19:15 UTC-3:30"),
            (zone(-1_800), "2025-12-31 22:15 UTC-0:30"),
            (zone(50_400), "2026-01-01 12:45 UTC+14"),
        ] {
            let (date, rest) = moment.split_once(' ').unwrap();
            let (minute, offset) = rest.split_once(' ').unwrap();
            assert_eq!(zone.moment(late), moment);
            assert_eq!(zone.date(late), date);
            assert_eq!(zone.time_of_day(late), rest);
            assert_eq!(zone.offset_at(late).to_string(), offset);
            let (_year, day) = date.split_once('-').unwrap();
            assert_eq!(zone.offset_at(late).day_and_minute(late), format!("{day} {minute}"));
        }
        for text in ["", "9223372036854775807 ms", "soon", "2026-01-01"] {
            let zone = zone(7_200);
            let shown = [zone.moment(text), zone.date(text), zone.time_of_day(text)];
            assert_eq!(shown, [text, text, text]);
            assert_eq!(zone.offset_at(text).day_and_minute(text), text);
            assert_eq!(zone.offset_at(text).to_string(), "UTC");
        }
    }

    #[test]
    fn a_zone_with_summer_time_uses_the_offset_of_each_date() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let zone = Zone::of(berlin);
        let (winter, summer) = ("2026-01-01T12:00:00Z", "2026-07-01T12:00:00Z");
        assert_eq!(zone.moment(winter), "2026-01-01 13:00 UTC+1");
        assert_eq!(zone.moment(summer), "2026-07-01 14:00 UTC+2");
        // Below a heading in summer time, a time in winter uses the heading's offset.
        assert_eq!(zone.offset_at(summer).day_and_minute(winter), "01-01 14:00");
    }
}
