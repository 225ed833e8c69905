//! Settings: built-in default < TOML file < environment. Every key is a row of a table (module `table`), which the
//! file's parser, the environment and the manual use; see [`settings`](bursar_serve::settings).
//!
//! Files that contain secrets are named here and read by [`keys`](crate::keys). Nodes are [`Endpoint`]s, because their
//! URLs are secrets themselves. No error quotes the value of a key that may be secret.

mod endpoint;
mod file;
mod load;
mod network;
mod settings;
mod table;

pub use endpoint::Endpoint;
pub use network::{DEFAULT_FACTORIES, NetworkConfig, SERVABLE_NETWORKS};
pub use settings::Config;
pub use table::reference;

#[cfg(test)]
mod tests;
