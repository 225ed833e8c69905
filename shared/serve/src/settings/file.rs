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
            return Err(wrong(format!("there is no such key, only {}", known.join(", "))));
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
