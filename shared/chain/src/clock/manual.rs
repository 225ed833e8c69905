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
    hands: watch::Sender<Hands>,
}

#[derive(Debug, Clone)]
struct Hands {
    utc: Utc,
    mono_ms: u64,
    boottime_ms: u64,
    boot_id: String,
    zone: TimeZone,
}

impl ManualClock {
    /// Creates a clock that stands at `utc`, with all counters at zero and the zone UTC.
    pub fn new(utc: Utc) -> Self {
        let hands = Hands {
            utc,
            mono_ms: 0,
            boottime_ms: 0,
            boot_id: "boot-1".to_owned(),
            zone: TimeZone::UTC,
        };
        Self { hands: watch::Sender::new(hands) }
    }

    /// Advances wall, monotonic and boot time together.
    pub fn advance(&self, ms: u64) {
        self.hands.send_modify(|hands| {
            hands.utc = hands.utc.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            hands.mono_ms = hands.mono_ms.saturating_add(ms);
            hands.boottime_ms = hands.boottime_ms.saturating_add(ms);
        });
    }

    /// Simulates a machine that sleeps: wall and boot time advance, monotonic time does not.
    pub fn suspend(&self, ms: u64) {
        self.hands.send_modify(|hands| {
            hands.utc = hands.utc.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            hands.boottime_ms = hands.boottime_ms.saturating_add(ms);
        });
    }

    /// Sets the wall clock; nothing else moves.
    pub fn set_utc(&self, utc: Utc) {
        self.hands.send_modify(|hands| hands.utc = utc);
    }

    /// Sets the wall clock back by `ms` milliseconds.
    pub fn jump_back(&self, ms: u64) {
        let back = i64::try_from(ms).unwrap_or(i64::MAX).saturating_neg();
        self.hands.send_modify(|hands| hands.utc = hands.utc.plus_ms(back));
    }

    /// Moves the machine to another zone, given by its IANA name.
    ///
    /// # Errors
    /// The zone is unknown.
    pub fn set_zone(&self, name: &str) -> Result<(), ClockError> {
        let zone = TimeZone::get(name)
            .map_err(|error| ClockError::ZoneUnknown { reason: error.to_string() })?;
        self.hands.send_modify(|hands| hands.zone = zone);
        Ok(())
    }

    /// Simulates a reboot under a new boot id: boot time restarts at zero.
    pub fn set_boot_id(&self, id: &str) {
        self.hands.send_modify(|hands| {
            hands.boot_id = id.to_owned();
            hands.boottime_ms = 0;
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let hands = self.hands.borrow().clone();
        let (local_day, day_start, offset_s) = day_of(hands.utc, &hands.zone);
        Moment {
            utc: hands.utc,
            mono_ms: hands.mono_ms,
            boot_id: hands.boot_id,
            boottime_ms: hands.boottime_ms,
            local_day,
            day_start,
            offset_s,
            chain_hint: None,
        }
    }

    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc {
        midnight(earliest, day, &self.hands.borrow().zone)
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        let mut hands = self.hands.subscribe();
        Box::pin(async move {
            // The sender lives in `self`, which this future borrows, so the channel cannot close.
            let _reached = hands.wait_for(|hands| hands.mono_ms >= mono_ms).await;
        })
    }
}
