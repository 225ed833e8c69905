//! Which plans a stop reaches, and the token allowances that stopped plans leave.

use bursar_core::codes::Code;
use bursar_domain::Action;
use bursar_domain::plan::StepPurpose;

use crate::support::build;
use crate::support::clock::{HOUR, MINUTE};
use crate::trades::bench::{BASE, Bench, Fate, quote, signatures, trade};
use crate::trades::stops::{Point, Stop, VALUE, plan_at};

/// I-i and I-h: a step that was opened under the old rules is not signed under the new ones.
#[test]
fn an_open_step_is_not_signed_after_the_rules_forbid_it() {
    type Forbid = fn(&mut Bench);
    let cases: [(&str, Forbid); 2] = [
        ("network", |bench| {
            bench.world.must(Action::SetNetwork { chain: BASE, enabled: false });
        }),
        ("policy", |bench| {
            bench.world.edit(|policy| policy.trading.enabled = false).unwrap();
        }),
    ];
    for (what, forbid) in cases {
        let (mut bench, id, _none) = plan_at(Point::SwapOpen);
        let key = bench.key(id);
        forbid(&mut bench);
        assert_eq!(signatures(&bench.price(key)), [], "{what}");
    }
}

/// A suspension ends only the agent's own plans; a freeze ends all plans.
#[test]
fn a_suspension_ends_only_the_agents_own_plans() {
    let mut bench = Bench::new();
    let own = bench.starts(0, trade(VALUE));
    let others = bench.starts(1, trade(VALUE));
    let third = bench.starts(2, trade(VALUE));
    Stop::Suspend.apply(&mut bench);
    assert_eq!(bench.end_code(own), Some(Code::AgentSuspended));
    assert_eq!((bench.volumes(1), bench.volumes(2)), ((0, VALUE), (0, VALUE)));
    bench.opens(others, StepPurpose::Swap);
    Stop::Freeze.apply(&mut bench);
    for id in [others, third] {
        assert_eq!(bench.end_code(id), Some(Code::AgentsFrozen));
        assert!(bench.is_closed(id));
    }
    assert_eq!(bench.world.must(Action::Freeze).events, []);
}

/// Held trades are not plans: they stay with the operator, who cannot approve them while frozen.
#[test]
fn a_held_trade_waits_through_a_freeze() {
    let mut bench = Bench::new();
    let id = bench.holds(0, trade(60_000_000));
    bench.world.must(Action::Freeze);
    assert_eq!(bench.approve(id, Ok(quote(60_000_000))).unwrap_err().code, Code::AgentsFrozen);
    bench.world.must(Action::Thaw);
    bench.world.must(Action::Suspend { agent: build::agent(0) });
    assert_eq!(bench.rejects(id, Ok(quote(60_000_000))), Code::AgentSuspended);
    assert_eq!(bench.volumes(0), (0, 0));
}

/// Nothing is signed for a stopped agent, so the revocation of its leftover allowance waits.
#[test]
fn a_leftover_is_revoked_after_the_thaw_and_not_before() {
    for (stop, code) in [(Stop::Freeze, Code::AgentsFrozen), (Stop::Suspend, Code::AgentSuspended)]
    {
        let (mut bench, id, _none) = plan_at(Point::AllowanceMined);
        stop.apply(&mut bench);
        let refused = bench.try_open(id, StepPurpose::Revocation).unwrap_err();
        assert_eq!(refused.code, code);
        stop.lift(&mut bench);
        // The revocation is still possible long afterwards.
        bench.world.clock.pass(HOUR);
        bench.world.tick();
        bench.opens(id, StepPurpose::Revocation);
        stop.apply(&mut bench);
        assert!(bench.execution(id).open_step().is_none(), "it is unsigned too");
        assert!(!bench.is_closed(id));
        stop.lift(&mut bench);
        bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
        assert!(bench.is_closed(id));
    }
}

/// A suspended agent's leftover allowance blocks neither the address nor the agent's deletion.
#[test]
fn a_suspended_agents_leftover_does_not_block_other_agents_for_ever() {
    let (mut bench, id, _none) = plan_at(Point::AllowanceMined);
    Stop::Suspend.apply(&mut bench);
    assert!(!bench.is_closed(id));
    let other = bench.starts(1, trade(VALUE));
    bench.world.clock.pass(MINUTE);
    let deleted = bench.world.run(Action::DeleteAgent { agent: build::agent(0) });
    let opened = bench.try_open(other, StepPurpose::Swap);
    assert!(deleted.is_ok() || opened.is_ok(), "{:?}, {:?}", deleted.err(), opened.err());
}
