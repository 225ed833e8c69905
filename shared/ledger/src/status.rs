//! The status words of a device and of its Ethereum app.

use std::fmt;

/// The status word of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

/// What a status word means for the request that received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    Success,
    /// The person refused on the device.
    Refused,
    /// The device is locked by its PIN.
    Locked,
    /// The device shows its dashboard, or another app is open.
    AppNotOpen,
    /// The app does not know this command.
    AppTooOld,
    /// The app refuses the data: a switch of its settings is off, or it never accepts such data.
    SwitchOff,
    /// The app refuses the path: it signs only below `m/44'/60'` and a few other paths.
    PathRefused,
    /// The app failed, or the command was wrong.
    Failed,
}

impl Status {
    pub const OK: Self = Self(0x9000);
    pub const REFUSED: Self = Self(0x6985);
    pub const CANCELLED: Self = Self(0x6982);
    pub const INVALID_DATA: Self = Self(0x6A80);
    pub const PATH_REFUSED: Self = Self(0x6A15);
    /// The same meaning as [`Status::PATH_REFUSED`], sent by some firmware.
    pub const PATH_REFUSED_OTHER: Self = Self(0x6A12);
    pub const UNKNOWN_INSTRUCTION: Self = Self(0x6D00);
    pub const UNKNOWN_CLASS: Self = Self(0x6E00);
    pub const APP_NOT_OPEN: Self = Self(0x6511);
    pub const LOCKED: Self = Self(0x5515);
    /// The same meaning as [`Status::LOCKED`], sent by older firmware.
    pub const LOCKED_OLD: Self = Self(0x6804);
    pub const TRANSACTION_TYPE: Self = Self(0x6501);

    /// Returns the meaning.
    pub fn meaning(self) -> Meaning {
        match self {
            Self::OK => Meaning::Success,
            Self::REFUSED | Self::CANCELLED => Meaning::Refused,
            Self::LOCKED | Self::LOCKED_OLD => Meaning::Locked,
            Self::UNKNOWN_CLASS | Self::APP_NOT_OPEN => Meaning::AppNotOpen,
            Self::UNKNOWN_INSTRUCTION | Self::TRANSACTION_TYPE => Meaning::AppTooOld,
            Self::INVALID_DATA => Meaning::SwitchOff,
            Self::PATH_REFUSED | Self::PATH_REFUSED_OTHER => Meaning::PathRefused,
            _other => Meaning::Failed,
        }
    }

    /// Returns the name of the word, and a sentence that says what to do.
    pub fn text(self) -> (&'static str, &'static str) {
        match self.0 {
            0x9000 => ("success", "The Ledger did what was requested."),
            0x6985 => ("conditions not satisfied", "The request was refused on the Ledger."),
            0x6982 => ("cancelled", "The request was refused on the Ledger."),
            0x6A80 => (
                "invalid data",
                "The Ledger's Ethereum app refused the data: turn on \"Blind signing\" or \"Raw messages\" in its settings.",
            ),
            0x6A12 | 0x6A15 => (
                "path not allowed",
                "The Ledger's Ethereum app does not sign for this path: use one below m/44'/60'.",
            ),
            0x6A88 => (
                "data not found",
                "The Ledger does not know the data that the request names: update its Ethereum app.",
            ),
            0x6983 => (
                "wrong length",
                "The Ledger's Ethereum app expects a request of another length: update it.",
            ),
            0x6B00 => (
                "wrong parameter",
                "The Ledger's Ethereum app does not know this request: update it.",
            ),
            0x6D00 => (
                "unknown instruction",
                "The Ledger's app does not know this request: open its Ethereum app, or update it.",
            ),
            0x6E00 => ("unknown class", "The Ledger's Ethereum app is not open: open it."),
            0x6511 => ("app not open", "The Ledger's Ethereum app is not open: open it."),
            0x5515 | 0x6804 => ("locked", "The Ledger is locked: enter its PIN."),
            0x6001 => ("wrong mode", "The Ledger is in another mode: open its Ethereum app."),
            0x6501 => (
                "transaction type",
                "The Ledger's Ethereum app does not know this type of transaction: update it.",
            ),
            0x6F00..=0x6FFF => {
                ("internal error", "The Ledger's app failed: close it and open it again.")
            }
            _other => (
                "unknown status",
                "The Ledger returned an unknown status: open its Ethereum app again.",
            ),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, sentence) = self.text();
        write!(f, "{sentence} (0x{:04X}, {name})", self.0)
    }
}

impl std::error::Error for Status {}
