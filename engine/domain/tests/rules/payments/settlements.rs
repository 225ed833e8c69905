//! Settlements of signed payments: only reports and chain lookups move them forward.

use std::sync::Arc;

use alloy_primitives::B256;
use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::limits::{
    REPORTS_PER_PAYMENT_MAX, SETTLEMENT_CHECK_MS_MAX, SETTLEMENT_CHECKS_MAX,
    SETTLEMENT_CHECKS_PER_AGENT_MAX,
};
use bursar_core::time::Utc;
use bursar_domain::agents::Credential;
use bursar_domain::settlement::{Check, ReportContent, ReportKind, Settlement, Stage};
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::{Action, Entry, Event, Refusal, Reply};
use proptest::prelude::*;

use crate::support::{Answer, World, build};
use build::{ordinary_world, payment};

const SMALL: u64 = 70_000;

fn hash(n: u8) -> B256 {
    B256::repeat_byte(n)
}

fn content(kind: ReportKind, tx: Option<u8>) -> ReportContent {
    ReportContent { kind, tx_hash: tx.map(hash), error: None }
}

/// Sends a new report of the first agent.
fn report(world: &mut World, id: RequestId, content: ReportContent) -> Result<Stage, Refusal> {
    let identity = build::signed_identity(world.draw(), world.clock.utc);
    let action = world.report_action(&build::agent(0), identity, id, content);
    world.run(action).map(|decision| match decision.reply {
        Reply::Reported(stage) => stage,
        other => panic!("{other:?}"),
    })
}

fn record_check(world: &mut World, id: RequestId, tx: u8, found: Check) {
    world.must(Action::Checked { id, tx_hash: hash(tx), found });
}

fn stage(world: &World, id: RequestId) -> Option<Stage> {
    world.settlements.get(&id).map(|settlement| settlement.stage)
}

#[test]
fn a_payment_is_submitted_settled_and_verified() {
    let mut world = ordinary_world();
    let id = world.signs(payment(SMALL));
    let spent = world.spent();
    assert_eq!(report(&mut world, id, content(ReportKind::Submitted, None)), Ok(Stage::Submitted));
    assert!(world.state.settling.is_empty(), "only what settled is looked for");
    assert_eq!(report(&mut world, id, content(ReportKind::Settled, Some(1))), Ok(Stage::Settled));
    assert_eq!(world.state.settling.len(), 1);
    let mut world = world.restarted();
    assert_eq!(world.state.settling.len(), 1, "a restart goes on looking");
    // A result about another transaction is ignored.
    record_check(&mut world, id, 2, Check::Verified { block: 7 });
    assert_eq!(stage(&world, id), Some(Stage::Settled));
    record_check(&mut world, id, 1, Check::Verified { block: 7 });
    assert_eq!(stage(&world, id), Some(Stage::Verified));
    assert!(world.state.settling.is_empty());
    for event in [ReportKind::Failed, ReportKind::Submitted, ReportKind::Settled] {
        assert_eq!(report(&mut world, id, content(event, Some(9))), Ok(Stage::Verified));
    }
    assert_eq!(world.settlements[&id].tx_hash, Some(hash(1)));
    assert_eq!(world.spent(), spent, "a settlement moves no allowance");
}

#[test]
fn chain_lookups_are_bounded_in_all() {
    let mut world = ordinary_world();
    let ids: Vec<RequestId> = (0..3).map(|n| world.signs(payment(SMALL + n))).collect();
    assert_eq!(
        report(&mut world, ids[0], content(ReportKind::Settled, Some(1))),
        Ok(Stage::Settled)
    );
    let known = Arc::clone(&world.state.settling[&ids[0]]);
    let settling = Arc::make_mut(&mut world.state.settling);
    for n in 0..SETTLEMENT_CHECKS_MAX as u128 - 2 {
        let id = RequestId::from_bytes(n.to_be_bytes());
        let agent: AgentId = "ZZZ999".parse().unwrap();
        settling.insert(id, Arc::new(Settlement { id, agent, ..(*known).clone() }));
    }
    for (id, looked_for) in [(ids[1], true), (ids[2], false)] {
        assert_eq!(
            report(&mut world, id, content(ReportKind::Settled, Some(2))),
            Ok(Stage::Settled)
        );
        assert_eq!(world.state.settling.contains_key(&id), looked_for);
    }
    // Removes settlements that no entry created.
    Arc::make_mut(&mut world.state.settling).retain(|id, _settlement| ids.contains(id));
}

