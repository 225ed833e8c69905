//! The daily allowance: the specification's vectors (`allowance.json`) and its rule 8.
//!
//! The tests run the pure function and the engine's commands. A vector file that is missing or shortened fails them.

use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_core::status::AgentStatus;
use bursar_core::time::{LocalDay, Moment, Utc};
use bursar_domain::allowance::{Renewal, WindowStart};
use bursar_domain::{Action, Event};
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::World;
use crate::support::build::{self, payment, policy};
use crate::support::cases::config;
use crate::support::clock::{Clock, DAY, HOUR, MINUTE, SECOND, utc};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/allowance.json");

fn vector_rows(table: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(VECTORS).expect("the vectors are there");
    let file: Value = serde_json::from_str(&text).unwrap();
    file[table].as_array().unwrap().clone()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {row}"))
}

fn day(row: &Value, key: &str) -> LocalDay {
    let date_there: Date = text(row, key).parse().unwrap();
    let hours = date_there.duration_since(date(1970, 1, 1)).as_hours();
    LocalDay(i32::try_from(hours / 24).unwrap())
}

fn instant(row: &Value, key: &str) -> Utc {
    utc(text(row, key))
}

/// Returns a moment right after a machine start, so that only dates and instants matter, as in the vectors.
fn moment(row: &Value, zone: &str) -> Moment {
    let moment = Clock::at(text(row, "now_utc"), text(row, zone)).just_booted().moment();
    assert_eq!(moment.local_day, day(row, "now_local_date"), "{row}");
    moment
}

fn window_start(day: LocalDay, utc: Utc) -> WindowStart {
    WindowStart { day, utc, boot_id: String::new(), boot_ms: 0 }
}

/// Applies the rule. Returns whether the allowance was renewed, and its date and start afterwards.
fn renewal_after(start: &WindowStart, moment: &Moment) -> (bool, LocalDay, Utc) {
    match start.renewal(moment) {
        Renewal::Keep => (false, start.day, start.utc),
        Renewal::Renew(next) => (true, next.day, next.utc),
        Renewal::HeldBack(next) => panic!("held back: {next:?}"),
    }
}

