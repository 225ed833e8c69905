//! Colours and characters. A word or a sign always repeats the meaning of a colour.
//!
//! Each palette reaches a contrast of 4.5:1 on black or on white (WCAG 2.2, success criterion 1.4.3). Its colours are
//! those of the 256-colour table from 16 on, which themes of terminals do not change.

use bursar_core::settings::ConsolePalette;
use ratatui::style::{Color, Modifier, Style};

/// The colours that may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Palette {
    /// For an unknown background: each colour is readable on black and on white.
    #[default]
    Either,
    Dark,
    Light,
    /// No colours: text is bold, underlined or reversed instead.
    Mono,
}

/// When a console uses colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorUse {
    /// Whatever the setting `console.palette` is.
    Always,
    /// If the setting names a palette, or if it is `auto` and the environment does not contain NO_COLOR.
    Auto {
        /// Whether the environment contains NO_COLOR.
        no_color: bool,
    },
    Never,
}

impl Default for ColorUse {
    fn default() -> Self {
        ColorUse::Auto { no_color: false }
    }
}

/// The background of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Background {
    Dark,
    Light,
}

/// The look of a console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) palette: Palette,
    /// Draw with ASCII characters only.
    pub(crate) ascii: bool,
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
    /// The selected row of the pane with the focus.
    Selected,
    Good,
    /// Needs attention soon.
    Warn,
    /// Needs attention now, or was refused.
    Alarm,
}

impl Palette {
    /// Returns the palette for a use of colours, a setting and a background; `None` is an unknown background.
    pub(crate) fn choose(
        colors: ColorUse,
        setting: ConsolePalette,
        background: Option<Background>,
    ) -> Self {
        let detected = match background {
            None => Palette::Either,
            Some(Background::Dark) => Palette::Dark,
            Some(Background::Light) => Palette::Light,
        };
        match (colors, setting) {
            (ColorUse::Never, _any) => Palette::Mono,
            (ColorUse::Auto { no_color: true }, ConsolePalette::Auto) => Palette::Mono,
            (ColorUse::Auto { .. }, ConsolePalette::Mono) => Palette::Mono,
            (_uses, ConsolePalette::Dark) => Palette::Dark,
            (_uses, ConsolePalette::Light) => Palette::Light,
            (_uses, ConsolePalette::Auto | ConsolePalette::Mono) => detected,
        }
    }

    /// Returns the colours for [`Role::Quiet`], [`Role::Focus`], [`Role::Good`], [`Role::Warn`] and [`Role::Alarm`].
    fn colors(self) -> Option<[u8; 5]> {
        match self {
            Palette::Either => Some([243, 63, 29, 131, 163]),
            Palette::Dark => Some([249, 44, 77, 220, 210]),
            Palette::Light => Some([241, 25, 22, 94, 160]),
            Palette::Mono => None,
        }
    }
}

impl Theme {
    pub(crate) fn style(self, role: Role) -> Style {
        let colors = self.palette.colors();
        let colored = |index: usize, mono: Modifier| match colors {
            Some(colors) => Style::new()
                .fg(colors.get(index).map_or(Color::Reset, |color| Color::Indexed(*color))),
            None => Style::new().add_modifier(mono),
        };
        match role {
            Role::Plain => Style::new(),
            Role::Quiet => colored(0, Modifier::empty()),
            Role::Strong => Style::new().add_modifier(Modifier::BOLD),
            Role::Focus => colored(1, Modifier::BOLD).add_modifier(Modifier::BOLD),
            // The row has no other colours, because they would become backgrounds.
            Role::Selected => Style::reset().add_modifier(Modifier::REVERSED),
            Role::Good => colored(2, Modifier::empty()),
            Role::Warn => colored(3, Modifier::UNDERLINED),
            Role::Alarm => colored(4, Modifier::BOLD).add_modifier(Modifier::BOLD),
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

#[cfg(test)]
#[expect(clippy::float_arithmetic, reason = "a contrast is not an amount of money")]
pub(super) mod tests {
    use super::*;

    const ROLES: [Role; 8] = [
        Role::Plain,
        Role::Quiet,
        Role::Strong,
        Role::Focus,
        Role::Selected,
        Role::Good,
        Role::Warn,
        Role::Alarm,
    ];
    /// The contrast of normal text (WCAG 2.2, success criterion 1.4.3).
    const CONTRAST_MIN: f64 = 4.5;

    pub(crate) type Rgb = [u8; 3];

    const BLACK: Rgb = [0, 0, 0];
    const WHITE: Rgb = [255, 255, 255];

    /// Returns a colour of xterm's table from 16 on.
    pub(crate) fn rgb(color: Color, reset: Rgb) -> Rgb {
        const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        match color {
            Color::Reset => reset,
            Color::Indexed(index @ 16..=231) => {
                let step = |divisor: u8| STEPS[usize::from((index - 16) / divisor % 6)];
                [step(36), step(6), step(1)]
            }
            Color::Indexed(index @ 232..) => [8 + 10 * (index - 232); 3],
            other => panic!("a theme of the terminal can change {other}"),
        }
    }

    fn luminance(color: Rgb) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = color.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Prints the table of contrasts, and checks text of each role, alone and in a selected row.
    #[test]
    fn text_of_every_role_is_readable_on_its_background() {
        let backgrounds: [(Palette, &[Rgb]); 4] = [
            (Palette::Dark, &[BLACK]),
            (Palette::Light, &[WHITE]),
            (Palette::Either, &[BLACK, WHITE]),
            (Palette::Mono, &[BLACK, WHITE]),
        ];
        for (palette, backgrounds) in backgrounds {
            let theme = Theme { palette, ascii: false };
            for background in backgrounds {
                let text = if *background == BLACK { WHITE } else { BLACK };
                for role in ROLES {
                    for over in [None, Some(Role::Selected)] {
                        let alone = theme.style(role);
                        let style = over.map_or(alone, |over| alone.patch(theme.style(over)));
                        let fg = rgb(style.fg.unwrap_or(Color::Reset), text);
                        let bg = rgb(style.bg.unwrap_or(Color::Reset), *background);
                        assert!(
                            !style.add_modifier.contains(Modifier::DIM),
                            "its contrast is unknown"
                        );
                        let ratio = contrast(fg, bg);
                        println!(
                            "{palette:?} on {background:?}: {role:?} under {over:?}: {ratio:.1}"
                        );
                        assert!(
                            ratio >= CONTRAST_MIN,
                            "{palette:?} {background:?} {role:?}: {ratio:.2}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn options_decide_before_the_setting_and_the_setting_before_the_environment() {
        let [auto, dark, mono] = [ConsolePalette::Auto, ConsolePalette::Dark, ConsolePalette::Mono];
        let light = Some(Background::Light);
        let cases = [
            (ColorUse::Never, dark, light, Palette::Mono),
            (ColorUse::Always, mono, light, Palette::Light),
            (ColorUse::Always, auto, None, Palette::Either),
            (ColorUse::Auto { no_color: true }, auto, light, Palette::Mono),
            (ColorUse::Auto { no_color: true }, dark, light, Palette::Dark),
            (ColorUse::Auto { no_color: false }, auto, light, Palette::Light),
            (ColorUse::Auto { no_color: false }, auto, Some(Background::Dark), Palette::Dark),
            (ColorUse::Auto { no_color: false }, mono, light, Palette::Mono),
            (ColorUse::Auto { no_color: false }, ConsolePalette::Light, None, Palette::Light),
        ];
        for (colors, setting, background, palette) in cases {
            assert_eq!(Palette::choose(colors, setting, background), palette);
        }
    }
}
