//! The settings of the Ethereum app, and a person on the way to one of its switches. As on the real device, a refused
//! request or a prompt covers them, and the person begins again.

use std::time::Duration;

/// How long a person needs for one step.
pub const STEP: Duration = Duration::from_secs(2);

/// A switch of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    BlindSigning,
    RawMessages,
}

/// Where a person is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// The app says that it refused a request.
    Notice,
    #[default]
    Home,
    Menu,
    Settings,
    /// The page with the switch.
    Page,
}

impl Place {
    /// Returns the next place on the way to a switch; `None` on its page, where a person turns it on.
    pub(crate) fn next(self) -> Option<Self> {
        match self {
            Place::Notice => Some(Place::Home),
            Place::Home => Some(Place::Menu),
            Place::Menu => Some(Place::Settings),
            Place::Settings => Some(Place::Page),
            Place::Page => None,
        }
    }
}
