//! Settings from a TOML file. Keys that are not in the table of keys are refused.

use std::io::ErrorKind;
use std::path::Path;

use toml::Table;

use super::fault::{ConfigFault, InvalidKey};
use super::key::Key;
use super::raw_setting::RawSetting;

/// Maximum size of a file: enough for ten thousand payees and keys. A longer file is most likely the wrong file.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a settings file as TOML.
///
/// # Errors
/// The file cannot be read, is too long, or is not valid TOML.
pub fn read_file(file: &Path) -> Result<Table, ConfigFault> {
    parse(file, &read_text(file)?)
}

/// Sets the values of one table.
///
/// `prefix` is the table's path in the file, such as `networks.base.`, or empty.
///
/// # Errors
/// The first key that is unknown or whose value is not valid.
pub fn set_from_table<T>(
    keys: &[Key<T>],
    target: &mut T,
    prefix: &str,
    table: &Table,
) -> Result<(), InvalidKey> {
    for (name, value) in table {
        let wrong = |why| InvalidKey { key: format!("{prefix}{name}"), why };
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let known: Vec<_> = keys.iter().map(|key| key.name).collect();
            return Err(wrong(format!("there is no such key; the keys are {}", known.join(", "))));
        };
        (key.set)(target, RawSetting::Value(value)).map_err(wrong)?;
    }
    Ok(())
}

/// Parses TOML. An error contains only the parser's message and the line number.
///
/// The parser's full error quotes the line, which may contain a URL with an API key.
fn parse(file: &Path, text: &str) -> Result<Table, ConfigFault> {
    text.parse::<Table>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        let why = error.message().replace('\n', ", ");
        ConfigFault::NotToml { file: file.to_owned(), line, why }
    })
}

/// Reads a file that contains a secret.
///
/// # Errors
/// Those of [`read_text`]. On a platform without file modes every file is refused, because the service cannot check
/// which accounts may read it.
pub fn read_secret_text(file: &Path) -> Result<String, ConfigFault> {
    secret_text_on(cfg!(unix), file)
}

fn secret_text_on(shows_modes: bool, file: &Path) -> Result<String, ConfigFault> {
    if shows_modes {
        read_text(file)
    } else {
        Err(ConfigFault::ReadableByOthers { file: file.to_owned() })
    }
}

/// Reads a file that a setting names.
///
/// The file may be a pipe to which a program writes.
///
/// # Errors
/// The file cannot be read, or is longer than 1 MiB.
pub fn read_text(file: &Path) -> Result<String, ConfigFault> {
    bursar_files::read_text_or_pipe(file, SETTINGS_BYTES_MAX).map_err(|source| {
        match source.kind() {
            ErrorKind::FileTooLarge => {
                ConfigFault::TooLong { file: file.to_owned(), max: SETTINGS_BYTES_MAX }
            }
            _other => ConfigFault::Unreadable { file: file.to_owned(), source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_file_is_refused_without_file_modes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "sk-1").unwrap();
        assert_eq!(secret_text_on(true, &file).unwrap(), "sk-1");
        assert_eq!(read_secret_text(&file).is_ok(), cfg!(unix));
        let refused = secret_text_on(false, &file).unwrap_err();
        assert!(matches!(refused, ConfigFault::ReadableByOthers { .. }));
        let text = refused.to_string();
        assert!(
            text.contains("key") && text.contains("environment") && !text.contains("sk-1"),
            "{text}"
        );
    }
}
