//! The only code that writes to a frame. It escapes characters that could control a terminal, and keeps text inside its
//! area.

mod column;
mod table;

use bursar_core::text::visible;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::console::pictures;
use crate::console::theme::{Role, Theme};
pub(super) use column::{Column, left, right};

#[derive(Debug)]
pub(super) struct Paint<'a> {
    buffer: &'a mut Buffer,
    pub(super) theme: Theme,
    /// Whether the data is old, because no engine is connected.
    pub(super) is_outdated: bool,
    /// Whether the pane that was begun last has the focus.
    is_focused: bool,
    /// The position at which the next typed character appears.
    pub(super) cursor: Option<Position>,
}

impl<'a> Paint<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, theme: Theme) -> Self {
        Self { buffer, theme, is_outdated: false, is_focused: false, cursor: None }
    }

    /// Writes `text` in row `row` of `area` from `column` on, cut to fit. Returns the number of used cells.
    pub(super) fn text(
        &mut self,
        area: Rect,
        column: u16,
        row: u16,
        text: &str,
        role: Role,
    ) -> u16 {
        let area = area.intersection(self.buffer.area);
        let room = area.width.saturating_sub(column);
        if row >= area.height || room == 0 {
            return 0;
        }
        let shown = self.truncate(text, room);
        let (x, y) = (area.x.saturating_add(column), area.y.saturating_add(row));
        let style = self.theme.style(role);
        let (end, _row) = self.buffer.set_stringn(x, y, &shown, usize::from(room), style);
        end.saturating_sub(x)
    }

    /// Writes pieces one after the other in a row.
    pub(super) fn pieces(&mut self, area: Rect, row: u16, pieces: &[(&str, Role)]) {
        let mut column = 0;
        for (text, role) in pieces {
            let took = self.text(area, column, row, text, *role);
            column = column.saturating_add(took);
        }
    }

    pub(super) fn right_text(&mut self, area: Rect, row: u16, text: &str, role: Role) {
        let width = u16::try_from(self.escape(text).width()).unwrap_or(area.width).min(area.width);
        self.text(area, area.width.saturating_sub(width), row, text, role);
    }

    /// Marks the selected row of a pane on its frame. In the pane with the focus, the row is also bright.
    pub(super) fn highlight(&mut self, area: Rect, row: u16) {
        if row >= area.height {
            return;
        }
        let line = Rect { y: area.y.saturating_add(row), height: 1, ..area };
        if self.is_focused {
            self.buffer.set_style(line, self.theme.style(Role::Selected));
        }
        let role = if self.is_focused { Role::Focus } else { Role::Plain };
        let frame = Rect { x: area.x.saturating_sub(1), width: 1, ..line };
        self.line(frame, 0, ">", role);
    }

    /// Draws a picture that the terminal has at the start of a row, by its id, unless the data is old.
    pub(super) fn picture(&mut self, area: Rect, row: u16, id: u32) {
        let area = area.intersection(self.buffer.area);
        if row >= area.height || area.width < pictures::CELLS || self.is_outdated {
            return;
        }
        if let Some(cell) = self.buffer.cell_mut((area.x, area.y.saturating_add(row))) {
            pictures::mark(cell, id);
        }
    }

    pub(super) fn place_cursor(&mut self, area: Rect, column: u16, row: u16) {
        let x = area.x.saturating_add(column.min(area.width.saturating_sub(1)));
        self.cursor = Some(Position { x, y: area.y.saturating_add(row) });
    }

    /// Draws the frame of a pane, and returns the area inside it. A `>` and a colour mark the focus.
    pub(super) fn pane(&mut self, area: Rect, focused: bool, title: &str, note: &str) -> Rect {
        self.is_focused = focused;
        let title = if focused { format!("> {title}") } else { title.to_owned() };
        match (self.is_outdated, note) {
            (false, note) => self.frame(area, focused, &title, note),
            (true, "") => self.frame(area, focused, &title, "old"),
            (true, note) => self.frame(area, focused, &title, &format!("{note}, old")),
        }
    }

    /// Draws a frame with a title on the left and a note on the right, and returns the area inside it.
    pub(super) fn frame(&mut self, area: Rect, focused: bool, title: &str, note: &str) -> Rect {
        if area.width < 2 || area.height < 2 {
            return Rect { width: 0, height: 0, ..area };
        }
        let role = if focused { Role::Focus } else { Role::Quiet };
        let corners =
            if self.theme.ascii { ["+", "+", "+", "+"] } else { ["┌", "┐", "└", "┘"] };
        let (across, down) = if self.theme.ascii { ("-", "|") } else { ("─", "│") };
        let inner = usize::from(area.width.saturating_sub(2));
        let last = area.height.saturating_sub(1);
        let [top_left, top_right, bottom_left, bottom_right] = corners;
        let rule = across.repeat(inner);
        self.line(area, 0, &format!("{top_left}{rule}{top_right}"), role);
        self.line(area, last, &format!("{bottom_left}{rule}{bottom_right}"), role);
        for row in 1..last {
            self.line(area, row, down, role);
            let edge =
                Rect { x: area.x.saturating_add(area.width.saturating_sub(1)), width: 1, ..area };
            self.line(edge, row, down, role);
        }
        let top = Rect {
            x: area.x.saturating_add(1),
            width: area.width.saturating_sub(2),
            height: 1,
            ..area
        };
        let title_role = if focused { Role::Focus } else { Role::Strong };
        let took = self.text(top, 1, 0, &format!(" {title} "), title_role);
        let rest = Rect {
            x: top.x.saturating_add(took).saturating_add(2),
            width: top.width.saturating_sub(took).saturating_sub(3),
            ..top
        };
        if !note.is_empty() && rest.width > 4 {
            self.right_text(rest, 0, &format!(" {note} "), role);
        }
        Rect {
            x: area.x.saturating_add(1),
            y: area.y.saturating_add(1),
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(2),
        }
    }

    /// Draws a dialog in the middle of `within`, on an empty area, and returns the area inside its border.
    pub(super) fn dialog(
        &mut self,
        within: Rect,
        (width, height): (u16, u16),
        title: &str,
        note: &str,
    ) -> Rect {
        let width = width.min(within.width);
        let height = height.min(within.height);
        let area = Rect {
            x: within.x.saturating_add(within.width.saturating_sub(width) / 2),
            y: within.y.saturating_add(within.height.saturating_sub(height) / 2),
            width,
            height,
        };
        for row in 0..area.height {
            self.line(area, row, &" ".repeat(usize::from(width)), Role::Plain);
        }
        self.clear(area);
        let inside = self.frame(area, true, title, note);
        Rect { x: inside.x.saturating_add(1), width: inside.width.saturating_sub(2), ..inside }
    }

    fn clear(&mut self, area: Rect) {
        for y in area.y..area.y.saturating_add(area.height) {
            for x in area.x..area.x.saturating_add(area.width) {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
    }

    /// Writes the program's own text, which needs no escaping.
    fn line(&mut self, area: Rect, row: u16, text: &str, role: Role) {
        let area = area.intersection(self.buffer.area);
        if row >= area.height {
            return;
        }
        let y = area.y.saturating_add(row);
        let style = self.theme.style(role);
        self.buffer.set_stringn(area.x, y, text, usize::from(area.width), style);
    }

    fn escape(&self, text: &str) -> String {
        let shown = visible(text);
        if !self.theme.ascii {
            return shown;
        }
        shown.chars().map(|ch| if ch.is_ascii() { ch } else { '?' }).collect()
    }

    fn truncate(&self, text: &str, room: u16) -> String {
        let text = self.escape(text);
        let room = usize::from(room);
        if text.width() <= room {
            return text;
        }
        let mut shown = String::new();
        let mut used = 0usize;
        for ch in text.chars() {
            used = used.saturating_add(ch.width().unwrap_or(0));
            if used >= room {
                break;
            }
            shown.push(ch);
        }
        shown.push_str(self.theme.ellipsis());
        shown
    }
}

/// Wraps text at spaces, or inside a word that is too long. Lines after the first are indented.
pub(super) fn wrap(text: &str, room: usize, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let room = room.max(indent.saturating_add(8));
    for word in text.split_inclusive(' ') {
        let fits = line.width().saturating_add(word.trim_end().width()) <= room;
        let too_long = word.trim_end().width() > room.saturating_sub(indent);
        if !fits && (line.trim().is_empty() || too_long) {
            // The loop below breaks the word across lines.
        } else if !fits {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        }
        for ch in word.chars() {
            if line.width().saturating_add(ch.width().unwrap_or(0)) > room && ch != ' ' {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            }
            line.push(ch);
        }
    }
    lines.push(line);
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_and_indented() {
        assert_eq!(wrap("to  0x12 and more", 12, 4), ["to  0x12 and", "    more"]);
        assert_eq!(
            wrap("x".repeat(30).as_str(), 14, 2),
            ["x".repeat(14), format!("  {}", "x".repeat(12)), "  xxxx".into()]
        );
        assert_eq!(wrap("", 10, 2), [""]);
    }
}
