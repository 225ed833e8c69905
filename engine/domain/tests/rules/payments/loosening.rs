//! Changes that loosen a rule need an unlocked wallet; changes that tighten one do not.

use alloy_primitives::Address;
use bursar_core::codes::Code;
use bursar_core::ids::{Name, SeedId};
use bursar_core::money::Usd;
use bursar_core::policy::{AllowedNetworks, Contracts, Policy};
use bursar_domain::agents::Credential;
use bursar_domain::{Action, Event};

use crate::support::clock::{Clock, DAY, HOUR, MINUTE};
use crate::support::{World, build, denial, policy_name};
use build::payment;

type Change = fn(&mut Policy);

/// A world whose policy can be loosened and tightened in every way, with a second agent without a commission.
fn world() -> World {
    let mut policy = build::policy();
    policy.networks = AllowedNetworks::Only([build::base().chain].into());
    policy.payments.hosts = build::hosts(&["api.example"], &["bad.example"]);
    policy.trading.tokens = Contracts::from_iter([Address::repeat_byte(1)]);
    policy.trading.hooks = policy.trading.tokens.clone();
    let mut world = build::world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
    world
}

const LOOSENING_CHANGES: [Change; 12] = [
    |policy| policy.payments.daily.0 += 1,
    |policy| policy.payments.per_request.0 += 1,
    |policy| policy.payments.auto_below.0 += 1,
    |policy| policy.networks = AllowedNetworks::AllEnabled,
    |policy| policy.payments.hosts.blocked.clear(),
    |policy| policy.payments.hosts.allowed.clear(),
    |policy| policy.payments.hosts.allowed.extend(build::hosts(&["more.example"], &[]).allowed),
    |policy| policy.trading.enabled = true,
    |policy| policy.trading.tokens = Contracts::from_iter([1, 2].map(Address::repeat_byte)),
    |policy| policy.trading.hooks = Contracts::from_iter([1, 2].map(Address::repeat_byte)),
    |policy| policy.trading.tokens = Contracts::from_iter([Address::repeat_byte(2)]),
    |policy| policy.lending.curated_only = false,
];

const TIGHTENING_CHANGES: [Change; 9] = [
    |policy| policy.payments.daily.0 -= 1,
    |policy| policy.payments.per_request.0 -= 1,
    |policy| policy.payments.auto_below = Usd::ZERO,
    |policy| policy.networks = AllowedNetworks::Only([].into()),
    |policy| policy.payments.hosts.blocked.extend(build::hosts(&["more.example"], &[]).allowed),
    |policy| policy.payments.enabled = false,
    |policy| policy.trading.max_impact.0 -= 1,
    |policy| policy.trading.tokens = Contracts::default(),
    |policy| policy.trading.hooks = Contracts::default(),
];

#[test]
fn a_policy_is_loosened_with_an_open_wallet_only() {
    for (place, change) in LOOSENING_CHANGES.into_iter().enumerate() {
        let mut world = world();
        world.unlocked = false;
        let before = world.state.clone();
        let refusal = world.edit(change).expect_err("the wallet is locked");
        assert_eq!((refusal.code, place), (Code::WalletLocked, place));
        assert_eq!(world.state, before);
        world.unlocked = true;
        assert_eq!(world.edit(change).expect("the wallet is open").events.len(), 1);
    }
}

#[test]
fn a_policy_can_be_tightened_while_locked() {
    for change in TIGHTENING_CHANGES {
        let mut world = world();
        world.unlocked = false;
        assert_eq!(world.edit(change).expect("tightening is free").events.len(), 1);
    }
}

#[test]
fn a_change_that_loosens_in_one_place_and_tightens_in_others_loosens() {
    let mut world = world();
    world.unlocked = false;
    let refusal = world.edit(|policy| {
        policy.payments.per_request = Usd::ZERO;
        policy.payments.daily.0 += 1;
    });
    assert_eq!(refusal.expect_err("the wallet is locked").code, Code::WalletLocked);
}

