//! Idempotency: the specification's table "Same ask, same answer" (decisions.md), row by row, for signed and for
//! bearer agents, before and after a restart.

use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::money::Usd;
use bursar_core::time::Utc;
use bursar_domain::agents::Credential;
use bursar_domain::idempotency::is_fresh;
use bursar_domain::identity::Identity;
use bursar_domain::settlement::{ReportContent, ReportKind};
use bursar_domain::{Action, PaymentAsk, Reply, Status};

use crate::support::clock::{DAY, HOUR, MINUTE, SECOND};
use crate::support::{Answer, World, build};
use build::{ordinary_world, payment};

const QUARTER_HOUR: i64 = 15 * MINUTE;

/// An agent and the identity of its request.
#[derive(Clone)]
struct Asker {
    agent: AgentId,
    identity: Identity,
}

impl Asker {
    /// An asker that repeats one signed body.
    fn signed(world: &mut World) -> Self {
        let identity = build::signed_identity(world.draw(), world.clock.utc);
        Self { agent: build::agent(0), identity }
    }

    /// An asker that repeats one content, with or without an idempotency key.
    fn bearer(content: &str, key: Option<&str>) -> Self {
        let agent = build::agent(1);
        Self { identity: build::bearer_identity(&agent, content.as_bytes(), key), agent }
    }

    #[track_caller]
    fn asks(&self, world: &mut World, payment: PaymentAsk) -> Answer {
        world.ask_as(&self.agent, self.identity.clone(), payment)
    }

    /// Repeats the request before and after a restart, and checks that it gets the record of `id` both times.
    #[track_caller]
    fn assert_repeats(&self, world: &mut World, id: RequestId, payment: &PaymentAsk) {
        let record = world.records[&id].clone();
        let before = world.state.clone();
        let mut restarted = world.restarted();
        for world in [world, &mut restarted] {
            let answer = self.asks(world, payment.clone());
            assert_eq!(answer, Answer::Earlier(Box::new(record.clone())));
            assert_eq!(world.state, before, "a repeat changes nothing");
        }
    }
}

/// A world in which agent 0 signs and agent 1 has a bearer token.
fn world() -> World {
    let mut world = ordinary_world();
    build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
    world.must(build::commission(1, "daily bread", "spare"));
    world
}

/// Runs a test with one asker of each kind.
fn for_each_asker(test: impl Fn(&mut World, Asker)) {
    let mut signing = world();
    let asker = Asker::signed(&mut signing);
    test(&mut signing, asker);
    let mut bearing = world();
    test(&mut bearing, Asker::bearer("report", None));
    test(&mut world(), Asker::bearer("report", Some("key 1")));
}

#[track_caller]
fn id_of(answer: &Answer) -> RequestId {
    match answer {
        Answer::Signs(id) | Answer::Holds(id, _) | Answer::Awaits(id) | Answer::Refuses(id, _) => {
            *id
        }
        Answer::Unrecorded(_) | Answer::Earlier(_) => panic!("no new request: {answer:?}"),
    }
}

fn spent_and_reserved(world: &World) -> u64 {
    let agents = world.state.agents.values();
    let spent =
        |agent: &bursar_domain::agents::Agent| world.state.spent(agent, &world.now()).payment.0;
    agents.map(|agent| spent(agent) + agent.reserved.payment.0).sum()
}

mod signed_payments {
    use super::*;

    #[test]
    fn are_answered_with_the_same_authorization_while_it_is_good() {
        for_each_asker(|world, asker| {
            let ask = payment(500_000);
            let id = id_of(&asker.asks(world, ask.clone()));
            asker.assert_repeats(world, id, &ask);
            world.must(world.signed_action(id));
            asker.assert_repeats(world, id, &ask);
            assert!(matches!(world.status(id), Status::Authorized { signature: Some(_), .. }));
            world.clock.pass(60 * SECOND - 1);
            asker.assert_repeats(world, id, &ask);
            assert_eq!(spent_and_reserved(world), 500_000);
        });
    }

    #[test]
    fn stay_expired_for_a_repeated_signed_request() {
        let mut world = world();
        let asker = Asker::signed(&mut world);
        asker.asks(&mut world, payment(500_000));
        for wait in [60 * SECOND, 1, HOUR, 40 * DAY] {
            world.clock.pass(wait);
            world.tick();
            let mut restarted = world.restarted();
            for world in [&mut world, &mut restarted] {
                let answer = asker.asks(world, payment(500_000));
                assert_eq!(answer, Answer::Unrecorded(Code::PaymentExpired.into()));
            }
        }
    }

