//! The console line by line, for screen readers, for terminals without a full screen, and for slow lines. `session`
//! decides what to print and what to send, and does no I/O. `app` connects it to the link, the input and the output.

mod app;
mod calls;
mod effect;
mod input;
mod news;
mod observer;
mod question;
mod session;
mod setup;
mod typed;
mod words;

#[cfg(test)]
mod tests;

pub use app::{Ended, Streams, run};
pub use setup::Setup;
pub use words::wrapped;
