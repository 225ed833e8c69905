//! Fits the text of a result to a terminal: wraps long lines at spaces, and marks heads and levels of risk.
//!
//! It handles no text with a secret, because it makes copies.

use textwrap::{Options as Wrap, WordSplitter, wrap};

/// The largest part of a width, in percent, that the indent of a wrapped line may take.
const INDENT_PERCENT_MAX: usize = 50;

/// Returns the text for a terminal of `width` columns.
pub(super) fn fit(text: &str, width: Option<u16>, color: bool) -> String {
    let mut fitted = String::with_capacity(text.len());
    for line in text.lines() {
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
    if textwrap::core::display_width(line) <= width {
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

/// Returns the sequence that marks a line: a danger, a warning, or the head of a table.
fn style(line: &str) -> Option<&'static str> {
    let is_head = || {
        line.contains("  ")
            && line.chars().any(|one| one.is_ascii_uppercase())
            && line.chars().all(|one| one.is_ascii_uppercase() || matches!(one, ' ' | '-' | '2'))
    };
    let is_code = |one: char| matches!(one, '█' | '▀' | '▄' | ' ');
    if line.contains(['█', '▀', '▄']) && line.chars().all(is_code) {
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
        let fitted = fit(line, Some(30), false);
        assert_eq!(
            fitted,
            "about    Whether other\n         machines can call the\n         agent server.\n"
        );
        assert_eq!(fit(line, None, false), format!("{line}\n"));
        assert_eq!(fit(line, Some(200), false), format!("{line}\n"));
    }

    #[test]
    fn no_word_is_broken_and_no_text_is_lost() {
        let hash = "0x".to_owned() + &"a".repeat(64);
        let line = format!("tx  {hash} and a tail that is long enough for another line");
        for width in [20, 21, 40, 80] {
            let fitted = fit(&line, Some(width), false);
            assert!(fitted.lines().any(|line| line.contains(&hash)), "{fitted}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&fitted), words(&line));
        }
    }

    #[test]
    fn levels_and_heads_are_marked_only_with_colours() {
        let text = "LABEL  NETWORK\n!! DANGER: a first payment\n! WARNING: new\nplain\n";
        assert_eq!(fit(text, None, false), text);
        let marked = fit(text, None, true);
        assert!(
            marked.starts_with("\x1b[1mLABEL  NETWORK\x1b[0m\n\x1b[1;31m!! DANGER"),
            "{marked}"
        );
        assert!(marked.ends_with("\nplain\n"), "{marked}");
    }
}
