//! Frozen agents, a locked wallet, suspended agents: nothing is signed, but earlier authorizations may be signed
//! later.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_domain::agents::Credential;
use bursar_domain::{Action, Effect, Entry, Event, PaymentAsk, Status, apply};

use crate::support::clock::{DAY, HOUR, MINUTE, SECOND};
use crate::support::{Answer, World, build};
use build::{ordinary_world, payment};

fn is_signed(world: &World, id: RequestId) -> bool {
    matches!(world.status(id), Status::Authorized { signature: Some(_), .. })
}

fn reissue(world: &mut World) -> Vec<RequestId> {
    let decision = world.must(Action::Reissue);
    assert_eq!(decision.events, [], "a slip is no news");
    decision
        .effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Sign(id) => Some(id),
            Effect::SignPermit(_)
            | Effect::SignMandate(_)
            | Effect::SignStatement(_)
            | Effect::Outbox(..) => None,
        })
        .collect()
}

fn sorted<const N: usize>(mut ids: [RequestId; N]) -> [RequestId; N] {
    ids.sort();
    ids
}

mod frozen {
    use super::*;

    #[test]
    fn an_ask_is_refused_without_an_id_and_reserves_nothing() {
        let mut world = ordinary_world();
        world.must(Action::Freeze);
        let before = world.state.clone();
        for micros in [1, 2_000_000, 20_000_000] {
            assert_eq!(world.ask(payment(micros)), Answer::Unrecorded(Code::AgentsFrozen.into()));
        }
        assert_eq!(world.state, before);
    }

    #[test]
    fn an_approval_is_refused_and_the_request_waits_on() {
        let mut world = ordinary_world();
        let id = world.holds(payment(2_000_000));
        world.must(Action::Freeze);
        let action = world.approval(id, &world.card(id).expect("a card").digest);
        assert_eq!(world.run_refused(action).code, Code::AgentsFrozen);
        assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::dollars(2)));
        world.must(Action::Thaw);
        world.approves(id);
    }

    #[test]
    fn held_requests_expire_while_frozen() {
        let mut world = ordinary_world();
        world.holds(payment(2_000_000));
        world.must(Action::Freeze);
        world.clock.pass(15 * MINUTE);
        world.tick();
        assert_eq!((world.reserved_value(), world.state.held.len()), (Usd::ZERO, 0));
    }

    #[test]
    fn a_freeze_survives_restarts_and_ends_only_unlocked() {
        let mut world = ordinary_world();
        world.must(Action::Freeze);
        let since = world.state.frozen;
        assert_eq!(since, Some(world.clock.utc));
        world.clock.pass(DAY);
        assert_eq!(world.must(Action::Freeze).events, []);
        let mut world = world.restarted();
        assert_eq!(world.state.frozen, since);
        assert_eq!(world.ask(payment(1)), Answer::Unrecorded(Code::AgentsFrozen.into()));
        world.unlocked = false;
        assert_eq!(world.run_refused(Action::Thaw).code, Code::WalletLocked);
        world.unlocked = true;
        world.must(Action::Thaw);
        assert_eq!(world.must(Action::Thaw).events, []);
        world.signs(payment(1));
    }

    #[test]
    fn a_signature_that_was_made_in_time_is_still_recorded() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.must(Action::Freeze);
        world.must(world.signed_action(id));
        assert!(is_signed(&world, id));
    }
}

mod locked {
    use super::*;

    /// A locked wallet rejects every authenticated endpoint.
    ///
    /// The agent server checks the lock first, but the operator may lock between that check and the decision. No seal
    /// would cover an entry that is recorded then.
    #[test]
    fn an_ask_is_refused_without_a_trace() {
        let mut world = ordinary_world();
        world.unlocked = false;
        for micros in [1, 2_000_000, 20_000_000] {
            let identity = build::signed_identity(world.draw(), world.clock.utc);
            let action = world.ask_action(&build::agent(0), identity, payment(micros));
            world.run_refused(action);
        }
    }

