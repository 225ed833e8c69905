//! The operator's side: what is shown, what an approval is bound to, how a hold ends.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_domain::agents::Credential;
use bursar_domain::requests::Approver;
use bursar_domain::{Action, Effect, PaymentAsk, Refusal, Reply, Status};

use crate::support::clock::{Clock, DAY, HOUR, MINUTE, SECOND};
use crate::support::{OPERATOR, World, build, denial};
use build::{ordinary, payment};

const QUARTER: i64 = 15 * MINUTE;

/// One payment of two dollars that waits.
fn waiting() -> (World, RequestId) {
    let mut world = ordinary();
    let id = world.holds(payment(2_000_000));
    (world, id)
}

fn shown(world: &World, id: RequestId) -> String {
    world.card(id).expect("a card").digest
}

fn is_expired(world: &World, id: RequestId) -> bool {
    matches!(world.status(id), Status::Expired { .. })
}

/// The command failed because the hold was over, and the end of the hold is recorded.
#[track_caller]
fn came_too_late(world: &mut World, action: Action, id: RequestId) {
    let decision = world.must(action);
    assert_eq!(decision.reply, Reply::Refused(Code::RequestExpired.into()));
    assert_eq!(decision.effects, []);
    assert!(is_expired(world, id));
    assert_eq!((world.spent(), world.reserved()), (Usd::ZERO, Usd::ZERO));
    assert_eq!(world.state.held.len(), 0);
}

mod approval {
    use super::*;

    #[test]
    fn turns_the_reservation_into_spending_and_fixes_the_terms_of_that_moment() {
        let (mut world, id) = waiting();
        world.clock.pass(10 * MINUTE);
        let action = world.approval(id, &shown(&world, id));
        let Action::Approve { nonce, .. } = action else { panic!("{action:?}") };
        let decision = world.must(action);
        assert_eq!(
            (decision.effects, decision.reply),
            (vec![Effect::Sign(id)], Reply::Request(id))
        );
        assert_eq!((world.spent(), world.reserved()), (Usd::dollars(2), Usd::ZERO));
        let Status::Authorized { terms, at, by, signature } = world.status(id) else {
            panic!("{:?}", world.status(id))
        };
        assert_eq!((*at, *by, signature), (world.clock.utc, Approver::Operator(OPERATOR), &None));
        assert_eq!((terms.from, terms.to), (build::address("main"), build::payee()));
        assert_eq!(terms.value.to::<u64>(), 2_000_000);
        assert_eq!(terms.valid_before, world.clock.utc.seconds().unsigned_abs() + 60);
        assert_eq!(terms.nonce.0, nonce);
        assert!(world.state.held.is_empty());
    }

    #[test]
    fn works_once() {
        let (mut world, id) = waiting();
        let digest = shown(&world, id);
        world.approves(id);
        let again = world.approval(id, &digest);
        assert_eq!(world.refused(again).code, Code::AlreadyDecided);
        assert_eq!(world.refused(denial(id)).code, Code::AlreadyDecided);
        assert_eq!(world.spent(), Usd::dollars(2));
    }

    #[test]
    fn of_what_does_not_wait_is_refused() {
        let (mut world, id) = waiting();
        let digest = shown(&world, id);
        let automatic = world.signs(payment(1));
        let action = world.approval(automatic, &digest);
        assert_eq!(world.refused(action).code, Code::AlreadyDecided);
        world.deny(id).expect("it waits");
        let action = world.approval(id, &digest);
        world.refused(action);
        let never = RequestId::from_entropy([1; 16]);
        let action = world.approval(never, &digest);
        assert_eq!(world.refused(action).code, Code::RequestNotFound);
        assert_eq!(world.refused(denial(never)).code, Code::RequestNotFound);
    }

    #[test]
    fn needs_an_open_wallet() {
        let (mut world, id) = waiting();
        world.unlocked = false;
        let action = world.approval(id, &shown(&world, id));
        assert_eq!(world.refused(action).code, Code::WalletLocked);
        world.unlocked = true;
        world.approves(id);
    }

