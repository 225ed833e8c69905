//! Why the wallet was locked.

use serde::{Deserialize, Serialize};

/// The reason for which the wallet was locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCause {
    Operator,
    /// The engine stopped.
    Stop,
    /// The wallet was not used for as long as the setting `lock.idle` allows.
    Idle,
    /// The machine had slept.
    Sleep,
}

impl LockCause {
    /// Returns the cause in words, for the operator.
    pub fn text(self) -> &'static str {
        match self {
            LockCause::Operator => "by the operator",
            LockCause::Stop => "the engine stopped",
            LockCause::Idle => "automatically: it was not used",
            LockCause::Sleep => "automatically: the machine had slept",
        }
    }
}
