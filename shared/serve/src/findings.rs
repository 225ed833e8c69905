//! Findings of a service's self-check, which runs before callers depend on the service.

use std::io::{self, Write};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    Good,
    /// Something works with limits, or not for all callers.
    Mind,
    /// The service cannot do its work.
    Bad,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub mark: Mark,
    /// The subject: a network, or the service.
    pub about: String,
    pub text: String,
}

/// The results of all checks, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Appends a finding.
    pub fn add(&mut self, mark: Mark, about: &str, text: impl Into<String>) {
        self.0.push(Finding { mark, about: about.to_owned(), text: text.into() });
    }

    /// Returns whether any finding is [`Mark::Bad`].
    pub fn any_bad(&self) -> bool {
        self.0.iter().any(|finding| finding.mark == Mark::Bad)
    }

    /// Writes one line per finding, for an operator.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        for Finding { mark, about, text } in &self.0 {
            let mark = match mark {
                Mark::Good => "ok  ",
                Mark::Mind => "mind",
                Mark::Bad => "BAD ",
            };
            writeln!(out, "{mark}  {about}: {text}")?;
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
        found.add(Mark::Good, "Base", "node answers");
        found.add(Mark::Mind, "Base", "no Permit2");
        assert!(!found.any_bad());
        found.add(Mark::Bad, "Base", "no gas");
        assert!(found.any_bad());
        let mut out = Vec::new();
        found.write_to(&mut out).unwrap();
        let told = String::from_utf8(out).unwrap();
        assert_eq!(told, "ok    Base: node answers\nmind  Base: no Permit2\nBAD   Base: no gas\n");
    }
}
