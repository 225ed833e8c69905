//! The system clock. In the engine and the services, only this module reads the wall clock, the boot id and the time
//! zone. The clock returns a [`Moment`], which the domain rules interpret.

mod error;
pub mod manual;
pub mod paused;
mod zone_source;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bursar_core::time::{LocalDay, Moment, Utc};
use jiff::tz::TimeZone;

pub use crate::clock::error::ClockError;
use crate::clock::zone_source::ZoneSource;
use crate::ports::{BoxFuture, Clock};
use crate::zone::{day_of, midnight};

/// The real [`Clock`], backed by the operating system.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    boot_id: String,
    /// A mutex instead of an owning task: `now` is synchronous, and the lock is held only while the zone is read.
    zone: Mutex<ZoneSource>,
}

impl SystemClock {
    /// Opens the clock.
    ///
    /// All instances in a process share one monotonic zero.
    ///
    /// # Errors
    /// The time zone cannot be determined. UTC is never assumed.
    pub fn new() -> Result<Self, ClockError> {
        let zone = Mutex::new(ZoneSource::open()?);
        Ok(Self { started: process_start(), boot_id: boot_id(), zone })
    }

    fn mono_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn zone(&self) -> TimeZone {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).current()
    }
}

impl Clock for SystemClock {
    fn utc(&self) -> Utc {
        wall_clock()
    }

    fn mono_ms(&self) -> u64 {
        SystemClock::mono_ms(self)
    }

    fn now(&self) -> Moment {
        let utc = wall_clock();
        let (local_day, day_start, offset_s) = day_of(utc, &self.zone());
        Moment {
            utc,
            mono_ms: self.mono_ms(),
            boot_id: self.boot_id.clone(),
            boottime_ms: boottime_ms(),
            local_day,
            day_start,
            offset_s,
            chain_hint: None,
        }
    }

    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc {
        midnight(earliest, day, &self.zone())
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        // Tokio timers reach about two years, so a distant target is reached in steps of one day.
        const STEP_MS_MAX: u64 = 24 * 60 * 60 * 1000;
        Box::pin(async move {
            while let Some(rest @ 1..) = mono_ms.checked_sub(self.mono_ms()) {
                tokio::time::sleep(Duration::from_millis(rest.min(STEP_MS_MAX))).await;
            }
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the only reader of the wall clock")]
fn wall_clock() -> Utc {
    let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => Utc(ms(after)),
        Err(before) => Utc(ms(before.duration()).saturating_neg()),
    }
}

/// Returns the shared zero of all clocks in the process. It makes their monotonic times comparable.
fn process_start() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// Returns the kernel's boot id. Empty if it cannot be read: some service managers hide `/proc/sys`.
#[cfg(target_os = "linux")]
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> String {
    String::new()
}

#[cfg(target_os = "linux")]
fn boottime_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let since = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(since.tv_sec).unwrap_or(0);
    let below = u64::try_from(since.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1000).saturating_add(below)
}

#[cfg(not(target_os = "linux"))]
fn boottime_ms() -> u64 {
    0
}

#[cfg(test)]
mod tests;
