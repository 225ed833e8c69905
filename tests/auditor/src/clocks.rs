//! The machine's clocks, and the daily allowance that depends on them.

use crate::observations::Clocks;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The least duration of an allowance before it renews (20 hours).
pub(crate) const MIN_PERIOD_MS: i64 = 72_000_000;
/// In one boot, an allowance renews only after its duration on the boot clock, less this slack (5 minutes).
const BOOT_SLACK_MS: i64 = 300_000;
/// A held request expires after this time (15 minutes).
pub(crate) const HOLD_MS: i64 = 900_000;
/// A clock is right if it differs from a chain's time by at most this much (10 minutes).
const MAX_DRIFT_MS: i64 = 600_000;
/// How long the wallet may rely on a block that it has read (30 minutes).
const BLOCK_VALID_MS: u64 = 1_800_000;

/// One simultaneous reading of the wall clock and the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant {
    pub(crate) wall_ms: i64,
    pub(crate) boot: u32,
    pub(crate) boot_ms: u64,
}

impl Instant {
    pub(crate) fn second(&self) -> i64 {
        self.wall_ms.div_euclid(1000)
    }

    /// Returns the milliseconds since this instant, by the wall clock and, within the same boot, by the boot clock.
    pub(crate) fn elapsed(&self, now: &Self) -> (i64, Option<i64>) {
        let wall = now.wall_ms.saturating_sub(self.wall_ms);
        let boot = (self.boot == now.boot)
            .then(|| i64::try_from(now.boot_ms.saturating_sub(self.boot_ms)).unwrap_or(i64::MAX));
        (wall, boot)
    }

    /// Returns the milliseconds since this instant, by the wall clock and by the clock that limits it.
    ///
    /// The second is the boot clock of the same boot. After a later boot it is the wall clock, or the time since that
    /// boot if the wall clock is behind this instant.
    pub(crate) fn elapsed_by_both(&self, now: &Self) -> [i64; 2] {
        let (wall, boot) = self.elapsed(now);
        let since_boot = i64::try_from(now.boot_ms).unwrap_or(i64::MAX);
        [wall, boot.unwrap_or(if wall < 0 { since_boot } else { wall })]
    }

    /// Returns whether a span of `ms` that began at this instant has ended by either clock.
    pub(crate) fn has_elapsed(&self, now: &Self, ms: i64) -> bool {
        self.elapsed_by_both(now).iter().any(|passed| *passed >= ms)
    }
}

/// The machine's clocks, and the parts of their history that still matter.
#[derive(Debug, Clone)]
pub(crate) struct Time {
    pub(crate) now: Clocks,
    /// The observation since which the clocks show `now`.
    pub(crate) since_event: u64,
    /// The latest wall time ever shown. Times in the wallet's records never go back behind a time that the wallet read.
    pub(crate) latest_ms: i64,
    /// The latest wall time that agreed with a chain's time.
    agreed_ms: Option<i64>,
    signed_days: i64,
    sightings: Vec<BlockSighting>,
}

impl Time {
    /// Returns the UTC day of everything that the wallet records now; `None` if its records may be of a later day.
    pub(crate) fn sure_day(&self) -> Option<i64> {
        let is_latest = self.now.wall_ms >= self.latest_ms;
        is_latest.then(|| self.now.wall_ms.div_euclid(86_400_000))
    }
}

/// A chain's time that the wallet may have read: its offset from the boot clock, and the instant until which it was
/// valid.
#[derive(Debug, Clone, Copy)]
struct BlockSighting {
    boot: u32,
    boot_offset_ms: i64,
    until_ms: u64,
}

impl Time {
    pub(crate) fn new(signed_days: i64) -> Self {
        let now =
            Clocks { wall_ms: 0, zone: "UTC".to_owned(), boot: 0, boot_ms: 0, block_ms: None };
        Self {
            now,
            since_event: 0,
            latest_ms: 0,
            agreed_ms: None,
            signed_days,
            sightings: Vec::new(),
        }
    }

