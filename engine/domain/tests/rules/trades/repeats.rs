//! The same request gets the same answer, in every status (decisions.md, Repeats).

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::identity::Identity;
use bursar_domain::plan::StepPurpose;
use bursar_domain::trades::TradeAsk;
use bursar_domain::{Decision, LaneAsk, Refusal, Reply, Status};

use crate::support::build;
use crate::support::clock::{DAY, MINUTE};
use crate::trades::bench::{Bench, Fate, quote, trade};

/// The status of a request when its repeat arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestStage {
    Held,
    Started,
    AllowanceOpen,
    SwapSigned,
    Executed,
    Failed,
    Stopped,
    Denied,
    Expired,
    Refused,
}

const ALL_STAGES: [RequestStage; 10] = [
    RequestStage::Held,
    RequestStage::Started,
    RequestStage::AllowanceOpen,
    RequestStage::SwapSigned,
    RequestStage::Executed,
    RequestStage::Failed,
    RequestStage::Stopped,
    RequestStage::Denied,
    RequestStage::Expired,
    RequestStage::Refused,
];

fn ask(
    bench: &mut Bench,
    agent: usize,
    identity: &Identity,
    trade: TradeAsk,
) -> Result<Decision, Refusal> {
    let ask = LaneAsk::Trade(Box::new(trade));
    let action = bench.world.ask_action(&build::agent(agent), identity.clone(), ask);
    bench.world.run(action)
}

/// Makes a request with an identity and brings it to a status.
fn bring_to_stage(
    bench: &mut Bench,
    agent: usize,
    identity: &Identity,
    when: RequestStage,
) -> (RequestId, TradeAsk) {
    let micros = match when {
        RequestStage::Held | RequestStage::Denied | RequestStage::Expired => 60_000_000,
        RequestStage::Refused => 100_000_001,
        _automatic => 40_000_000,
    };
    let decision = ask(bench, agent, identity, trade(micros)).unwrap();
    let Reply::Request(id) = decision.reply else { panic!("{decision:?}") };
    match when {
        RequestStage::Held | RequestStage::Started | RequestStage::Refused => {}
        RequestStage::AllowanceOpen => bench.opens(id, StepPurpose::Allowance),
        RequestStage::SwapSigned => {
            bench.opens(id, StepPurpose::Swap);
            bench.signs(id);
        }
        RequestStage::Executed => {
            bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
            bench.end_executed(id);
        }
        RequestStage::Failed => bench.open_and_finish(id, StepPurpose::Swap, Fate::Reverted),
        RequestStage::Stopped => bench.open_and_finish(id, StepPurpose::Allowance, Fate::Dropped),
        RequestStage::Denied => {
            bench.world.deny(id).unwrap();
        }
        RequestStage::Expired => {
            bench.world.clock.pass(15 * MINUTE);
            bench.world.tick();
        }
    }
    (id, trade(micros))
}

/// Checks that a repeat gets the unchanged request and records nothing.
#[track_caller]
fn assert_same(bench: &mut Bench, id: RequestId, repeat: Result<Decision, Refusal>, what: &str) {
    let decision = repeat.expect(what);
    assert_eq!((decision.events.len(), decision.effects.len()), (0, 0), "{what}");
    assert_eq!(decision.reply, Reply::Earlier(Box::new(bench.record(id))), "{what}");
}

#[test]
fn a_signed_repeat_gets_the_same_request_in_every_status() {
    for when in ALL_STAGES {
        let mut bench = Bench::new();
        let identity = build::signed_identity(1, bench.world.clock.utc);
        let (id, same) = bring_to_stage(&mut bench, 0, &identity, when);
        for wait in [0, DAY] {
            bench.world.clock.pass(wait);
            if wait > 0 && when == RequestStage::Held {
                // The hold is over: the repeat gets the expiry.
                let decision = ask(&mut bench, 0, &identity, same.clone()).unwrap();
                assert_eq!(decision.reply, Reply::Request(id));
                assert!(matches!(bench.status(id), Status::Expired { .. }));
            }
            let before = bench.volumes(0);
            let repeat = ask(&mut bench, 0, &identity, same.clone());
            assert_same(&mut bench, id, repeat, &format!("{when:?} {wait}"));
            assert_eq!(bench.volumes(0), before);
        }
    }
}

/// With a key, an allowed trade is always recognised, a denied or expired one for 15 minutes, and a refused one never.
#[test]
fn a_bearers_repeat_under_its_key_gets_the_same_request() {
    for when in ALL_STAGES {
        let mut bench = Bench::new();
        let identity = build::bearer_identity(&build::agent(2), b"trade", Some("key"));
        let (id, same) = bring_to_stage(&mut bench, 2, &identity, when);
        let ended = matches!(when, RequestStage::Denied | RequestStage::Expired);
        let repeat = ask(&mut bench, 2, &identity, same.clone());
        if when == RequestStage::Refused {
            assert_ne!(repeat.unwrap().reply, Reply::Request(id), "asked again");
            continue;
        }
        assert_same(&mut bench, id, repeat, &format!("{when:?}"));
        if ended {
            bench.world.clock.pass(15 * MINUTE);
            let repeat = ask(&mut bench, 2, &identity, same).unwrap();
            assert!(matches!(repeat.reply, Reply::Request(other) if other != id), "{when:?}");
        } else if when != RequestStage::Held {
            bench.world.clock.pass(DAY);
            let repeat = ask(&mut bench, 2, &identity, same);
            assert_same(&mut bench, id, repeat, &format!("{when:?}, a day later"));
        }
    }
}

