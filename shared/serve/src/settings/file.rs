//! The TOML file. Its keys are looked up in the table of keys; what is not there is refused.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::Table;

use super::{ConfigFault, Given, Key, Wrong};

/// Ten thousand payees and keys have room in it; what is longer is another file.
const MAX_BYTES: u64 = 1024 * 1024;

/// What the file of settings says, still to be understood.
///
/// # Errors
/// It cannot be read, or is no TOML.
pub fn read_file(file: &Path) -> Result<Table, ConfigFault> {
    parse(file, &text_of(file)?)
}

/// Sets what a table of the file says. `prefix` is where it stands in the file: `networks.base.`, or nothing.
///
/// # Errors
/// The first key that is unknown or cannot be meant.
pub fn set_from_table<T>(
    keys: &[Key<T>],
    target: &mut T,
    prefix: &str,
    table: &Table,
) -> Result<(), Wrong> {
    for (name, value) in table {
        let wrong = |why| Wrong { key: format!("{prefix}{name}"), why };
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let known: Vec<_> = keys.iter().map(|key| key.name).collect();
            return Err(wrong(format!("there is no such key; the keys are {}", known.join(", "))));
        };
        (key.set)(target, Given::Value(value)).map_err(wrong)?;
    }
    Ok(())
}

/// The parser's own error shows the line, and with it perhaps an endpoint: only its message and the
/// line's number are told.
fn parse(file: &Path, text: &str) -> Result<Table, ConfigFault> {
    text.parse::<Table>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        let why = error.message().replace('\n', ", ");
        ConfigFault::NotToml { file: file.to_owned(), line, why }
    })
}

/// The text of a file that holds a secret.
///
/// # Errors
/// [`text_of`]'s, and on a platform without file modes every file: there the service cannot show who else may
/// read it.
pub fn secret_text_of(file: &Path) -> Result<String, ConfigFault> {
    secret_text_on(cfg!(unix), file)
}

fn secret_text_on(shows_modes: bool, file: &Path) -> Result<String, ConfigFault> {
    if shows_modes { text_of(file) } else { Err(ConfigFault::Unguarded { file: file.to_owned() }) }
}

/// The text of a file that a setting names.
///
/// # Errors
/// It cannot be read, or is too long to be meant.
pub fn text_of(file: &Path) -> Result<String, ConfigFault> {
    let unreadable = |source| ConfigFault::Unreadable { file: file.to_owned(), source };
    let mut text = String::new();
    let open = File::open(file).map_err(unreadable)?;
    let read = open.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if u64::try_from(read).is_ok_and(|read| read <= MAX_BYTES) {
        Ok(text)
    } else {
        Err(ConfigFault::TooLong { file: file.to_owned(), max: MAX_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_file_is_refused_where_its_readers_cannot_be_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "sk-1").unwrap();
        assert_eq!(secret_text_on(true, &file).unwrap(), "sk-1");
        assert_eq!(secret_text_of(&file).is_ok(), cfg!(unix));
        let refused = secret_text_on(false, &file).unwrap_err();
        assert!(matches!(refused, ConfigFault::Unguarded { .. }));
        let text = refused.to_string();
        assert!(
            text.contains("key") && text.contains("environment") && !text.contains("sk-1"),
            "{text}"
        );
    }
}
