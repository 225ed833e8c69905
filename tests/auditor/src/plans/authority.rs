//! Who may sign a step, and when: authorizations in force, each step once, and one plan at a time on an address.

use super::slots::Kind;
use super::{Plan, PlanRecord, PlanState};
use crate::basics::{Ticket, Transaction};
use crate::clocks::Instant;
use crate::config::PossibleConfig;
use crate::trades::Snapshot;
use crate::{Auditor, Violation};

/// Unsigned steps lapse this long after their approval (5 minutes).
pub(crate) const UNSIGNED_MS: i64 = 300_000;

/// An order to approve, or the call of a plan that is executed without one.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    pub(crate) ticket: Ticket,
    pub(crate) by_call: bool,
    /// The observation and the instant at which the order or call arrived.
    pub(crate) seq: u64,
    pub(crate) opened: Instant,
    /// The instant at which the order or call had surely been decided.
    pub(crate) closed: Option<Instant>,
    /// Whether a freeze, lock, suspension or denial has since ended the unsigned steps of this authorization.
    pub(crate) is_killed: bool,
    /// The instant at which the process died before it answered the order or call.
    pub(crate) lost_at: Option<Instant>,
    /// For an approval of a trade, the states in which the wallet may have applied the policy again.
    pub(crate) snapshots: Vec<Snapshot>,
}

impl Authorization {
    pub(crate) fn by_order(ticket: Ticket, seq: u64, opened: Instant) -> Self {
        let (by_call, killed, lost, snapshots) = (false, false, None, Vec::new());
        Self {
            ticket,
            by_call,
            seq,
            opened,
            closed: None,
            is_killed: killed,
            lost_at: lost,
            snapshots,
        }
    }

    pub(crate) fn by_call(ticket: Ticket, seq: u64, opened: Instant) -> Self {
        Self { by_call: true, ..Self::by_order(ticket, seq, opened) }
    }

    /// Returns whether the unsigned steps of this authorization have lapsed.
    ///
    /// They lapse after five minutes. After a boot they count as lapsed, because the time since is uncertain.
    fn has_lapsed(&self, now: &Instant) -> bool {
        self.latest_decision(now).elapsed(now).1.is_none_or(|ms| ms > UNSIGNED_MS)
    }

    /// Like [`has_lapsed`](Self::has_lapsed), but after a boot the wall clock decides.
    fn has_surely_lapsed(&self, now: &Instant) -> bool {
        let (wall, boot) = self.latest_decision(now).elapsed(now);
        boot.unwrap_or(wall) > UNSIGNED_MS
    }

    /// Returns whether five minutes may be over since the order or call arrived.
    pub(super) fn may_have_lapsed(&self, now: &Instant) -> bool {
        self.opened.elapsed(now).1.is_none_or(|ms| ms >= UNSIGNED_MS)
    }

    /// Returns whether this is an approval after which the wallet may still apply the policy again.
    pub(crate) fn is_recent_approval(&self, now: &Instant) -> bool {
        let recent = |at: Instant| at.elapsed(now).1.is_some_and(|ms| ms <= UNSIGNED_MS);
        !self.by_call && !self.is_killed && self.closed.is_none_or(recent)
    }

    /// Returns the latest instant at which the order or call may have been decided.
    fn latest_decision(&self, now: &Instant) -> Instant {
        self.closed.or(self.lost_at).unwrap_or(*now)
    }
}