#[test]
fn every_renewal_decision_matches_the_vectors() {
    let (cases, mut wrong) = (vector_rows("cases"), Vec::new());
    assert_eq!(cases.len(), 48);
    for case in &cases {
        let moment = moment(case, "tz_now");
        assert_eq!(i64::from(moment.offset_s), case["utc_offset_now_s"].as_i64().unwrap());
        let start = window_start(day(case, "last_local_date"), instant(case, "last_start_utc"));
        let wanted = (
            case["renew"].as_bool().unwrap(),
            day(case, "new_last_local_date"),
            instant(case, "new_start_utc"),
        );
        let got = renewal_after(&start, &moment);
        if got != wanted {
            wrong.push(format!("{}: got {got:?}, wanted {wanted:?}", text(case, "id")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the steps of every sequence, each with its id and index. The first step of a sequence commissions the
/// agent.
fn sequences() -> Vec<Vec<(String, Value)>> {
    let sequences: Vec<Vec<(String, Value)>> = vector_rows("sequences")
        .iter()
        .map(|row| {
            let steps = row["steps"].as_array().unwrap().iter().enumerate();
            steps
                .map(|(place, step)| (format!("{} {place}", text(row, "id")), step.clone()))
                .collect()
        })
        .collect();
    assert_eq!(sequences.len(), 10);
    assert_eq!(sequences.iter().map(Vec::len).sum::<usize>(), 97);
    sequences
}

fn expected_renewal(step: &Value) -> (bool, LocalDay, Utc) {
    (step["renew"].as_bool().unwrap(), day(step, "last_local_date"), instant(step, "start_utc"))
}

#[test]
fn every_renewal_sequence_matches_the_vectors() {
    for steps in sequences() {
        let (place, first) = &steps[0];
        let mut start = WindowStart::first(&moment(first, "tz"));
        assert_eq!((true, start.day, start.utc), expected_renewal(first), "{place}");
        for (place, step) in &steps[1..] {
            let now = moment(step, "tz");
            assert_eq!(now.day_start, instant(step, "day_start_utc"), "{place}");
            assert_eq!(i64::from(now.offset_s), step["utc_offset_s"].as_i64().unwrap(), "{place}");
            let got = renewal_after(&start, &now);
            assert_eq!(got, expected_renewal(step), "{place}");
            start = window_start(got.1, got.2);
        }
    }
}

/// A policy of ten dollars a day that allows the whole amount as one payment.
fn ten_at_once() -> Policy {
    let mut policy = policy();
    policy.payments.daily = Usd::dollars(10);
    policy.payments.auto_below = Usd::dollars(11);
    policy
}

const WHOLE_ALLOWANCE: u64 = 10_000_000;

/// Runs a sequence, and checks that a spent allowance is available again exactly where the vectors renew it.
fn run_through_engine(
    steps: &[(String, Value)],
    mut before_asking: impl FnMut(&mut World),
) -> World {
    let clock = |step: &Value| Clock::at(text(step, "now_utc"), text(step, "tz")).just_booted();
    let mut world = build::world(clock(&steps[0].1), &ten_at_once());
    for (place, step) in steps {
        world.clock = clock(step);
        before_asking(&mut world);
        let (renews, day, start) = expected_renewal(step);
        if renews {
            assert_ne!(world.agent_status(), AgentStatus::LimitReached, "{place}");
            world.signs(payment(WHOLE_ALLOWANCE));
        } else {
            assert_eq!(world.refuses(payment(WHOLE_ALLOWANCE)).code, Code::LimitReached, "{place}");
            assert_eq!(world.refuses(payment(1)).code, Code::LimitReached, "{place}");
        }
        assert_eq!(world.agent_status(), AgentStatus::LimitReached, "{place}");
        let window = &world.commission().window;
        assert_eq!((window.start.day, window.start.utc), (day, start), "{place}");
        assert_eq!(window.spent.payment, Usd(WHOLE_ALLOWANCE), "{place}");
    }
    world
}

#[test]
fn requests_and_ticks_renew_as_the_vector_sequences_do() {
    for steps in sequences() {
        let lazy = run_through_engine(&steps, |_world| {});
        let timed = run_through_engine(&steps, |world| {
            world.tick();
            // A second tick at the same moment does nothing.
            assert_eq!(world.tick().events, []);
        });
        assert_eq!(lazy.state, timed.state, "{}", steps[0].0);
        assert_eq!(lazy.entries, timed.entries, "{}", steps[0].0);
    }
}

#[test]
fn a_tick_renews_every_commissioned_agent_and_no_other() {
    let mut world = build::ordinary_world();
    build::register(
        &mut world,
        1,
        bursar_domain::agents::Credential::Hmac { secret_hash: [7; 32] },
    );
    build::register(
        &mut world,
        2,
        bursar_domain::agents::Credential::Hmac { secret_hash: [7; 32] },
    );
    world.must(build::commission(2, "daily bread", "spare"));
    world.clock.pass(DAY);
    let renewed: Vec<_> = world
        .tick()
        .events
        .iter()
        .map(|event| match event {
            Event::AllowanceRenewed { agent, start } => (agent.clone(), start.day),
            other => panic!("{other:?}"),
        })
        .collect();
    let today = world.now().local_day;
    assert_eq!(renewed, [(build::agent(0), today), (build::agent(2), today)]);
}

#[test]
fn open_reservations_are_carried_into_the_new_allowance() {
    let mut world = build::world(Clock::at("2026-01-15T00:00:00Z", "UTC"), &policy());
    world.edit(|policy| policy.payments.daily = Usd::dollars(10)).unwrap();
    world.clock.pass_until("2026-01-15T23:50:00Z");
    for _ in 0..4 {
        world.signs(payment(900_000));
    }
    let held = world.holds(payment(6_000_000));
    world.clock.pass_until("2026-01-16T00:00:00Z");
    assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::dollars(6)));
    let refusal = world.refuses(payment(4_000_001));
    assert_eq!((refusal.code, refusal.bound), (Code::ExceedsDailyLimit, Some(Usd::dollars(4))));
    world.holds(payment(4_000_000));
    world.approves(held);
    assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(6), Usd::dollars(4)));
}

#[test]
fn an_approval_after_midnight_counts_for_the_new_day() {
    let mut world = build::world(Clock::at("2026-01-15T00:00:00Z", "UTC"), &policy());
    world.clock.pass_until("2026-01-15T23:50:00Z");
    world.signs(payment(900_000));
    let held = world.holds(payment(6_000_000));
    world.clock.pass_until("2026-01-16T00:00:00Z");
    world.approves(held);
    assert_eq!(world.commission().window.spent.payment, Usd::dollars(6));
    assert_eq!(world.commission().window.start.day, world.now().local_day);
}

#[test]
fn yesterdays_spending_does_not_count_at_an_approval_after_midnight() {
    let mut world = build::world(Clock::at("2026-01-15T00:00:00Z", "UTC"), &policy());
    world.edit(|policy| policy.payments.daily = Usd::dollars(10)).unwrap();
    world.clock.pass_until("2026-01-15T23:50:00Z");
    for _ in 0..4 {
        world.signs(payment(999_999));
    }
    let held = world.holds(payment(6_000_000));
    world.clock.pass_until("2026-01-16T00:00:00Z");
    world.edit(|policy| policy.payments.daily = Usd::dollars(6)).unwrap();
    world.approves(held);
    assert_eq!(world.agent_status(), AgentStatus::LimitReached);
}

#[test]
fn a_new_policy_does_not_grant_a_new_allowance() {
    let mut world = build::world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &ten_at_once());
    world.signs(payment(WHOLE_ALLOWANCE));
    world.clock.pass(MINUTE);
    let other = build::name("other");
    world.must(Action::CreatePolicy { name: other.clone(), policy: Box::new(ten_at_once()) });
    let window = world.commission().window.clone();
    for policy in [other.as_str(), "daily bread"] {
        world.must(build::commission(0, policy, "spare"));
        assert_eq!(world.commission().window, window);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    }
}

