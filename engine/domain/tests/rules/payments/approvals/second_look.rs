//! Approvals under a policy that was tightened, or for an agent that may no longer work.
//!
//! The refusal is recorded, nothing is signed, and the reservation is released.

use super::*;

#[track_caller]
fn refused_after(change: impl FnOnce(&mut World)) -> Refusal {
    let (mut world, id) = world_with_held();
    world.holds(payment(3_000_000));
    change(&mut world);
    let spent = world.spent();
    let refusal = world.rejects(id);
    assert_eq!((world.spent(), world.reserved_value()), (spent, Usd::dollars(3)));
    assert!(!world.state.held.contains_key(&id) && !world.state.authorized.contains_key(&id));
    world.run_refused(denial(id));
    assert_eq!(world.must(Action::Reissue).effects, []);
    refusal
}

#[track_caller]
fn refused_under(change: fn(&mut Policy)) -> Refusal {
    refused_after(|world| {
        world.edit(change).expect("tightening is free");
    })
}

#[test]
fn a_lower_maximum_takes_effect() {
    let refusal = refused_under(|policy| policy.payments.per_request = Usd(1_999_999));
    assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
    assert_eq!(refusal.requested, Some(Usd::dollars(2)));
    assert_eq!(refusal.bound, Some(Usd(1_999_999)));
}

#[test]
fn a_lower_daily_limit_takes_effect_and_counts_what_else_waits() {
    let refusal = refused_under(|policy| policy.payments.daily = Usd(4_999_999));
    assert_eq!((refusal.code, refusal.bound), (Code::ExceedsDailyLimit, Some(Usd(1_999_999))));
    let refusal = refused_under(|policy| policy.payments.daily = Usd::ZERO);
    assert_eq!(refusal.code, Code::LimitReached);
}

#[test]
fn a_limit_that_still_fits_is_no_reason_to_refuse() {
    let (mut world, id) = world_with_held();
    let second = world.holds(payment(3_000_000));
    world.edit(|policy| policy.payments.daily = Usd::dollars(5)).expect("free");
    world.edit(|policy| policy.payments.per_request = Usd::dollars(3)).expect("free");
    world.approves(second);
    world.approves(id);
    assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(5), Usd::ZERO));
}

#[test]
fn payments_switched_off_take_effect() {
    let refusal = refused_under(|policy| policy.payments.enabled = false);
    assert_eq!(refusal.code, Code::X402Disabled);
}

#[test]
fn domains_and_networks_take_effect() {
    let refusal =
        refused_under(|policy| policy.payments.hosts = build::hosts(&[], &["api.example"]));
    assert_eq!(refusal.code, Code::DomainNotAllowed);
    let refusal =
        refused_under(|policy| policy.payments.hosts = build::hosts(&["good.example"], &[]));
    assert_eq!(refusal.code, Code::DomainNotAllowed);
    let refusal = refused_under(|policy| policy.networks = AllowedNetworks::Only([].into()));
    assert_eq!(refusal.code, Code::NetworkNotAllowed);
    let refusal = refused_after(|world| {
        world.must(Action::SetNetwork { chain: build::base().chain, enabled: false });
    });
    assert_eq!(refusal.code, Code::NetworkDisabled);
}

#[test]
fn a_suspended_agent_is_turned_down() {
    let refusal = refused_after(|world| {
        world.must(Action::Suspend { agent: build::agent(0) });
    });
    assert_eq!(refusal.code, Code::AgentSuspended);
}

#[test]
fn the_agents_new_policy_is_the_one_that_counts() {
    let refusal = refused_after(|world| {
        let mut tight = build::policy();
        tight.payments.per_request = Usd::dollars(1);
        let name = build::name("tight");
        world.must(Action::CreatePolicy { name: name.clone(), policy: Box::new(tight) });
        world.must(build::commission(0, name.as_str(), "main"));
    });
    assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
}

/// The request's own reservation does not count against it, so the whole allowance can be approved.
#[test]
fn a_reservation_is_never_counted_against_itself() {
    let mut world = ordinary_world();
    world.edit(|policy| policy.payments.daily = Usd::dollars(10)).expect("free");
    let held = [6_000_000, 3_000_000, 1_000_000].map(|micros| world.holds(payment(micros)));
    assert_eq!(world.refuses(payment(1)).code, Code::ExceedsDailyLimit);
    for id in held {
        world.approves(id);
    }
    assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(10), Usd::ZERO));
}

#[test]
fn an_approval_is_not_held_again_for_the_same_reason() {
    let mut world = ordinary_world();
    world.edit(|policy| policy.payments.hosts = build::hosts(&["api.example"], &[])).expect("free");
    let outside = Some("https://else.example/".to_owned());
    let id = world.holds(PaymentAsk { resource_url: outside, ..payment(1) });
    world.edit(|policy| policy.payments.auto_below = Usd::ZERO).expect("free");
    world.approves(id);
}
