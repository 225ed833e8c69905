//! The one table of keys: what each is called, what it is until somebody sets it, what it means, and how
//! it is set. The file, the environment and the manual all come from it.

mod network;
mod service;

use std::fmt::Write;

use bursar_core::networks::ChainId;

use super::given::Given;
use super::{Config, NetworkConfig};

pub(super) use network::NETWORK;
pub(super) use service::SERVICE;

/// One row.
pub(super) struct Key<T: 'static> {
    /// In the file; a network's within its table.
    pub(super) name: &'static str,
    /// In the environment; a network's with its chain id behind it.
    pub(super) variable: &'static str,
    /// In words, as it would be written.
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
    pub(super) set: fn(&mut T, Given<'_>) -> Result<(), String>,
}

impl Key<NetworkConfig> {
    /// `RPC_URL_8453`.
    pub(super) fn variable_of(&self, chain: ChainId) -> String {
        format!("{}_{chain}", self.variable)
    }
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *place = value)
}

/// The manual: every key with its variable, its default and its meaning.
pub fn reference() -> String {
    let mut page = String::from("| Key | Variable | Default | Meaning |\n|---|---|---|---|\n");
    for key in SERVICE {
        row(&mut page, key, key.name, key.variable);
    }
    for key in NETWORK {
        let (name, variable) =
            (format!("networks.<id>.{}", key.name), format!("{}_<id>", key.variable));
        row(&mut page, key, &name, &variable);
    }
    page
}

fn row<T>(page: &mut String, key: &Key<T>, name: &str, variable: &str) {
    let (default, meaning) = (key.default, key.meaning);
    // Writing to a string cannot fail.
    let _written = writeln!(page, "| `{name}` | `{variable}` | {default} | {meaning} |");
}
