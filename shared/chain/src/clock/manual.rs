//! A test double: a [`Clock`] that moves only when a test moves it. Production code never creates one.

use bursar_core::time::{LocalDay, Moment, Utc};
use jiff::tz::TimeZone;
use tokio::sync::watch;

use crate::clock::ClockError;
use crate::ports::{BoxFuture, Clock};
use crate::zone::{day_of, midnight};

/// A clock under manual control. Share it by reference or `Arc`; its methods take `&self`.
#[derive(Debug)]
pub struct ManualClock {
    readings: watch::Sender<Readings>,
}

/// The values that the clock shows now.
#[derive(Debug, Clone)]
struct Readings {
    utc: Utc,
    mono_ms: u64,
    boottime_ms: u64,
    boot_id: String,
    zone: TimeZone,
}

impl ManualClock {
    /// Creates a clock that shows `utc`, with all counters at zero and the zone UTC.
    pub fn new(utc: Utc) -> Self {
        let readings = Readings {
            utc,
            mono_ms: 0,
            boottime_ms: 0,
            boot_id: "boot-1".to_owned(),
            zone: TimeZone::UTC,
        };
        Self { readings: watch::Sender::new(readings) }
    }

    /// Advances wall, monotonic and boot time together.
    pub fn advance(&self, ms: u64) {
        self.readings.send_modify(|readings| {
            readings.utc = readings.utc.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            readings.mono_ms = readings.mono_ms.saturating_add(ms);
            readings.boottime_ms = readings.boottime_ms.saturating_add(ms);
        });
    }

    /// Simulates a sleeping machine: wall and boot time advance, monotonic time does not.
    pub fn suspend(&self, ms: u64) {
        self.readings.send_modify(|readings| {
            readings.utc = readings.utc.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            readings.boottime_ms = readings.boottime_ms.saturating_add(ms);
        });
    }

    /// Sets the wall clock; nothing else moves.
    pub fn set_utc(&self, utc: Utc) {
        self.readings.send_modify(|readings| readings.utc = utc);
    }

    /// Sets the wall clock back by `ms` milliseconds.
    pub fn jump_back(&self, ms: u64) {
        let back = i64::try_from(ms).unwrap_or(i64::MAX).saturating_neg();
        self.readings.send_modify(|readings| readings.utc = readings.utc.plus_ms(back));
    }

    /// Moves the machine to another zone, given by its IANA name.
    ///
    /// # Errors
    /// The zone is unknown.
    pub fn set_zone(&self, name: &str) -> Result<(), ClockError> {
        let zone = TimeZone::get(name)
            .map_err(|error| ClockError::ZoneUnknown { reason: error.to_string() })?;
        self.readings.send_modify(|readings| readings.zone = zone);
        Ok(())
    }

    /// Simulates a reboot under a new boot id: boot time restarts at zero.
    pub fn set_boot_id(&self, id: &str) {
        self.readings.send_modify(|readings| {
            readings.boot_id = id.to_owned();
            readings.boottime_ms = 0;
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let readings = self.readings.borrow().clone();
        let (local_day, day_start, offset_s) = day_of(readings.utc, &readings.zone);
        Moment {
            utc: readings.utc,
            mono_ms: readings.mono_ms,
            boot_id: readings.boot_id,
            boottime_ms: readings.boottime_ms,
            local_day,
            day_start,
            offset_s,
            chain_hint: None,
        }
    }

    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc {
        midnight(earliest, day, &self.readings.borrow().zone)
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        let mut readings = self.readings.subscribe();
        Box::pin(async move {
            // The sender lives in `self`, which this future borrows, so the channel cannot close.
            let _reached = readings.wait_for(|readings| readings.mono_ms >= mono_ms).await;
        })
    }
}
