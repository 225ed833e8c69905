//! Points in time as values. This module reads no clock: the caller reads its `Clock` and passes a [`Moment`]. So
//! every rule that depends on time can be tested at any instant.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Utc(pub i64);

impl Utc {
    /// Converts seconds since 1970-01-01T00:00:00Z; saturates at the ends of the range.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Returns whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Adds milliseconds, which may be negative; saturates at the ends of the range.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to `self`; negative if `self` is before it.
    pub fn since_ms(self, earlier: Utc) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A calendar date in the machine's time zone, as days since 1970-01-01.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct LocalDay(pub i32);

/// The current time as the rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The wall clock.
    pub utc: Utc,
    /// Milliseconds of a clock that never goes back during the life of the process.
    pub mono_ms: u64,
    /// The id of the machine's current boot; empty if the platform does not report one.
    pub boot_id: String,
    /// Milliseconds since boot, including suspension; zero if the platform does not report it.
    pub boottime_ms: u64,
    /// The date in the machine's time zone, read again each time because the zone can change.
    pub local_day: LocalDay,
    /// The first instant of that date in the machine's time zone.
    pub day_start: Utc,
    /// The zone's current offset from UTC in seconds, for display only.
    pub offset_s: i32,
    /// The chains' time, extrapolated from the newest block to now; `None` if no block was read recently.
    pub chain_hint: Option<Utc>,
}

impl Moment {
    /// Returns milliseconds on a clock that measures ages.
    ///
    /// It is the boot clock if the platform reports one: like the world outside, that clock continues while the
    /// machine sleeps.
    pub fn age_clock_ms(&self) -> u64 {
        if self.boottime_ms > 0 { self.boottime_ms } else { self.mono_ms }
    }
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
