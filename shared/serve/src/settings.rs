//! Settings of a service: the environment overrides the TOML file, which overrides the defaults.
//!
//! A service defines its keys as one table of [`Key`]s over its own type. File, environment and manual all use this
//! table of keys. The file may have several tables of one kind, such as one per network. Their keys have a prefix
//! in the file and a suffix in the environment, so that all tables of a kind use the same [`Key`]s.
//!
//! No error repeats a value, because many values are secrets, and a wrong one may be a secret by mistake.

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