#[test]
fn limit_reached_ends_with_the_renewal_only_if_something_may_be_spent() {
    let mut world = build::world(Clock::at("2026-01-15T00:00:00Z", "UTC"), &ten_at_once());
    world.signs(payment(WHOLE_ALLOWANCE));
    assert_eq!(world.agent_status(), AgentStatus::LimitReached);
    world.clock.pass(DAY);
    assert_eq!(world.agent_status(), AgentStatus::Active);
    world.edit(|policy| policy.payments.daily = Usd::ZERO).unwrap();
    assert_eq!(world.agent_status(), AgentStatus::LimitReached);
    assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
}

#[test]
fn suspension_never_ends_by_time() {
    let mut world = build::ordinary_world();
    world.must(Action::Suspend { agent: build::agent(0) });
    world.clock.pass(3 * DAY);
    world.tick();
    assert_eq!(world.agent_status(), AgentStatus::Suspended);
    assert_eq!(world.refuses(payment(1)).code, Code::AgentSuspended);
}

#[test]
fn flying_west_does_not_grant_a_past_date_again() {
    let clock = Clock::at("2026-06-01T10:00:00Z", "Pacific/Kiritimati").just_booted();
    let mut world = build::world(clock, &ten_at_once());
    world.signs(payment(WHOLE_ALLOWANCE));
    world.clock.zone = TimeZone::get("Pacific/Honolulu").unwrap();
    // 20 hours after the start it is June 1 in Honolulu, but the allowance already belongs to June 2.
    world.clock.pass_until("2026-06-02T06:00:00Z");
    assert!(world.now().local_day < world.commission().window.start.day);
    assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    world.clock.pass_until("2026-06-03T09:59:59Z");
    assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    world.clock.pass_until("2026-06-03T10:00:00Z");
    world.signs(payment(WHOLE_ALLOWANCE));
}