    #[test]
    fn a_bearer_agent_is_refused_too() {
        let mut world = ordinary_world();
        build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
        world.must(build::commission(1, "daily bread", "main"));
        world.unlocked = false;
        let identity = build::bearer_identity(&build::agent(1), b"report", None);
        let action = world.ask_action(&build::agent(1), identity, payment(1));
        world.run_refused(action);
    }

    #[test]
    fn nothing_is_reissued() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.unlocked = false;
        assert_eq!(reissue(&mut world), []);
        world.unlocked = true;
        assert_eq!(reissue(&mut world), [id]);
    }
}

mod reissue {
    use super::*;

    #[test]
    fn is_for_what_is_authorized_and_unsigned_and_nothing_else() {
        let mut world = ordinary_world();
        let automatic = world.signs(payment(1));
        let approved = world.holds(payment(2_000_000));
        world.approves(approved);
        let signed = world.signs(payment(2));
        world.must(world.signed_action(signed));
        world.holds(payment(3_000_000));
        let denied = world.holds(payment(3_000_000));
        world.deny(denied).expect("it waits");
        world.refuses(payment(11_000_000));
        let wanted = sorted([automatic, approved]);
        assert_eq!(reissue(&mut world), wanted);
        // Every later reissue gives the same payments, also after a restart.
        assert_eq!(reissue(&mut world.restarted()), wanted);
        assert_eq!(reissue(&mut world), wanted);
        assert_eq!(world.spent(), Usd(2_000_003));
    }

    #[test]
    fn ends_with_the_validity() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.clock.pass(60 * SECOND - 1);
        // Meanwhile another entry advances the journal's time.
        world.holds(payment(2_000_000));
        assert_eq!(reissue(&mut world), [id]);
        world.clock.pass(1);
        assert_eq!(reissue(&mut world), []);
    }

    #[test]
    fn waits_for_the_thaw() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.must(Action::Freeze);
        assert_eq!(reissue(&mut world), []);
        world.must(Action::Thaw);
        assert_eq!(reissue(&mut world), [id]);
    }

    /// I-g (global freeze or suspension of one agent) and I-i: nothing is signed for a suspended agent.
    #[test]
    fn waits_for_the_agent_to_be_resumed() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.must(Action::Suspend { agent: build::agent(0) });
        assert_eq!(reissue(&mut world), []);
        world.must(Action::Resume { agent: build::agent(0) });
        assert_eq!(reissue(&mut world), [id]);
    }
}

/// The journal did not match the wallet, so its authorizations may be forged.
mod untrusted {
    use super::*;

    #[test]
    fn nothing_is_reissued() {
        let mut world = ordinary_world();
        let identity = build::signed_identity(world.draw(), world.clock.utc);
        let answer = world.ask_as(&build::agent(0), identity.clone(), payment(1));
        let Answer::Signs(id) = answer else { panic!("{answer:?}") };
        world.trusted = false;
        assert_eq!(reissue(&mut world), []);
        let repeat = world.ask_action(&build::agent(0), identity, payment(1));
        assert_eq!(world.must(repeat).effects, []);
        world.trusted = true;
        assert_eq!(reissue(&mut world), [id]);
    }

    #[test]
    fn accepting_a_journal_drops_unsigned_payments_which_stay_spent() {
        let mut world = ordinary_world();
        let identity = build::signed_identity(world.draw(), world.clock.utc);
        let answer = world.ask_as(&build::agent(0), identity.clone(), payment(1));
        let Answer::Signs(unsigned) = answer else { panic!("{answer:?}") };
        let signed = world.signs(payment(2));
        world.must(world.signed_action(signed));
        let held = world.holds(payment(2_000_000));
        world.trusted = false;
        world.must(Action::AcceptJournal);
        world.trusted = true;
        assert_eq!(reissue(&mut world), []);
        assert_eq!(world.must(world.signed_action(unsigned)).events, []);
        let repeat = world.ask_action(&build::agent(0), identity, payment(1));
        assert_eq!(world.must(repeat).effects, []);
        assert!(is_signed(&world, signed) && !is_signed(&world, unsigned));
        assert!(world.state.authorized.keys().eq([&signed]));
        assert_eq!((world.spent(), world.reserved_value()), (Usd(3), Usd::dollars(2)));
        world.approves(held);
    }
}