/// The versions of each policy count from 1. Serial numbers count all versions, because a card's digest has no name.
#[test]
fn each_policy_counts_its_own_versions() {
    let mut world = world();
    let other = build::name("other");
    let created = Action::CreatePolicy { name: other.clone(), policy: Box::new(build::policy()) };
    world.run(created).expect("created");
    for _change in 0..2 {
        world.edit(|policy| policy.payments.daily.0 += 1).expect("the wallet is open");
    }
    let numbers = |name: &Name| {
        let record = world.state.policy(name).expect("a policy");
        (record.version, record.serial)
    };
    assert_eq!((numbers(&policy_name()), numbers(&other)), ((3, 4), (1, 2)));
}

#[test]
fn an_edit_that_changes_nothing_records_nothing() {
    let mut world = world();
    let serial = world.state.policy_serial;
    assert_eq!(world.edit(|_same| ()).expect("nothing to refuse").events, []);
    assert_eq!(world.state.policy_serial, serial);
}

/// Actions that grant something.
///
/// Each is refused without a record while the wallet is locked, and succeeds once it is unlocked.
fn granting_actions() -> Vec<Action> {
    let chain =
        bursar_core::networks::by_id_or_v1_name("sepolia").expect("a row of the table").chain;
    vec![
        Action::AddSeed { id: SeedId(2), words: 24 },
        build_another_address(),
        Action::CreatePolicy { name: build::name("second"), policy: Box::default() },
        Action::RegisterAgent {
            id: build::agent(2),
            name: build::name("a third"),
            credential: Credential::Hmac { secret_hash: [7; 32] },
        },
        Action::ReplaceCredential {
            agent: build::agent(1),
            credential: Credential::Bearer { sha256: [2; 32] },
        },
        build::commission(1, policy_name().as_str(), "spare"),
        Action::Resume { agent: build::agent(0) },
        Action::Renew { agent: build::agent(0) },
        Action::SetNetwork { chain, enabled: true },
        Action::Thaw,
        Action::AcceptJournal,
    ]
}

fn build_another_address() -> Action {
    let Action::AddAddress(mut added) = build::add_address("spare", 2) else { unreachable!() };
    added.label = build::name("third");
    added.address = alloy_primitives::Address::repeat_byte(0xa3);
    Action::AddAddress(added)
}

#[test]
fn actions_that_grant_need_an_unlocked_wallet() {
    let mut world = world();
    world.must(Action::Suspend { agent: build::agent(0) });
    world.must(Action::Freeze);
    world.clock.shift_wall_clock(DAY);
    world.unlocked = false;
    for action in granting_actions() {
        assert_eq!(world.run_refused(action.clone()).code, Code::WalletLocked, "{action:?}");
    }
    world.unlocked = true;
    for action in granting_actions() {
        assert_eq!(world.must(action.clone()).events.len(), 1, "{action:?}");
    }
}

#[test]
fn actions_that_restrict_work_while_locked_and_only_once() {
    let mut world = world();
    let name = build::name("second");
    world.must(Action::CreatePolicy { name: name.clone(), policy: Box::default() });
    let held = world.holds(payment(2_000_000));
    world.unlocked = false;
    for action in [
        Action::Suspend { agent: build::agent(0) },
        Action::SetNetwork { chain: build::base().chain, enabled: false },
        Action::Freeze,
        Action::DeletePolicy { name },
        denial(held),
    ] {
        assert_eq!(world.must(action.clone()).events.len(), 1, "{action:?}");
    }
    for again in [
        Action::Suspend { agent: build::agent(0) },
        Action::SetNetwork { chain: build::base().chain, enabled: false },
        Action::Freeze,
        Action::Tick,
    ] {
        assert_eq!(world.must(again.clone()).events, [], "{again:?}");
    }
    // A locked wallet renews nothing: a process that can write the journal could have forged the entry.
    world.clock.pass(2 * DAY);
    assert_eq!(world.must(Action::Tick).events, []);
    world.unlocked = true;
    let events = world.must(Action::RecordUnlock { attended: true, noted_entry: Some(7) }).events;
    let [Event::WalletOpened { noted_entry: Some(7) }, Event::AllowanceRenewed { .. }] =
        events.as_slice()
    else {
        panic!("it renews when it is opened: {events:?}");
    };
}

