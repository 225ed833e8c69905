//! Deadlines on the wall clock and the boot clock. Only this module knows the 15-minute limit of a hold.

use bursar_core::limits::HOLD_MS;
use bursar_core::time::{Moment, Utc};
use serde::{Deserialize, Serialize};

/// The end of a hold, or of the period in which its result is returned.
///
/// Kept on both clocks: setting the wall clock back does not extend it within a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub utc: Utc,
    pub boot_id: String,
    pub boot_ms: u64,
}

impl Deadline {
    /// Returns the end of a hold, or of a result's period: 15 minutes after `moment`.
    pub fn after(moment: &Moment) -> Self {
        Self::in_ms(moment, HOLD_MS)
    }

    /// Returns the moment `ms` milliseconds after `moment`.
    pub fn in_ms(moment: &Moment, ms: i64) -> Self {
        Self {
            utc: moment.utc.plus_ms(ms),
            boot_id: moment.boot_id.clone(),
            boot_ms: moment.boottime_ms.saturating_add(u64::try_from(ms).unwrap_or(0)),
        }
    }

    /// Returns the moment `ms` milliseconds later.
    pub(crate) fn plus_ms(&self, ms: i64) -> Self {
        Self {
            utc: self.utc.plus_ms(ms),
            boot_id: self.boot_id.clone(),
            boot_ms: self.boot_ms.saturating_add_signed(ms),
        }
    }

    /// Returns the milliseconds left. At exactly zero the hold has ended.
    pub fn left_ms(&self, moment: &Moment) -> u64 {
        let wall = self.utc.since_ms(moment.utc);
        let boot = self.boot_ms.saturating_sub(moment.boottime_ms);
        let wall = u64::try_from(wall).unwrap_or(0);
        if self.is_of_boot(moment) { wall.min(boot) } else { wall }
    }

    fn is_of_boot(&self, moment: &Moment) -> bool {
        !self.boot_id.is_empty() && self.boot_id == moment.boot_id
    }

    /// Returns whether it has passed by the boot clock, which no process can set.
    pub(crate) fn has_passed_in_boot(&self, moment: &Moment) -> bool {
        self.is_of_boot(moment) && moment.boottime_ms >= self.boot_ms
    }

    /// Returns whether the deadline has passed.
    pub fn has_passed(&self, moment: &Moment) -> bool {
        self.left_ms(moment) == 0
    }
}