impl Auditor {
    /// Checks that a new step may be signed now. Returns whether its signature is void.
    ///
    /// A slow signer may finish after the end of the plan. Such a signature must never be broadcast.
    pub(crate) fn check_authority<P: Plan>(&self, key: u64) -> Result<bool, Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(false) };
        let fail = |rule, what: &str| Err(self.plan_violation::<P>(key, rule, what));
        if let Some(rule) = self.forbidding_rule(rec.actor()) {
            return fail(rule, "a step was signed, but nothing may be signed for the agent");
        }
        if !rec.by_operator() && !self.possible_configs.iter().any(|w| may_still_act(rec, w)) {
            // A slow signer may finish after the lane or the network was turned off.
            return Ok(true);
        }
        if rec.rejected {
            return Ok(true);
        }
        let now = self.time.instant();
        // A plan that was written before a crash continues after the restart, within its five minutes.
        let alive = |auth: &&Authorization| !auth.is_killed || auth.lost_at.is_some();
        let mut living = rec.authorizations.iter().filter(alive).peekable();
        if living.peek().is_none() {
            return if rec.is_denied() {
                let noun = P::noun();
                let what = format!("a step was signed after the operator had denied the {noun}");
                fail("approvals", &what)
            } else if rec.authorizations.is_empty() {
                fail("approvals", "a step was signed before an approval")
            } else {
                fail("T-53", "a step was signed that a freeze, lock or suspension had ended")
            };
        }
        if rec.end.as_ref().is_some_and(P::State::is_executed) {
            return fail("I-p", &format!("a step was signed after the {} had ended", P::noun()));
        }
        let in_time: Vec<&Authorization> =
            living.filter(|auth| !auth.has_surely_lapsed(&now)).collect();
        let ended = rec.refused.is_some() || (rec.end.is_some() && !rec.may_lose_end);
        if in_time.is_empty() || ended {
            return Ok(true);
        }
        P::check_permission(self, key, rec, &in_time).map(|()| false)
    }

    /// Checks the order of the steps: one plan at a time, each step once, and each after the one before.
    pub(crate) fn check_plan<P: Plan>(
        &self,
        key: u64,
        kind: Kind,
        tx: &Transaction,
    ) -> Result<(), Violation> {
        let slots = || P::book(self).slots.of_record(key).map(|(_, slot)| slot);
        let fail = |rule, what: &str| Err(self.plan_violation::<P>(key, rule, what));
        if slots().any(|slot| slot.kind == kind && !slot.is_nonce_taken) {
            if kind != P::MAIN {
                return fail("allowance", "a second allowance was signed");
            }
            let moved = "its money was moved by a second transaction";
            return fail("I-b", P::either("a second swap was signed", moved));
        }
        let from = tx.from.to_lowercase();
        if let Some(other) = self.unfinished_plan::<P>(tx.chain, &from, Some(key)) {
            let id = P::book(self).records.get(&other).and_then(|rec| rec.id.as_ref());
            let what = format!(
                "a step was signed while the plan of {id:?} was unfinished on the same address"
            );
            return fail("one plan", &what);
        }
        if let Some(other) = self.unfinished_plan::<P::Other>(tx.chain, &from, None) {
            let id = P::Other::book(self).records.get(&other).and_then(|rec| rec.id.as_ref());
            let what = format!(
                "a step was signed while the plan of the {} {id:?} was unfinished on the same address",
                P::Other::noun()
            );
            return fail("one plan", &what);
        }
        let now = self.time.instant();
        if kind == P::MAIN
            && slots().any(|slot| slot.gives_allowance() && !slot.may_have_receipt(&now))
        {
            let what = format!(
                "the {} was signed before its allowance was mined",
                P::either("swap", "supply")
            );
            return fail("plan order", &what);
        }
        Ok(())
    }

    /// Returns a record with steps on this address whose plan is unfinished.
    fn unfinished_plan<P: Plan>(&self, chain: u64, from: &str, except: Option<u64>) -> Option<u64> {
        let book = P::book(self);
        let here =
            |key: u64| book.slots.of_record(key).any(|((c, f, _), _)| *c == chain && f == from);
        let mut others =
            book.records.iter().filter(|(key, _)| Some(**key) != except && here(**key));
        others.find(|(key, rec)| !self.plan_is_over(**key, rec)).map(|(key, _)| *key)
    }

    /// Returns whether a plan may be over: nothing is in flight, and its allowance is used or revoked.
    fn plan_is_over<P: Plan>(&self, key: u64, rec: &PlanRecord<P>) -> bool {
        let slots = || P::book(self).slots.of_record(key).map(|(_, slot)| slot);
        if slots().any(|slot| !slot.is_done() && !slot.is_unsent()) {
            return false;
        }
        // An allowance may remain if a freeze, or the end of the five minutes, interrupted its plan.
        let now = self.time.instant();
        let dead = rec.authorizations.iter().all(|auth| auth.is_killed || auth.has_lapsed(&now));
        // Nothing is signed for a stopped agent: the revocation of its plan waits, and other plans do not wait for this
        // one.
        let stopped = self.forbidding_rule(rec.actor()).is_some();
        let approved = slots().any(|slot| slot.gives_allowance() && slot.succeeded());
        let used = slots().any(|slot| slot.kind == P::MAIN && slot.succeeded());
        let revoked = slots().any(|slot| {
            (slot.kind == Kind::Revoke && slot.succeeded()) || slot.is_reverted_revocation()
        });
        dead || stopped || !approved || used || revoked
    }
}

/// Returns whether the policy and the networks of a configuration let an agent's plan be executed.
fn may_still_act<P: Plan>(rec: &PlanRecord<P>, w: &PossibleConfig) -> bool {
    let chain = rec.terms.chain();
    let on = w.config.networks.get(&chain).is_some_and(|network| network.is_enabled);
    on && w.config.policy_of(&rec.agent).is_some_and(|(_, p)| {
        let enabled = P::either(p.policy.trading.enabled, p.lending.enabled);
        enabled && p.policy.networks.as_ref().is_none_or(|all| all.contains(&chain))
    })
}
