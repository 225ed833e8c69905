//! API keys. Only their digests are stored: the digest of a caller's key is compared with them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use alloy_primitives::{Address, hex};
use bursar_core::address;
use toml::Value;

use crate::settings::{ConfigFault, RawSetting, comma_separated, read_text};

/// An API key: its name, which may appear in logs, and its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// Addresses that belong to the holder of the key; may be empty.
    pub receivers: BTreeSet<Address>,
}

impl ApiKey {
    /// Checks a name and a digest. Errors never repeat the input, because it may be the key itself.
    fn new(name: &str, sha256: &str) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
            let wanted = "a key's name has 1 to 64 letters, digits, dots, hyphens or underscores";
            return Err(wanted.to_owned());
        }
        let mut digest = [0; 32];
        // sha256sum prints the digest without `0x`.
        if sha256.starts_with("0x") || hex::decode_to_slice(sha256, &mut digest).is_err() {
            let wanted = "the sha256 of a key must be the 64 hex digits that `printf %s \"$KEY\" | \
                 sha256sum` prints";
            return Err(wanted.to_owned());
        }
        Ok(Self { name: name.to_owned(), sha256: digest, receivers: BTreeSet::new() })
    }

    /// Parses `name:sha256`, or `name:sha256:receivers` with a plus sign between addresses.
    fn parse(text: &str) -> Result<Self, String> {
        let wanted = "each key must be written as name:sha256 or name:sha256:receiver+receiver";
        let (name, rest) = text.split_once(':').ok_or(wanted)?;
        let (sha256, receivers) = match rest.split_once(':') {
            Some((sha256, receivers)) => (sha256, addresses(receivers.split('+'))?),
            None => (rest, BTreeSet::new()),
        };
        Ok(Self { receivers, ..Self::new(name.trim(), sha256.trim())? })
    }

    fn from_table(value: &Value) -> Result<Self, String> {
        let wanted = "each key must be written as { name = \"…\", sha256 = \"…\" }, with receivers = \
                      [\"0x…\"] if it has any";
        let table = value.as_table().ok_or(wanted)?;
        let text = |key: &str| table.get(key).and_then(Value::as_str).ok_or(wanted);
        let known = ["name", "sha256", "receivers"];
        if table.keys().any(|key| !known.contains(&key.as_str())) {
            return Err(wanted.to_owned());
        }
        let receivers = match table.get("receivers") {
            None => BTreeSet::new(),
            Some(list) => {
                let list = list.as_array().ok_or(wanted)?;
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                addresses(texts.ok_or(wanted)?)?
            }
        };
        Ok(Self { receivers, ..Self::new(text("name")?, text("sha256")?)? })
    }
}

/// Parses addresses. Errors never repeat the input.
fn addresses<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<Address>, String> {
    let each = texts.into_iter().map(|text| address::parse(text.trim()));
    let all: Result<BTreeSet<Address>, _> = each.collect();
    all.map_err(|error| format!("each receiver of a key must be an address: {error}"))
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Parses the keys of one source.
///
/// # Errors
/// The accepted form, for [`Key::set`](crate::settings::Key).
pub fn api_keys(given: RawSetting<'_>) -> Result<Vec<ApiKey>, String> {
    let mut keys = Vec::new();
    match given {
        RawSetting::Text(_) => {
            given.list()?.into_iter().try_for_each(|one| add(&mut keys, ApiKey::parse(one)?))?;
        }
        RawSetting::Value(Value::Array(values)) => {
            values.iter().try_for_each(|one| add(&mut keys, ApiKey::from_table(one)?))?;
        }
        RawSetting::Value(_other) => {
            return Err("it must be a list of { name = \"…\", sha256 = \"…\" }".to_owned());
        }
    }
    Ok(keys)
}

/// Adds the keys of a file.
///
/// Each line is `name:sha256` or `name:sha256:receivers`, or a comment that begins with `#`.
///
/// # Errors
/// The file cannot be read, a line is not a valid key or repeats a key, or the file has no keys.
pub fn add_key_file(keys: &mut Vec<ApiKey>, file: &Path) -> Result<(), ConfigFault> {
    let text = read_text(file)?;
    add_key_lines(keys, &text).map_err(|why| ConfigFault::ApiKeys { file: file.to_owned(), why })
}

fn add_key_lines(keys: &mut Vec<ApiKey>, text: &str) -> Result<(), String> {
    let before = keys.len();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with('#') {
            continue;
        }
        for one in comma_separated(line) {
            ApiKey::parse(one)
                .and_then(|key| add(keys, key))
                .map_err(|why| format!("in line {number}, {why}"))?;
        }
    }
    // An operator who names a key file expects keys: without any, every caller would be admitted.
    if keys.len() == before {
        return Err("the list is empty: add a line name:sha256, or remove the setting".to_owned());
    }
    Ok(())
}

/// Adds a key. Rejects a repeated name or digest, because logs and limits would mix up callers.
fn add(keys: &mut Vec<ApiKey>, key: ApiKey) -> Result<(), String> {
    let twin = keys.iter().find(|known| known.name == key.name || known.sha256 == key.sha256);
    if let Some(twin) = twin {
        return Err(format!(
            "{} and {} have the same name or key: remove one",
            twin.name, key.name
        ));
    }
    keys.push(key);
    Ok(())
}