#[test]
fn the_journals_own_time_never_goes_back() {
    let mut world = ordinary_world();
    world.must(Action::Freeze);
    let mut state = world.state.clone();
    let at = state.clock.plus_ms(-HOUR);
    let entry = Entry { seq: state.seq + 1, at, event: Event::Thawed };
    apply(&mut state, &entry);
    assert_eq!((state.clock, state.frozen), (world.state.clock, None));
}

mod signature {
    use super::*;

    #[test]
    fn is_recorded_once() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        assert_eq!(world.must(world.signed_action(id)).events.len(), 1);
        assert!(is_signed(&world, id));
        assert_eq!(world.must(world.signed_action(id)).events, []);
        assert_eq!(world.spent(), Usd(1));
    }

    #[test]
    fn of_what_is_not_authorized_changes_nothing() {
        let mut world = ordinary_world();
        let held = world.holds(payment(2_000_000));
        let denied = world.holds(payment(2_000_000));
        world.deny(denied).expect("it waits");
        for id in [held, denied, RequestId::from_entropy([3; 16])] {
            assert_eq!(world.must(world.signed_action(id)).events, []);
        }
    }

    #[test]
    fn made_before_the_lock_is_recorded_after_it() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.unlocked = false;
        world.must(world.signed_action(id));
        assert!(is_signed(&world, id));
    }

    /// The clock was ahead and was corrected.
    ///
    /// The journal's time does not advance until the wall clock has caught up. Payments are valid for one minute of
    /// the wall clock, so the wallet must sign them before the journal's time advances again.
    #[test]
    fn is_possible_for_payments_authorized_after_a_clock_correction() {
        let mut world = ordinary_world();
        world.clock.shift_wall_clock(HOUR);
        let ahead = world.signs(payment(1));
        world.must(world.signed_action(ahead));
        world.clock.shift_wall_clock(-HOUR);
        let id = world.signs(PaymentAsk { valid_seconds: 0, ..payment(2) });
        let held = world.holds(payment(2_000_000));
        world.approves(held);
        // The core creates its slips from these authorizations.
        assert!(
            world.state.authorized.contains_key(&id) && world.state.authorized.contains_key(&held)
        );
        assert_eq!(reissue(&mut world), sorted([id, held]));
        assert_eq!(world.must(world.signed_action(id)).events.len(), 1);
        assert!(is_signed(&world, id));
        world.clock.pass(60 * SECOND);
        assert_eq!(reissue(&mut world), []);
    }

    #[test]
    fn a_lapsed_payment_leaves_the_state_but_keeps_its_record() {
        let mut world = ordinary_world();
        let id = world.signs(payment(1));
        world.clock.pass(60 * SECOND);
        world.holds(payment(2_000_000));
        assert!(world.state.authorized.is_empty() && world.state.lapses.is_empty());
        assert!(matches!(world.status(id), Status::Authorized { .. }));
        assert_eq!(world.must(world.signed_action(id)).events, []);
    }

    /// After a burst of payments nothing else is recorded. One entry frees their memory, and a few payments do not
    /// cause an entry.
    #[test]
    fn a_burst_that_has_lapsed_leaves_the_state_by_one_entry() {
        let mut world = ordinary_world();
        for nonce in 1..=15 {
            world.signs(payment(nonce));
        }
        world.clock.pass(60 * SECOND);
        assert_eq!(world.must(Action::Tick).events, []);
        assert_eq!(world.state.authorized.len(), 15);
        let mut world = ordinary_world();
        let last = (1..=16).map(|nonce| world.signs(payment(nonce))).last().unwrap();
        assert_eq!(world.must(Action::Tick).events, [], "they can be redeemed");
        world.clock.pass(60 * SECOND);
        world.unlocked = false;
        assert_eq!(world.must(Action::Tick).events, [], "no seal covers the entry");
        world.unlocked = true;
        assert_eq!(world.must(Action::Tick).events, [Event::AuthorizationsLapsed]);
        assert!(world.state.authorized.is_empty() && world.state.lapses.is_empty());
        assert!(matches!(world.status(last), Status::Authorized { .. }));
        assert_eq!(world.must(Action::Tick).events, []);
    }
}
