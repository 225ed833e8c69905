//! The TOML file. Its keys are looked up in the table of keys; what is not there is refused.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use bursar_core::networks::{ChainId, by_text};
use toml::{Table, Value};

use super::given::Given;
use super::table::{self, Key};
use super::{Config, ConfigFault};

/// Ten thousand payees and keys have room in it; what is longer is another file.
const MAX_BYTES: u64 = 1024 * 1024;

/// Sets what the file says.
pub(super) fn apply(config: &mut Config, file: &Path) -> Result<(), ConfigFault> {
    let parsed = parse(file, &text_of(file)?)?;
    let fault = |(key, why)| ConfigFault::Key { file: file.to_owned(), key, why };
    for (name, value) in &parsed {
        if name != "networks" {
            set(table::SERVICE, config, "", name, value).map_err(fault)?;
        }
    }
    match parsed.get("networks") {
        None => Ok(()),
        Some(Value::Table(networks)) => apply_networks(config, networks).map_err(fault),
        Some(_other) => {
            let why = "write a table for each network, like [networks.base]".to_owned();
            Err(fault(("networks".to_owned(), why)))
        }
    }
}

/// The key that is wrong, and why.
type Wrong = (String, String);

fn apply_networks(config: &mut Config, networks: &Table) -> Result<(), Wrong> {
    let mut met: BTreeMap<ChainId, &str> = BTreeMap::new();
    for (name, value) in networks {
        let wrong = |why: String| (format!("networks.{name}"), why);
        let chain = by_text(name).map(|row| row.chain);
        let known = chain.and_then(|chain| config.networks.get_mut(&chain));
        let Some(network) = known else {
            return Err(wrong(format!("this network is not served, only {} are", served())));
        };
        if let Some(other) = met.insert(network.chain(), name) {
            return Err(wrong(format!(
                "networks.{other} is the same network, so keep one of the two"
            )));
        }
        let Value::Table(keys) = value else {
            return Err(wrong("it must be a table of keys".to_owned()));
        };
        for (key, value) in keys {
            set(table::NETWORK, network, &format!("networks.{name}."), key, value)?;
        }
    }
    Ok(())
}

fn served() -> String {
    let names: Vec<_> = super::SERVED.iter().map(ChainId::to_string).collect();
    names.join(", ")
}

fn set<T>(
    keys: &'static [Key<T>],
    target: &mut T,
    prefix: &str,
    name: &str,
    value: &Value,
) -> Result<(), Wrong> {
    let wrong = |why: String| (format!("{prefix}{name}"), why);
    match keys.iter().find(|key| key.name == name) {
        Some(key) => (key.set)(target, Given::Value(value)).map_err(wrong),
        None => {
            let known: Vec<_> = keys.iter().map(|key| key.name).collect();
            Err(wrong(format!("there is no such key, only {}", known.join(", "))))
        }
    }
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
pub(super) fn text_of(file: &Path) -> Result<String, ConfigFault> {
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