/// The lookups for an agent's false reports are bounded, and other agents' lookups continue.
#[test]
fn chain_lookups_are_bounded_per_agent() {
    let mut world = ordinary_world();
    let ids: Vec<RequestId> = (0..=SETTLEMENT_CHECKS_PER_AGENT_MAX as u64)
        .map(|n| world.signs(payment(1_000 + n)))
        .collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(
            report(&mut world, *id, content(ReportKind::Settled, Some(1))),
            Ok(Stage::Settled)
        );
        assert_eq!(
            world.state.settling.contains_key(id),
            n < SETTLEMENT_CHECKS_PER_AGENT_MAX,
            "{n}"
        );
    }
    record_check(&mut world, ids[0], 1, Check::Verified { block: 7 });
    let last = *ids.last().unwrap();
    assert_eq!(report(&mut world, last, content(ReportKind::Settled, Some(2))), Ok(Stage::Settled));
    assert!(world.state.settling.contains_key(&last), "there is room again");
}

#[test]
fn a_revert_is_final_until_another_transaction_pays() {
    let mut world = ordinary_world();
    let id = world.signs(payment(SMALL));
    report(&mut world, id, content(ReportKind::Settled, Some(1))).unwrap();
    record_check(&mut world, id, 1, Check::Reverted { block: 7 });
    assert_eq!(stage(&world, id), Some(Stage::Failed));
    assert_eq!(report(&mut world, id, content(ReportKind::Settled, Some(1))), Ok(Stage::Failed));
    assert_eq!(report(&mut world, id, content(ReportKind::Submitted, Some(2))), Ok(Stage::Failed));
    assert_eq!(report(&mut world, id, content(ReportKind::Settled, Some(2))), Ok(Stage::Settled));
    record_check(&mut world, id, 2, Check::Verified { block: 8 });
    assert_eq!(stage(&world, id), Some(Stage::Verified));
}

#[test]
fn a_wrong_hash_is_not_verified_and_can_be_put_right() {
    let mut world = ordinary_world();
    let id = world.signs(payment(SMALL));
    report(&mut world, id, content(ReportKind::Settled, Some(1))).unwrap();
    record_check(&mut world, id, 1, Check::Mismatch { block: 7 });
    assert_eq!((stage(&world, id), world.state.settling.len()), (Some(Stage::Settled), 0));
    report(&mut world, id, content(ReportKind::Settled, Some(1))).unwrap();
    assert_eq!(world.state.settling.len(), 0, "it was looked for");
    report(&mut world, id, content(ReportKind::Settled, Some(2))).unwrap();
    assert_eq!(world.state.settling.len(), 1);
    world.clock.pass(SETTLEMENT_CHECK_MS_MAX - 1);
    assert!(!world.state.settling[&id].has_timed_out(world.clock.utc));
    world.clock.pass(1);
    assert!(world.state.settling[&id].has_timed_out(world.clock.utc));
}

#[test]
fn only_results_of_pending_lookups_may_follow_a_seal() {
    let mut world = ordinary_world();
    let id = world.signs(payment(SMALL));
    let entry = |found: Check| Entry {
        seq: 1,
        at: Utc::default(),
        event: Event::SettlementChecked { id, found },
    };
    let ends = [
        Check::Verified { block: 1 },
        Check::Reverted { block: 1 },
        Check::Mismatch { block: 1 },
        Check::NotFound,
        Check::Unavailable,
    ];
    for found in ends.clone() {
        assert!(!may_follow_a_seal(&world.state, &entry(found)), "nothing waits");
    }
    report(&mut world, id, content(ReportKind::Settled, Some(1))).unwrap();
    for found in ends {
        assert!(may_follow_a_seal(&world.state, &entry(found)));
    }
    for found in [Check::Off, Check::Pending { since: Utc(i64::MAX) }] {
        assert!(!may_follow_a_seal(&world.state, &entry(found)));
    }
}

#[test]
fn reports_about_one_payment_are_bounded_in_the_journal() {
    let mut world = ordinary_world();
    let id = world.signs(payment(SMALL));
    let before = world.entries.len();
    for tx in 0..40 {
        assert_eq!(
            report(&mut world, id, content(ReportKind::Settled, Some(tx))),
            Ok(Stage::Settled)
        );
        assert_eq!(
            report(&mut world, id, content(ReportKind::Submitted, Some(tx))),
            Ok(Stage::Settled)
        );
    }
    assert_eq!(world.entries.len() - before, usize::from(REPORTS_PER_PAYMENT_MAX));
}