#[test]
fn unlocks_of_an_untrusted_journal_are_not_recorded() {
    for (unlocked, trusted) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut world = world();
        (world.unlocked, world.trusted) = (unlocked, trusted);
        let opened = world.must(Action::RecordUnlock { attended: true, noted_entry: None }).events;
        let changed = world.must(Action::RecordPasswordChange).events;
        if unlocked && trusted {
            assert_eq!(
                (opened, changed),
                (vec![Event::WalletOpened { noted_entry: None }], vec![Event::PasswordChanged])
            );
        } else {
            assert_eq!((opened, changed), (Vec::new(), Vec::new()), "{unlocked} {trusted}");
        }
    }
}

#[test]
fn a_policy_in_use_is_not_deleted() {
    let mut world = world();
    let delete = |text: &str| Action::DeletePolicy { name: build::name(text) };
    assert_eq!(world.run_refused(delete("DAILY bread")).code, Code::InUse);
    assert_eq!(world.run_refused(delete("none")).code, Code::NothingFound);
}

#[test]
fn names_and_codes_are_given_once() {
    let mut world = world();
    let policy = Action::CreatePolicy { name: build::name("Daily Bread"), policy: Box::default() };
    assert_eq!(world.run_refused(policy).code, Code::NameTaken);
    let agent = |index: usize, name: &str| Action::RegisterAgent {
        id: build::agent(index),
        name: build::name(name),
        credential: Credential::Hmac { secret_hash: [7; 32] },
    };
    assert_eq!(world.run_refused(agent(2, "AGENT 1")).code, Code::NameTaken);
    assert_eq!(world.run_refused(agent(1, "somebody else")).code, Code::NameTaken);
    // An agent name that equals another agent's id would make commands ambiguous.
    assert_eq!(world.run_refused(agent(2, build::agent(0).as_str())).code, Code::NameTaken);
    let wallet = Action::CreateWallet { name: build::name("second"), wallet_id: [8; 16] };
    assert_eq!(world.run_refused(wallet).code, Code::WalletExists);
    assert_eq!(world.run_refused(build::add_address("MAIN", 4)).code, Code::NameTaken);
    assert_eq!(world.run_refused(build::commission(1, "none", "main")).code, Code::NothingFound);
    assert_eq!(
        world.run_refused(build::commission(1, "daily bread", "none")).code,
        Code::NothingFound
    );
    assert_eq!(
        world.run_refused(build::commission(2, "daily bread", "main")).code,
        Code::NothingFound
    );
}

#[test]
fn a_policy_that_was_deleted_and_made_again_is_another_policy() {
    let mut world = world();
    let name = build::name("second");
    let create = || Action::CreatePolicy { name: build::name("second"), policy: Box::default() };
    world.must(create());
    let first = world.state.policy(&name).expect("it is there").serial;
    world.must(Action::DeletePolicy { name: name.clone() });
    world.must(create());
    assert!(world.state.policy(&name).expect("it is there").serial > first);
}

#[test]
fn a_suspended_agent_works_again_with_what_it_had() {
    let mut world = world();
    world.signs(payment(900_000));
    world.must(Action::Suspend { agent: build::agent(0) });
    world.clock.pass(HOUR + MINUTE);
    world.must(Action::Resume { agent: build::agent(0) });
    assert_eq!(world.spent(), Usd(900_000));
    world.signs(payment(1));
}
