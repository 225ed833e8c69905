//! Fits the text of a result to a terminal: shows times in the reader's zone, wraps long lines at spaces, and marks heads
//! and levels of risk.
//!
//! It handles no text with a secret, because it makes copies.

use std::borrow::Cow;

use bursar_core::text::Zone;
use textwrap::{Options as Wrap, WordSplitter, wrap};

/// The least characters of a line of a QR code.
const QR_CHARS_MIN: usize = 20;
/// The largest part of a width, in percent, that the indent of a wrapped line may take.
const INDENT_PERCENT_MAX: usize = 50;

/// The characters of a time in the format of [`bursar_core::text::utc`].
const UTC_CHARS: usize = "2026-07-01T14:05:07Z".len();

/// The zone of the person at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTime {
    /// Shows the times.
    pub zone: Zone,
    /// The present year, like `2026`, which is left out of times.
    pub year: String,
}

impl LocalTime {
    /// Returns a line with its times in the zone: `07-01 14:05 UTC+2`.
    ///
    /// Quoted text is foreign and stays as it is. In a table a time keeps its width.
    fn localize<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let mut local = String::new();
        let (mut rest, mut is_quoted) = (line, false);
        while let Some(one) = rest.chars().next() {
            is_quoted ^= one == '"';
            let time = rest.get(..UTC_CHARS).filter(|text| !is_quoted && is_time(text));
            let Some(time) = time else {
                local.push(one);
                rest = rest.get(one.len_utf8()..).unwrap_or_default();
                continue;
            };
            let shown = self.zone.moment(time);
            let this_year = format!("{}-", self.year);
            let shown =
                if shown == time { time } else { shown.strip_prefix(&this_year).unwrap_or(&shown) };
            rest = rest.get(UTC_CHARS..).unwrap_or_default();
            let width = if rest.starts_with("  ") { UTC_CHARS } else { 0 };
            local.push_str(&format!("{shown:<width$}"));
        }
        if local == line { Cow::Borrowed(line) } else { Cow::Owned(local) }
    }
}

/// Returns whether a text has the form of a time in UTC.
fn is_time(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:ddZ";
    text.chars().zip(form.chars()).all(|(one, form)| match form {
        'd' => one.is_ascii_digit(),
        fixed => one == fixed,
    })
}

/// Returns the text for a terminal of `width` columns.
pub(super) fn fit(
    text: &str,
    width: Option<u16>,
    color: bool,
    local: Option<&LocalTime>,
) -> String {
    let mut fitted = String::with_capacity(text.len());
    let mut is_cut = false;
    for line in text.lines() {
        if width.is_some_and(|width| is_code(line) && line.chars().count() > usize::from(width)) {
            // Broken lines would be another code.
            if !std::mem::replace(&mut is_cut, true) {
                fitted.push_str("The code does not fit into this terminal.\n");
            }
            continue;
        }
        let line = &*local.map_or(Cow::Borrowed(line), |local| local.localize(line));
        let style = if color { style(line) } else { None };
        fitted.push_str(style.unwrap_or_default());
        match width {
            Some(width) => push_wrapped(&mut fitted, line, usize::from(width)),
            None => fitted.push_str(line),
        }
        if style.is_some() {
            fitted.push_str("\x1b[0m");
        }
        fitted.push('\n');
    }
    fitted
}

fn push_wrapped(to: &mut String, line: &str, width: usize) {
    // A command is copied as a whole.
    if textwrap::core::display_width(line) <= width || line.contains(": bursar ") {
        return to.push_str(line);
    }
    let indent = " ".repeat(indent(line, width));
    let options = Wrap::new(width)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    to.push_str(&wrap(line, options).join("\n"));
}

/// Returns the column at which the lines after the first begin: below the value, if the line has a name on its left.
fn indent(line: &str, width: usize) -> usize {
    let leading = line.len().saturating_sub(line.trim_start().len());
    let value = line.get(leading..).and_then(|rest| {
        let gap = rest.find("  ")?;
        let after = rest.get(gap..)?;
        let spaces = after.len().saturating_sub(after.trim_start().len());
        Some(leading.saturating_add(gap).saturating_add(spaces))
    });
    let most = width.saturating_mul(INDENT_PERCENT_MAX) / 100;
    let column = value.map(|bytes| line.get(..bytes).map_or(bytes, |head| head.chars().count()));
    column.filter(|column| *column <= most).unwrap_or_else(|| leading.saturating_add(2).min(most))
}

