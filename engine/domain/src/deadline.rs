//! Deadlines on the wall clock and the boot clock.

use bursar_core::limits::HOLD_MS;
use bursar_core::time::{Moment, Utc};
use serde::{Deserialize, Serialize};

/// The end of a hold, of a plan, or of the period in which a result is returned.
///
/// The deadline is kept on both clocks. Within a boot, setting the wall clock back does not extend it. After a reboot,
/// setting the wall clock back to before the deadline's start extends it at most to its full length after that reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub utc: Utc,
    pub boot_id: String,
    pub boot_ms: u64,
}

impl Deadline {
    /// Returns the end of a hold, or of the period in which its result is returned: 15 minutes after `moment`.
    pub fn after(moment: &Moment) -> Self {
        Self::in_ms(moment, HOLD_MS)
    }

    /// Returns the deadline `ms` milliseconds after `moment`.
    pub fn in_ms(moment: &Moment, ms: i64) -> Self {
        Self {
            utc: moment.utc.plus_ms(ms),
            boot_id: moment.boot_id.clone(),
            boot_ms: moment.boottime_ms.saturating_add(u64::try_from(ms).unwrap_or(0)),
        }
    }

    /// Returns the deadline `ms` milliseconds after this one.
    pub(crate) fn plus_ms(&self, ms: i64) -> Self {
        Self {
            utc: self.utc.plus_ms(ms),
            boot_id: self.boot_id.clone(),
            boot_ms: self.boot_ms.saturating_add_signed(ms),
        }
    }

    /// Returns the milliseconds left of a 15-minute deadline; zero once it has passed.
    pub fn left_ms(&self, moment: &Moment) -> u64 {
        self.left_within_ms(moment, HOLD_MS)
    }

    /// Returns the milliseconds left of a deadline whose whole period is `length_ms` milliseconds.
    pub(crate) fn left_within_ms(&self, moment: &Moment, length_ms: i64) -> u64 {
        let wall = u64::try_from(self.utc.since_ms(moment.utc)).unwrap_or(0);
        if self.boot_id.is_empty() || moment.boot_id.is_empty() {
            return wall;
        }
        if self.is_of_boot(moment) {
            return wall.min(self.boot_ms.saturating_sub(moment.boottime_ms));
        }
        // The boot id has changed. If more than the whole length is left, the wall clock was set back: then only the
        // length minus the time since the boot is left. Otherwise the boot clock must not count, because a container
        // may get a new boot id without a boot of its host.
        let length = u64::try_from(length_ms).unwrap_or(0);
        if wall > length { length.saturating_sub(moment.boottime_ms) } else { wall }
    }

    /// Like [`left_within_ms`](Self::left_within_ms), but within a boot only the boot clock counts.
    ///
    /// So a wall clock that is set forward does not end the deadline.
    pub(crate) fn left_by_boot_ms(&self, moment: &Moment, length_ms: i64) -> u64 {
        if self.is_of_boot(moment) {
            self.boot_ms.saturating_sub(moment.boottime_ms)
        } else {
            self.left_within_ms(moment, length_ms)
        }
    }

    fn is_of_boot(&self, moment: &Moment) -> bool {
        !self.boot_id.is_empty() && self.boot_id == moment.boot_id
    }

    /// Returns whether the deadline has passed by the boot clock, which no process can set.
    pub(crate) fn has_passed_in_boot(&self, moment: &Moment) -> bool {
        self.is_of_boot(moment) && moment.boottime_ms >= self.boot_ms
    }

    /// Returns whether a 15-minute deadline has passed.
    pub fn has_passed(&self, moment: &Moment) -> bool {
        self.left_ms(moment) == 0
    }
}
