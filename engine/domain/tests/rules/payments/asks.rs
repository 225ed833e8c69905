//! The answer to a new request: signed, held or refused.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::AgentId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_core::status::AgentStatus;
use bursar_domain::agents::Credential;
use bursar_domain::command::AskBounds;
use bursar_domain::requests::Approver;
use bursar_domain::{Action, PaymentAsk, Status};

use crate::support::clock::{Clock, DAY, HOUR, MINUTE};
use crate::support::{Answer, World, build};
use build::{ordinary_world, payment, policy};

fn world_with_policy(change: impl FnOnce(&mut Policy)) -> World {
    let mut policy = policy();
    change(&mut policy);
    build::world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy)
}

mod threshold {
    use super::*;

    #[test]
    fn below_it_a_payment_is_signed_at_once() {
        let mut world = ordinary_world();
        world.signs(payment(999_999));
        world.signs(payment(1));
        assert_eq!((world.spent(), world.reserved_value()), (Usd(1_000_000), Usd::ZERO));
    }

    #[test]
    fn at_and_above_it_the_operator_is_asked() {
        for micros in [1_000_000, 1_000_001, 10_000_000] {
            let mut world = ordinary_world();
            let answer = world.ask(payment(micros));
            assert_eq!(answer.hold_reason(), Some(HoldReason::AboveThreshold), "{micros}");
            assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd(micros)));
        }
    }

    #[test]
    fn zero_means_manual_only() {
        let mut world = world_with_policy(|policy| policy.payments.auto_below = Usd::ZERO);
        let answer = world.ask(payment(1));
        assert_eq!(answer.hold_reason(), Some(HoldReason::ManualOnly));
    }

    #[test]
    fn a_threshold_of_one_micro_dollar_holds_every_payment() {
        let mut world = world_with_policy(|policy| policy.payments.auto_below = Usd(1));
        assert_eq!(world.ask(payment(1)).hold_reason(), Some(HoldReason::AboveThreshold));
    }
}

mod limits {
    use super::*;

    #[test]
    fn the_per_request_maximum_itself_passes_and_more_is_refused_outright() {
        let mut world = world_with_policy(|policy| policy.payments.auto_below = Usd::dollars(1000));
        world.signs(payment(10_000_000));
        let refusal = world.refuses(payment(10_000_001));
        assert_eq!(refusal.code, Code::ExceedsPerRequestMax);
        assert_eq!(refusal.requested, Some(Usd(10_000_001)));
        assert_eq!(refusal.bound, Some(Usd::dollars(10)));
    }

    #[test]
    fn daily_limit_counts_spent_and_reserved_amounts() {
        let mut world = world_with_policy(|policy| {
            policy.payments.daily = Usd::dollars(10);
            policy.payments.auto_below = Usd::dollars(3);
        });
        world.signs(payment(2_000_000));
        world.holds(payment(5_000_000));
        let refusal = world.refuses(payment(3_000_001));
        assert_eq!(refusal.code, Code::ExceedsDailyLimit);
        assert_eq!(refusal.requested, Some(Usd(3_000_001)));
        assert_eq!(refusal.bound, Some(Usd::dollars(3)));
        // An allowance can be used to its last micro-dollar, by automatic and by held payments.
        world.signs(payment(1_000_000));
        world.holds(PaymentAsk { domain_contradicted: true, ..payment(2_000_000) });
        assert_eq!((world.spent(), world.reserved_value()), (Usd::dollars(3), Usd::dollars(7)));
        let refusal = world.refuses(payment(1));
        assert_eq!((refusal.code, refusal.bound), (Code::ExceedsDailyLimit, Some(Usd::ZERO)));
        // Reserved value is not spent, so the status is active.
        assert_eq!(world.agent_status(), AgentStatus::Active);
    }

