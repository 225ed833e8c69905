//! The full-screen console: a client of an engine, which may run in the same process. `model`, `update` and `view` do
//! no I/O. `app`, `events` and `screen` use the terminal and the link; `history` and `files` use files.

mod app;
mod background;
mod canvas;
pub(crate) mod complete;
mod events;
mod files;
mod history;
mod keymap;
pub(crate) mod model;
mod notice;
mod offscreen;
pub(crate) mod pictures;
mod screen;
pub(crate) mod shell_only;
mod theme;
mod update;
mod view;

#[cfg(test)]
mod tests;

pub use app::{Connector, QueueAtExit, run};
pub use model::Setup;
pub use offscreen::OffscreenConsole;
pub use theme::ColorUse;
