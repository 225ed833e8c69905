//! The content of a terminal and the output that changes it. An unchanged frame writes nothing.

use std::io::{self, Write};

use crossterm::queue;
use crossterm::terminal::{Clear, ClearType};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

pub(crate) struct Canvas<W: Write> {
    backend: CrosstermBackend<W>,
    shown: Option<Buffer>,
    /// Where the cursor is shown, or `Some(None)` if it is hidden. `None` before the first frame.
    cursor: Option<Option<Position>>,
}

impl<W: Write> Canvas<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { backend: CrosstermBackend::new(out), shown: None, cursor: None }
    }

    /// Shows a frame. `draw` fills an empty buffer and returns the position of the cursor.
    pub(crate) fn show(
        &mut self,
        (width, height): (u16, u16),
        draw: impl FnOnce(&mut Buffer) -> Option<Position>,
    ) -> io::Result<()> {
        let mut next = Buffer::empty(Rect::new(0, 0, width, height));
        let cursor = draw(&mut next);
        let blank;
        let before = match &self.shown {
            Some(shown) if shown.area == next.area => {
                if *shown == next && self.cursor == Some(cursor) {
                    return Ok(());
                }
                shown
            }
            _other_size => {
                queue!(self.backend, Clear(ClearType::All))?;
                blank = Buffer::empty(next.area);
                &blank
            }
        };
        self.backend.draw(before.diff_iter(&next))?;
        match cursor {
            Some(at) => {
                self.backend.set_cursor_position(at)?;
                if !matches!(self.cursor, Some(Some(_))) {
                    self.backend.show_cursor()?;
                }
            }
            None if self.cursor != Some(None) => self.backend.hide_cursor()?,
            None => {}
        }
        Write::flush(&mut self.backend)?;
        self.shown = Some(next);
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Makes the next frame a complete one, as if the content of the screen were unknown. Overwrites the kept
    /// cells, because a frame may have held the words of a seed.
    pub(crate) fn forget(&mut self) {
        if let Some(shown) = &mut self.shown {
            shown.reset();
        }
        self.shown = None;
        self.cursor = None;
    }
}
