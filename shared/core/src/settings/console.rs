//! The settings of a console.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// How a console announces a request and its last minute.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
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
        self.into()
    }

    /// Parses the value as written in settings.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// The time zone in which a console shows times of day.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ConsoleTime {
    /// The zone of the machine on which the console runs.
    #[default]
    Local,
    Utc,
}

impl ConsoleTime {
    /// Returns the value as written in settings.
    pub fn text(self) -> &'static str {
        self.into()
    }

    /// Parses the value as written in settings.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// The colours of a console.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
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
    /// Returns the value as written in settings.
    pub fn text(self) -> &'static str {
        self.into()
    }

    /// Parses the value as written in settings.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}
