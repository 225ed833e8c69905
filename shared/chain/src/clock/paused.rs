//! A test double: a [`Clock`] that follows tokio's time, in which a paused test skips waits. Production code never
//! creates one.

use bursar_core::time::{LocalDay, Moment, Utc};
use tokio::time::{Duration, Instant};

use crate::ports::{BoxFuture, Clock};

/// The longest wait: a year, which no test reaches.
const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);

/// A clock that follows tokio's time.
///
/// The wall clock advances with tokio's time. The time zone is UTC, and the date is always day 0.
#[derive(Debug)]
pub struct PausedClock {
    started: Instant,
    utc: Utc,
}

impl PausedClock {
    /// Creates a clock that shows `utc` now, with the monotonic time at zero.
    pub fn new(utc: Utc) -> Self {
        Self { started: Instant::now(), utc }
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Moment {
        let mono_ms = self.mono_ms();
        let utc = self.utc.plus_ms(i64::try_from(mono_ms).unwrap_or(i64::MAX));
        Moment {
            utc,
            mono_ms,
            boot_id: String::new(),
            boottime_ms: 0,
            local_day: LocalDay(0),
            day_start: utc,
            offset_s: 0,
            chain_hint: None,
        }
    }

    fn mono_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn midnight(&self, earliest: Utc, _day: LocalDay) -> Utc {
        earliest
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        let wait = Duration::from_millis(mono_ms).min(WAIT_MAX);
        Box::pin(tokio::time::sleep_until(self.started + wait))
    }
}