    #[test]
    fn a_spent_allowance_is_limit_reached() {
        let mut world = world_with_policy(|policy| {
            policy.payments.daily = Usd::dollars(2);
            policy.payments.auto_below = Usd::dollars(2);
        });
        world.signs(payment(1_999_999));
        assert_eq!(world.agent_status(), AgentStatus::Active);
        assert_eq!(world.refuses(payment(2)).code, Code::ExceedsDailyLimit);
        world.signs(payment(1));
        assert_eq!(world.agent_status(), AgentStatus::LimitReached);
        let refusal = world.refuses(payment(1));
        assert_eq!((refusal.code, refusal.bound), (Code::LimitReached, Some(Usd::ZERO)));
    }

    #[test]
    fn a_limit_of_zero_refuses_every_payment() {
        let mut world = world_with_policy(|policy| policy.payments.daily = Usd::ZERO);
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        assert_eq!(world.agent_status(), AgentStatus::LimitReached);
        let mut world = world_with_policy(|policy| policy.payments.per_request = Usd::ZERO);
        assert_eq!(world.refuses(payment(1)).code, Code::ExceedsPerRequestMax);
    }

    #[test]
    fn a_limit_lowered_below_what_is_spent_leaves_zero_and_no_debt() {
        let mut world = world_with_policy(|policy| policy.payments.auto_below = Usd::dollars(9));
        world.signs(payment(5_000_000));
        world.edit(|policy| policy.payments.daily = Usd::dollars(3)).expect("tightening is free");
        let refusal = world.refuses(payment(1));
        assert_eq!((refusal.code, refusal.bound), (Code::LimitReached, Some(Usd::ZERO)));
        world.edit(|policy| policy.payments.daily = Usd::dollars(6)).expect("an open wallet");
        assert_eq!(world.refuses(payment(1_000_001)).code, Code::ExceedsDailyLimit);
        world.signs(payment(1_000_000));
    }

    #[test]
    fn many_small_payments_stop_exactly_at_the_limit() {
        let mut world = world_with_policy(|policy| policy.payments.daily = Usd::dollars(10));
        let signed =
            (0..200).filter(|_ask| matches!(world.ask(payment(70_000)), Answer::Signs(_))).count();
        assert_eq!(signed, 142);
        assert_eq!(world.spent(), Usd(142 * 70_000));
        world.signs(payment(60_000));
        assert_eq!(world.agent_status(), AgentStatus::LimitReached);
    }

    #[test]
    fn each_agent_has_its_own_allowance() {
        let mut world = world_with_policy(|policy| {
            policy.payments.daily = Usd::dollars(2);
            policy.payments.auto_below = Usd::dollars(3);
        });
        build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
        world.must(build::commission(1, "daily bread", "main"));
        world.signs(payment(2_000_000));
        let identity = build::bearer_identity(&build::agent(1), b"report", None);
        let other = world.ask_as(&build::agent(1), identity, payment(2_000_000));
        assert!(matches!(other, Answer::Signs(_)), "{other:?}");
        assert_eq!(world.spent(), Usd::dollars(2));
    }

    #[test]
    fn an_unredeemed_payment_stays_spent() {
        let mut world = ordinary_world();
        world.signs(payment(900_000));
        world.clock.pass(2 * MINUTE);
        world.tick();
        world.must(Action::Reissue);
        world.signs(payment(1));
        assert_eq!(world.spent(), Usd(900_001));
    }

    #[test]
    fn an_agent_has_at_most_twenty_held_requests() {
        let mut world = world_with_policy(|policy| policy.payments.auto_below = Usd(10));
        let held: Vec<_> = (0..20).map(|_ask| world.holds(payment(1_000))).collect();
        assert_eq!(world.refuses(payment(1_000)).code, Code::TooManyPending);
        // A full queue does not stop automatic payments or other agents.
        world.signs(payment(9));
        build::register(&mut world, 1, Credential::Hmac { secret_hash: [7; 32] });
        world.must(build::commission(1, "daily bread", "main"));
        let identity = build::signed_identity(world.draw(), world.clock.utc);
        let other = world.ask_as(&build::agent(1), identity, payment(1_000));
        assert!(matches!(other, Answer::Holds(..)), "{other:?}");
        world.deny(held[7]).expect("it waits");
        world.holds(payment(1_000));
        assert_eq!(world.refuses(payment(1_000)).code, Code::TooManyPending);
        assert_eq!(world.reserved_value(), Usd(20_000));
    }

