use super::*;

fn ms(text: &serde_json::Value) -> i64 {
    text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

fn date(text: &serde_json::Value) -> Date {
    text.as_str().unwrap().parse().unwrap()
}

fn clocks(zone: &serde_json::Value, now: &serde_json::Value, boot: u32) -> Clocks {
    let zone = zone.as_str().unwrap().to_owned();
    Clocks { wall_ms: ms(now), zone, boot, boot_ms: 0, block_ms: None }
}

fn time(now: Clocks) -> Time {
    let mut time = Time::new(30);
    time.set(&now, 1);
    time
}

fn vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("../../vectors/allowance.json")).unwrap()
}

#[test]
fn allowance_vector_cases_renew_as_expected() {
    for case in vectors()["cases"].as_array().unwrap() {
        let old = AllowancePeriod {
            last_date: date(&case["last_local_date"]),
            start_ms: ms(&case["last_start_utc"]),
            boot: 1,
            boot_from: 0,
            boot_to: 0,
            since_event: 0,
        };
        let now = time(clocks(&case["tz_now"], &case["now_utc"], 2));
        assert_eq!(old.is_due(&now.now), case["renew"].as_bool().unwrap(), "{case}");
        let after = old.after_check(&now).pop().unwrap();
        assert_eq!(after.last_date, date(&case["new_last_local_date"]), "{case}");
        assert_eq!(after.start_ms, ms(&case["new_start_utc"]), "{case}");
    }
}

#[test]
fn allowance_vector_sequences_run_as_expected() {
    for sequence in vectors()["sequences"].as_array().unwrap() {
        let mut running: Option<AllowancePeriod> = None;
        for (boot, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            let boot = u32::try_from(boot).unwrap();
            let now = time(clocks(&step["tz"], &step["now_utc"], boot));
            let today = local_date(now.now.wall_ms, &now.now.zone).unwrap();
            assert_eq!(today, date(&step["now_local_date"]), "{step}");
            assert_eq!(
                day_start(today, &now.now.zone).unwrap(),
                ms(&step["day_start_utc"]),
                "{step}"
            );
            let (renews, next) = match &running {
                None => (true, AllowancePeriod::first(&now).unwrap()),
                Some(p) => (p.is_due(&now.now), p.after_check(&now).pop().unwrap()),
            };
            assert_eq!(renews, step["renew"].as_bool().unwrap(), "{step}");
            assert_eq!(next.last_date, date(&step["last_local_date"]), "{step}");
            assert_eq!(next.start_ms, ms(&step["start_utc"]), "{step}");
            running = Some(next);
        }
    }
}

fn day() -> (AllowancePeriod, Clocks) {
    let text = |t: &str| serde_json::Value::String(t.to_owned());
    let first = time(clocks(&text("UTC"), &text("2026-03-10T00:00:00Z"), 1));
    (
        AllowancePeriod::first(&first).unwrap(),
        clocks(&text("UTC"), &text("2026-03-11T00:00:00Z"), 1),
    )
}

#[test]
fn forward_clock_jump_delays_renewal_until_the_boot_clock_catches_up() {
    let (old, mut now) = day();
    now.boot_ms = 86_400_000 - 300_000 - 1;
    assert_eq!(old.after_check(&time(now.clone())), vec![old.clone()]);
    now.boot_ms += 1;
    assert_ne!(old.after_check(&time(now.clone())), vec![old.clone()]);
    now.boot_ms = 0;
    now.boot = 2;
    assert_ne!(old.after_check(&time(now)), vec![old]);
}

#[test]
fn renewal_is_optional_more_than_an_hour_ahead_of_the_chain() {
    let (old, mut now) = day();
    now.boot_ms = 86_400_000;
    now.block_ms = Some(now.wall_ms - 3_600_000);
    assert_eq!(old.after_check(&time(now.clone())).len(), 1);
    now.block_ms = Some(now.wall_ms - 3_600_001);
    assert_eq!(old.after_check(&time(now)).len(), 2);
}

#[test]
fn hold_expires_at_exactly_fifteen_minutes_by_either_clock_or_in_a_later_boot() {
    let at = Instant { wall_ms: 1_000, boot: 1, boot_ms: 5 };
    let later = |wall_ms, boot, boot_ms| Instant { wall_ms, boot, boot_ms };
    assert!(!at.has_elapsed(&later(900_999, 1, 900_004), HOLD_MS));
    assert!(at.has_elapsed(&later(901_000, 1, 5), HOLD_MS));
    assert!(at.has_elapsed(&later(-5_000, 1, 900_005), HOLD_MS));
    assert!(!at.has_elapsed(&later(-5_000, 2, 899_999), HOLD_MS));
    assert!(at.has_elapsed(&later(-5_000, 2, 900_000), HOLD_MS));
    assert!(!at.has_elapsed(&later(1_000, 2, 900_000), HOLD_MS));
}
