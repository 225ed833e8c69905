//! The settings of a console.

use serde::{Deserialize, Serialize};

/// How a console announces a request and its last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notices {
    /// The terminal's bell, and a notice if the terminal can show one.
    #[default]
    All,
    Bell,
    None,
}

impl Notices {
    /// Returns the value as written in settings.
    pub fn text(self) -> &'static str {
        match self {
            Notices::All => "all",
            Notices::Bell => "bell",
            Notices::None => "none",
        }
    }

    /// Parses the value as written in settings.
    pub fn parse(text: &str) -> Option<Self> {
        [Notices::All, Notices::Bell, Notices::None].into_iter().find(|one| one.text() == text)
    }
}

/// The time zone in which a console shows times of day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsoleTime {
    /// The zone of the machine on which the console runs.
    #[default]
    Local,
    Utc,
}

impl ConsoleTime {
    /// Returns the value as written in settings.
    pub fn text(self) -> &'static str {
        match self {
            ConsoleTime::Local => "local",
            ConsoleTime::Utc => "utc",
        }
    }

    /// Parses the value as written in settings.
    pub fn parse(text: &str) -> Option<Self> {
        [ConsoleTime::Local, ConsoleTime::Utc].into_iter().find(|one| one.text() == text)
    }
}

/// The colours of a console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsolePalette {
    /// Fits the background that the terminal reports.
    #[default]
    Auto,
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
    /// No colours.
    Mono,
}

impl ConsolePalette {
    const ALL: [Self; 4] = [Self::Auto, Self::Dark, Self::Light, Self::Mono];

    /// Returns the value as written in settings.
    pub fn text(self) -> &'static str {
        match self {
            ConsolePalette::Auto => "auto",
            ConsolePalette::Dark => "dark",
            ConsolePalette::Light => "light",
            ConsolePalette::Mono => "mono",
        }
    }

    /// Parses the value as written in settings.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.text() == text)
    }
}
