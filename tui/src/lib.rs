//! The operator's side of an engine: the framed link, one-shot commands, and the console.
//!
//! This crate uses the frames of the link, but no types of the engine. It decides nothing about money. The calling
//! program chooses the sources of secrets and starts the engine.
//!
//! # Examples
//!
//! ```
//! use bursar_control::wire::ToEngine;
//! use bursar_tui::console::{OffscreenConsole, Setup};
//!
//! # fn main() -> std::io::Result<()> {
//! // A console without a terminal: the caller passes frames to it and receives its output.
//! let mut output = Vec::<u8>::new();
//! let mut console = OffscreenConsole::new(Setup::default(), (80, 24), &mut output);
//! let frames = console.connect();
//! assert!(frames.iter().any(|frame| matches!(frame, ToEngine::Run { .. })));
//! console.show()?;
//! drop(console);
//! assert!(!output.is_empty());
//! # Ok(())
//! # }
//! ```

pub mod completion;
pub mod console;
mod export;
pub mod link;
pub mod oneshot;
pub mod plain;
pub mod secret_source;
#[cfg(test)]
mod test_engine;
mod wording;

/// The version that this side sends in the handshake and prints for `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
