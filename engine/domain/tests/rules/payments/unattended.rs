//! The limit of unattended days: how much agents spend while no person has opened the wallet (`unattended.daily`).

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::settings::Setting;
use bursar_domain::Action;

use crate::support::clock::{Clock, DAY, HOUR, MINUTE};
use crate::support::{Answer, World, build};
use build::{payment, policy};

const UNATTENDED_LIMIT: Option<HoldReason> = Some(HoldReason::UnattendedLimit);

/// A world in which payments below 10 dollars are automatic and 5 dollars a day may be spent unattended.
fn world() -> World {
    let mut policy = policy();
    policy.payments.auto_below = Usd::dollars(10);
    let mut world = build::world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    world.must(Action::Set(Setting::UnattendedDaily(Some(Usd::dollars(5)))));
    world
}

/// Reboots the machine; the boot service then opens the wallet.
fn reboot(world: &World) -> World {
    let mut next = world.restarted();
    next.clock.reboot(MINUTE);
    next.unlock_unattended();
    next
}

#[test]
fn it_holds_what_exceeds_it_and_refuses_nothing() {
    let mut world = reboot(&world());
    world.signs(payment(3_000_000));
    assert_eq!(world.ask(payment(2_000_001)).hold_reason(), UNATTENDED_LIMIT);
    world.signs(payment(2_000_000));
    let held = world.holds(payment(1));
    // The operator may approve a payment over the limit, which counts too.
    world.approves(held);
    assert_eq!(world.state.unattended.spent_at(&world.now()), Usd(5_000_001));
}

#[test]
fn only_unattended_days_count_and_only_they_are_limited() {
    let mut attended = world();
    attended.signs(payment(9_000_000));
    let mut world = reboot(&attended);
    world.signs(payment(5_000_000));
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
    // A person opens the wallet.
    world.lock();
    world.unlock();
    world.signs(payment(9_000_000));
    // Another reboot on the same day grants nothing.
    let mut world = reboot(&world);
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
}

#[test]
fn restarts_and_reboots_on_one_day_share_the_limit() {
    let mut world = reboot(&world());
    for _each in 0..5 {
        world.signs(payment(1_000_000));
        world = reboot(&world);
    }
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
    assert_eq!(world.restarted().ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
}

#[test]
fn it_renews_at_a_later_midnight_and_not_by_a_clock_that_jumps() {
    let mut world = reboot(&world());
    world.signs(payment(5_000_000));
    world.clock.shift_wall_clock(DAY);
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT, "the boot clock disagrees");
    world.clock.shift_wall_clock(-2 * DAY);
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT, "a day that was");
    world.clock.shift_wall_clock(DAY);
    world.clock.pass(12 * HOUR);
    world.signs(payment(5_000_000));
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
}

/// Otherwise a clock that is set back after a quiet day would find the earlier day unspent.
#[test]
fn it_renews_at_midnight_without_any_request() {
    let mut world = reboot(&world());
    world.clock.pass(DAY);
    world.tick();
    world.clock.shift_wall_clock(-18 * HOUR);
    world.signs(payment(5_000_000));
    world.clock.shift_wall_clock(18 * HOUR);
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
    // Also while a person has opened the wallet.
    world.lock();
    world.unlock();
    world.clock.pass(DAY);
    world.tick();
    let mut world = reboot(&world);
    world.clock.shift_wall_clock(-18 * HOUR);
    world.signs(payment(5_000_000));
    world.clock.shift_wall_clock(18 * HOUR);
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
}

#[test]
fn all_agents_share_it() {
    let mut world = world();
    build::register(
        &mut world,
        1,
        bursar_domain::agents::Credential::Hmac { secret_hash: [8; 32] },
    );
    world.must(build::commission(1, crate::support::policy_name().as_str(), "main"));
    let mut world = reboot(&world);
    world.signs(payment(4_000_000));
    let identity = build::signed_identity(world.draw(), world.clock.utc);
    let answer = world.ask_as(&build::agent(1), identity, payment(1_000_001));
    assert_eq!(answer.hold_reason(), UNATTENDED_LIMIT);
}

