//! The clocks of a machine. A test can move each of them separately.

use bursar_chain::zone::day_of;
use bursar_core::time::{Moment, Utc};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) const SECOND: i64 = 1000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

#[derive(Debug, Clone)]
pub(crate) struct Clock {
    pub(crate) utc: Utc,
    pub(crate) zone: TimeZone,
    /// The boot id; empty on a platform without one, whose boot clock then reads zero.
    pub(crate) boot_id: String,
    pub(crate) boottime_ms: u64,
    pub(crate) mono_ms: u64,
    pub(crate) chain_hint: Option<Utc>,
    boots: u32,
}

impl Clock {
    /// The clocks of a machine that has been up for an hour, at an RFC 3339 instant in a time zone.
    pub(crate) fn at(instant: &str, zone: &str) -> Self {
        Self {
            utc: utc(instant),
            zone: TimeZone::get(zone).expect("a zone of the database"),
            boot_id: "boot 0".to_owned(),
            boottime_ms: HOUR.unsigned_abs(),
            mono_ms: 7,
            chain_hint: None,
            boots: 0,
        }
    }

    /// Returns these clocks for a platform without a boot id.
    pub(crate) fn without_boot(mut self) -> Self {
        self.boot_id.clear();
        self.boottime_ms = 0;
        self
    }

    /// Returns these clocks for a machine that has just started, so that the boot clock contradicts nothing.
    pub(crate) fn just_booted(mut self) -> Self {
        self.boot_id = format!("boot at {}", self.utc.0);
        self.boottime_ms = 0;
        self
    }

    pub(crate) fn moment(&self) -> Moment {
        let (local_day, day_start, offset_s) = day_of(self.utc, &self.zone);
        Moment {
            utc: self.utc,
            mono_ms: self.mono_ms,
            boot_id: self.boot_id.clone(),
            boottime_ms: self.boottime_ms,
            local_day,
            day_start,
            offset_s,
            chain_hint: self.chain_hint,
        }
    }

    /// Advances every clock.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.utc = self.utc.plus_ms(ms);
        let ms = u64::try_from(ms).expect("time passes forward");
        self.mono_ms += ms;
        if !self.boot_id.is_empty() {
            self.boottime_ms += ms;
        }
    }

    /// Sets the wall clock forward or back without any time passing.
    pub(crate) fn shift_wall_clock(&mut self, ms: i64) {
        self.utc = self.utc.plus_ms(ms);
    }

    /// Advances every clock to an instant.
    pub(crate) fn pass_until(&mut self, instant: &str) {
        self.pass(utc(instant).since_ms(self.utc));
    }

    /// Reboots the machine after a downtime. Afterwards it has been up for a minute.
    pub(crate) fn reboot(&mut self, down_ms: i64) {
        self.boots += 1;
        self.utc = self.utc.plus_ms(down_ms);
        self.boot_id = format!("boot {}", self.boots);
        self.boottime_ms = MINUTE.unsigned_abs();
        self.mono_ms = 0;
    }
}

/// Parses an instant in the format of the vectors, `2026-03-10T00:00:00Z`.
pub(crate) fn utc(instant: &str) -> Utc {
    let parsed: Timestamp = instant.parse().expect("an RFC 3339 instant");
    Utc(parsed.as_millisecond())
}
