//! The error of opening the system clock.

/// Why the system clock cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// Daily allowances begin at local midnight. Assuming UTC would silently move them to another hour.
    #[error(
        "the time zone of this machine cannot be determined: {reason}. Set the environment variable TZ \
         to a zone, for example TZ=Europe/Berlin (TZ=UTC if you mean UTC), or link /etc/localtime to \
         one, for example with: timedatectl set-timezone Europe/Berlin"
    )]
    ZoneUnknown { reason: String },
}