/// A payment that waits at a device counts even before it is signed.
#[test]
fn payments_that_wait_at_a_device_count() {
    let mut policy = policy();
    policy.payments.auto_below = Usd::dollars(10);
    let mut world = build::world_with_device(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    world.must(Action::Set(Setting::UnattendedDaily(Some(Usd::dollars(5)))));
    let mut world = reboot(&world);
    assert!(matches!(world.ask(payment(3_000_000)), Answer::Awaits(_)));
    assert_eq!(world.ask(payment(2_000_001)).hold_reason(), UNATTENDED_LIMIT);
    assert!(matches!(world.ask(payment(2_000_000)), Answer::Awaits(_)));
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
    assert_eq!(world.state.unattended.spent_at(&world.now()), Usd::ZERO);
}

#[test]
fn a_rule_that_refuses_or_holds_comes_first() {
    let mut world = reboot(&world());
    assert_eq!(world.refuses(payment(10_000_001)).code, Code::ExceedsPerRequestMax);
    assert_eq!(world.ask(payment(10_000_000)).hold_reason(), Some(HoldReason::AboveThreshold));
}

#[test]
fn raising_it_needs_the_open_wallet_and_lowering_it_does_not() {
    let mut world = world();
    world.lock();
    let set = |dollars| Action::Set(Setting::UnattendedDaily(dollars));
    assert_eq!(world.run_refused(set(Some(Usd::dollars(6)))).code, Code::WalletLocked);
    assert_eq!(world.run_refused(set(None)).code, Code::WalletLocked);
    world.must(set(Some(Usd::dollars(4))));
    let mut world = reboot(&world);
    world.signs(payment(4_000_000));
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
    world.must(set(None));
    world.signs(payment(9_000_000));
}

#[test]
fn a_restored_journal_counts_the_day_as_spent() {
    let mut world = reboot(&world());
    world.must(Action::RecordRestore);
    world.must(Action::AcceptJournal);
    assert_eq!(world.state.unattended.spent_at(&world.now()), Usd(u64::MAX));
}

#[test]
fn zero_holds_everything() {
    let mut world = world();
    world.must(Action::Set(Setting::UnattendedDaily(Some(Usd::ZERO))));
    let mut world = reboot(&world);
    assert_eq!(world.ask(payment(1)).hold_reason(), UNATTENDED_LIMIT);
}

mod histories {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::support::Answer;
    use crate::support::clock::SECOND;

    #[derive(Debug, Clone)]
    enum Step {
        Ask(u64),
        /// The operator approves the newest held request.
        Approve,
        Reboot(i64),
        /// A person locks the wallet and opens it again.
        Person,
        Restart,
        Pass(i64),
        SetClock(i64),
    }

    /// A step of a history that either contains reboots or sets the clock, but not both.
    fn step(sets_clock: bool) -> impl Strategy<Value = Step> {
        let span = || select(&[SECOND, HOUR, 11 * HOUR, 20 * HOUR, DAY, 3 * DAY][..]);
        prop_oneof![
            12 => (1u64..4_000_000).prop_map(Step::Ask),
            2 => Just(Step::Approve),
            4 => span().prop_map(move |ms| if sets_clock { Step::Restart } else { Step::Reboot(ms) }),
            1 => Just(Step::Person),
            1 => Just(Step::Restart),
            3 => span().prop_map(Step::Pass),
            3 => (span(), any::<bool>()).prop_map(move |(ms, back)| match (sets_clock, back) {
                (true, true) => Step::SetClock(-ms),
                (true, false) => Step::SetClock(ms),
                (false, _) => Step::Pass(ms),
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// With honest clocks, the spending without a person stays within the limit on every date, however often the
        /// machine reboots.
        ///
        /// Setting the clock within a boot grants no day before its time has passed. (A clock that is set during a
        /// reboot can grant one day early: SECURITY.md.)
        #[test]
        fn no_day_exceeds_the_limit(
            (sets_clock, steps) in any::<bool>().prop_flat_map(|sets| {
                (Just(sets), prop::collection::vec(step(sets), 1..60))
            }),
        ) {
            let mut passed_ms = 0;
            let (mut world, mut unattended) = (reboot(&world()), true);
            let mut held = Vec::new();
            let mut by_date: BTreeMap<_, u64> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Ask(micros) => match world.ask(payment(micros)) {
                        Answer::Signs(_) if unattended => {
                            *by_date.entry(world.now().local_day).or_default() += micros;
                        }
                        Answer::Holds(id, _) => held.push(id),
                        _other => {}
                    },
                    // The approval may be refused: the request may have expired or exceed a limit of the policy.
                    Step::Approve => {
                        let _refused = held.pop().map(|id| world.approve(id));
                    }
                    Step::Reboot(down) => {
                        world = world.restarted();
                        world.clock.reboot(down);
                        world.unlock_unattended();
                        unattended = true;
                    }
                    Step::Person => {
                        world.lock();
                        world.unlock();
                        unattended = false;
                    }
                    Step::Restart => world = world.restarted(),
                    Step::Pass(ms) => {
                        passed_ms += ms;
                        world.clock.pass(ms);
                    }
                    Step::SetClock(ms) => world.clock.shift_wall_clock(ms),
                }
            }
            if sets_clock {
                // The first day began up to a day earlier. Each day lasts at least 20 hours, less the slack of the
                // boot clock.
                let days = 1 + (DAY + passed_ms) / (19 * HOUR);
                let spent: u64 = by_date.values().sum();
                prop_assert!(spent <= 5_000_000 * days.unsigned_abs(), "{spent} in {days} days");
            } else {
                for (date, spent) in by_date {
                    prop_assert!(spent <= 5_000_000, "{date:?}: {spent}");
                }
            }
        }
    }
}