/// Returns whether a line is part of a QR code.
fn is_code(line: &str) -> bool {
    let is_part = |one: char| matches!(one, '█' | '▀' | '▄' | '#' | ' ');
    line.len() > QR_CHARS_MIN && line.chars().all(is_part)
}

/// Returns the sequence that marks a line: a danger, a warning, or the head of a table.
fn style(line: &str) -> Option<&'static str> {
    let is_head = || {
        line.contains("  ")
            && line.chars().any(|one| one.is_ascii_uppercase())
            && line.chars().all(|one| one.is_ascii_uppercase() || matches!(one, ' ' | '-' | '2'))
    };
    if is_code(line) {
        // A QR code is read with dark modules on light ones, whatever the terminal's colours are.
        Some("\x1b[97;40m")
    } else if line.contains("!! DANGER") {
        Some("\x1b[1;31m")
    } else if line.contains("! WARNING") || is_head() {
        Some("\x1b[1m")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_continues_below_its_value() {
        let line = "about    Whether other machines can call the agent server.";
        let fitted = fit(line, Some(30), false, None);
        assert_eq!(
            fitted,
            "about    Whether other\n         machines can call the\n         agent server.\n"
        );
        assert_eq!(fit(line, None, false, None), format!("{line}\n"));
        assert_eq!(fit(line, Some(200), false, None), format!("{line}\n"));
    }

    #[test]
    fn no_word_is_broken_and_no_text_is_lost() {
        let hash = "0x".to_owned() + &"a".repeat(64);
        let line = format!("tx  {hash} and a tail that is long enough for another line");
        for width in [20, 21, 40, 80] {
            let fitted = fit(&line, Some(width), false, None);
            assert!(fitted.lines().any(|line| line.contains(&hash)), "{fitted}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&fitted), words(&line));
        }
    }

    #[test]
    fn times_are_local_outside_of_quotes_and_keep_their_column() {
        let zone = Zone::of(jiff::tz::TimeZone::fixed(jiff::tz::offset(-5)));
        let local = LocalTime { zone, year: "2026".to_owned() };
        for (line, shown) in [
            ("renews  2026-11-28T05:00:00Z", "renews  11-28 00:00 UTC-5"),
            ("4191fec7  2026-07-01T14:05:07Z  waiting", "4191fec7  07-01 09:05 UTC-5     waiting"),
            ("at 2025-07-01T14:05:07Z.", "at 2025-07-01 09:05 UTC-5."),
            ("said \"2026-07-01T14:05:07Z\"", "said \"2026-07-01T14:05:07Z\""),
            ("2026-99-99T99:99:99Z", "2026-99-99T99:99:99Z"),
            ("no time ☂", "no time ☂"),
        ] {
            assert_eq!(fit(line, None, false, Some(&local)), format!("{shown}\n"));
        }
    }

    #[test]
    fn a_code_that_does_not_fit_is_left_out() {
        let code = "█".repeat(41);
        let text = format!("{code}\n{code}\nethereum:0x1\n");
        assert_eq!(fit(&text, Some(41), false, None), text);
        let cut = fit(&text, Some(40), false, None);
        assert_eq!(cut, "The code does not fit into this terminal.\nethereum:0x1\n");
    }

    #[test]
    fn a_command_to_copy_stays_on_one_line() {
        let line = "Restore it with: bursar wallet restore '/home/a b/wallet.bursar'";
        assert_eq!(fit(line, Some(30), false, None), format!("{line}\n"));
    }

    #[test]
    fn levels_and_heads_are_marked_only_with_colours() {
        let text = "LABEL  NETWORK\n!! DANGER: a first payment\n! WARNING: new\nplain\n";
        assert_eq!(fit(text, None, false, None), text);
        let marked = fit(text, None, true, None);
        assert!(
            marked.starts_with("\x1b[1mLABEL  NETWORK\x1b[0m\n\x1b[1;31m!! DANGER"),
            "{marked}"
        );
        assert!(marked.ends_with("\nplain\n"), "{marked}");
    }
}
