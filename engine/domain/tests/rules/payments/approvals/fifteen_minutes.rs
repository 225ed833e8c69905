//! How a hold ends by itself, after 15 minutes.

use super::*;

#[test]
fn an_approval_one_millisecond_before_expiry_succeeds() {
    let (mut world, id) = world_with_held();
    world.clock.pass(QUARTER_HOUR - 1);
    assert_eq!(world.tick().events, []);
    world.approves(id);
}

#[test]
fn decisions_at_or_after_expiry_are_too_late() {
    for late in [0, 1, SECOND, DAY] {
        let (mut world, id) = world_with_held();
        let digest = card_digest(&world, id);
        world.clock.pass(QUARTER_HOUR + late);
        let approval = world.approval(id, &digest);
        assert_too_late(&mut world, approval, id);
        let (mut world, id) = world_with_held();
        world.clock.pass(QUARTER_HOUR + late);
        assert_too_late(&mut world, denial(id), id);
    }
}

#[test]
fn after_expiry_every_decision_reports_the_expiry() {
    let (mut world, id) = world_with_held();
    world.clock.pass(QUARTER_HOUR);
    world.unlocked = false;
    let approval = world.approval(id, "wrong");
    assert_too_late(&mut world, approval, id);
}

#[test]
fn an_expiry_releases_the_reservation_once() {
    let (mut world, id) = world_with_held();
    world.clock.pass(MINUTE);
    let second = world.holds(payment(3_000_000));
    world.clock.pass(QUARTER_HOUR - MINUTE);
    assert_eq!(world.tick().events.len(), 1);
    assert!(is_expired(&world, id) && !is_expired(&world, second));
    assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::dollars(3)));
    assert_eq!(world.tick().events, []);
    world.run_refused(denial(id));
    world.clock.pass(MINUTE);
    world.tick();
    assert_eq!(world.reserved_value(), Usd::ZERO);
}

#[test]
fn a_clock_set_back_does_not_extend_a_hold_within_a_boot() {
    let (mut world, id) = world_with_held();
    let digest = card_digest(&world, id);
    world.clock.shift_wall_clock(-10 * HOUR);
    world.clock.pass(QUARTER_HOUR - 1);
    assert_eq!(world.card(id).expect("a card").expires_in_seconds, 1);
    assert_eq!(world.tick().events, []);
    world.clock.pass(1);
    let approval = world.approval(id, &digest);
    assert_too_late(&mut world, approval, id);
}

#[test]
fn a_clock_set_forward_ends_a_hold_early() {
    let (mut world, id) = world_with_held();
    world.clock.shift_wall_clock(QUARTER_HOUR);
    world.tick();
    assert!(is_expired(&world, id));
}

#[test]
fn holds_expire_by_the_wall_clock_across_a_reboot() {
    let (mut world, id) = world_with_held();
    world.clock.reboot(QUARTER_HOUR - 1);
    assert_eq!(world.tick().events, []);
    world.clock.pass(1);
    world.tick();
    assert!(is_expired(&world, id));
}

#[test]
fn a_clock_set_back_extends_a_hold_by_no_more_than_the_time_before_a_reboot() {
    let (mut world, id) = world_with_held();
    world.clock.shift_wall_clock(-10 * HOUR);
    // The machine has been up for a minute, so 15 minutes less that minute remain.
    world.clock.reboot(SECOND);
    world.clock.pass(QUARTER_HOUR - MINUTE - 1);
    assert_eq!(world.card(id).expect("a card").expires_in_seconds, 1);
    assert_eq!(world.tick().events, []);
    world.clock.pass(1);
    world.tick();
    assert!(is_expired(&world, id));
}

/// A container gets a new boot id at each start, but has the boot clock of its host.
#[test]
fn a_new_boot_id_alone_ends_no_hold() {
    let mut clock = Clock::at("2026-01-15T12:00:00Z", "UTC");
    clock.boottime_ms = (20 * DAY).unsigned_abs();
    let mut world = build::world(clock, &build::policy());
    let id = world.holds(payment(2_000_000));
    world.clock.pass(MINUTE);
    world.clock.boot_id = "another".to_owned();
    assert_eq!(world.tick().events, []);
    world.clock.pass(QUARTER_HOUR - MINUTE);
    world.tick();
    assert!(is_expired(&world, id));
}

#[test]
fn holds_expire_by_the_wall_clock_without_a_boot_identity() {
    let clock = Clock::at("2026-01-15T12:00:00Z", "UTC").without_boot();
    let mut world = build::world(clock, &build::policy());
    let id = world.holds(payment(2_000_000));
    world.clock.pass(QUARTER_HOUR - 1);
    assert_eq!(world.tick().events, []);
    world.clock.pass(1);
    world.tick();
    assert!(is_expired(&world, id));
}