    #[test]
    fn allow_a_new_bearer_request_after_they_lapse() {
        for key in [None, Some("key 1")] {
            let mut world = world();
            let asker = Asker::bearer("report", key);
            let first = id_of(&asker.asks(&mut world, payment(500_000)));
            world.clock.pass(60 * SECOND);
            let second = id_of(&asker.asks(&mut world, payment(500_000)));
            assert_ne!(first, second);
            assert_eq!(spent_and_reserved(&world), 1_000_000);
            // From now on, repeats get the second request's answer.
            asker.assert_repeats(&mut world, second, &payment(500_000));
        }
    }

    #[test]
    fn stay_settled_whatever_was_requested_before_the_report() {
        for between in ["nothing", "refused", "denied", "expired"] {
            let mut world = world();
            let asker = Asker::bearer("report", Some("key 1"));
            let small = payment(500_000);
            let first = id_of(&asker.asks(&mut world, small.clone()));
            world.clock.pass(60 * SECOND);
            match between {
                "nothing" => {}
                "refused" => {
                    let answer = asker.asks(&mut world, payment(10_000_001));
                    assert!(matches!(answer, Answer::Refuses(..)), "{answer:?}");
                }
                held => {
                    let id = id_of(&asker.asks(&mut world, payment(2_000_000)));
                    if held == "denied" {
                        world.deny(id).unwrap();
                    } else {
                        world.clock.pass(QUARTER_HOUR);
                    }
                    world.tick();
                    assert!(!matches!(world.status(id), Status::Held { .. }));
                }
            }
            let report = build::bearer_identity(&asker.agent, b"the report", None);
            let settled = ReportContent { kind: ReportKind::Settled, tx_hash: None, error: None };
            let action = world.report_action(&asker.agent, report, first, settled);
            world.must(action);
            world.clock.pass(QUARTER_HOUR);
            let mut restarted = world.restarted();
            for world in [&mut world, &mut restarted] {
                let identity = asker.identity.clone();
                let action = world.ask_action(&asker.agent, identity, small.clone());
                match world.run(action).unwrap().reply {
                    Reply::Settled(paid) => assert_eq!(paid.id, first, "{between}"),
                    other => panic!("{between}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn are_the_same_for_sixteen_copies_at_once() {
        for_each_asker(|world, asker| {
            let answers: Vec<_> =
                (0..16).map(|_copy| asker.asks(world, payment(500_000))).collect();
            let id = id_of(&answers[0]);
            let record = Box::new(world.records[&id].clone());
            assert!(answers[1..].iter().all(|answer| *answer == Answer::Earlier(record.clone())));
            assert_eq!((world.records.len(), spent_and_reserved(world)), (1, 500_000));
        });
    }

    #[test]
    fn are_repeated_although_the_limit_is_reached_since() {
        for_each_asker(|world, asker| {
            let ask = payment(500_000);
            let id = id_of(&asker.asks(world, ask.clone()));
            world.edit(|policy| policy.payments.daily = Usd(500_000)).expect("tightening is free");
            asker.assert_repeats(world, id, &ask);
            world.edit(|policy| policy.payments.per_request = Usd(1)).expect("tightening is free");
            asker.assert_repeats(world, id, &ask);
        });
    }
}

mod held {
    use super::*;

    #[test]
    fn gets_the_same_request_and_reserves_once() {
        for_each_asker(|world, asker| {
            let ask = payment(2_000_000);
            let id = id_of(&asker.asks(world, ask.clone()));
            asker.assert_repeats(world, id, &ask);
            world.clock.pass(QUARTER_HOUR - 1);
            asker.assert_repeats(world, id, &ask);
            assert_eq!((world.state.held.len(), spent_and_reserved(world)), (1, 2_000_000));
        });
    }

    #[test]
    fn and_approved_gets_the_authorization() {
        for_each_asker(|world, asker| {
            let ask = payment(2_000_000);
            let id = id_of(&asker.asks(world, ask.clone()));
            world.approves(id);
            asker.assert_repeats(world, id, &ask);
            assert_eq!(spent_and_reserved(world), 2_000_000);
        });
    }
}

mod turned_down {
    use super::*;

    /// Returns a request that the operator denied, or that expired undecided.
    fn ended_request(world: &mut World, asker: &Asker, denied: bool) -> RequestId {
        let id = id_of(&asker.asks(world, payment(2_000_000)));
        if denied {
            world.deny(id).expect("it waits");
        } else {
            world.clock.pass(QUARTER_HOUR);
            world.tick();
        }
        id
    }

    #[test]
    fn keeps_its_answer_for_a_signed_request() {
        for denied in [true, false] {
            let mut world = world();
            let asker = Asker::signed(&mut world);
            let id = ended_request(&mut world, &asker, denied);
            for wait in [0, QUARTER_HOUR, 29 * DAY] {
                world.clock.pass(wait);
                asker.assert_repeats(&mut world, id, &payment(2_000_000));
            }
        }
    }

    #[test]
    fn keeps_its_answer_for_a_bearer_for_fifteen_minutes() {
        for (denied, key) in [(true, None), (false, None), (true, Some("k")), (false, Some("k"))] {
            let mut world = world();
            let asker = Asker::bearer("report", key);
            let id = ended_request(&mut world, &asker, denied);
            asker.assert_repeats(&mut world, id, &payment(2_000_000));
            world.clock.pass(QUARTER_HOUR - 1);
            asker.assert_repeats(&mut world, id, &payment(2_000_000));
            world.clock.pass(1);
            let again = asker.asks(&mut world, payment(2_000_000));
            assert!(matches!(again, Answer::Holds(new, _) if new != id), "{again:?}");
        }
    }
}

mod refused {
    use super::*;

    #[test]
    fn stays_so_for_a_signature_whatever_changes() {
        let mut world = world();
        let asker = Asker::signed(&mut world);
        let ask = payment(10_000_001);
        let id = id_of(&asker.asks(&mut world, ask.clone()));
        asker.assert_repeats(&mut world, id, &ask);
        world.edit(|policy| policy.payments.per_request = Usd::dollars(50)).expect("open");
        world.clock.pass(3 * DAY);
        asker.assert_repeats(&mut world, id, &ask);
        assert_eq!(world.records.len(), 1);
    }

    #[test]
    fn is_never_remembered_for_a_bearer() {
        for key in [None, Some("key 1")] {
            let mut world = world();
            let asker = Asker::bearer("report", key);
            let ask = payment(10_000_001);
            let first = id_of(&asker.asks(&mut world, ask.clone()));
            let second = id_of(&asker.asks(&mut world, ask.clone()));
            assert_ne!(first, second);
            world.edit(|policy| policy.payments.per_request = Usd::dollars(50)).expect("open");
            let third = asker.asks(&mut world, ask);
            assert!(matches!(third, Answer::Holds(..)), "{third:?}");
        }
    }

    /// A request that was approved and then refused by the policy in force follows the same rules.
    #[test]
    fn at_approval_follows_the_same_rules() {
        for_each_asker(|world, asker| {
            let ask = payment(2_000_000);
            let id = id_of(&asker.asks(world, ask.clone()));
            world.edit(|policy| policy.payments.per_request = Usd::dollars(1)).expect("free");
            world.rejects(id);
            let again = asker.asks(world, ask.clone());
            match &asker.identity {
                Identity::Hmac { .. } => asker.assert_repeats(world, id, &ask),
                Identity::Bearer { .. } => {
                    assert_eq!(again.code(), Some(Code::ExceedsPerRequestMax));
                    assert_ne!(id_of(&again), id);
                }
            }
        });
    }

    /// A repeat gets the first refusal, even if another rule would refuse now or would have refused then.
    #[test]
    fn keeps_its_first_reason() {
        let mut world = world();
        world
            .edit(|policy| policy.payments.hosts = build::hosts(&["good.example"], &[]))
            .expect("free");
        let chain = build::base().chain;
        world.must(Action::SetNetwork { chain, enabled: false });
        let asker = Asker::signed(&mut world);
        let answer = asker.asks(&mut world, payment(1));
        assert_eq!(answer.code(), Some(Code::NetworkDisabled));
        asker.assert_repeats(&mut world, id_of(&answer), &payment(1));
    }
}

mod idempotency_keys {
    use super::*;

    #[test]
    fn let_the_same_content_be_paid_for_more_than_once() {
        let mut world = world();
        let ids: Vec<_> = [None, Some("key 1"), Some("key 2")]
            .map(|key| id_of(&Asker::bearer("report", key).asks(&mut world, payment(500_000))))
            .to_vec();
        assert_eq!(world.records.len(), 3);
        assert_eq!(spent_and_reserved(&world), 1_500_000);
        Asker::bearer("report", Some("key 1")).assert_repeats(
            &mut world,
            ids[1],
            &payment(500_000),
        );
    }

    #[test]
    fn belong_to_the_content_they_came_with_for_as_long_as_that_is_remembered() {
        let mut world = world();
        let first = Asker::bearer("report", Some("key 1"));
        first.asks(&mut world, payment(500_000));
        let other = Asker::bearer("another", Some("key 1"));
        for wait in [0, 30 * SECOND, 29 * SECOND] {
            world.clock.pass(wait);
            let mut restarted = world.restarted();
            for world in [&mut world, &mut restarted] {
                let entries = world.entries.len();
                let answer = other.asks(world, payment(1));
                assert_eq!(answer, Answer::Unrecorded(Code::IdempotencyConflict.into()));
                assert_eq!(world.entries.len(), entries);
            }
        }
        // Another key can be used at once. This key is released once the payment can no longer be redeemed.
        let free = Asker::bearer("another", Some("key 2")).asks(&mut world, payment(1));
        assert!(matches!(free, Answer::Signs(_)), "{free:?}");
        world.clock.pass(SECOND);
        let again = other.asks(&mut world, payment(1));
        assert!(matches!(again, Answer::Signs(_)), "{again:?}");
        // From now on the key belongs to the other content.
        let answer = first.asks(&mut world, payment(500_000));
        assert_eq!(answer, Answer::Unrecorded(Code::IdempotencyConflict.into()));
    }
}

/// The URL is not part of a bearer identity, but a repeat with another URL must still pass the host lists.
mod another_url {
    use super::*;

    fn payment_at(url: &str, micros: u64) -> PaymentAsk {
        PaymentAsk { request_url: Some(url.to_owned()), ..payment(micros) }
    }

    const FIRST_URL: &str = "https://api.example/report";
    const ALLOWED_URL: &str = "https://www.api.example/other";
    const UNLISTED_URL: &str = "https://else.example/";

    #[test]
    fn passes_the_domain_rule_before_the_stored_answer_is_given() {
        for micros in [1, 2_000_000, 10_000_001] {
            let mut world = world();
            world
                .edit(|policy| policy.payments.hosts = build::hosts(&["api.example"], &[]))
                .expect("free");
            let asker = Asker::bearer("report", None);
            let id = id_of(&asker.asks(&mut world, payment_at(FIRST_URL, micros)));
            let before = spent_and_reserved(&world);
            let answer = asker.asks(&mut world, payment_at(UNLISTED_URL, micros));
            assert_eq!(answer.code(), Some(Code::DomainNotAllowed));
            assert_eq!(spent_and_reserved(&world), before);
            if micros < 10_000_001 {
                assert!(matches!(answer, Answer::Unrecorded(_)), "{answer:?}");
                asker.assert_repeats(&mut world, id, &payment_at(ALLOWED_URL, micros));
            }
        }
    }

    #[test]
    fn that_is_blocked_gets_nothing() {
        let mut world = world();
        let asker = Asker::bearer("report", None);
        let id = id_of(&asker.asks(&mut world, payment_at(FIRST_URL, 1)));
        world
            .edit(|policy| policy.payments.hosts = build::hosts(&[], &["else.example"]))
            .expect("free");
        let answer = asker.asks(&mut world, payment_at(UNLISTED_URL, 1));
        assert_eq!(answer.code(), Some(Code::DomainNotAllowed));
        asker.assert_repeats(&mut world, id, &payment_at(FIRST_URL, 1));
    }

    /// From the specification: "a different one passes the domain rule".
    ///
    /// The first URL has already passed the domain rule, and the agent has received its payment.
    #[test]
    fn is_checked_but_the_first_url_is_not_checked_again() {
        for_each_asker(|world, asker| {
            let id = id_of(&asker.asks(world, payment_at(FIRST_URL, 1)));
            world
                .edit(|policy| policy.payments.hosts = build::hosts(&[], &["api.example"]))
                .expect("tightening is free");
            asker.assert_repeats(world, id, &payment_at(FIRST_URL, 1));
        });
    }
}

#[test]
fn an_agent_that_may_not_work_gets_no_stored_answer() {
    for_each_asker(|world, asker| {
        asker.asks(world, payment(1));
        world.must(Action::Freeze);
        let frozen = asker.asks(world, payment(1));
        assert_eq!(frozen, Answer::Unrecorded(Code::AgentsFrozen.into()));
        world.must(Action::Thaw);
        world.must(Action::Suspend { agent: asker.agent.clone() });
        let suspended = asker.asks(world, payment(1));
        assert_eq!(suspended, Answer::Unrecorded(Code::AgentSuspended.into()));
    });
}

#[test]
fn a_signed_timestamp_is_fresh_for_five_minutes_either_way() {
    let now = Utc::from_seconds(1_770_000_000).plus_ms(999);
    for (apart, fresh) in
        [(-301, false), (-300, true), (0, true), (300, true), (301, false), (i64::MIN / 2, false)]
    {
        assert_eq!(is_fresh(1_770_000_000 + apart, now, 300), fresh, "{apart}");
    }
    assert!(!is_fresh(i64::MAX, now, 900) && !is_fresh(i64::MIN, now, 900));
}