    #[test]
    fn at_most_five_hundred_requests_are_held_in_all() {
        let mut world = world_with_policy(|policy| policy.payments.auto_below = Usd::ZERO);
        for number in 0..26u32 {
            let id: AgentId = format!("ZZZ{number:03}").parse().expect("an agent code");
            let (policy, label) = (build::name("daily bread"), build::name("main"));
            let (name, credential) = (
                build::name(&format!("crowd {number}")),
                Credential::Hmac { secret_hash: [7; 32] },
            );
            world.must(Action::RegisterAgent { id: id.clone(), name, credential });
            world.must(Action::Commission { agent: id.clone(), policy, label });
            for place in 0..20 {
                let identity = build::signed_identity(world.draw(), world.clock.utc);
                let answer = world.ask_as(&id, identity, payment(1));
                let room = number < 25;
                assert_eq!(answer.hold_reason().is_some(), room, "{number} {place} {answer:?}");
                assert_eq!(answer.code(), (!room).then_some(Code::TooManyPending));
            }
        }
        assert_eq!(world.state.held.len(), 500);
    }
}

mod refusals {
    use super::*;

    /// The order of checks that agents rely on (specification: original-wallet.md 1.8). Each step removes one
    /// obstacle.
    #[test]
    fn come_in_the_specified_order() {
        let mut world = world_with_policy(|policy| {
            policy.payments.enabled = false;
            policy.payments.per_request = Usd::dollars(5);
            policy.payments.daily = Usd::dollars(4);
            policy.payments.hosts = build::hosts(&["good.example"], &["bad.example"]);
            policy.networks = AllowedNetworks::Only([].into());
        });
        let chain = build::base().chain;
        world.must(Action::SetNetwork { chain, enabled: false });
        let mut ask = PaymentAsk {
            request_url: None,
            resource_url: None,
            other_urls: Vec::new(),
            amount: Atoms(U256::ZERO),
            ..payment(6_000_000)
        };
        assert_eq!(world.refuses(ask.clone()).code, Code::X402Disabled);
        world.edit(|policy| policy.payments.enabled = true).expect("an open wallet");
        assert_eq!(world.refuses(ask.clone()).code, Code::InvalidX402Format);
        ask.amount = Atoms(U256::from(6_000_000));
        assert_eq!(world.refuses(ask.clone()).code, Code::NetworkDisabled);
        world.must(Action::SetNetwork { chain, enabled: true });
        assert_eq!(world.refuses(ask.clone()).code, Code::NetworkNotAllowed);
        world.edit(|policy| policy.networks = AllowedNetworks::AllEnabled).expect("an open wallet");
        assert_eq!(world.refuses(ask.clone()).code, Code::DomainUrlRequired);
        ask.resource_url = Some("https://elsewhere.example/".to_owned());
        assert_eq!(world.refuses(ask.clone()).code, Code::DomainNotAllowed);
        ask.resource_url = Some("https://good.example/".to_owned());
        assert_eq!(world.refuses(ask.clone()).code, Code::ExceedsPerRequestMax);
        (ask.amount, ask.usd) = (Atoms(U256::from(4_500_000)), Usd(4_500_000));
        assert_eq!(world.refuses(ask.clone()).code, Code::ExceedsDailyLimit);
        (ask.amount, ask.usd) = (Atoms(U256::from(4_000_000)), Usd(4_000_000));
        world.holds(ask);
    }

