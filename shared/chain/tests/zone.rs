//! The calendar of the daily allowance, against the vectors and against exhaustive properties.

#![cfg(test)]

use std::path::Path;

use bursar_chain::zone::{day_of, midnight};
use bursar_core::time::{LocalDay, Utc};
use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use serde_json::Value;

fn vectors() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/allowance.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn utc(text: &Value) -> Utc {
    let at: Timestamp = text.as_str().unwrap().parse().unwrap();
    Utc(at.as_millisecond())
}

fn day(date: Date) -> LocalDay {
    let days = date.since(Date::constant(1970, 1, 1)).unwrap().get_days();
    LocalDay(days)
}

fn check(name: &str, zone: &Value, at: &Value, tags: [&str; 2]) -> bool {
    let zone = TimeZone::get(zone.as_str().unwrap()).unwrap();
    let (local_day, day_start, offset) = day_of(utc(&at["now_utc"]), &zone);
    let expected: Date = at["now_local_date"].as_str().unwrap().parse().unwrap();
    assert_eq!(local_day, day(expected), "{name}: date");
    let [offset_key, start_key] = tags;
    assert_eq!(i64::from(offset), at[offset_key].as_i64().unwrap(), "{name}: offset");
    if at[start_key].is_null() {
        return false;
    }
    assert_eq!(day_start, utc(&at[start_key]), "{name}: first instant");
    true
}

#[test]
fn zone_vectors_match_in_date_offset_and_day_start() {
    let vectors = vectors();
    let (mut cases, mut steps, mut starts) = (0, 0, 0);
    for case in vectors["cases"].as_array().unwrap() {
        let name = case["id"].as_str().unwrap();
        starts +=
            usize::from(check(name, &case["tz_now"], case, ["utc_offset_now_s", "day_start_utc"]));
        cases += 1;
    }
    for sequence in vectors["sequences"].as_array().unwrap() {
        for (place, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            let name = format!("{} step {place}", sequence["id"]);
            starts +=
                usize::from(check(&name, &step["tz"], step, ["utc_offset_s", "day_start_utc"]));
            steps += 1;
        }
    }
    println!("{cases} cases and {steps} steps checked, {starts} of them with their day start");
    assert_eq!((cases, steps, starts), (48, 97, 97), "the vectors changed: look before adjusting");
}

/// An allowance renews at the first instant of the day, unless the 20-hour rule delays it. So the `new_start_utc` of
/// a case is also the start of a day. These cases have no separate field for the day start.
#[test]
fn a_renewal_at_midnight_starts_at_the_day_start() {
    let vectors = vectors();
    let mut checked = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let lasted = utc(&case["new_start_utc"]).since_ms(utc(&case["last_start_utc"]));
        if case["renew"] == true && lasted > 72_000_000 {
            let zone = TimeZone::get(case["tz_now"].as_str().unwrap()).unwrap();
            let (_, start, _) = day_of(utc(&case["now_utc"]), &zone);
            assert_eq!(start, utc(&case["new_start_utc"]), "{}", case["id"]);
            checked += 1;
        }
    }
    println!("{checked} day starts stated by renewals checked");
    assert!(checked > 0);
}

#[test]
fn days_without_a_plain_midnight_start_at_their_first_instant() {
    for (zone, on, start, why) in [
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00:00Z", "00:00 becomes 01:00"),
        ("Africa/Cairo", date(2026, 4, 24), "2026-04-23T22:00:00Z", "00:00 becomes 01:00"),
        ("America/Toronto", date(1919, 3, 31), "1919-03-31T04:30:00Z", "23:30 becomes 00:30"),
        ("America/Havana", date(2026, 11, 1), "2026-11-01T04:00:00Z", "00:00 comes twice"),
        ("America/St_Johns", date(2010, 11, 7), "2010-11-07T02:30:00Z", "00:01 becomes 23:01"),
        ("Pacific/Apia", date(2011, 12, 31), "2011-12-30T10:00:00Z", "the day before is missing"),
    ] {
        let named = TimeZone::get(zone).unwrap();
        let start: Timestamp = start.parse().unwrap();
        let noon = on.at(12, 0, 0, 0).to_zoned(named.clone()).unwrap().timestamp();
        for at in [start, noon] {
            let (local_day, found, _) = day_of(Utc(at.as_millisecond()), &named);
            assert_eq!(local_day, day(on), "{zone}, {why}");
            assert_eq!(found, Utc(start.as_millisecond()), "{zone}, {why}");
        }
        let (before, _, _) = day_of(Utc(start.as_millisecond() - 1), &named);
        assert!(before < day(on), "{zone}: the millisecond before belongs to an earlier date");
    }
}

