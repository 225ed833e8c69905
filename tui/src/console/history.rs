//! The file of lines that were entered in this and earlier consoles. On Unix only its owner can read the file. If the
//! file cannot be read or written, the console works without it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Maximum number of lines in the file.
const LINES_MAX: usize = 500;
/// A file longer than this is shortened at the next write.
const FILE_BYTES_TO_SHORTEN: u64 = 256 * 1024;
/// Maximum size of a file that is read: a longer file is not ours.
const FILE_BYTES_MAX: u64 = 4 * FILE_BYTES_TO_SHORTEN;

#[derive(Debug)]
pub(super) struct History(Option<PathBuf>);

impl History {
    pub(super) fn at(file: Option<PathBuf>) -> Self {
        Self(file)
    }

    /// Returns the kept lines, oldest first.
    pub(super) fn read(&self) -> Vec<String> {
        let text = self
            .0
            .as_deref()
            .and_then(|file| bursar_files::read_text(file, FILE_BYTES_MAX).ok())
            .unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(LINES_MAX);
        lines.into_iter().skip(skipped).map(str::to_owned).collect()
    }

    pub(super) fn add(&self, line: &str) {
        if let Some(file) = self.0.as_deref() {
            let _comfort = self.write(file, line);
        }
    }

    fn write(&self, file: &Path, line: &str) -> io::Result<()> {
        if file.metadata().is_ok_and(|now| now.len() > FILE_BYTES_TO_SHORTEN) {
            let kept = self.read().join("\n");
            let mut fresh = open(OpenOptions::new().write(true).truncate(true), file)?;
            writeln!(fresh, "{kept}")?;
        }
        writeln!(open(OpenOptions::new().append(true).create(true), file)?, "{line}")
    }
}

#[cfg(unix)]
fn open(options: &mut OpenOptions, file: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600).open(file)
}

#[cfg(not(unix))]
fn open(options: &mut OpenOptions, file: &Path) -> io::Result<File> {
    options.open(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_keeps_the_order_of_lines_and_the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        let history = History::at(Some(file.clone()));
        assert!(history.read().is_empty());
        for number in 0..900 {
            history.add(&format!("agent show {number} {}", "x".repeat(400)));
        }
        let lines = history.read();
        assert_eq!(lines.len(), LINES_MAX);
        assert!(lines[LINES_MAX - 1].starts_with("agent show 899 "), "the newest is the last");
        assert!(file.metadata().unwrap().len() < FILE_BYTES_TO_SHORTEN + 1_000);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn history_without_a_usable_file_keeps_nothing_and_does_not_fail() {
        for history in [History::at(None), History::at(Some("/nowhere/at/all".into()))] {
            history.add("status");
            assert!(history.read().is_empty());
        }
    }
}