    /// From the same section: "Check order after auth: LIMIT_REACHED → …".
    ///
    /// An agent at its limit gets this code, whatever else is wrong with its request.
    #[test]
    fn limit_reached_is_reported_before_other_refusals() {
        let mut world = world_with_policy(|policy| {
            policy.payments.daily = Usd::dollars(1);
            policy.payments.auto_below = Usd::dollars(2);
        });
        world.signs(payment(1_000_000));
        assert_eq!(world.refuses(payment(11_000_000)).code, Code::LimitReached);
        world
            .edit(|policy| policy.payments.hosts = build::hosts(&[], &["api.example"]))
            .expect("free");
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
        let chain = build::base().chain;
        world.must(Action::SetNetwork { chain, enabled: false });
        assert_eq!(world.refuses(payment(1)).code, Code::LimitReached);
    }

    #[test]
    fn are_recorded_once_with_their_figures_and_cost_nothing() {
        let mut world = ordinary_world();
        let answer = world.ask(payment(10_000_001));
        let Answer::Refuses(id, refusal) = answer else { panic!("{answer:?}") };
        let at = world.clock.utc;
        assert_eq!(*world.status(id), Status::Refused { refusal, at, was_held: false });
        assert_eq!((world.spent(), world.reserved_value()), (Usd::ZERO, Usd::ZERO));
        assert!(world.state.held.is_empty() && world.state.authorized.is_empty());
    }

    #[test]
    fn an_agent_that_may_not_work_is_refused_without_a_trace() {
        let mut world = ordinary_world();
        build::register(&mut world, 1, Credential::Hmac { secret_hash: [7; 32] });
        let entries = world.entries.len();
        for (agent, code) in [(1, Code::AgentNotCommissioned), (2, Code::AuthFailed)] {
            let identity = build::signed_identity(world.draw(), world.clock.utc);
            let answer = world.ask_as(&build::agent(agent), identity, payment(1));
            assert_eq!(answer, Answer::Unrecorded(code.into()));
        }
        assert_eq!(world.entries.len(), entries);
        world.must(Action::Suspend { agent: build::agent(0) });
        assert_eq!(world.ask(payment(1)), Answer::Unrecorded(Code::AgentSuspended.into()));
        world.must(Action::Resume { agent: build::agent(0) });
        world.signs(payment(1));
    }
}

mod offers {
    use super::*;

    #[test]
    fn a_payment_to_an_invalid_payee_is_refused() {
        let mut world = ordinary_world();
        for payee in [Address::ZERO, build::base().stablecoin.address, build::address("main")] {
            let refusal = world.refuses(PaymentAsk { payee, ..payment(1) });
            assert_eq!(refusal.code, Code::InvalidPaymentData, "{payee}");
        }
        // Another address of the wallet is a valid payee.
        world.signs(PaymentAsk { payee: build::address("spare"), ..payment(1) });
    }

    #[test]
    fn an_amount_is_above_zero_and_at_most_a_thousand_million_dollars() {
        let mut world = world_with_policy(|policy| {
            let payments = &mut policy.payments;
            payments.daily = Usd(u64::MAX);
            (payments.per_request, payments.auto_below) = (Usd(u64::MAX), Usd(u64::MAX));
        });
        assert_eq!(world.refuses(payment(0)).code, Code::InvalidX402Format);
        world.signs(payment(1_000_000_000_000_000));
        assert_eq!(world.refuses(payment(1_000_000_000_000_001)).code, Code::InvalidX402Format);
        assert_eq!(world.refuses(payment(u64::MAX)).code, Code::InvalidX402Format);
    }