    #[test]
    fn is_not_stopped_by_a_full_queue_or_by_a_journal_that_made_it_wait() {
        let mut world = ordinary();
        world.trusted = false;
        let held: Vec<_> = (0..20).map(|_ask| world.holds(payment(1))).collect();
        world.approves(held[3]);
        world.approves(held[19]);
        assert_eq!((world.spent(), world.reserved()), (Usd(2), Usd(18)));
    }

    #[test]
    fn pays_from_the_address_on_the_card_wherever_the_agent_is_now() {
        let (mut world, id) = waiting();
        world.must(build::commission(0, "daily bread", "spare"));
        let card = world.card(id).expect("a card");
        assert_eq!(card.terms.address, build::address("main").to_checksum(None));
        world.approves(id);
        let Status::Authorized { terms, .. } = world.status(id) else { panic!("not authorized") };
        assert_eq!(terms.from, build::address("main"));
    }

    #[test]
    fn gives_the_unusual_what_it_asked_for() {
        let mut world = ordinary();
        let long = world.holds(PaymentAsk { valid_seconds: 86_400, ..payment(1) });
        world.approves(long);
        let now = world.clock.utc.seconds().unsigned_abs();
        assert_eq!(world.records[&long].valid_before(), Some(now + 86_400));
    }

    #[test]
    fn of_a_request_of_the_day_before_is_possible_while_it_waits() {
        let mut world = build::world(Clock::at("2026-01-15T00:00:00Z", "UTC"), &build::policy());
        world.clock.pass(DAY - MINUTE);
        let id = world.holds(payment(2_000_000));
        world.clock.pass(2 * MINUTE);
        world.approves(id);
        assert_eq!((world.spent(), world.reserved()), (Usd::dollars(2), Usd::ZERO));
    }
}

mod card {
    use super::*;

    #[test]
    fn shows_the_terms_that_would_be_signed() {
        let mut world = ordinary();
        let ask = PaymentAsk {
            valid_seconds: 7,
            resource_url: Some("https://merchant.example/r".to_owned()),
            ..payment(2_000_000)
        };
        let id = world.holds(ask);
        world.signs(payment(300_000));
        let card = world.card(id).expect("a card");
        let terms = &card.terms;
        assert_eq!((card.id, &terms.agent), (id, &build::agent(0)));
        assert_eq!(terms.address, build::address("main").to_checksum(None));
        assert_eq!(terms.network, build::base().caip2());
        assert_eq!(terms.asset, build::base().stablecoin.address.to_checksum(None));
        assert_eq!(terms.payee, build::payee().to_checksum(None));
        assert_eq!((terms.amount.as_str(), terms.valid_seconds), ("2000000", 30));
        assert_eq!(terms.request_url.as_deref(), Some("https://api.example/report"));
        assert_eq!(terms.resource_url.as_deref(), Some("https://merchant.example/r"));
        assert_eq!((card.hold, card.usd), (HoldReason::AboveThreshold, Usd::dollars(2)));
        assert_eq!((card.spent.before, card.spent.after), (Usd(300_000), Usd(2_300_000)));
        assert_eq!((card.reserved, card.daily_limit), (Usd::dollars(2), Usd::dollars(100)));
        assert_eq!(card.expires_in_seconds, 900);
        let digest = bursar_core::card::digest(terms, card.hold, card.policy_version);
        assert_eq!(card.digest, digest);
        world.approves(id);
        assert_eq!(world.card(id), None);
    }

    #[test]
    fn another_digest_is_no_approval() {
        let (mut world, id) = waiting();
        let digest = shown(&world, id);
        let upper = digest.to_uppercase();
        let cut = digest.get(..63).expect("hex of 32 bytes");
        let other = world.holds(payment(3_000_000));
        let others = shown(&world, other);
        for wrong in ["", "0", upper.as_str(), cut, others.as_str()] {
            let action = world.approval(id, wrong);
            assert_eq!(world.refused(action).code, Code::CardChanged, "{wrong}");
        }
        let action = world.approval(id, &digest);
        world.must(action);
    }

