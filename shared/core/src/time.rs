//! Points in time as values. Nothing here reads a clock: the shell asks its `Clock` once and hands the
//! [`Moment`] down, so every rule that knows time can be tested at any instant.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Utc(pub i64);

impl Utc {
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Later by so many milliseconds (earlier, if negative); stops at the ends of the range.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How many milliseconds `self` lies after `earlier`; negative if before.
    pub fn since_ms(self, earlier: Utc) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A calendar date as days since 1970-01-01 in the machine's zone.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct LocalDay(pub i32);

/// Everything that the rules may know of "now".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The wall clock.
    pub utc: Utc,
    /// Milliseconds of a clock that never goes back while the process lives.
    pub mono_ms: u64,
    /// Which boot of the machine this is; empty where the platform does not tell.
    pub boot_id: String,
    /// Milliseconds since that boot, suspension included; zero where the platform does not tell.
    pub boottime_ms: u64,
    /// The date in the machine's zone, read anew each time.
    pub local_day: LocalDay,
    /// The first instant of that date in the machine's zone.
    pub day_start: Utc,
    /// The zone's offset from UTC now, in seconds; shown, never reckoned with.
    pub offset_s: i32,
    /// The newest block time of an enabled chain, where one was seen lately.
    pub chain_hint: Option<Utc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_down_on_both_sides_of_the_epoch() {
        assert_eq!(Utc(1999).seconds(), 1);
        assert_eq!(Utc(-1).seconds(), -1);
        assert_eq!(Utc::from_seconds(i64::MAX).0, i64::MAX);
        assert_eq!(Utc(5).since_ms(Utc(8)), -3);
    }
}
