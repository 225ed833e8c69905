//! Deletion of agents and addresses: nothing may be held for them, and their history stays.
//!
//! Also the rehearsal of a hypothetical payment.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::settings::Setting;
use bursar_domain::assess::Verdict;
use bursar_domain::assess::rehearsal::rehearse;
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::{Action, Entry, Event};

use crate::support::{World, build};
use build::{name, ordinary_world, payment};

fn delete_agent() -> Action {
    Action::DeleteAgent { agent: build::agent(0) }
}

fn delete(label: &str) -> Action {
    Action::DeleteAddress { label: name(label) }
}

fn rename(from: &str, to: &str) -> Action {
    Action::RenameAddress { from: name(from), to: name(to) }
}

#[test]
fn an_agent_is_deleted_once_nothing_of_it_waits() {
    let mut world = ordinary_world();
    let signed = world.signs(payment(1000));
    let holds = [world.holds(payment(2_000_000)), world.holds(payment(2_000_001))];
    for (id, beginning) in
        holds.into_iter().zip(["2 of its requests wait for", "1 of its requests waits for"])
    {
        let refused = world.run_refused(delete_agent());
        assert_eq!(refused.code, Code::InUse);
        assert!(refused.message.as_ref().unwrap().starts_with(beginning), "{refused:?}");
        world.deny(id).unwrap();
    }
    world.unlocked = false;
    world.must(delete_agent());
    assert!(world.state.agents.is_empty());
    assert!(world.state.authorized.contains_key(&signed), "what was given can still be redeemed");
    assert_eq!(world.run_refused(delete_agent()).code, Code::NothingFound);
    // The name of the deleted agent is free, but an agent that takes the name is another agent.
    world.unlocked = true;
    let credential = bursar_domain::agents::Credential::Bearer { sha256: [3; 32] };
    let id = build::agent(1);
    world.must(Action::RegisterAgent { id, name: name("agent 0"), credential });
}

#[test]
fn an_expired_hold_does_not_block_an_agents_deletion() {
    let mut world = ordinary_world();
    world.holds(payment(2_000_000));
    world.clock.pass(bursar_core::limits::HOLD_MS);
    world.unlocked = false;
    assert_eq!(world.must(delete_agent()).events.len(), 2);
    assert!(world.state.held.is_empty() && world.state.agents.is_empty());
}

#[test]
fn unsigned_payments_of_a_deleted_agent_are_never_signed() {
    let mut world = ordinary_world();
    world.signs(payment(1000));
    world.must(delete_agent());
    assert!(world.must(Action::Reissue).effects.is_empty());
}

#[test]
fn a_label_moves_with_the_agents_that_pay_from_it() {
    let mut world = ordinary_world();
    assert_eq!(world.run_refused(rename("main", "SPARE")).code, Code::NameTaken);
    assert_eq!(world.run_refused(rename("none", "new")).code, Code::NothingFound);
    world.must(rename("MAIN", "new"));
    assert_eq!(world.commission().label, name("new"));
    let known = world.state.wallet.clone().unwrap();
    assert_eq!(known.address(&name("new")).unwrap().address, build::address("main"));
    assert!(known.address(&name("main")).is_none());
    world.signs(payment(1000));
    // The new label differs only in its capitals.
    world.must(rename("new", "New"));
    assert_eq!(
        world.state.wallet.clone().unwrap().address(&name("new")).unwrap().label,
        name("New")
    );
    assert!(world.must(rename("new", "New")).events.is_empty());
    world.unlocked = false;
    assert_eq!(world.run_refused(rename("New", "other")).code, Code::WalletLocked);
}

#[test]
fn an_address_in_use_cannot_be_deleted() {
    let mut world = ordinary_world();
    assert_eq!(world.run_refused(delete("main")).code, Code::InUse);
    let id = world.holds(payment(2_000_000));
    world.must(build::commission(0, crate::support::policy_name().as_str(), "spare"));
    assert_eq!(
        world.run_refused(delete("main")).code,
        Code::InUse,
        "a request would be paid from it"
    );
    world.deny(id).unwrap();
    world.unlocked = false;
    assert_eq!(world.run_refused(delete("main")).code, Code::WalletLocked);
    world.unlocked = true;
    world.must(delete("main"));
    assert_eq!(world.run_refused(delete("main")).code, Code::NothingFound);
    // The same address may be added again, under any label.
    world.must(build::add_address("main", 0));
}

#[test]
fn only_an_idle_agents_deletion_may_follow_a_seal() {
    let mut world = ordinary_world();
    let entry =
        |world: &World, event| Entry { seq: world.state.seq + 1, at: world.now().utc, event };
    let may = |world: &World, event| may_follow_a_seal(&world.state, &entry(world, event));
    let gone = || Event::AgentDeleted { agent: build::agent(0) };
    assert!(may(&world, gone()));
    world.holds(payment(2_000_000));
    assert!(!may(&world, gone()), "its request could never be decided");
    assert!(!may(&world, Event::AddressRenamed { from: name("main"), to: name("x") }));
    assert!(!may(&world, Event::AddressDeleted { label: name("spare") }));
}

#[test]
fn a_rehearsal_returns_the_verdict_of_the_rules_and_changes_nothing() {
    let mut world = ordinary_world();
    let verdict = |world: &World, micros, trusted| {
        let policy = build::policy();
        rehearse(&world.state, &policy, build::base(), Usd(micros), None, &world.now(), trusted)
    };
    assert_eq!(verdict(&world, 1000, true), Verdict::Act);
    assert_eq!(verdict(&world, 1000, false), Verdict::Hold(HoldReason::JournalUntrusted));
    assert_eq!(verdict(&world, 2_000_000, true), Verdict::Hold(HoldReason::AboveThreshold));
    let refused = |verdict| match verdict {
        Verdict::Refuse(refusal) => refusal.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(verdict(&world, 1_000_000_000, true)), Code::ExceedsPerRequestMax);
    assert_eq!(refused(verdict(&world, 0, true)), Code::InvalidX402Format);
    // The rehearsal gives the same verdict as a real payment.
    for micros in [1, 499_999, 500_000, 5_000_000, 10_000_001] {
        let mut real = ordinary_world();
        let ask = real.ask(payment(micros));
        let same = match verdict(&world, micros, true) {
            Verdict::Act => matches!(ask, crate::support::Answer::Signs(_)),
            Verdict::Hold(why) => {
                matches!(ask, crate::support::Answer::Holds(_, held) if held == why)
            }
            Verdict::Refuse(refusal) => ask.code() == Some(refusal.code),
        };
        assert!(same, "{micros}: {ask:?}");
    }
    world.must(Action::Set(Setting::MaxValidity(30)));
    assert_eq!(verdict(&world, 1000, true), Verdict::Act, "the shortest validity");
    world.must(Action::Freeze);
    assert_eq!(refused(verdict(&world, 1000, true)), Code::AgentsFrozen);
}

#[test]
fn the_code_of_a_deleted_agent_is_never_reused() {
    let mut world = ordinary_world();
    world.must(delete_agent());
    let again = Action::RegisterAgent {
        id: build::agent(0),
        name: build::name("another"),
        credential: bursar_domain::agents::Credential::Bearer { sha256: [9; 32] },
    };
    assert_eq!(world.run_refused(again.clone()).code, Code::NameTaken);
    let mut world = world.restarted();
    assert_eq!(world.run_refused(again).code, Code::NameTaken);
}