    #[test]
    fn a_change_of_the_policy_asks_for_another_look() {
        let changes: [fn(&mut Policy); 4] = [
            |policy| policy.payments.daily = Usd::dollars(99),
            |policy| policy.payments.auto_below = Usd::dollars(3),
            |policy| policy.payments.hosts = build::hosts(&[], &["bad.example"]),
            |policy| policy.trading.enabled = true,
        ];
        for change in changes {
            let (mut world, id) = waiting();
            let before = shown(&world, id);
            world.edit(change).expect("an open wallet");
            let action = world.approval(id, &before);
            assert_eq!(world.refused(action).code, Code::CardChanged);
            assert_eq!(world.reserved(), Usd::dollars(2));
            world.approves(id);
        }
    }

    #[test]
    fn a_policy_changed_and_changed_back_is_another_policy() {
        let (mut world, id) = waiting();
        let before = shown(&world, id);
        world.edit(|policy| policy.payments.daily = Usd::dollars(50)).expect("free");
        world.edit(|policy| policy.payments.daily = Usd::dollars(100)).expect("an open wallet");
        let action = world.approval(id, &before);
        assert_eq!(world.refused(action).code, Code::CardChanged);
    }

    #[test]
    fn another_policy_for_the_agent_asks_for_another_look() {
        let (mut world, id) = waiting();
        let before = shown(&world, id);
        let name = build::name("other");
        let policy = Box::new(build::policy());
        world.must(Action::CreatePolicy { name, policy });
        world.must(build::commission(0, "other", "main"));
        let action = world.approval(id, &before);
        assert_eq!(world.refused(action).code, Code::CardChanged);
        world.approves(id);
    }

    /// Counters, balances, times left and other policies are no part of it.
    #[test]
    fn neither_time_nor_other_spending_moves_the_digest() {
        let (mut world, id) = waiting();
        let before = shown(&world, id);
        world.clock.pass(5 * MINUTE);
        world.signs(payment(999_999));
        let twin = world.holds(payment(2_000_000));
        world.approves(twin);
        let other = world.holds(payment(5_000_000));
        world.deny(other).expect("it waits");
        build::register(&mut world, 1, Credential::Hmac { check: [7; 32] });
        let name = build::name("another agent's");
        world.must(Action::CreatePolicy { name: name.clone(), policy: Box::default() });
        world.must(build::commission(1, name.as_str(), "spare"));
        world.must(Action::EditPolicy { name, policy: Box::new(build::policy()) });
        world.edit(|_same| ()).expect("no change");
        world.must(Action::Freeze);
        world.must(Action::Thaw);
        world.tick();
        let after = world.card(id).expect("a card");
        assert_eq!(after.expires_in_seconds, 600);
        assert_eq!(after.digest, before);
        let action = world.approval(id, &before);
        assert_eq!(world.must(action).effects, [Effect::Sign(id)]);
    }
}

mod fifteen_minutes {
    use super::*;

    #[test]
    fn a_millisecond_before_their_end_an_approval_is_in_time() {
        let (mut world, id) = waiting();
        world.clock.pass(QUARTER - 1);
        assert_eq!(world.tick().events, []);
        world.approves(id);
    }

    #[test]
    fn at_and_after_their_end_neither_approval_nor_denial_is_in_time() {
        for late in [0, 1, SECOND, DAY] {
            let (mut world, id) = waiting();
            let digest = shown(&world, id);
            world.clock.pass(QUARTER + late);
            let approval = world.approval(id, &digest);
            came_too_late(&mut world, approval, id);
            let (mut world, id) = waiting();
            world.clock.pass(QUARTER + late);
            came_too_late(&mut world, denial(id), id);
        }
    }

    #[test]
    fn after_their_end_a_wrong_digest_and_a_locked_wallet_find_it_expired_too() {
        let (mut world, id) = waiting();
        world.clock.pass(QUARTER);
        world.unlocked = false;
        let approval = world.approval(id, "wrong");
        came_too_late(&mut world, approval, id);
    }