/// The agent is commissioned two hours before midnight. Its first allowance belongs to that day, its second one to
/// the next day: no date has two.
#[test]
fn an_allowance_renews_at_midnight_and_at_no_other_time() {
    let mut world = build::world(Clock::at("2026-01-15T22:00:00Z", "UTC"), &ten_at_once());
    world.signs(payment(WHOLE_ALLOWANCE));
    for day in ["2026-01-16", "2026-01-17"] {
        world.clock.pass_until(&format!("{day}T00:00:00Z"));
        world.clock.shift_wall_clock(-SECOND);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        world.clock.shift_wall_clock(SECOND);
        world.signs(payment(WHOLE_ALLOWANCE));
        for time in ["10:00:00", "18:00:00", "20:00:00", "23:59:59"] {
            world.clock.pass_until(&format!("{day}T{time}Z"));
            assert_eq!(world.refuses(payment(1)).code, Code::LimitReached, "{day} {time}");
        }
    }
}

/// Rule 8: the boot clock limits renewals.
mod hardening {
    use super::*;

    /// A world whose allowance is spent at midnight. The machine booted an hour before.
    fn spent_at_midnight() -> World {
        let mut world = build::world(Clock::at("2026-01-15T00:00:00Z", "UTC"), &ten_at_once());
        world.signs(payment(WHOLE_ALLOWANCE));
        world
    }

    #[test]
    fn a_forward_jump_within_a_boot_renews_nothing() {
        let mut world = spent_at_midnight();
        world.clock.shift_wall_clock(DAY);
        assert_eq!(world.tick().events, []);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        assert_eq!(world.agent_status(), AgentStatus::LimitReached);
    }

    #[test]
    fn a_renewal_needs_a_day_on_the_boot_clock_less_five_minutes() {
        let mut world = spent_at_midnight();
        world.clock.pass(DAY - 5 * MINUTE - 1);
        world.clock.shift_wall_clock(6 * MINUTE);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        world.clock.pass(1);
        world.signs(payment(WHOLE_ALLOWANCE));
    }

    #[test]
    fn twenty_boot_clock_hours_do_not_renew_before_midnight() {
        let mut world = spent_at_midnight();
        world.clock.pass(20 * HOUR);
        world.clock.shift_wall_clock(4 * HOUR);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    }

    #[test]
    fn a_new_boot_renews_by_the_wall_clock() {
        let mut world = spent_at_midnight();
        world.clock.reboot(DAY);
        world.signs(payment(WHOLE_ALLOWANCE));
    }

    #[test]
    fn a_late_first_request_still_gets_midnight_within_a_boot() {
        let mut world = spent_at_midnight();
        world.clock.pass_until("2026-01-16T18:00:00Z");
        world.signs(payment(WHOLE_ALLOWANCE));
        world.clock.pass_until("2026-01-16T23:59:59Z");
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        world.clock.pass(SECOND);
        world.signs(payment(WHOLE_ALLOWANCE));
    }

    #[test]
    fn a_request_soon_after_a_reboot_still_gets_midnight() {
        let mut world = spent_at_midnight();
        world.clock.pass_until("2026-01-16T17:00:00Z");
        world.clock.reboot(MINUTE);
        world.clock.pass_until("2026-01-16T18:00:00Z");
        world.signs(payment(WHOLE_ALLOWANCE));
        world.clock.pass_until("2026-01-17T00:00:00Z");
        world.signs(payment(WHOLE_ALLOWANCE));
    }

