//! Tests of the system clock and of its test double.

use std::process::Command;
use std::sync::Arc;

use bursar_core::time::LocalDay;

use super::manual::ManualClock;
use super::*;

const HOUR_MS: u64 = 3_600_000;

#[test]
fn monotonic_time_shares_one_zero_and_never_decreases() {
    let (a, b) = (SystemClock::new().unwrap(), SystemClock::new().unwrap());
    let (first, second, third) = (a.now(), b.now(), a.now());
    assert!(first.mono_ms <= second.mono_ms && second.mono_ms <= third.mono_ms);
    assert!(first.day_start <= first.utc);
    assert_eq!(first.chain_hint, None);
}

#[cfg(target_os = "linux")]
#[test]
fn boot_id_and_boot_time_are_available_on_linux() {
    let clock = SystemClock::new().unwrap();
    let (first, second) = (clock.now(), clock.now());
    assert_eq!(first.boot_id.len(), 36, "{}", first.boot_id);
    assert_eq!(first.boot_id, second.boot_id);
    assert!(first.boottime_ms > 0 && first.boottime_ms <= second.boottime_ms);
}

#[tokio::test]
async fn the_system_clock_sleeps_until_its_target() {
    let clock = SystemClock::new().unwrap();
    let target = clock.now().mono_ms + 5;
    clock.sleep_until(target).await;
    assert!(clock.now().mono_ms >= target);
    clock.sleep_until(0).await;
}

/// Not a test by itself: the body of a child process whose `TZ` the test below sets. A process cannot change
/// its own environment without `unsafe`.
#[test]
#[ignore = "run by the_zone_is_taken_from_tz_or_refused"]
fn child_prints_its_zone() {
    match SystemClock::new() {
        Ok(clock) => println!("offset={}", clock.now().offset_s),
        Err(error) => println!("error={error}"),
    }
}

fn run_child_with_tz(tz: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "clock::tests::child_prints_its_zone", "--ignored", "--nocapture"])
        .env("TZ", tz)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_zone_is_taken_from_tz_or_refused() {
    assert!(run_child_with_tz("Asia/Kathmandu").contains("offset=20700"));
    assert!(run_child_with_tz("UTC").contains("offset=0"));
    for unusable in ["", "Europe/Berln", "/nowhere/zone", "Etc/Unknown"] {
        let said = run_child_with_tz(unusable);
        assert!(said.contains("error=") && said.contains("TZ=Europe/Berlin"), "{unusable}: {said}");
    }
}

#[test]
fn each_manual_clock_change_moves_only_its_counters() {
    let clock = ManualClock::new(Utc::from_seconds(86_400));
    clock.advance(HOUR_MS);
    let now = clock.now();
    assert_eq!((now.utc.seconds(), now.mono_ms, now.boottime_ms), (90_000, HOUR_MS, HOUR_MS));

    clock.jump_back(2 * HOUR_MS);
    let now = clock.now();
    assert_eq!((now.utc.seconds(), now.mono_ms, now.boottime_ms), (82_800, HOUR_MS, HOUR_MS));
    assert_eq!(now.local_day, LocalDay(0));

    clock.suspend(HOUR_MS);
    let now = clock.now();
    assert_eq!((now.utc.seconds(), now.mono_ms, now.boottime_ms), (86_400, HOUR_MS, 2 * HOUR_MS));

    clock.set_utc(Utc(0));
    clock.set_boot_id("boot-2");
    let now = clock.now();
    assert_eq!((now.utc.0, now.mono_ms, now.boottime_ms), (0, HOUR_MS, 0));
    assert_eq!(now.boot_id, "boot-2");

    clock.set_zone("Asia/Tokyo").unwrap();
    let now = clock.now();
    assert_eq!(
        (now.local_day, now.day_start, now.offset_s),
        (LocalDay(0), Utc(-32_400_000), 32_400)
    );
    assert!(clock.set_zone("Atlantis/Capital").is_err());
}

#[tokio::test]
async fn a_sleeper_on_the_manual_clock_wakes_exactly_at_its_time() {
    let clock = Arc::new(ManualClock::new(Utc(0)));
    let mut sleep = clock.sleep_until(100);
    let pending = std::future::poll_fn(|context| {
        std::task::Poll::Ready(sleep.as_mut().poll(context).is_pending())
    });
    assert!(pending.await);
    clock.set_utc(Utc(1_000_000));
    clock.suspend(1_000);
    clock.advance(99);
    let still = std::future::poll_fn(|context| {
        std::task::Poll::Ready(sleep.as_mut().poll(context).is_pending())
    });
    assert!(still.await, "neither the wall clock nor a suspension counts");

    let sleeper = tokio::spawn({
        let clock = Arc::clone(&clock);
        async move { clock.sleep_until(100).await }
    });
    clock.advance(1);
    sleep.await;
    sleeper.await.unwrap();
}
