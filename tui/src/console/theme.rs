//! What things look like. The terminal's own sixteen colours on its own background, so that it reads on
//! light and dark; whatever a colour says, a word or a sign says too.

use ratatui::style::{Color, Modifier, Style};

/// Which colours may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Palette {
    #[default]
    Ansi,
    /// Bold, underlined and reversed only.
    Mono,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Theme {
    pub palette: Palette,
    /// Nothing but ASCII is drawn.
    pub ascii: bool,
}

/// What a piece of the screen means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// Names of columns, borders of panes without the focus.
    Quiet,
    /// Titles and keys.
    Strong,
    /// The border of the pane that has the keys.
    Focus,
    Selected,
    Good,
    /// Needs attention before long.
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

    /// A bar of ten cells.
    pub(crate) fn bar(self, tenths: u64) -> String {
        let (full, empty) = if self.ascii { ('#', '.') } else { ('━', '·') };
        (0..10).map(|cell| if cell < tenths { full } else { empty }).collect()
    }

    /// What stands for text that had to be cut.
    pub(crate) fn ellipsis(self) -> &'static str {
        if self.ascii { "~" } else { "…" }
    }
}