    #[test]
    fn the_operator_grants_a_blocked_renewal_with_an_unlocked_wallet() {
        let mut world = spent_at_midnight();
        world.clock.shift_wall_clock(DAY);
        world.unlocked = false;
        let renew = || Action::Renew { agent: build::agent(0) };
        assert_eq!(world.run_refused(renew()).code, Code::WalletLocked);
        world.unlocked = true;
        world.must(renew());
        let window = world.commission().window.clone();
        assert_eq!(window.spent.payment, Usd::ZERO);
        assert_eq!((window.start.day, window.start.utc), {
            let now = world.now();
            (now.local_day, now.day_start)
        });
        world.signs(payment(WHOLE_ALLOWANCE));
        // The grant uses up its date, so the operator cannot renew the allowance a second time.
        assert_eq!(world.run_refused(renew()).code, Code::BadInput);
        // After the clock is corrected, the real next day grants nothing.
        world.clock.shift_wall_clock(-DAY);
        world.clock.pass(DAY);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        world.clock.pass(DAY);
        world.signs(payment(WHOLE_ALLOWANCE));
    }

    #[test]
    fn the_operator_cannot_grant_a_renewal_before_its_date() {
        let mut world = spent_at_midnight();
        let renew = || Action::Renew { agent: build::agent(0) };
        assert_eq!(world.run_refused(renew()).code, Code::BadInput);
        world.clock.pass(DAY - 1);
        assert_eq!(world.run_refused(renew()).code, Code::BadInput);
        world.clock.shift_wall_clock(-3 * DAY);
        assert_eq!(world.run_refused(renew()).code, Code::BadInput);
        build::register(
            &mut world,
            1,
            bursar_domain::agents::Credential::Hmac { secret_hash: [7; 32] },
        );
        let idle = Action::Renew { agent: build::agent(1) };
        assert_eq!(world.run_refused(idle).code, Code::AgentNotCommissioned);
        let unknown = Action::Renew { agent: build::agent(2) };
        assert_eq!(world.run_refused(unknown).code, Code::NothingFound);
    }

    #[test]
    fn a_granted_renewal_keeps_reservations() {
        let mut world = spent_at_midnight();
        world.edit(|policy| policy.payments.daily = Usd::dollars(16)).unwrap();
        world.edit(|policy| policy.payments.auto_below = Usd::dollars(1)).unwrap();
        world.clock.pass(MINUTE);
        let held = world.holds(payment(6_000_000));
        world.clock.shift_wall_clock(DAY);
        world.must(Action::Renew { agent: build::agent(0) });
        // The clock jump also ended the hold, but its reservation is released only when that end is recorded.
        assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::dollars(6)));
        world.tick();
        assert_eq!(world.reserved_value(), Usd::ZERO);
        assert!(matches!(world.status(held), bursar_domain::Status::Expired { .. }));
    }

    #[test]
    fn a_clock_more_than_an_hour_ahead_of_the_chain_renews_nothing() {
        let mut world = spent_at_midnight();
        world.clock.pass(DAY);
        world.clock.chain_hint = Some(world.clock.utc.plus_ms(-HOUR - 1));
        assert_eq!(world.tick().events, []);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        world.clock.chain_hint = Some(world.clock.utc.plus_ms(-HOUR));
        assert_renews(&mut world);
    }

    #[test]
    fn a_clock_behind_the_chain_or_no_chain_time_still_renews() {
        for hint in [None, Some(utc("2027-01-01T00:00:00Z"))] {
            let mut world = spent_at_midnight();
            world.clock.pass(DAY);
            world.clock.chain_hint = hint;
            assert_renews(&mut world);
        }
    }

    #[test]
    fn the_operator_may_grant_a_renewal_blocked_by_chain_time() {
        let mut world = spent_at_midnight();
        world.clock.reboot(DAY);
        world.clock.chain_hint = Some(utc("2026-01-15T00:10:00Z"));
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        world.must(Action::Renew { agent: build::agent(0) });
        assert_eq!(world.spent(), Usd::ZERO);
    }

    /// Asserts that a whole new allowance is granted.
    ///
    /// It first clears the known chain time, because a payment is held while the clock differs from it.
    fn assert_renews(world: &mut World) {
        world.tick();
        assert_eq!(world.spent(), Usd::ZERO);
        world.clock.chain_hint = None;
        world.signs(payment(WHOLE_ALLOWANCE));
    }

    /// At the next midnight the wall clock jumps to 23:00, and then by one more hour to the following date.
    ///
    /// The second renewal must wait until a day has really passed.
    #[test]
    fn a_jump_to_the_evening_does_not_bring_the_next_renewal_forward() {
        let mut world = spent_at_midnight();
        world.clock.pass(DAY);
        world.clock.shift_wall_clock(23 * HOUR);
        world.signs(payment(WHOLE_ALLOWANCE));
        world.clock.shift_wall_clock(HOUR);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    }
}

