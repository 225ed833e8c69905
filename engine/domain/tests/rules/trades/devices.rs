//! Trades whose steps a person signs on a device: refusals, denials, and transactions that are signed too late.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::plan::{PLAN_MS, StepPurpose, Volume};
use bursar_domain::plan_text;
use bursar_domain::{Action, Status};
use bursar_submit::Input;

use crate::support::clock::SECOND;
use crate::support::{build, denial};
use crate::trades::bench::{Bench, Fate, signatures, trade};
use crate::trades::stops::VALUE;

/// A running trade whose approval is mined and whose swap waits for the person at the device.
fn trade_at_swap() -> (Bench, RequestId, (bursar_submit::SubmissionId, usize)) {
    let mut bench = Bench::with_device();
    let id = bench.starts(0, trade(VALUE));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    bench.opens(id, StepPurpose::Swap);
    let asked = bench.authorizes(id);
    let (submission, attempt, _digest) = signatures(&asked)[0];
    (bench, id, (submission, attempt))
}

fn device_signature(bench: &Bench, id: RequestId) -> Option<String> {
    plan_text::device_signature_text(&bench.world.state, &bench.world.records[&id])
}

#[test]
fn a_refused_swap_returns_its_value_and_a_refused_revocation_ends_the_plan() {
    let (mut bench, id, (submission, attempt)) = trade_at_swap();
    assert_eq!(device_signature(&bench, id).as_deref(), Some("2/2 swap"));
    let key = bench.key(id);
    bench.input(key, Input::Declined { id: submission, attempt }).unwrap();
    assert_eq!(bench.end_code(id), Some(Code::LedgerRejected));
    assert_eq!(bench.execution(id).volume, Volume::Returned);
    assert_eq!(device_signature(&bench, id).as_deref(), Some("revocation of the token approval"));
    bench.opens(id, StepPurpose::Revocation);
    let asked = bench.authorizes(id);
    let (submission, attempt, _digest) = signatures(&asked)[0];
    bench.input(key, Input::Declined { id: submission, attempt }).unwrap();
    assert!(!bench.world.state.executing.contains_key(&id), "no one is asked again");
    bench.world.assert_replays();
}

#[test]
fn what_no_one_signs_in_time_ends_with_the_code_of_the_device() {
    // Either the outbox or the five-minute limit ends the plan.
    for by_outbox in [true, false] {
        let (mut bench, id, _asked) = trade_at_swap();
        bench.world.clock.pass(PLAN_MS);
        if by_outbox {
            bench.price(bench.key(id));
        } else {
            bench.world.tick();
        }
        assert_eq!(bench.end_code(id), Some(Code::LedgerDisconnected), "{by_outbox}");
        assert_eq!(bench.execution(id).volume, Volume::Returned);
    }
}

/// A locked wallet may not write the entry of a denial: that entry would make the journal untrusted.
#[test]
fn a_plan_is_denied_only_with_an_open_wallet_and_an_unsigned_swap() {
    let (mut bench, id, (submission, attempt)) = trade_at_swap();
    bench.world.unlocked = false;
    assert_eq!(bench.world.run_refused(denial(id)).code, Code::WalletLocked);
    bench.world.unlocked = true;
    bench.world.must(denial(id));
    assert_eq!(bench.end_code(id), Some(Code::RequestDenied));
    assert_eq!(bench.execution(id).volume, Volume::Returned);
    // A signature that arrives afterwards changes nothing.
    let digest = bench.world.state.outboxes.get(&bench.key(id)).unsigned(submission, attempt);
    assert!(digest.is_none(), "the swap is gone");

    let (mut bench, id, _asked) = trade_at_swap();
    bench.signs_again(id);
    assert_eq!(bench.world.run_refused(denial(id)).code, Code::AlreadyDecided);
    assert!(matches!(bench.status(id), Status::Executing(one) if one.end.is_none()));
}

/// A late swap keeps its nonce until an empty transaction uses it.
///
/// The empty transaction therefore survives every stop, and the device is prompted again some time after a refusal.
#[test]
fn the_empty_transaction_of_a_late_swap_is_never_lost() {
    let (mut bench, id, _asked) = trade_at_swap();
    let key = bench.key(id);
    bench.signs_again(id);
    bench.world.clock.pass(PLAN_MS);
    let asked = bench.price(key);
    let (submission, attempt, _digest) = signatures(&asked)[0];
    assert_eq!(device_signature(&bench, id).as_deref(), Some("empty transaction"));
    bench.world.must(Action::Freeze);
    bench.world.must(Action::Thaw);
    bench.world.must(Action::Suspend { agent: build::agent(0) });
    bench.world.must(Action::Resume { agent: build::agent(0) });
    assert_eq!(bench.world.run_refused(denial(id)).code, Code::AlreadyDecided);
    assert_eq!(device_signature(&bench, id).as_deref(), Some("empty transaction"));
    bench.input(key, Input::Declined { id: submission, attempt }).unwrap();
    assert!(signatures(&bench.price(key)).is_empty(), "not again at once");
    bench.world.clock.pass(600 * SECOND);
    let asked = bench.price(key);
    assert_eq!(signatures(&asked).len(), 1, "the address is free only with its nonce");
    bench.sign(key, &asked);
    assert!(
        device_signature(&bench, id).is_none()
            || !bench.world.state.awaits_device_signature(&bench.record(id))
    );
    bench.world.assert_replays();
}
