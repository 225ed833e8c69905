//! Findings of a service's self-check, which runs before callers depend on the service.

use std::io::{self, Write};
use std::process::ExitCode;

use bursar_core::fault::MESSAGE_CHARS_MAX;
use bursar_core::text::excerpt;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Good,
    /// A function works only with limits, or not for all callers.
    Warning,
    /// The service cannot do its work.
    Bad,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// The subject: a network, or the service.
    pub subject: String,
    pub text: String,
}

/// The results of all checks, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Appends a finding.
    pub fn add(&mut self, severity: Severity, subject: &str, text: impl Into<String>) {
        self.0.push(Finding { severity, subject: subject.to_owned(), text: text.into() });
    }

    /// Returns whether any finding is [`Severity::Bad`].
    pub fn has_bad(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Bad)
    }

    /// Prints the findings, and returns the exit code: a failure if any is [`Severity::Bad`].
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self) -> io::Result<ExitCode> {
        self.write_to(&mut io::stdout())?;
        Ok(if self.has_bad() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Writes one line per finding, for an operator.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        for Finding { severity, subject, text } in &self.0 {
            let word = match severity {
                Severity::Good => "ok  ",
                Severity::Warning => "mind",
                Severity::Bad => "BAD ",
            };
            writeln!(out, "{word}  {subject}: {}", excerpt(text, MESSAGE_CHARS_MAX))?;
        }
        Ok(())
    }
}

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_that_begins_with_its_severity() {
        let mut found = Findings::default();
        found.add(Severity::Good, "Base", "node answers");
        found.add(Severity::Warning, "Base", "no Permit2");
        assert!(!found.has_bad());
        found.add(Severity::Bad, "Base", "no gas");
        assert!(found.has_bad());
        let mut out = Vec::new();
        found.write_to(&mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(
            written,
            "ok    Base: node answers\nmind  Base: no Permit2\nBAD   Base: no gas\n"
        );
    }

    #[test]
    fn a_long_path_in_a_finding_is_cut_and_stays_on_its_line() {
        let mut found = Findings::default();
        found.add(Severity::Bad, "key", "off\n".repeat(20_000));
        let mut out = Vec::new();
        found.write_to(&mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written.lines().count(), 1);
        assert!(written.len() < 10_000 && written.ends_with("…\n"), "{} bytes", written.len());
    }
}
