//! The operator's side of an engine: the framed link, the commands that run once, and the console. Knows frames and
//! no engine type; decides nothing about money. The program around it determines where secrets come from and
//! whether an engine runs.

pub mod console;
pub mod link;
pub mod oneshot;
pub mod secret_source;
#[cfg(test)]
mod test_engine;
mod wording;

/// The version that this side sends in the handshake and prints for `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
