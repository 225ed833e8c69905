//! Colours and characters. The sixteen colours of the terminal's own palette are readable on light and dark
//! backgrounds. A word or a sign always repeats the meaning of a colour.

use ratatui::style::{Color, Modifier, Style};

/// The colours that may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Palette {
    /// The sixteen colours of the terminal.
    #[default]
    Ansi,
    /// No colours: text is bold, dim, underlined or reversed instead.
    Mono,
}

/// The look of a console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Theme {
    /// The colours that may be used.
    pub palette: Palette,
    /// Draw with ASCII characters only.
    pub ascii: bool,
}

/// The meaning of a text or line on the screen, which determines its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// Secondary and outdated text, names of columns, and borders without the focus.
    Quiet,
    /// Titles, keys and amounts.
    Strong,
    /// The border of the pane with the focus.
    Focus,
    Selected,
    Good,
    /// Needs attention soon.
    Warn,
    /// Needs attention now, or was refused.
    Alarm,
}

impl Theme {
    pub(crate) fn style(self, role: Role) -> Style {
        let colour = |colour: Color, mono: Modifier| match self.palette {
            Palette::Ansi => Style::new().fg(colour),
            Palette::Mono => Style::new().add_modifier(mono),
        };
        match role {
            Role::Plain => Style::new(),
            Role::Quiet => Style::new().add_modifier(Modifier::DIM),
            Role::Strong => Style::new().add_modifier(Modifier::BOLD),
            Role::Focus => colour(Color::Cyan, Modifier::BOLD).add_modifier(Modifier::BOLD),
            Role::Selected => Style::new().add_modifier(Modifier::REVERSED),
            Role::Good => colour(Color::Green, Modifier::empty()),
            Role::Warn => colour(Color::Yellow, Modifier::UNDERLINED),
            Role::Alarm => colour(Color::Red, Modifier::BOLD).add_modifier(Modifier::BOLD),
        }
    }

    /// Returns a bar of ten cells, of which `tenths` are filled.
    pub(crate) fn bar(self, tenths: u64) -> String {
        let (full, empty) = if self.ascii { ('#', '.') } else { ('━', '·') };
        (0..10).map(|cell| if cell < tenths { full } else { empty }).collect()
    }

    /// Returns the mark for text that was cut.
    pub(crate) fn ellipsis(self) -> &'static str {
        if self.ascii { "~" } else { "…" }
    }
}
