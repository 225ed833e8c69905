//! What a service finds when it looks whether everything it needs is there, before anybody depends on it.

use std::io::{self, Write};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    Good,
    /// Something works less well, or not for everybody.
    Mind,
    /// What the service is for fails.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub mark: Mark,
    /// What it is about: a network, or the service.
    pub about: String,
    pub text: String,
}

/// Everything that was looked at, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn add(&mut self, mark: Mark, about: &str, text: impl Into<String>) {
        self.0.push(Finding { mark, about: about.to_owned(), text: text.into() });
    }

    pub fn any_bad(&self) -> bool {
        self.0.iter().any(|finding| finding.mark == Mark::Bad)
    }

    /// A line for each, for an operator.
    ///
    /// # Errors
    /// They cannot be written.
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
    fn each_finding_is_a_line_that_begins_with_how_bad_it_is() {
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
