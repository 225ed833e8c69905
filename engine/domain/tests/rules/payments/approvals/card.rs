//! An approval is valid only for the card that was shown.

use super::*;

#[test]
fn shows_the_terms_that_would_be_signed() {
    let mut world = ordinary_world();
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
    let digest = bursar_core::card::digest(terms, card.hold, card.policy_serial);
    assert_eq!(card.digest, digest);
    world.approves(id);
    assert_eq!(world.card(id), None);
}

#[test]
fn an_approval_with_another_digest_is_refused() {
    let (mut world, id) = world_with_held();
    let digest = card_digest(&world, id);
    let upper = digest.to_uppercase();
    let cut = digest.get(..63).expect("hex of 32 bytes");
    let other = world.holds(payment(3_000_000));
    let others = card_digest(&world, other);
    for wrong in ["", "0", upper.as_str(), cut, others.as_str()] {
        let action = world.approval(id, wrong);
        assert_eq!(world.run_refused(action).code, Code::CardChanged, "{wrong}");
    }
    let action = world.approval(id, &digest);
    world.must(action);
}

#[test]
fn a_policy_change_invalidates_the_shown_card() {
    let changes: [fn(&mut Policy); 4] = [
        |policy| policy.payments.daily = Usd::dollars(99),
        |policy| policy.payments.auto_below = Usd::dollars(3),
        |policy| policy.payments.hosts = build::hosts(&[], &["bad.example"]),
        |policy| policy.trading.enabled = true,
    ];
    for change in changes {
        let (mut world, id) = world_with_held();
        let before = card_digest(&world, id);
        world.edit(change).expect("an open wallet");
        let action = world.approval(id, &before);
        assert_eq!(world.run_refused(action).code, Code::CardChanged);
        assert_eq!(world.reserved_value(), Usd::dollars(2));
        world.approves(id);
    }
}

#[test]
fn a_policy_changed_and_changed_back_is_another_policy() {
    let (mut world, id) = world_with_held();
    let before = card_digest(&world, id);
    world.edit(|policy| policy.payments.daily = Usd::dollars(50)).expect("free");
    world.edit(|policy| policy.payments.daily = Usd::dollars(100)).expect("an open wallet");
    let action = world.approval(id, &before);
    assert_eq!(world.run_refused(action).code, Code::CardChanged);
}

#[test]
fn a_new_policy_for_the_agent_invalidates_the_shown_card() {
    let (mut world, id) = world_with_held();
    let before = card_digest(&world, id);
    let name = build::name("other");
    let policy = Box::new(build::policy());
    world.must(Action::CreatePolicy { name, policy });
    world.must(build::commission(0, "other", "main"));
    let action = world.approval(id, &before);
    assert_eq!(world.run_refused(action).code, Code::CardChanged);
    world.approves(id);
}

/// The digest of a card does not contain counters, balances, remaining times or other policies.
#[test]
fn the_card_digest_ignores_time_and_other_spending() {
    let (mut world, id) = world_with_held();
    let before = card_digest(&world, id);
    world.clock.pass(5 * MINUTE);
    world.signs(payment(999_999));
    let twin = world.holds(payment(2_000_000));
    world.approves(twin);
    let other = world.holds(payment(5_000_000));
    world.deny(other).expect("it waits");
    build::register(&mut world, 1, Credential::Hmac { secret_hash: [7; 32] });
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