    #[test]
    fn a_refused_request_is_stored_without_echo_or_url_paths() {
        let mut world = ordinary_world();
        for (url, kept) in [
            ("HTTPS://Shop.example:8443/a?b=c#d", Some("https://shop.example:8443")),
            ("http://shop.example", Some("http://shop.example")),
            // A host with an impossible port is dropped completely. If only the port has too many digits, just the
            // port is dropped.
            ("https://shop.example:99999/a", None),
            ("https://shop.example:000080/a", Some("https://shop.example")),
        ] {
            let ask = PaymentAsk { request_url: Some(url.to_owned()), ..payment(u64::MAX) };
            let Answer::Refuses(id, _too_much) = world.ask(ask) else { panic!("recorded") };
            let record = world.records[&id].ask.payment().unwrap();
            assert_eq!(record.echo, bursar_x402::Echo::none());
            assert_eq!(record.request_url.as_deref(), kept, "{url}");
            assert_eq!(record.resource_url.as_deref(), Some("https://api.example"));
        }
    }

    #[test]
    fn a_validity_beyond_32_bits_is_refused() {
        let mut world = ordinary_world();
        let longest = u64::from(u32::MAX);
        // The longest allowed validity is held, not refused.
        world.holds(PaymentAsk { valid_seconds: longest, ..payment(100_000) });
        for valid_seconds in [longest + 1, longest + 2, u64::MAX] {
            let ask = PaymentAsk { valid_seconds, ..payment(100_000) };
            assert_eq!(world.refuses(ask).code, Code::InvalidX402Format, "{valid_seconds}");
        }
    }

    #[test]
    fn a_network_that_is_off_pays_nothing_until_it_is_on() {
        let mut world = ordinary_world();
        let ethereum = networks::by_id_or_v1_name("ethereum").expect("a row of the table");
        let ask =
            PaymentAsk { chain: ethereum.chain, asset: ethereum.stablecoin.address, ..payment(1) };
        assert_eq!(world.refuses(ask.clone()).code, Code::NetworkDisabled);
        world.must(Action::SetNetwork { chain: ethereum.chain, enabled: true });
        world.signs(ask.clone());
        world.must(Action::SetNetwork { chain: ethereum.chain, enabled: false });
        assert_eq!(world.refuses(ask).code, Code::NetworkDisabled);
        world.signs(payment(1));
    }

    #[test]
    fn a_network_outside_the_policy_pays_nothing() {
        let other = networks::by_id_or_v1_name("robinhood").expect("a row of the table");
        let mut world = world_with_policy(|policy| {
            policy.networks = AllowedNetworks::Only([other.chain].into())
        });
        assert_eq!(world.refuses(payment(1)).code, Code::NetworkNotAllowed);
        world.signs(PaymentAsk {
            chain: other.chain,
            asset: other.stablecoin.address,
            ..payment(1)
        });
    }

    #[test]
    fn an_unusual_payment_is_held_whatever_its_amount() {
        let mut world = ordinary_world();
        let contradicted = PaymentAsk { domain_contradicted: true, ..payment(1) };
        assert_eq!(world.ask(contradicted).hold_reason(), Some(HoldReason::DomainContradicted));
        world.signs(PaymentAsk { valid_seconds: 3600, ..payment(1) });
        let long = PaymentAsk { valid_seconds: 3601, ..payment(1) };
        assert_eq!(world.ask(long).hold_reason(), Some(HoldReason::LongValidity));
        world.trusted = false;
        assert_eq!(world.ask(payment(1)).hold_reason(), Some(HoldReason::JournalUntrusted));
        world.trusted = true;
        world.signs(payment(1));
    }

    #[test]
    fn an_unusual_payment_over_a_limit_is_refused() {
        let mut world = ordinary_world();
        let dear = PaymentAsk { domain_contradicted: true, ..payment(10_000_001) };
        assert_eq!(world.refuses(dear).code, Code::ExceedsPerRequestMax);
    }

