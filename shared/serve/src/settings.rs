//! Settings of a service: built-in default < TOML file < environment. A service writes its keys as one table of
//! [`Key`]s over a type of its own, and the file, the environment and the manual are read and written from it.
//!
//! A service may have further tables, like one for each network. Their keys have a prefix in the file and a
//! suffix in the environment, so that one table of keys serves all tables of a kind.
//!
//! No error repeats what was given: many values are secrets, and more become one by a slip of the hand.

mod environment;
mod fault;
mod file;
mod given;
mod key;

pub use environment::{Environment, filled_in, set_from_environment};
pub use fault::{ConfigFault, Wrong};
pub use file::{read_file, secret_text_of, set_from_table, text_of};
pub use given::{Given, parts};
pub use key::{HEAD, Key, put, rows};

#[cfg(test)]
mod tests;
