//! Which editions know a network.

/// Whether an edition knows a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Known, and enabled by default.
    On,
    /// Known, and disabled by default.
    Off,
    Absent,
}

impl Presence {
    /// Returns whether the network is enabled by default; `None` if the edition does not know it.
    pub(crate) fn enabled(self) -> Option<bool> {
        match self {
            Self::On => Some(true),
            Self::Off => Some(false),
            Self::Absent => None,
        }
    }
}
