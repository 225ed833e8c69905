//! Settings of a service: the environment overrides the TOML file, which overrides the defaults.
//!
//! A service defines its keys as one table of [`Key`]s over its own type. File, environment and manual all use this
//! table. The file may have several TOML tables of one kind, such as one per network. All of them use the same
//! [`Key`]s: a key gets the TOML table's prefix in the file, and its suffix in the environment.
//!
//! No error repeats a value, because many values are secrets, and a wrong value may be a secret in the wrong place.

mod environment;
mod fault;
mod file;
mod key;
mod raw_setting;

pub use environment::{Environment, non_blank, set_from_environment};
pub use fault::{ConfigFault, InvalidKey};
pub use file::{read_file, read_secret_text, read_text, set_from_table};
pub use key::{Key, TABLE_HEAD, put, table_rows};
pub use raw_setting::{RawSetting, comma_separated};

#[cfg(test)]
mod tests;
