//! The end of a run: every trade and loan has ended, and every allowance is as it was before its plan (rule I-s).

use super::slots::Kind;
use super::{Authorization, Plan, PlanRecord, UNSIGNED_MS};
use crate::basics::Address;
use crate::trading::OpenAllowance;
use crate::{Auditor, Violation};

/// In the calm phase, every trade or loan must end within this time (30 minutes).
const ENDS_WITHIN_MS: i64 = 1_800_000;

/// In the calm phase, the allowance of an ended plan must be revoked within this time (10 minutes).
const REVOKED_WITHIN_MS: i64 = 600_000;

impl Auditor {
    /// Checks at the end of a run that every trade or loan has ended, and every allowance is as before its plan.
    pub(crate) fn check_plans_over<P: Plan>(&self) -> Result<(), Violation> {
        let Some(calm) = self.calm_since else { return Ok(()) };
        // While the wallet is locked, it answers that plans are executing.
        let open = self.is_running && self.possible_configs.iter().all(|w| w.config.is_open);
        for (key, rec) in &P::book(self).records {
            let polled = rec.last_poll.and_then(|at| calm.elapsed(&at).1);
            if open && polled.is_some_and(|ms| ms >= ENDS_WITHIN_MS) {
                let what = "it has no end 30 minutes after the last fault";
                return Err(self.plan_violation::<P>(*key, "I-n", what));
            }
            if let Some(left) = P::left_allowance(self, *key, rec)
                && self.must_have_revoked(*key, rec)
            {
                let what = format!("its plan left the allowance {left:?}");
                return Err(self.plan_violation::<P>(*key, "I-s", &what));
            }
        }
        Ok(())
    }

    /// Returns an allowance of this address that the plan must revoke and that did not exist before the plan.
    pub(crate) fn new_allowance<P: Plan>(
        &self,
        rec: &PlanRecord<P>,
        at: (u64, &Address),
        mine: impl Fn(&OpenAllowance) -> bool,
    ) -> Option<&OpenAllowance> {
        let baseline = rec.baseline.as_ref()?;
        let open = self.trades.allowances.get(&(at.0, at.1.clone()));
        open.into_iter().flatten().find(|open| {
            let before = baseline.iter().any(|b| {
                (&b.token, &b.spender, b.permit2) == (&open.token, &open.spender, open.permit2)
                    && b.amount >= open.amount
            });
            !open.permit2 && mine(open) && !before
        })
    }

    /// Returns whether the plan must have revoked its allowance by now.
    fn must_have_revoked<P: Plan>(&self, key: u64, rec: &PlanRecord<P>) -> bool {
        // An allowance may remain if a freeze, lock, suspension or the five minutes interrupted its plan.
        let moved = P::book(self).main_of(key).is_some();
        let late = |auth: &Authorization| {
            let times = auth.closed.zip(rec.ended);
            let took = times.and_then(|(closed, ended)| closed.elapsed(&ended).1);
            !moved && took.is_none_or(|ms| ms >= UNSIGNED_MS)
        };
        let interrupted = rec.authorizations.iter().all(|auth| auth.is_killed || late(auth));
        // The revocation is the last step of the plan, and may follow the reported end.
        let now = self.time.instant();
        let since_end = rec.ended.and_then(|at| at.elapsed(&now).1);
        let over = since_end.is_some_and(|ms| ms >= REVOKED_WITHIN_MS);
        // Nothing is signed for a stopped agent, so its revocation waits for the operator.
        let stopped = self.forbidding_rule(rec.actor()).is_some();
        over && !interrupted && !stopped && !self.is_followed::<P>(key)
    }

    /// Returns whether another plan of the same address has set the same allowance since.
    fn is_followed<P: Plan>(&self, key: u64) -> bool {
        let approvals = |key: u64| {
            let slots = P::book(self).slots.of_record(key);
            let all = slots.filter(|(_, slot)| slot.kind == Kind::Approve && slot.succeeded());
            all.map(|((chain, from, nonce), slot)| {
                // The target token, and the start of the call data: the selector and the spender.
                let spender = slot.body.2.get(..72).unwrap_or_default();
                (*chain, from, (&slot.body.0, spender), *nonce)
            })
        };
        let Some(last) = approvals(key).max_by_key(|one| one.3) else { return false };
        let others = P::book(self).records.keys().filter(|other| **other != key);
        others.flat_map(|other| approvals(*other)).any(|other| {
            (other.0, other.1, other.2) == (last.0, last.1, last.2) && other.3 > last.3
        })
    }
}
