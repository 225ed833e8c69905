//! Decisions of the operator: the card, the terms that an approval covers, and the ends of a hold.

mod card;
mod fifteen_minutes;
mod second_look;

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
use build::{ordinary_world, payment};

const QUARTER_HOUR: i64 = 15 * MINUTE;

/// A world with one held payment of two dollars.
fn world_with_held() -> (World, RequestId) {
    let mut world = ordinary_world();
    let id = world.holds(payment(2_000_000));
    (world, id)
}

fn card_digest(world: &World, id: RequestId) -> String {
    world.card(id).expect("a card").digest
}

fn is_expired(world: &World, id: RequestId) -> bool {
    matches!(world.status(id), Status::Expired { .. })
}

/// Checks that a command came too late because the hold was over, and that the end of the hold is recorded.
#[track_caller]
fn assert_too_late(world: &mut World, action: Action, id: RequestId) {
    let decision = world.must(action);
    assert_eq!(decision.reply, Reply::Refused(Code::RequestExpired.into()));
    assert_eq!(decision.effects, []);
    assert!(is_expired(world, id));
    assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::ZERO));
    assert_eq!(world.state.held.len(), 0);
}

mod approval {
    use super::*;

    #[test]
    fn turns_the_reservation_into_spending_and_fixes_the_terms_of_that_moment() {
        let (mut world, id) = world_with_held();
        world.clock.pass(10 * MINUTE);
        let action = world.approval(id, &card_digest(&world, id));
        let Action::Approve(approval) = &action else { panic!("{action:?}") };
        let nonce = approval.nonce;
        let decision = world.must(action);
        assert_eq!(
            (decision.effects, decision.reply),
            (vec![Effect::Sign(id)], Reply::Request(id))
        );
        assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(2), Usd::ZERO));
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
        let (mut world, id) = world_with_held();
        let digest = card_digest(&world, id);
        world.approves(id);
        let again = world.approval(id, &digest);
        assert_eq!(world.run_refused(again).code, Code::AlreadyDecided);
        assert_eq!(world.run_refused(denial(id)).code, Code::AlreadyDecided);
        assert_eq!(world.spent(), Usd::dollars(2));
    }

    #[test]
    fn of_a_request_that_is_not_held_is_refused() {
        let (mut world, id) = world_with_held();
        let digest = card_digest(&world, id);
        let automatic = world.signs(payment(1));
        let action = world.approval(automatic, &digest);
        assert_eq!(world.run_refused(action).code, Code::AlreadyDecided);
        world.deny(id).expect("it waits");
        let action = world.approval(id, &digest);
        world.run_refused(action);
        let never = RequestId::from_entropy([1; 16]);
        let action = world.approval(never, &digest);
        assert_eq!(world.run_refused(action).code, Code::RequestNotFound);
        assert_eq!(world.run_refused(denial(never)).code, Code::RequestNotFound);
    }

    #[test]
    fn needs_an_open_wallet() {
        let (mut world, id) = world_with_held();
        world.unlocked = false;
        let action = world.approval(id, &card_digest(&world, id));
        assert_eq!(world.run_refused(action).code, Code::WalletLocked);
        world.unlocked = true;
        world.approves(id);
    }

    #[test]
    fn ignores_a_full_queue_and_the_distrust_that_caused_the_hold() {
        let mut world = ordinary_world();
        world.trusted = false;
        let held: Vec<_> = (0..20).map(|_ask| world.holds(payment(1))).collect();
        world.approves(held[3]);
        world.approves(held[19]);
        assert_eq!((world.spent(), world.reserved_value()), (Usd(2), Usd(18)));
    }

    #[test]
    fn pays_from_the_address_on_the_card_wherever_the_agent_is_now() {
        let (mut world, id) = world_with_held();
        world.must(build::commission(0, "daily bread", "spare"));
        let card = world.card(id).expect("a card");
        assert_eq!(card.terms.address, build::address("main").to_checksum(None));
        world.approves(id);
        let Status::Authorized { terms, .. } = world.status(id) else { panic!("not authorized") };
        assert_eq!(terms.from, build::address("main"));
    }

    #[test]
    fn keeps_the_requested_long_validity() {
        let mut world = ordinary_world();
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
        assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(2), Usd::ZERO));
    }
}

mod denial {
    use super::*;

    #[test]
    fn gives_the_reservation_back_and_keeps_the_reason() {
        let (mut world, id) = world_with_held();
        world.holds(payment(3_000_000));
        let reason = Some("too dear".to_owned());
        let decision = world.must(Action::Deny { id, reason: reason.clone(), by: OPERATOR });
        assert_eq!((decision.reply, decision.effects), (Reply::Request(id), vec![]));
        let (at, told_until) =
            (world.clock.utc, bursar_domain::requests::Deadline::after(&world.now()));
        assert_eq!(
            *world.status(id),
            Status::Denied { reason, at, by: OPERATOR, repeatable_until: told_until }
        );
        assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::dollars(3)));
        world.run_refused(denial(id));
        assert_eq!(world.reserved_value(), Usd::dollars(3));
    }

    #[test]
    fn needs_neither_an_open_wallet_nor_agents_that_work() {
        let (mut world, id) = world_with_held();
        world.must(Action::Freeze);
        world.must(Action::Suspend { agent: build::agent(0) });
        world.unlocked = false;
        world.deny(id).expect("a denial is always heard");
        assert_eq!(world.reserved_value(), Usd::ZERO);
    }
}