#[test]
fn reports_need_the_agents_own_authorized_payment() {
    let mut world = ordinary_world();
    build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
    world.must(build::commission(1, "daily bread", "spare"));
    let id = world.signs(payment(SMALL));
    let held = world.holds(payment(2_000_000));
    let identity = build::signed_identity(world.draw(), world.clock.utc);
    let foreign =
        world.report_action(&build::agent(1), identity, id, content(ReportKind::Settled, Some(1)));
    assert_eq!(world.run_refused(foreign).code, Code::Unauthorized);
    let settled = content(ReportKind::Settled, Some(1));
    assert_eq!(report(&mut world, held, settled.clone()).unwrap_err().code, Code::InvalidRequest);
    let unknown = RequestId::from_entropy([9; 16]);
    let refused = report(&mut world, unknown, settled.clone()).unwrap_err();
    assert_eq!(refused.code, Code::TransactionNotFound);
    world.unlocked = false;
    assert_eq!(report(&mut world, id, settled.clone()).unwrap_err().code, Code::WalletLocked);
    world.unlocked = true;
    world.must(Action::Suspend { agent: build::agent(0) });
    assert_eq!(report(&mut world, id, settled).unwrap_err().code, Code::AgentSuspended);
}

#[test]
fn a_repeated_report_gets_the_first_answer() {
    let mut world = ordinary_world();
    let id = world.signs(payment(SMALL));
    let identity = build::signed_identity(world.draw(), world.clock.utc);
    let first = content(ReportKind::Submitted, Some(1));
    let action = world.report_action(&build::agent(0), identity.clone(), id, first.clone());
    assert_eq!(world.must(action).reply, Reply::Reported(Stage::Submitted));
    report(&mut world, id, content(ReportKind::Settled, Some(1))).unwrap();
    let mut world = world.restarted();
    let again = world.report_action(&build::agent(0), identity, id, first);
    let decision = world.must(again);
    assert_eq!((decision.reply, decision.events.len()), (Reply::Reported(Stage::Submitted), 0));
}

#[test]
fn a_settled_payment_is_never_signed_again() {
    let mut world = ordinary_world();
    build::register(&mut world, 1, Credential::Bearer { sha256: [1; 32] });
    world.must(build::commission(1, "daily bread", "spare"));
    for agent in [build::agent(0), build::agent(1)] {
        let identity = if agent == build::agent(0) {
            build::signed_identity(world.draw(), world.clock.utc)
        } else {
            build::bearer_identity(&agent, b"content", None)
        };
        let Answer::Signs(id) = world.ask_as(&agent, identity.clone(), payment(SMALL)) else {
            panic!("not signed");
        };
        let report = build::signed_identity(world.draw(), world.clock.utc);
        let action = world.report_action(&agent, report, id, content(ReportKind::Settled, Some(1)));
        world.must(action);
        let spent = world.spent();
        // Repeats the request during the validity, long after it, and after a restart.
        for _ in 0..2 {
            let again = world.ask_as(&agent, identity.clone(), payment(SMALL));
            assert_eq!(again.code(), Some(Code::PaymentSettled));
            world.clock.pass(3_600_000);
            world = world.restarted();
        }
        assert_eq!(world.spent(), spent);
    }
}

fn any_check() -> impl Strategy<Value = Check> {
    prop_oneof![
        Just(Check::Verified { block: 1 }),
        Just(Check::Reverted { block: 1 }),
        Just(Check::Mismatch { block: 1 }),
        Just(Check::NotFound),
        Just(Check::Off),
    ]
}

fn any_step() -> impl Strategy<Value = Result<ReportContent, (u8, Check)>> {
    let event = prop_oneof![
        Just(ReportKind::Submitted),
        Just(ReportKind::Settled),
        Just(ReportKind::Failed)
    ];
    prop_oneof![
        (event, prop::option::of(0u8..4)).prop_map(|(event, tx)| Ok(content(event, tx))),
        (0u8..4, any_check()).prop_map(Err),
    ]
}

proptest! {
    /// In any order of reports and lookups, only our own lookup of the reported transaction verifies a payment.
    ///
    /// `verified` never moves back, and `settled` moves back only after a revert.
    #[test]
    fn a_settlement_never_goes_back(steps in prop::collection::vec(any_step(), 1..40)) {
        let mut world = ordinary_world();
        let id = world.signs(payment(SMALL));
        let spent = (world.spent(), world.reserved_value());
        let mut last: Option<Stage> = None;
        for step in steps {
            let named = world.settlements.get(&id).and_then(|known| known.tx_hash);
            let waited = world.state.settling.contains_key(&id);
            let looked = match &step {
                Ok(content) => { report(&mut world, id, content.clone()).unwrap(); None }
                Err((tx, found)) => {
                    record_check(&mut world, id, *tx, found.clone());
                    (waited && named == Some(hash(*tx))).then_some(found)
                }
            };
            let now = stage(&world, id);
            if now == Some(Stage::Verified) && last != now {
                let found = matches!(looked, Some(Check::Verified { .. }));
                prop_assert!(found, "verified by a report");
            }
            if now < last {
                let reverted = matches!(looked, Some(Check::Reverted { .. }));
                prop_assert!(reverted, "it went back");
                prop_assert_ne!(last, Some(Stage::Verified));
            }
            last = now;
        }
        prop_assert_eq!((world.spent(), world.reserved_value()), spent);
    }
}