    #[test]
    fn their_end_gives_the_reservation_back_once() {
        let (mut world, id) = waiting();
        world.clock.pass(MINUTE);
        let second = world.holds(payment(3_000_000));
        world.clock.pass(QUARTER - MINUTE);
        assert_eq!(world.tick().events.len(), 1);
        assert!(is_expired(&world, id) && !is_expired(&world, second));
        assert_eq!((world.spent(), world.reserved()), (Usd::ZERO, Usd::dollars(3)));
        assert_eq!(world.tick().events, []);
        world.refused(denial(id));
        world.clock.pass(MINUTE);
        world.tick();
        assert_eq!(world.reserved(), Usd::ZERO);
    }

    #[test]
    fn a_clock_set_back_does_not_lengthen_them_within_a_boot() {
        let (mut world, id) = waiting();
        let digest = shown(&world, id);
        world.clock.set_by(-10 * HOUR);
        world.clock.pass(QUARTER - 1);
        assert_eq!(world.card(id).expect("a card").expires_in_seconds, 1);
        assert_eq!(world.tick().events, []);
        world.clock.pass(1);
        let approval = world.approval(id, &digest);
        came_too_late(&mut world, approval, id);
    }

    #[test]
    fn a_clock_set_forward_ends_them_early() {
        let (mut world, id) = waiting();
        world.clock.set_by(QUARTER);
        world.tick();
        assert!(is_expired(&world, id));
    }

    #[test]
    fn they_go_on_across_a_reboot_by_the_wall_clock() {
        let (mut world, id) = waiting();
        world.clock.reboot(QUARTER - 1);
        assert_eq!(world.tick().events, []);
        world.clock.pass(1);
        world.tick();
        assert!(is_expired(&world, id));
    }

    #[test]
    fn they_are_counted_by_the_wall_clock_where_no_boot_is_known() {
        let clock = Clock::at("2026-01-15T12:00:00Z", "UTC").without_boot();
        let mut world = build::world(clock, &build::policy());
        let id = world.holds(payment(2_000_000));
        world.clock.pass(QUARTER - 1);
        assert_eq!(world.tick().events, []);
        world.clock.pass(1);
        world.tick();
        assert!(is_expired(&world, id));
    }
}

mod denial {
    use super::*;

    #[test]
    fn gives_the_reservation_back_and_keeps_the_reason() {
        let (mut world, id) = waiting();
        world.holds(payment(3_000_000));
        let reason = Some("too dear".to_owned());
        let decision = world.must(Action::Deny { id, reason: reason.clone(), by: OPERATOR });
        assert_eq!((decision.reply, decision.effects), (Reply::Request(id), vec![]));
        assert_eq!(*world.status(id), Status::Denied { reason, at: world.clock.utc, by: OPERATOR });
        assert_eq!((world.spent(), world.reserved()), (Usd::ZERO, Usd::dollars(3)));
        world.refused(denial(id));
        assert_eq!(world.reserved(), Usd::dollars(3));
    }

    #[test]
    fn needs_neither_an_open_wallet_nor_agents_that_work() {
        let (mut world, id) = waiting();
        world.must(Action::Freeze);
        world.must(Action::Suspend { agent: build::agent(0) });
        world.unlocked = false;
        world.deny(id).expect("a denial is always heard");
        assert_eq!(world.reserved(), Usd::ZERO);
    }
}

/// Approved under a policy that has become tighter, or for an agent that may not work any more: a record
/// of the refusal, no signature, and the reservation comes back.
mod second_look {
    use super::*;

    #[track_caller]
    fn turned_down(change: impl FnOnce(&mut World)) -> Refusal {
        let (mut world, id) = waiting();
        world.holds(payment(3_000_000));
        change(&mut world);
        let spent = world.spent();
        let refusal = world.rejects(id);
        assert_eq!((world.spent(), world.reserved()), (spent, Usd::dollars(3)));
        assert!(!world.state.held.contains_key(&id) && !world.state.authorized.contains_key(&id));
        world.refused(denial(id));
        assert_eq!(world.must(Action::Reissue).effects, []);
        refusal
    }

    #[track_caller]
    fn tightened(change: fn(&mut Policy)) -> Refusal {
        turned_down(|world| {
            world.edit(change).expect("tightening is free");
        })
    }

