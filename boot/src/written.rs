//! Files that Bursar wrote. Each begins with a digest of its text, so that an edit by hand is detected and kept.

use sha2::{Digest, Sha256};
use similar::TextDiff;

const MARK: &str = "# Written by bursar install-service, digest ";

/// Returns the content of a file with this text: a line with the digest, then the text.
pub(crate) fn with_digest_line(text: &str) -> String {
    format!("{MARK}{}. Change it in a drop-in: `systemctl edit`.\n{text}", digest(text))
}

/// Whether Bursar wrote a file, and whether it was edited afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authorship {
    /// Bursar wrote the file, and it is unchanged.
    Ours,
    /// Bursar wrote the file, but its text was changed afterwards.
    Edited,
    /// Bursar did not write the file.
    Foreign,
}

/// Returns whether Bursar wrote a file, and whether the file was edited since.
pub(crate) fn authorship(file: &str) -> Authorship {
    let Some(rest) = file.strip_prefix(MARK) else { return Authorship::Foreign };
    match rest.split_once('\n') {
        Some((head, text)) if head.starts_with(&digest(text)) => Authorship::Ours,
        _changed => Authorship::Edited,
    }
}

/// Returns the lines of a unified diff. If there was no file, all lines are additions.
pub(crate) fn diff(name: &str, before: &str, after: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(before, after);
    let text = diff.unified_diff().context_radius(2).header(name, name).to_string();
    text.lines().map(str::to_owned).collect()
}

fn digest(text: &str) -> String {
    let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
    hash.truncate(16);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_by_hand_is_noticed() {
        let file = with_digest_line("[Unit]\n");
        assert_eq!(authorship(&file), Authorship::Ours);
        assert_eq!(authorship(&format!("{file}# mine\n")), Authorship::Edited);
        assert_eq!(authorship("[Unit]\n"), Authorship::Foreign);
        assert_eq!(authorship(""), Authorship::Foreign);
    }
}
