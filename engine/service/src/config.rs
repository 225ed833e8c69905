//! The settings. Each source overrides those before it: built-in default, `settings.toml`, environment, argument.
//! A setting that can turn a protection off is in the journal instead, where an edit of the file cannot change it.

mod edit;
mod effective;
mod file;
mod live;
mod load;
mod values;

pub(crate) use edit::Value;
pub use effective::{Config, Environment, Source};
pub(crate) use live::LiveConfig;
