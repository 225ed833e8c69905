//! A console without a terminal or a loop. The caller passes frames and keys to it and receives its output. It serves
//! measurements, and tests with a real engine but no terminal.

use std::io::{self, Write};

use bursar_control::wire::ToEngine;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::canvas::Canvas;
use super::model::{Intent, Model, Purpose, Setup};
use super::update::{Message, update};
use super::view;
use crate::link::Received;

/// A console that its caller drives and whose output goes to a writer.
pub struct OffscreenConsole<W: Write> {
    model: Model,
    canvas: Canvas<W>,
    now_ms: u64,
}

impl<W: Write> std::fmt::Debug for OffscreenConsole<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OffscreenConsole")
    }
}

impl<W: Write> OffscreenConsole<W> {
    /// Creates a console of `size` columns and rows.
    ///
    /// The output for a terminal goes to `out`.
    pub fn new(setup: Setup, size: (u16, u16), out: W) -> Self {
        Self { model: Model::new(setup, size), canvas: Canvas::new(out), now_ms: 0 }
    }

    /// Reports that the link is up, and returns the frames to send.
    pub fn connect(&mut self) -> Vec<ToEngine> {
        self.handle(Message::Connected)
    }

    /// Handles a frame from the engine, and returns the frames to send.
    pub fn receive(&mut self, frame: Received) -> Vec<ToEngine> {
        self.handle(Message::Frame(frame))
    }

    /// Presses the key of a plain character, and returns the frames to send.
    pub fn press(&mut self, key: char) -> Vec<ToEngine> {
        self.handle(Message::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)))
    }

    /// Advances the console's own clock by `ms` milliseconds, and returns the frames to send.
    pub fn advance(&mut self, ms: u64) -> Vec<ToEngine> {
        self.now_ms = self.now_ms.saturating_add(ms);
        self.handle(Message::Tick)
    }

    /// Writes the changes since the last call.
    ///
    /// # Errors
    /// Returns the errors of the writer.
    pub fn show(&mut self) -> io::Result<()> {
        let model = &self.model;
        self.canvas.show(model.size, |buffer| view::draw(model, buffer)).map(|_cleared| ())
    }

    /// Makes the next call of [`Self::show`] write the whole frame.
    pub fn forget(&mut self) {
        self.canvas.invalidate();
    }

    /// Returns whether all queued and sent commands except the watch have been answered.
    pub fn is_settled(&self) -> bool {
        self.model.purposes.values().all(|purpose| *purpose == Purpose::Watch)
    }

    fn handle(&mut self, message: Message) -> Vec<ToEngine> {
        let intents = update(&mut self.model, message, self.now_ms).into_iter();
        let sent = intents.filter_map(|intent| match intent {
            Intent::Send(frame) => Some(frame),
            _of_a_terminal => None,
        });
        sent.collect()
    }
}