    pub(crate) fn instant(&self) -> Instant {
        Instant { wall_ms: self.now.wall_ms, boot: self.now.boot, boot_ms: self.now.boot_ms }
    }

    pub(crate) fn set(&mut self, to: &Clocks, seq: u64) {
        // The block time was valid until this change, so the time for which the wallet may rely on it begins now.
        if to.boot == self.now.boot {
            self.note_block(to.boot_ms);
        }
        self.now = to.clone();
        self.since_event = seq;
        self.latest_ms = self.latest_ms.max(to.wall_ms);
        self.note_block(to.boot_ms);
        let (boot, now_ms) = (to.boot, to.boot_ms);
        self.sightings.retain(|sighting| {
            sighting.boot == boot && now_ms.saturating_sub(sighting.until_ms) <= BLOCK_VALID_MS
        });
        if self.wall_clock_leads_ms().any(|lead| lead.saturating_abs() <= MAX_DRIFT_MS) {
            self.agreed_ms = self.agreed_ms.max(Some(to.wall_ms));
        }
    }

    fn note_block(&mut self, until_ms: u64) {
        let Some(block_ms) = self.now.block_ms else { return };
        let boot_ms = i64::try_from(self.now.boot_ms).unwrap_or(i64::MAX);
        let (boot, apart_ms) = (self.now.boot, block_ms.saturating_sub(boot_ms));
        self.sightings
            .retain(|sighting| sighting.boot != boot || sighting.boot_offset_ms != apart_ms);
        self.sightings.push(BlockSighting { boot, boot_offset_ms: apart_ms, until_ms });
    }

    /// Returns the milliseconds by which the wall clock is ahead of a chain, for every block time that may count.
    fn wall_clock_leads_ms(&self) -> impl Iterator<Item = i64> + '_ {
        let boot_ms = i64::try_from(self.now.boot_ms).unwrap_or(i64::MAX);
        self.sightings.iter().map(move |sighting| {
            self.now.wall_ms.saturating_sub(sighting.boot_offset_ms.saturating_add(boot_ms))
        })
    }

    /// Returns whether the wallet may hold a payment because the wall clock differs too much from a recent block time.
    pub(crate) fn may_be_off_chain(&self) -> bool {
        self.wall_clock_leads_ms().any(|lead| lead.saturating_abs() > MAX_DRIFT_MS)
    }

    /// Returns whether the wallet may refuse a request signed at this second, because it may have forgotten that day.
    pub(crate) fn may_be_forgotten(&self, signed_s: i64) -> bool {
        let day = |seconds: i64| seconds.div_euclid(86_400);
        let first = |ms: i64| day(ms.div_euclid(1000)).saturating_sub(self.signed_days);
        self.agreed_ms.is_some_and(|ms| day(signed_s) < first(ms))
    }

    /// Returns whether the wallet may delay a renewal because the wall clock is over an hour ahead of a recent block
    /// time.
    pub(crate) fn may_be_ahead_of_chain(&self) -> bool {
        self.wall_clock_leads_ms().any(|lead| lead > 3_600_000)
    }
}

/// One possible current allowance of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowancePeriod {
    pub(crate) last_date: Date,
    pub(crate) start_ms: i64,
    boot: u32,
    /// The instant of the boot clock from which the duration counts lies between `boot_from` and `boot_to`.
    ///
    /// `boot_from` is the start of the allowance, negative if that was before the boot. `boot_to` is the instant at
    /// which the renewal was recorded.
    boot_from: i64,
    boot_to: i64,
    /// Payments authorized at or before this observation count toward an earlier allowance.
    pub(crate) since_event: u64,
}

fn to_signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// Returns the local date of an instant.
pub(crate) fn local_date(wall_ms: i64, name: &str) -> Option<Date> {
    let at = jiff::Timestamp::from_millisecond(wall_ms).ok()?;
    Some(at.to_zoned(zone(name)?).date())
}