/// A change of wall clock or zone within one boot.
///
/// The boot clock limits how many allowances such changes can grant.
#[derive(Debug, Clone)]
enum ClockChange {
    Pass(i64),
    Set(i64),
    Zone(&'static str),
}

const ZONES: [&str; 6] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Honolulu",
    "Pacific/Kiritimati",
    "Australia/Lord_Howe",
];

fn any_clock_changes() -> impl Strategy<Value = Vec<ClockChange>> {
    let one = prop_oneof![
        3 => (0..30 * HOUR).prop_map(ClockChange::Pass),
        1 => Just(ClockChange::Pass(20 * HOUR)),
        2 => (-40 * HOUR..60 * HOUR).prop_map(ClockChange::Set),
        1 => prop::sample::select(&ZONES[..]).prop_map(ClockChange::Zone),
    ];
    prop::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_boot_clock_bounds_the_allowances_granted_within_a_boot(any_clock_changes in any_clock_changes()) {
        let mut world = build::world(Clock::at("2026-03-27T09:00:00Z", "UTC"), &ten_at_once());
        let began = world.clock.boottime_ms;
        let (mut granted, mut dates) = (1u64, vec![world.now().local_day]);
        world.signs(payment(WHOLE_ALLOWANCE));
        for one in any_clock_changes {
            match one {
                ClockChange::Pass(ms) => world.clock.pass(ms),
                ClockChange::Set(ms) => world.clock.shift_wall_clock(ms),
                ClockChange::Zone(zone) => world.clock.zone = TimeZone::get(zone).unwrap(),
            }
            if world.ask(payment(WHOLE_ALLOWANCE)).code().is_none() {
                granted += 1;
                dates.push(world.now().local_day);
            }
            let least = (20 * HOUR - 5 * MINUTE).unsigned_abs();
            // The first allowance began at midnight, nine hours before the first move.
            let lasted = world.clock.boottime_ms - began + (9 * HOUR).unsigned_abs();
            prop_assert!(granted <= 1 + lasted / least);
        }
        // No date has two allowances, and no allowance has an earlier date than the one before.
        prop_assert!(dates.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", dates);
    }

    /// With honest clocks and a start at midnight, a tick and a request grant the same allowance.
    ///
    /// The order and the number of the ticks do not matter.
    #[test]
    fn a_tick_and_the_next_request_renew_alike(
        zone in prop::sample::select(&ZONES[..]),
        spans in prop::collection::vec(1..9 * HOUR, 1..24),
        reboots in any::<bool>(),
    ) {
        let mut clock = Clock::at("2026-03-25T12:00:00Z", zone);
        clock.utc = clock.moment().day_start;
        let (mut lazy, mut timed) =
            (build::world(clock.clone(), &ten_at_once()), build::world(clock, &ten_at_once()));
        for (place, span) in spans.iter().enumerate() {
            for world in [&mut lazy, &mut timed] {
                world.clock.pass(*span);
                if reboots && place % 5 == 4 {
                    world.clock.reboot(MINUTE);
                }
            }
            timed.tick();
        }
        let answers = [lazy.ask(payment(WHOLE_ALLOWANCE)), timed.ask(payment(WHOLE_ALLOWANCE))];
        prop_assert_eq!(&answers[0], &answers[1]);
        prop_assert_eq!(lazy.spent(), timed.spent());
        let (lazy, timed) = (&lazy.commission().window, &timed.commission().window);
        prop_assert_eq!((lazy.start.day, lazy.start.utc), (timed.start.day, timed.start.utc));
    }
}
