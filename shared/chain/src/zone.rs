//! Maps an instant to the calendar day of a zone. Pure: the zone is an argument, so the daily allowance can be
//! tested for any zone.

use bursar_core::time::{LocalDay, Utc};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};

// The zone library covers the years -9999 to 9999; the exact ends depend on the offset. A clock outside the range
// below is broken. Clamping its time to the range renews no allowance.
const EARLIEST: Utc = Utc(-62_135_596_800_000); // 0001-01-01
const LATEST: Utc = Utc(253_370_764_800_000); // 9999-01-01

/// Returns the date at `utc` in `zone`, its first instant, and the UTC offset in seconds.
///
/// The first instant is the earliest instant with that date. It is not always 00:00: if clocks go forward at
/// midnight, the day begins at 01:00.
pub fn day_of(utc: Utc, zone: &TimeZone) -> (LocalDay, Utc, i32) {
    let clamped = utc.clamp(EARLIEST, LATEST);
    let now = Timestamp::from_millisecond(clamped.0).unwrap_or(Timestamp::UNIX_EPOCH);
    let offset = zone.to_offset(now);
    let today = offset.to_datetime(now).date();
    // Within the range above, every date has a first instant. The fallback `now` is never early, so it renews no
    // allowance early.
    let start = first_instant(today, zone).unwrap_or(now);
    (day_number(today), Utc(start.as_millisecond()), offset.seconds())
}

/// Returns the first midnight in `zone` at or after `earliest` whose date is after `day`.
///
/// If there is no such midnight within 400 days, it returns `earliest`.
pub fn midnight(earliest: Utc, day: LocalDay, zone: &TimeZone) -> Utc {
    let clamped = earliest.clamp(EARLIEST, LATEST);
    let at = Timestamp::from_millisecond(clamped.0).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut date = zone.to_datetime(at).date();
    // At most two steps, unless `day` is far ahead of `earliest`, which only a broken clock can cause.
    for _step in 0..400 {
        if day_number(date) > day
            && let Some(start) = first_instant(date, zone)
            && start >= at
        {
            return Utc(start.as_millisecond());
        }
        let Ok(next) = date.tomorrow() else { break };
        date = next;
    }
    clamped
}

fn first_instant(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    let midnight: DateTime = day.at(0, 0, 0, 0);
    match zone.to_ambiguous_timestamp(midnight).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(midnight).ok(),
        // Midnight occurs twice: the first occurrence counts.
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(midnight).ok(),
        // Midnight is skipped: the day begins with the jump. Midnight by the old offset would be too late if clocks
        // go from 23:30 to 00:30.
        AmbiguousOffset::Gap { after, .. } => {
            let just_before = after.to_timestamp(midnight).ok()?;
            let jump = zone.following(just_before).find(|change| change.offset() == after)?;
            Some(jump.timestamp())
        }
    }
}

fn day_number(day: Date) -> LocalDay {
    const HOURS: i64 = 24;
    let hours = day.duration_since(date(1970, 1, 1)).as_hours();
    // A date in the years 1 to 9999 is less than four million days from 1970.
    LocalDay(i32::try_from(hours.div_euclid(HOURS)).unwrap_or(0))
}