#[test]
fn the_day_start_is_never_after_now_and_always_on_the_same_date() {
    const QUARTER: i64 = 900_000;
    for name in ["America/St_Johns", "America/Havana", "Africa/Cairo", "Australia/Lord_Howe", "UTC"]
    {
        let zone = TimeZone::get(name).unwrap();
        let from = Utc(1_262_304_000_000); // 2010-01-01, when St. John's still changed at 00:01
        for step in 0..2 * 366 * 96 {
            let now = from.plus_ms(step * QUARTER);
            let (today, start, _) = day_of(now, &zone);
            assert!(start <= now, "{name} {now:?}");
            assert_eq!(day_of(start, &zone).0, today, "{name} {now:?}");
            assert!(day_of(start.plus_ms(-1), &zone).0 < today, "{name} {now:?}");
        }
    }
}

#[test]
fn a_broken_clock_causes_no_panic() {
    for zone in ["Pacific/Kiritimati", "Pacific/Honolulu", "UTC"] {
        let zone = TimeZone::get(zone).unwrap();
        for utc in [Utc(i64::MIN), Utc(i64::MAX), Utc(0), Utc(-1)] {
            let (_, start, offset) = day_of(utc, &zone);
            assert!(start.0 > i64::MIN && start.0 < i64::MAX && offset.abs() < 86_400);
        }
    }
    let day_at = |utc| day_of(utc, &TimeZone::UTC).0;
    assert_eq!(day_at(Utc(i64::MIN)), day(date(1, 1, 1)));
    assert_eq!(day_at(Utc(i64::MAX)), day(date(9999, 1, 1)));
    assert_eq!(day_at(Utc(-1)), LocalDay(-1));
}

#[test]
fn the_next_midnight_respects_the_earliest_instant_and_date() {
    let zone = |name: &str| TimeZone::get(name).unwrap();
    let utc = |text: &str| Utc(text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    let day = |text: &str| {
        let date: jiff::civil::Date = text.parse().unwrap();
        let days = date.duration_since(jiff::civil::date(1970, 1, 1)).as_hours() / 24;
        LocalDay(i32::try_from(days).unwrap())
    };
    for (earliest, after, place, expected) in [
        ("2026-11-22T20:00:00Z", "2026-11-22", "UTC", "2026-11-23T00:00:00Z"),
        ("2026-11-23T00:00:00Z", "2026-11-22", "UTC", "2026-11-23T00:00:00Z"),
        ("2026-11-23T00:00:00.001Z", "2026-11-22", "UTC", "2026-11-24T00:00:00Z"),
        // A midnight of the same date does not count. It can follow `earliest` after a flight to the west.
        ("2026-11-22T00:00:00Z", "2026-11-22", "UTC", "2026-11-23T00:00:00Z"),
        ("2026-11-22T20:00:00Z", "2026-11-22", "Asia/Tokyo", "2026-11-23T15:00:00Z"),
        // A day of 25 hours, a day that begins at 01:00, and a day that does not exist.
        ("2026-10-25T18:00:00Z", "2026-10-25", "Europe/Berlin", "2026-10-25T23:00:00Z"),
        ("2018-11-03T23:00:00Z", "2018-11-03", "America/Sao_Paulo", "2018-11-04T03:00:00Z"),
        ("2011-12-30T06:00:00Z", "2011-12-29", "Pacific/Apia", "2011-12-30T10:00:00Z"),
    ] {
        let found = midnight(utc(earliest), day(after), &zone(place));
        assert_eq!(found, utc(expected), "{earliest}, {place}");
    }
    // Beyond the calendar there is no midnight, but no panic either.
    midnight(Utc(i64::MAX), LocalDay(i32::MAX), &TimeZone::UTC);
}
