//! Freeze, lock, suspension and the five-minute limit, at each point of a plan (docs/register.md, T-53 and I-g).
//!
//! An unsigned call is never signed afterwards. A signed one is watched, and may be cancelled once its time is over.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::plan::{ExecutionEnd, PLAN_MS, StepPurpose, Volume};
use bursar_domain::{Action, Decision, Event};
use bursar_submit::Event as OutboxEvent;

use crate::support::build;
use crate::support::clock::SECOND;
use crate::trades::bench::{Bench, Fate, signatures, trade};

pub(crate) const VALUE: u64 = 40_000_000;

/// The point that a plan has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    Nothing,
    AllowanceOpen,
    AllowanceAuthorized,
    AllowanceSigned,
    AllowanceMined,
    SwapOpen,
    SwapAuthorized,
    SwapSigned,
}

impl Point {
    /// The points without a signed transaction in flight.
    pub(crate) const UNSIGNED: [Self; 6] = [
        Self::Nothing,
        Self::AllowanceOpen,
        Self::AllowanceAuthorized,
        Self::AllowanceMined,
        Self::SwapOpen,
        Self::SwapAuthorized,
    ];

    fn has_allowance(self) -> bool {
        matches!(self, Self::AllowanceMined | Self::SwapOpen | Self::SwapAuthorized)
    }
}

/// An event that stops a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Suspend,
    Freeze,
    Lock,
    FiveMinutes,
}

impl Stop {
    const ALL: [Self; 4] = [Self::Suspend, Self::Freeze, Self::Lock, Self::FiveMinutes];

    pub(crate) fn code(self) -> Code {
        match self {
            Self::Suspend => Code::AgentSuspended,
            Self::Freeze => Code::AgentsFrozen,
            Self::Lock => Code::WalletLocked,
            Self::FiveMinutes => Code::PlanExpired,
        }
    }

    pub(crate) fn apply(self, bench: &mut Bench) {
        match self {
            Self::Suspend => {
                bench.world.must(Action::Suspend { agent: build::agent(0) });
            }
            Self::Freeze => {
                bench.world.must(Action::Freeze);
            }
            Self::Lock => bench.world.lock(),
            Self::FiveMinutes => {
                bench.world.clock.pass(PLAN_MS);
                bench.world.tick();
            }
        }
    }

    pub(crate) fn lift(self, bench: &mut Bench) {
        match self {
            Self::Suspend => {
                bench.world.must(Action::Resume { agent: build::agent(0) });
            }
            Self::Freeze => {
                bench.world.must(Action::Thaw);
            }
            Self::Lock => bench.world.unlock(),
            Self::FiveMinutes => {}
        }
    }
}

/// Returns a plan at a point, with the requests for a signature that are still unanswered.
pub(crate) fn plan_at(point: Point) -> (Bench, RequestId, Option<Decision>) {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    let first = match point {
        Point::Nothing => return (bench, id, None),
        Point::AllowanceOpen | Point::AllowanceAuthorized | Point::AllowanceSigned => {
            StepPurpose::Allowance
        }
        Point::AllowanceMined | Point::SwapOpen | Point::SwapAuthorized | Point::SwapSigned => {
            bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
            StepPurpose::Swap
        }
    };
    if point == Point::AllowanceMined {
        return (bench, id, None);
    }
    bench.opens(id, first);
    match point {
        Point::AllowanceAuthorized | Point::SwapAuthorized => {
            let unanswered = bench.authorizes(id);
            (bench, id, Some(unanswered))
        }
        Point::AllowanceSigned | Point::SwapSigned => {
            bench.signs(id);
            (bench, id, None)
        }
        _open => (bench, id, None),
    }
}

/// Checks that no signature was authorized or recorded since an entry.
#[track_caller]
fn assert_unsigned_since(bench: &Bench, entries: usize) {
    for entry in &bench.world.entries[entries..] {
        let Event::Outbox { event, .. } = &entry.event else { continue };
        let signs = matches!(event, OutboxEvent::Authorized { .. } | OutboxEvent::Signed { .. });
        assert!(!signs, "{event:?}");
    }
}

/// The plan is rejected, its volume is returned once, and nothing makes it continue.
///
/// An allowance that it leaves is revoked once the agent may work again.
#[test]
fn what_is_unsigned_ends_at_a_stop_and_never_revives() {
    for point in Point::UNSIGNED {
        for stop in Stop::ALL {
            let what = format!("{point:?} {stop:?}");
            let (mut bench, id, unanswered) = plan_at(point);
            let key = bench.key(id);
            let since = bench.world.entries.len();
            stop.apply(&mut bench);
            assert_eq!(bench.end_code(id), Some(stop.code()), "{what}");
            let end = bench.execution(id).end.clone();
            assert!(matches!(end, Some(ExecutionEnd::Rejected(_))), "{what}: {end:?}");
            assert_eq!((bench.volume(id), bench.volumes(0)), (Volume::Returned, (0, 0)), "{what}");
            assert_eq!(bench.is_closed(id), !point.has_allowance(), "{what}");
            // A slow signer answers after the stop.
            let late = |bench: &mut Bench| {
                if let Some(unanswered) = &unanswered {
                    bench.sign(key, unanswered);
                }
                let priced = bench.price(key);
                assert_eq!(signatures(&priced), [], "{what}");
                assert_eq!(bench.world.must(Action::ResumeOutbox(key)).effects, [], "{what}");
            };
            late(&mut bench);
            stop.lift(&mut bench);
            late(&mut bench);
            for purpose in [StepPurpose::Allowance, StepPurpose::Swap] {
                let code = bench.try_open(id, purpose).unwrap_err().code;
                let gone =
                    if bench.is_closed(id) { Code::RequestNotFound } else { Code::AlreadyDecided };
                assert_eq!(code, gone, "{what}");
            }
            bench.world.tick();
            assert_unsigned_since(&bench, since);
            if point.has_allowance() {
                bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
            }
            assert!(bench.is_closed(id), "{what}");
            assert_eq!((&bench.execution(id).end, bench.volumes(0)), (&end, (0, 0)), "{what}");
        }
    }
}

