//! What an operator uses to talk to an engine: the framed link and the commands that run once and end.
//! Knows frames and no engine type; decides nothing about money. The program around it says where
//! secrets come from and whether an engine runs.

pub mod console;
pub mod link;
pub mod oneshot;
pub mod secret_source;
#[cfg(test)]
mod test_engine;
mod wording;

/// The version that this side names in the handshake and in `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