    #[test]
    fn a_lower_maximum_takes_effect() {
        let refusal = tightened(|policy| policy.payments.per_request = Usd(1_999_999));
        assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
        assert_eq!(refusal.requested, Some(Usd::dollars(2)));
        assert_eq!(refusal.bound, Some(Usd(1_999_999)));
    }

    #[test]
    fn a_lower_daily_limit_takes_effect_and_counts_what_else_waits() {
        let refusal = tightened(|policy| policy.payments.daily = Usd(4_999_999));
        assert_eq!((refusal.code, refusal.bound), (Code::ExceedsDailyLimit, Some(Usd(1_999_999))));
        let refusal = tightened(|policy| policy.payments.daily = Usd::ZERO);
        assert_eq!(refusal.code, Code::LimitReached);
    }

    #[test]
    fn a_limit_that_still_fits_is_no_reason_to_refuse() {
        let (mut world, id) = waiting();
        let second = world.holds(payment(3_000_000));
        world.edit(|policy| policy.payments.daily = Usd::dollars(5)).expect("free");
        world.edit(|policy| policy.payments.per_request = Usd::dollars(3)).expect("free");
        world.approves(second);
        world.approves(id);
        assert_eq!((world.spent(), world.reserved()), (Usd::dollars(5), Usd::ZERO));
    }

    #[test]
    fn payments_switched_off_take_effect() {
        let refusal = tightened(|policy| policy.payments.enabled = false);
        assert_eq!(refusal.code, Code::X402Disabled);
    }

    #[test]
    fn domains_and_networks_take_effect() {
        let refusal =
            tightened(|policy| policy.payments.hosts = build::hosts(&[], &["api.example"]));
        assert_eq!(refusal.code, Code::DomainNotAllowed);
        let refusal =
            tightened(|policy| policy.payments.hosts = build::hosts(&["good.example"], &[]));
        assert_eq!(refusal.code, Code::DomainNotAllowed);
        let refusal = tightened(|policy| policy.networks = AllowedNetworks::Only([].into()));
        assert_eq!(refusal.code, Code::NetworkNotAllowed);
        let refusal = turned_down(|world| {
            world.must(Action::SetNetwork { chain: build::base().chain, enabled: false });
        });
        assert_eq!(refusal.code, Code::NetworkDisabled);
    }

    #[test]
    fn a_suspended_agent_is_turned_down() {
        let refusal = turned_down(|world| {
            world.must(Action::Suspend { agent: build::agent(0) });
        });
        assert_eq!(refusal.code, Code::AgentSuspended);
    }

    #[test]
    fn the_agents_new_policy_is_the_one_that_counts() {
        let refusal = turned_down(|world| {
            let mut tight = build::policy();
            tight.payments.per_request = Usd::dollars(1);
            let name = build::name("tight");
            world.must(Action::CreatePolicy { name: name.clone(), policy: Box::new(tight) });
            world.must(build::commission(0, name.as_str(), "main"));
        });
        assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
    }

    /// Its own reservation is what it is about to spend: a full allowance can be approved to the end.
    #[test]
    fn a_reservation_is_never_counted_against_itself() {
        let mut world = ordinary();
        world.edit(|policy| policy.payments.daily = Usd::dollars(10)).expect("free");
        let held = [6_000_000, 3_000_000, 1_000_000].map(|micros| world.holds(payment(micros)));
        assert_eq!(world.refuses(payment(1)).code, Code::ExceedsDailyLimit);
        for id in held {
            world.approves(id);
        }
        assert_eq!((world.spent(), world.reserved()), (Usd::dollars(10), Usd::ZERO));
    }

    #[test]
    fn what_a_hold_was_asked_for_holds_nothing_up_again() {
        let mut world = ordinary();
        world
            .edit(|policy| policy.payments.hosts = build::hosts(&["api.example"], &[]))
            .expect("free");
        let outside = Some("https://else.example/".to_owned());
        let id = world.holds(PaymentAsk { resource_url: outside, ..payment(1) });
        world.edit(|policy| policy.payments.auto_below = Usd::ZERO).expect("free");
        world.approves(id);
    }
}
