//! The last known content of a terminal, and the output that changes it. An unchanged frame writes nothing.

use std::io::{self, Write};

use crossterm::cursor::MoveTo;
use crossterm::queue;
use crossterm::style::Print;
use crossterm::terminal::{Clear, ClearType};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::pictures;

pub(crate) struct Canvas<W: Write> {
    backend: CrosstermBackend<W>,
    /// The cells of the last frame; `None` if the content of the screen is unknown.
    shown: Option<Buffer>,
    cursor: CursorState,
    /// The pictures on the screen.
    pictures: Vec<(u32, Position)>,
}

/// The cursor of the terminal after the last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorState {
    /// No frame was shown yet, or the screen was invalidated.
    Unknown,
    Hidden,
    At(Position),
}

impl From<Option<Position>> for CursorState {
    fn from(cursor: Option<Position>) -> Self {
        cursor.map_or(CursorState::Hidden, CursorState::At)
    }
}

impl<W: Write> Canvas<W> {
    pub(crate) fn new(out: W) -> Self {
        let backend = CrosstermBackend::new(out);
        Self { backend, shown: None, cursor: CursorState::Unknown, pictures: Vec::new() }
    }

    /// Shows a frame. `draw` fills an empty buffer and returns the position of the cursor.
    ///
    /// Returns whether the screen was cleared before. Some terminals forget all pictures then.
    pub(crate) fn show(
        &mut self,
        (width, height): (u16, u16),
        draw: impl FnOnce(&mut Buffer) -> Option<Position>,
    ) -> io::Result<bool> {
        let mut next = Buffer::empty(Rect::new(0, 0, width, height));
        let cursor = CursorState::from(draw(&mut next));
        let blank;
        let is_cleared = self.shown.as_ref().is_none_or(|shown| shown.area != next.area);
        let before = match &self.shown {
            Some(shown) if shown.area == next.area => {
                if *shown == next && self.cursor == cursor {
                    return Ok(false);
                }
                shown
            }
            _other_size => {
                queue!(self.backend, Clear(ClearType::All))?;
                blank = Buffer::empty(next.area);
                &blank
            }
        };
        let pictures = pictures::marked(&next);
        let are_moved = pictures != self.pictures || is_cleared;
        self.backend.draw(before.diff_iter(&next))?;
        if are_moved {
            self.place(&pictures)?;
            self.pictures = pictures;
        }
        match cursor {
            CursorState::At(position) => {
                self.backend.set_cursor_position(position)?;
                if !matches!(self.cursor, CursorState::At(_)) {
                    self.backend.show_cursor()?;
                }
            }
            CursorState::Hidden if self.cursor != CursorState::Hidden => {
                self.backend.hide_cursor()?;
            }
            CursorState::Hidden | CursorState::Unknown => {}
        }
        Write::flush(&mut self.backend)?;
        self.shown = Some(next);
        self.cursor = cursor;
        Ok(is_cleared)
    }

    /// Moves the pictures to the cells of the next frame.
    fn place(&mut self, pictures: &[(u32, Position)]) -> io::Result<()> {
        for (id, _position) in &self.pictures {
            queue!(self.backend, Print(pictures::removal(*id)))?;
        }
        for (number, (id, position)) in (1..).zip(pictures) {
            let placement = pictures::placement(*id, number);
            queue!(self.backend, MoveTo(position.x, position.y), Print(placement))?;
        }
        Ok(())
    }

    /// Forgets the content of the screen, so that the next frame is drawn completely. It overwrites the kept cells,
    /// because they may contain the words of a seed.
    pub(crate) fn invalidate(&mut self) {
        if let Some(shown) = &mut self.shown {
            shown.reset();
        }
        self.shown = None;
        self.cursor = CursorState::Unknown;
    }
}
