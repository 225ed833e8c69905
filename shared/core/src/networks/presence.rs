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
