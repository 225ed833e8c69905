//! A test double: a [`Clock`] that moves only when a test moves it. Production code never creates one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bursar_core::time::{LocalDay, Moment, Utc};
use jiff::tz::TimeZone;

use crate::clock::ClockError;
use crate::ports::{BoxFuture, Clock};
use crate::zone::{day_of, midnight};

/// A clock under manual control.
///
/// Share it by reference or `Arc`; its methods take `&self`.
///
/// Sleepers wake in the order of their wake times. Sleepers with equal wake times wake in the order of their first
/// polls. So a simulation runs the same way each time.
#[derive(Debug)]
pub struct ManualClock {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    readings: Readings,
    /// Number of sleeps so far.
    sleeps: u64,
    /// The sleepers, by the monotonic time in milliseconds at which each wakes, and by the number of its sleep.
    sleepers: BTreeMap<(u64, u64), Waker>,
}

/// The values that the clock shows now.
#[derive(Debug, Clone)]
struct Readings {
    utc: Utc,
    mono_ms: u64,
    boottime_ms: u64,
    boot_id: String,
    /// Whether the platform reports the time since boot and the id of the boot.
    has_boot_clock: bool,
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
            has_boot_clock: true,
            zone: TimeZone::UTC,
        };
        Self { inner: Mutex::new(Inner { readings, sleeps: 0, sleepers: BTreeMap::new() }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Readings)) {
        let mut inner = self.inner();
        change(&mut inner.readings);
        let first_later = inner.readings.mono_ms.saturating_add(1);
        let later = inner.sleepers.split_off(&(first_later, 0));
        let due = std::mem::replace(&mut inner.sleepers, later);
        drop(inner);
        due.into_values().for_each(Waker::wake);
    }

    /// Simulates a platform that reports neither the time since boot nor the id of the boot.
    #[must_use]
    pub fn without_boot_clock(self) -> Self {
        self.change(|readings| readings.has_boot_clock = false);
        self
    }

    /// Advances wall, monotonic and boot time together.
    pub fn advance(&self, ms: u64) {
        self.change(|readings| {
            readings.utc = readings.utc.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            readings.mono_ms = readings.mono_ms.saturating_add(ms);
            readings.boottime_ms = readings.boottime_ms.saturating_add(ms);
        });
    }

    /// Simulates a sleeping machine: wall and boot time advance, monotonic time does not.
    pub fn suspend(&self, ms: u64) {
        self.change(|readings| {
            readings.utc = readings.utc.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            readings.boottime_ms = readings.boottime_ms.saturating_add(ms);
        });
    }

    /// Returns whether a task sleeps until exactly this monotonic time, in milliseconds.
    pub fn has_sleeper_at(&self, mono_ms: u64) -> bool {
        self.inner().sleepers.range((mono_ms, 0)..=(mono_ms, u64::MAX)).next().is_some()
    }

    /// Sets the wall clock; nothing else moves.
    pub fn set_utc(&self, utc: Utc) {
        self.change(|readings| readings.utc = utc);
    }

    /// Sets the wall clock back by `ms` milliseconds.
    pub fn jump_back(&self, ms: u64) {
        let back = i64::try_from(ms).unwrap_or(i64::MAX).saturating_neg();
        self.change(|readings| readings.utc = readings.utc.plus_ms(back));
    }

    /// Moves the machine to another zone, given by its IANA name.
    ///
    /// # Errors
    /// The zone is unknown.
    pub fn set_zone(&self, name: &str) -> Result<(), ClockError> {
        let zone = TimeZone::get(name)
            .map_err(|error| ClockError::ZoneUnknown { reason: error.to_string() })?;
        self.change(|readings| readings.zone = zone);
        Ok(())
    }

    /// Simulates a reboot under a new boot id: boot time restarts at zero.
    pub fn set_boot_id(&self, id: &str) {
        self.change(|readings| {
            readings.boot_id = id.to_owned();
            readings.boottime_ms = 0;
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let readings = self.inner().readings.clone();
        let (local_day, day_start, offset_s) = day_of(readings.utc, &readings.zone);
        Moment {
            utc: readings.utc,
            mono_ms: readings.mono_ms,
            boot_id: if readings.has_boot_clock { readings.boot_id } else { String::new() },
            boottime_ms: if readings.has_boot_clock { readings.boottime_ms } else { 0 },
            local_day,
            day_start,
            offset_s,
            chain_hint: None,
        }
    }

    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc {
        midnight(earliest, day, &self.inner().readings.zone)
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(Sleep { clock: self, until_ms: mono_ms, number: None })
    }
}

/// Waits until the clock shows a monotonic time.
struct Sleep<'a> {
    clock: &'a ManualClock,
    until_ms: u64,
    /// The number of this sleep; assigned at the first poll.
    number: Option<u64>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock;
        let mut inner = clock.inner();
        if inner.readings.mono_ms >= self.until_ms {
            return Poll::Ready(());
        }
        let next = inner.sleeps;
        let number = *self.number.get_or_insert(next);
        if number == next {
            inner.sleeps = next.saturating_add(1);
        }
        inner.sleepers.insert((self.until_ms, number), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.clock.inner().sleepers.remove(&(self.until_ms, number));
        }
    }
}