    #[test]
    fn the_signed_terms_match_the_request_and_its_timeout() {
        let mut world = ordinary_world();
        world.clock.pass(999);
        let now = world.clock.utc.seconds().unsigned_abs();
        for (valid_seconds, lasts) in [(0, 30), (29, 30), (30, 30), (31, 31), (3600, 3600)] {
            let ask = PaymentAsk { valid_seconds, ..payment(5) };
            let id = world.signs(ask.clone());
            let request = &world.records[&id];
            let Status::Authorized { terms, by, at, signature } = &request.status else {
                panic!("{:?}", request.status)
            };
            assert_eq!((terms.from, terms.to), (build::address("main"), build::payee()));
            assert_eq!(terms.value, U256::from(5));
            assert_eq!((terms.valid_after, terms.valid_before), (0, now + lasts));
            assert_eq!((*by, *at, signature), (Approver::Policy, world.clock.utc, &None));
            assert_eq!(request.ask.payment(), Some(&ask));
            assert_eq!(request.agent, build::agent(0));
            assert_eq!(
                (request.from, &request.label),
                (build::address("main"), &build::name("main"))
            );
        }
    }

    #[test]
    fn each_payment_uses_its_own_drawn_nonce() {
        let mut world = ordinary_world();
        let digests: std::collections::BTreeSet<_> = (0..50)
            .map(|_same| {
                let id = world.signs(payment(1));
                world.records[&id].digest().expect("authorized")
            })
            .collect();
        assert_eq!(digests.len(), 50);
        let identity = build::signed_identity(world.draw(), world.clock.utc);
        let action = world.ask_action(&build::agent(0), identity, payment(1));
        let Action::Ask(ask) = &action else { panic!("{action:?}") };
        let (id, nonce) = (ask.id, ask.nonce);
        world.must(action);
        let Status::Authorized { terms, .. } = world.status(id) else { panic!("not authorized") };
        assert_eq!(terms.nonce.0, nonce);
    }
}

#[test]
fn an_untouched_day_costs_nothing_but_one_renewal() {
    let mut world = ordinary_world();
    world.clock.pass(10 * DAY + HOUR);
    assert_eq!(world.tick().events.len(), 1);
    assert_eq!(world.tick().events.len(), 0);
}

/// The number of redeemable payments is bounded. A lapsed payment makes room for another.
#[test]
fn open_payments_are_bounded_per_agent() {
    let mut world = ordinary_world();
    world.bounds = AskBounds { open_payments_max: Some(3), requests_a_day_max: Some(100) };
    for n in 0..3 {
        world.signs(payment(1_000 + n));
    }
    let entries = world.entries.len();
    assert_eq!(world.refuses(payment(2_000)).code, Code::TooManyOpen);
    assert_eq!(world.entries.len(), entries, "it leaves no record");
    world.clock.pass(61_000);
    world.tick();
    world.signs(payment(3_000));
    world.bounds = AskBounds::default();
    for n in 0..5 {
        world.signs(payment(4_000 + n));
    }
}

/// Every request counts in the bound of the day, whatever its result, and so does the padding of its header.
#[test]
fn requests_and_padding_are_bounded_per_agent_and_day() {
    let mut world = ordinary_world();
    world.bounds = AskBounds { open_payments_max: None, requests_a_day_max: Some(3) };
    world.signs(payment(1_000));
    world.holds(payment(1_000_000));
    let _refused = world.refuses(PaymentAsk { amount: Atoms::default(), ..payment(0) });
    assert_eq!(world.refuses(payment(1_001)).code, Code::TooManyToday);
    world.clock.pass(24 * 3_600_000);
    world.signs(payment(1_002));

    let mut world = ordinary_world();
    let padded = |n: u64| PaymentAsk { padding: 12 << 20, ..payment(1_000 + n) };
    world.signs(padded(1));
    world.signs(padded(2));
    assert_eq!(world.refuses(padded(3)).code, Code::TooManyToday);
    world.signs(payment(1_004));
    world.clock.pass(24 * 3_600_000);
    world.signs(padded(5));
}
