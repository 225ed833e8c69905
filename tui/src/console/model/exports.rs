//! The commands that write or read a file, in the window of a sealed program. Their files are in one folder.

use std::path::{Path, PathBuf};

use bursar_control::grammar::{AddressOrder, HistoryOrder, Order, ReceiptOrder, WalletOrder};

use super::card::KEY_GUARD_MS;
use crate::export::{Encoding, export_target};

/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// A file that a command writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewFile {
    pub(crate) path: PathBuf,
    pub(crate) encoding: Encoding,
}

/// The question before a command that writes or reads a file.
#[derive(Debug)]
pub(crate) struct FileQuestion {
    /// The command, with the whole path of its file.
    pub(crate) order: Order,
    /// The file that the command writes; `None` for a command that reads one.
    pub(crate) file: Option<NewFile>,
    pub(crate) lines: Vec<String>,
    pub(crate) question: &'static str,
    pub(crate) armed_at_ms: u64,
}

impl FileQuestion {
    /// Returns the question before a command; `None` if the command uses no file.
    ///
    /// # Errors
    /// A sentence, if the command does not name a file as this window takes it.
    pub(crate) fn of(order: &Order, exports: &Path, now_ms: u64) -> Option<Result<Self, String>> {
        let mut order = order.clone();
        let asked = match &mut order {
            Order::Wallet(WalletOrder::Restore { file }) => place(file, exports)
                .map(|path| (None, restore_lines(&path), "Close the window and restore it?")),
            Order::Address(AddressOrder::Export { label }) => {
                let name: String = label.as_str().chars().map(file_char).collect();
                let path = exports.join(format!("{name}.key"));
                let lines = vec![
                    format!("This writes the private key of {label}, not encrypted, to"),
                    path.display().to_string(),
                    "Anyone who reads that file can take the money of the address.".to_owned(),
                ];
                Ok((Some(NewFile { path, encoding: Encoding::Text }), lines, "Write the key?"))
            }
            other => {
                let (what, advice) = written(other);
                let (file, encoding) = export_target(other)?;
                place(file, exports).map(|path| {
                    let lines =
                        vec![what.to_owned(), path.display().to_string(), advice.to_owned()];
                    (Some(NewFile { path, encoding }), lines, "Write the file?")
                })
            }
        };
        Some(asked.map(|(file, lines, question)| Self {
            order,
            file,
            lines,
            question,
            armed_at_ms: now_ms.saturating_add(KEY_GUARD_MS),
        }))
    }
}

/// Replaces the name of a file by its path in the folder, and returns the path.
fn place(file: &mut String, exports: &Path) -> Result<PathBuf, String> {
    // Answers show whole paths.
    if let Some(name) = Path::new(&*file).strip_prefix(exports).ok().and_then(Path::to_str) {
        *file = name.to_owned();
    }
    let is_name = !file.is_empty()
        && file.len() <= NAME_BYTES_MAX
        && !file.starts_with('.')
        && !file.chars().any(|ch| ch.is_control() || "/\\:".contains(ch));
    if !is_name {
        return Err(format!(
            "Here a file is only a name, such as `main-1`: it is in {}.",
            exports.display()
        ));
    }
    let path = exports.join(&file);
    *file = path.to_string_lossy().into_owned();
    Ok(path)
}

/// Replaces characters that may not be in the name of a file.
fn file_char(ch: char) -> char {
    if ch.is_ascii_alphanumeric() || ch == '-' || ch == '_' { ch } else { '-' }
}

/// Returns what a command writes to a file, and what the operator must know about the file.
fn written(order: &Order) -> (&'static str, &'static str) {
    match order {
        Order::History(HistoryOrder { .. }) => (
            "This writes the history, as CSV, to",
            "It is not encrypted: payees and amounts are readable there.",
        ),
        Order::Receipt(ReceiptOrder { html: Some(_), .. }) => (
            "This writes a receipt, as a page, to",
            "It is not encrypted: payee and amounts are readable there.",
        ),
        Order::Receipt(_) => (
            "This writes the proof of a receipt to",
            "It is not encrypted: payee and amounts are readable there.",
        ),
        _backup => (
            "This writes wallet, journal and settings, encrypted, to",
            "Copy the file to another place: a folder that is lost takes this file with it.",
        ),
    }
}

fn restore_lines(path: &Path) -> Vec<String> {
    vec![
        "This window closes, and the engine stops. The terminal then asks for the password of the backup in".to_owned(),
        path.display().to_string(),
        "The files of a present wallet are moved aside. Then the window opens again.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<Result<FileQuestion, String>> {
        FileQuestion::of(&Order::parse_line(line).unwrap(), Path::new("/stick/exports"), 0)
    }

    #[test]
    fn files_are_names_in_the_folder_for_exports() {
        for (line, path, writes) in [
            ("history export may.csv", "/stick/exports/may.csv", true),
            ("wallet backup 'my backup'", "/stick/exports/my backup", true),
            ("wallet restore main-1", "/stick/exports/main-1", false),
            ("wallet restore /stick/exports/main-1", "/stick/exports/main-1", false),
        ] {
            let question = asked(line).unwrap().unwrap();
            assert!(question.lines.contains(&path.to_owned()), "{line}: {:?}", question.lines);
            assert_eq!(question.file.map(|file| file.path), writes.then(|| path.into()), "{line}");
        }
        let key = asked("address export 'my ../label'").unwrap().unwrap().file.unwrap();
        assert_eq!(key.path, Path::new("/stick/exports/my----label.key"));
        assert!(asked("status").is_none() && asked("history").is_none());
    }

    #[test]
    fn a_path_is_refused_with_a_sentence() {
        for name in [
            "/etc/passwd",
            "../settings.toml",
            "a/b",
            "/stick/exports/../a",
            ".hidden",
            "''",
            "..",
            "'a\\b'",
        ] {
            for command in ["history export", "wallet backup", "wallet restore"] {
                let why = asked(&format!("{command} {name}")).unwrap().unwrap_err();
                assert!(
                    why.contains("only a name") && why.contains("/stick/exports"),
                    "{name}: {why}"
                );
            }
        }
    }
}