/// Brings a request that has only its content as identity to a status.
fn bring_by_content(when: RequestStage) -> (Bench, Identity, RequestId, TradeAsk) {
    let mut bench = Bench::new();
    let identity = build::bearer_identity(&build::agent(2), b"trade", None);
    let (id, same) = bring_to_stage(&mut bench, 2, &identity, when);
    (bench, identity, id, same)
}

/// Without a key, a bearer agent's trade is merged with its first request for ten minutes, and in any case until it
/// has ended.
///
/// If the trade ended before any broadcast, the same content is a new request.
#[test]
fn a_bearers_repeat_without_a_key_is_merged_by_its_content() {
    for when in ALL_STAGES {
        let (mut bench, identity, id, same) = bring_by_content(when);
        let repeat = ask(&mut bench, 2, &identity, same.clone());
        if matches!(when, RequestStage::Refused | RequestStage::Stopped) {
            assert!(
                matches!(repeat.unwrap().reply, Reply::Request(other) if other != id),
                "{when:?}"
            );
            continue;
        }
        assert_same(&mut bench, id, repeat, &format!("{when:?}"));
        bench.world.clock.pass(10 * MINUTE - 1);
        let repeat = ask(&mut bench, 2, &identity, same.clone());
        assert_same(&mut bench, id, repeat, &format!("{when:?}, within ten minutes"));
        bench.world.clock.pass(1);
        let repeat = ask(&mut bench, 2, &identity, same.clone());
        if matches!(when, RequestStage::Executed | RequestStage::Failed) {
            let reply = repeat.unwrap().reply;
            assert!(matches!(reply, Reply::Request(other) if other != id), "{when:?}");
        } else {
            assert_same(&mut bench, id, repeat, &format!("{when:?}, ten minutes later"));
        }
    }
}

/// The ten minutes count on the boot clock, so setting the wall clock does not turn a repeat into a second trade.
#[test]
fn a_clock_that_is_set_ends_no_merge() {
    for set_by in [-DAY, DAY] {
        let (mut bench, identity, id, same) = bring_by_content(RequestStage::Executed);
        bench.world.clock.shift_wall_clock(set_by);
        let repeat = ask(&mut bench, 2, &identity, same.clone());
        assert_same(&mut bench, id, repeat, &format!("clock set by {set_by}"));
        bench.world.clock.pass(10 * MINUTE);
        let reply = ask(&mut bench, 2, &identity, same).unwrap().reply;
        assert!(matches!(reply, Reply::Request(other) if other != id), "clock set by {set_by}");
    }
}

/// The ten minutes count from the first request, not from the operator's approval.
#[test]
fn a_merge_counts_from_the_ask() {
    let (mut bench, identity, id, same) = bring_by_content(RequestStage::Held);
    bench.world.clock.pass(8 * MINUTE);
    bench.approves(id, quote(60_000_000));
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed(id);
    let repeat = ask(&mut bench, 2, &identity, same.clone());
    assert_same(&mut bench, id, repeat, "eight minutes after the ask");
    bench.world.clock.pass(2 * MINUTE);
    let reply = ask(&mut bench, 2, &identity, same).unwrap().reply;
    assert!(matches!(reply, Reply::Request(other) if other != id), "ten minutes after the ask");
}

#[test]
fn another_content_under_the_same_key_conflicts_while_the_first_is_remembered() {
    for when in ALL_STAGES {
        let mut bench = Bench::new();
        let first = build::bearer_identity(&build::agent(2), b"trade", Some("key"));
        bring_to_stage(&mut bench, 2, &first, when);
        let (before, volumes) = (bench.world.entries.len(), bench.volumes(2));
        let second = build::bearer_identity(&build::agent(2), b"another trade", Some("key"));
        let answer = ask(&mut bench, 2, &second, trade(1_000_000));
        if when == RequestStage::Refused {
            assert!(answer.is_ok(), "a refusal is never remembered");
            continue;
        }
        assert_eq!(answer.unwrap_err().code, Code::IdempotencyConflict, "{when:?}");
        assert_eq!((bench.world.entries.len(), bench.volumes(2)), (before, volumes));
    }
}

/// A request with another key, another agent or another signature is a different request.
#[test]
fn other_identities_are_other_requests() {
    let mut bench = Bench::new();
    let now = bench.world.clock.utc;
    let identities = [
        (0, build::signed_identity(1, now)),
        (0, build::signed_identity(2, now)),
        (2, build::bearer_identity(&build::agent(2), b"trade", Some("a"))),
        (2, build::bearer_identity(&build::agent(2), b"trade", Some("b"))),
    ];
    for (agent, identity) in identities {
        let decision = ask(&mut bench, agent, &identity, trade(10_000_000)).unwrap();
        assert_eq!(decision.events.len(), 1);
    }
    assert_eq!((bench.volumes(0), bench.volumes(2)), ((0, 20_000_000), (0, 20_000_000)));
    assert_eq!(bench.world.state.executing.len(), 4);
}

/// A repeat is answered from the journal, even after a restart.
#[test]
fn a_repeat_after_a_restart_gets_the_same_request() {
    let mut bench = Bench::new();
    let identity = build::signed_identity(1, bench.world.clock.utc);
    let (id, same) = bring_to_stage(&mut bench, 0, &identity, RequestStage::AllowanceOpen);
    bench.world = bench.world.restarted();
    let repeat = ask(&mut bench, 0, &identity, same);
    assert_same(&mut bench, id, repeat, "after a restart");
    let held = bench.holds(0, trade(60_000_000));
    bench.approves(held, quote(60_000_000));
}