/// Returns the first instant of a local date.
pub(crate) fn day_start(date: Date, name: &str) -> Option<i64> {
    let at = date.to_zoned(zone(name)?).ok()?;
    Some(at.timestamp().as_millisecond())
}

impl AllowancePeriod {
    /// Returns the first allowance, which is that of the current day.
    pub(crate) fn first(time: &Time) -> Option<Self> {
        let first = Self::begun_today(&time.now, 0)?;
        Some(Self { boot_to: first.boot_from, ..first })
    }

    /// Returns the allowance of the current day. It begins at midnight, not at the instant of a request.
    fn begun_today(now: &Clocks, since: u64) -> Option<Self> {
        let today = local_date(now.wall_ms, &now.zone)?;
        let start_ms = day_start(today, &now.zone)?;
        let written = to_signed(now.boot_ms);
        Some(Self {
            last_date: today,
            start_ms,
            boot: now.boot,
            boot_from: written.saturating_sub(now.wall_ms.saturating_sub(start_ms).max(0)),
            boot_to: written,
            since_event: since,
        })
    }

    /// Returns the milliseconds from the start of this allowance to today's midnight, if a renewal is due today.
    ///
    /// A renewal is due on a later date, after at least 20 hours.
    fn due_after_ms(&self, now: &Clocks) -> Option<i64> {
        let today = local_date(now.wall_ms, &now.zone).filter(|today| *today > self.last_date)?;
        let lasted = day_start(today, &now.zone)?.saturating_sub(self.start_ms);
        (lasted >= MIN_PERIOD_MS).then_some(lasted)
    }

    pub(crate) fn is_due(&self, now: &Clocks) -> bool {
        self.due_after_ms(now).is_some()
    }

    /// Returns the next allowance.
    pub(crate) fn renew(&self, now: &Clocks, since: u64) -> Option<Self> {
        Self::begun_today(now, since)
    }

    /// Returns the allowances that may be in force after the wallet has checked the clocks.
    pub(crate) fn after_check(&self, time: &Time) -> Vec<Self> {
        let Some(least) = self.due_after_ms(&time.now) else { return vec![self.clone()] };
        let now = to_signed(time.now.boot_ms);
        let least = least.saturating_sub(BOOT_SLACK_MS);
        let long_enough =
            |from: i64| self.boot != time.now.boot || now.saturating_sub(from) >= least;
        let mut out = Vec::new();
        if long_enough(self.boot_from) {
            out.extend(self.renew(&time.now, time.since_event));
        }
        if !long_enough(self.boot_to) || time.may_be_ahead_of_chain() {
            out.push(self.clone());
        }
        out
    }

    /// Merges another possible allowance if it differs only in the instant of the renewal. Returns whether it did.
    ///
    /// `quiet_since`: no authorization began after this observation.
    pub(crate) fn merge_if_close(&mut self, other: &Self, quiet_since: u64) -> bool {
        let same = self.last_date == other.last_date
            && self.start_ms == other.start_ms
            && self.boot == other.boot
            && (self.since_event == other.since_event
                || (self.since_event >= quiet_since && other.since_event >= quiet_since));
        if same {
            self.since_event = self.since_event.min(other.since_event);
            self.boot_from = self.boot_from.min(other.boot_from);
            self.boot_to = self.boot_to.max(other.boot_to);
        }
        same
    }
}

/// Adds a possible allowance, or merges it with one of the list.
pub(crate) fn add_period(all: &mut Vec<AllowancePeriod>, one: AllowancePeriod, quiet_since: u64) {
    if !all.iter_mut().any(|p| p.merge_if_close(&one, quiet_since)) {
        all.push(one);
    }
}

#[cfg(test)]
#[path = "clocks_tests.rs"]
mod tests;