/// A signed swap may be mined in any case, so its outcome decides whether its volume is spent.
#[test]
fn a_signed_swap_is_watched_to_its_end() {
    for stop in Stop::ALL {
        for (fate, volume, spent) in [
            (Fate::Succeeded, Volume::Spent, VALUE),
            (Fate::Reverted, Volume::Returned, 0),
            (Fate::NonceTaken, Volume::Spent, VALUE),
        ] {
            let (mut bench, id, _none) = plan_at(Point::SwapSigned);
            let (key, submission) = (bench.key(id), bench.submission(id));
            stop.apply(&mut bench);
            let since = bench.world.entries.len();
            assert_eq!(bench.execution(id).end, None, "{stop:?}");
            assert_eq!(bench.volumes(0), (0, VALUE), "{stop:?}");
            bench.mine(key, submission, fate);
            if stop == Stop::Lock {
                assert_eq!(bench.volumes(0), (0, VALUE), "a locked wallet ends nothing");
                bench.world.unlock();
                assert_eq!(bench.volumes(0), (0, VALUE));
                bench.mine(key, submission, fate);
            }
            assert_unsigned_since(&bench, since);
            assert_eq!(bench.volume(id), volume, "{stop:?} {fate:?}");
            assert_eq!(bench.volumes(0), (spent, 0), "{stop:?} {fate:?}");
            if fate == Fate::Succeeded {
                bench.end_executed(id);
            } else {
                if stop != Stop::Lock {
                    stop.lift(&mut bench);
                }
                bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
            }
            assert!(bench.is_closed(id), "{stop:?} {fate:?}");
            assert_eq!(bench.volumes(0), (spent, 0), "{stop:?} {fate:?}");
        }
    }
}

/// The swap after a signed allowance is not signed yet, so the stop ends it too.
#[test]
fn no_swap_follows_an_allowance_that_was_signed_before_a_stop() {
    for stop in [Stop::Freeze, Stop::Suspend, Stop::Lock] {
        for mined_before_lift in [true, false] {
            let what = format!("{stop:?} {mined_before_lift}");
            let (mut bench, id, _none) = plan_at(Point::AllowanceSigned);
            let (key, submission) = (bench.key(id), bench.submission(id));
            stop.apply(&mut bench);
            if mined_before_lift {
                bench.mine(key, submission, Fate::Succeeded);
            }
            stop.lift(&mut bench);
            if bench.execution(id).open_step().is_some() {
                bench.mine(key, submission, Fate::Succeeded);
            }
            let swap = bench.try_open(id, StepPurpose::Swap).map(|decision| decision.events);
            assert!(bench.execution(id).open_step().is_none(), "{what}: {swap:?}");
            assert_eq!(bench.end_code(id), Some(stop.code()), "{what}");
            assert_eq!((bench.volume(id), bench.volumes(0)), (Volume::Returned, (0, 0)), "{what}");
            bench.open_and_finish(id, StepPurpose::Revocation, Fate::Succeeded);
            assert!(bench.is_closed(id), "{what}");
        }
    }
}

/// A higher gas offer needs a new signature, and nothing is signed for a stopped agent (I-g).
#[test]
fn a_stopped_agents_transaction_is_not_offered_again_at_a_higher_price() {
    for stop in [Stop::Freeze, Stop::Suspend] {
        let (mut bench, id, _none) = plan_at(Point::SwapSigned);
        let key = bench.key(id);
        stop.apply(&mut bench);
        bench.world.clock.pass(30 * SECOND);
        assert_eq!(signatures(&bench.price(key)), [], "{stop:?}");
    }
}

/// The higher offer was authorized before the stop but would be signed after it.
#[test]
fn a_stopped_agents_higher_offer_is_not_signed() {
    for stop in [Stop::Freeze, Stop::Suspend] {
        let (mut bench, id, _none) = plan_at(Point::SwapSigned);
        let key = bench.key(id);
        bench.world.clock.pass(30 * SECOND);
        let higher = bench.price(key);
        assert_eq!(signatures(&higher).len(), 1);
        stop.apply(&mut bench);
        let since = bench.world.entries.len();
        bench.sign(key, &higher);
        assert_unsigned_since(&bench, since);
    }
}
