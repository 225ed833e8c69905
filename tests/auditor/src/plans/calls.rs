//! Calls of agents that trade or lend, while they are open.

use super::{Authorization, OpenPlan, Plan, PlanAsk, PlanIdentity, PlanRecord};
use crate::Auditor;
use crate::basics::{Proof, Ticket};
use crate::clocks::Instant;
use crate::config::Config;
use crate::expect::Expect;
use crate::identity;
use crate::policy::HELD_MAX;
use std::collections::BTreeMap;

fn identity_of<P>(ask: &PlanAsk<P>) -> PlanIdentity {
    let agent = ask.agent.clone();
    match (&ask.proof, &ask.idempotency_key) {
        (Proof::Hmac { signature, .. }, _) => {
            PlanIdentity::Hmac { agent, signature: signature.clone() }
        }
        (Proof::Bearer { .. } | Proof::Missing, Some(key)) => {
            PlanIdentity::Keyed { agent, key: key.clone(), content: ask.content.clone() }
        }
        (Proof::Bearer { .. } | Proof::Missing, None) => {
            PlanIdentity::Content { agent, content: ask.content.clone() }
        }
    }
}

impl Auditor {
    pub(crate) fn on_plan_called<P: Plan>(&mut self, ticket: Ticket, ask: PlanAsk<P>) {
        let (seq, arrived) = (self.seq, self.time.instant());
        let identity = identity_of(&ask);
        let book = P::book(self);
        // The call gets a new record if the request of an earlier equal call may be over, or was refused and is not
        // remembered: the agent is a bearer agent, or the refusal had no id.
        let again = |key: u64, r: &PlanRecord<P>| {
            if r.identity.is_content() {
                let first = book.first_call(key, &self.time);
                return first.is_some_and(|first| !first.may_be_over(&self.time));
            }
            r.refused.is_none() || (!r.identity.is_of_bearer() && !r.unrecorded)
        };
        let known = book.by_identity.get(&identity).copied();
        let joined = known.filter(|key| book.records.get(key).is_some_and(|r| again(*key, r)));
        let day = self.time.sure_day();
        let book = P::book_mut(self);
        let rec = joined.unwrap_or_else(|| {
            let rec = PlanRecord::new(ask.agent.clone(), identity, ask.terms.clone(), seq);
            book.add(PlanRecord { utc_day: day, ..rec })
        });
        if let Some(rec) = book.records.get_mut(&rec) {
            rec.open.insert(ticket);
            if !rec.accepted && rec.refused.is_none() {
                rec.authorizations.push(Authorization::by_call(ticket, seq, arrived));
            }
        }
        let (errors, snapshots, periods) = (Vec::new(), Vec::new(), Vec::new());
        let open =
            OpenPlan { rec, ticket, ask, seq, arrived_at: arrived, errors, snapshots, periods };
        book.open.insert(ticket, open);
    }

    /// Returns the refusals that are correct because the agent may not act, and the configurations in which it may act.
    pub(crate) fn judge_caller<P>(
        &self,
        ask: &PlanAsk<P>,
    ) -> (Vec<(u16, &'static str)>, Vec<Config>) {
        let mut errors = Vec::new();
        let mut allowed = Vec::new();
        for w in &self.possible_configs {
            let v = self.view(&w.config);
            if let Err(instead) = identity::prove(v, &ask.agent, &ask.proof) {
                errors.extend(instead.iter().filter_map(|e| match e {
                    Expect::Refuse { http, code, .. } => Some((*http, *code)),
                    _ => None,
                }));
            } else if let Err(code) = identity::check_may_spend(&w.config, &ask.agent) {
                errors.push((403, code));
            } else {
                allowed.push(w.config.clone());
            }
        }
        if let Proof::Hmac { timestamp_s, .. } = &ask.proof
            && self.time.may_be_forgotten(*timestamp_s)
        {
            errors.extend([(401, "AUTH_FAILED"), (429, "RATE_LIMIT_EXCEEDED")]);
        }
        (errors, allowed)
    }

    /// Ends the unsigned steps of plans whose agents may not act any longer.
    pub(crate) fn end_stopped_plans<P: Plan>(&mut self) {
        let now = self.time.instant();
        let stopped = |r: &PlanRecord<P>| {
            r.may_live()
                && self.forbidding_rule(r.actor()).is_some_and(|rule| {
                    let by_restart = self.trades.is_locked_by_restart && rule == "I-f";
                    !by_restart || self.is_surely_stopped(r)
                })
        };
        let recs = P::book(self).records.iter();
        let forbidden: Vec<u64> = recs.filter(|(_, r)| stopped(r)).map(|(key, _)| *key).collect();
        let failed = self.disk_failed.is_some();
        let book = P::book_mut(self);
        for (key, rec) in &mut book.records {
            // A plan that has begun was decided, whether its call is answered or not.
            let begun = book.slots.of_record(*key).next().is_some();
            rec.may_have_expired |= rec.expired(&now).1;
            // After a failure of the disk, a stop is not recorded.
            if forbidden.contains(key) && !failed {
                rec.was_disturbed = true;
                let all = rec.authorizations.iter_mut();
                let decided = all.filter(|auth| begun || auth.closed.is_some());
                decided.for_each(|auth| auth.is_killed = true);
            }
        }
    }

    /// Returns whether a freeze or suspension surely stops the agent, whether the wallet is open or not.
    fn is_surely_stopped<P: Plan>(&self, rec: &PlanRecord<P>) -> bool {
        let stops = |config: &Config| {
            config.is_frozen || config.agents.get(&rec.agent).is_none_or(|known| known.is_suspended)
        };
        !rec.by_operator() && self.possible_configs.iter().all(|w| stops(&w.config))
    }

    /// Returns the number of each agent's trades and loans that may be held.
    pub(crate) fn held_plans(&self) -> BTreeMap<String, usize> {
        let now = self.time.instant();
        let trades = self.trades.book.records.values();
        let trades = trades.filter(|rec| rec.may_be_held(&now)).map(|rec| &rec.agent);
        let loans = self.loans.book.records.values();
        let loans = loans.filter(|rec| rec.may_be_held(&now)).map(|rec| &rec.agent);
        let mut held = BTreeMap::new();
        for agent in trades.chain(loans) {
            let count: &mut usize = held.entry(agent.clone()).or_default();
            *count = count.saturating_add(1);
        }
        held
    }

    /// Returns whether the bound of held requests may refuse another one.
    pub(crate) fn may_hold_too_many<P: Plan>(&self, agent: &str, now: &Instant) -> bool {
        let payments = self.book.held_counts(agent, None, now);
        let mine = P::book(self).may_be_held(Some(agent), now).max(payments.agent.1);
        let all = P::book(self).may_be_held(None, now).max(payments.all.1);
        mine >= HELD_MAX.0 || all >= HELD_MAX.1
    }

    /// Ends a call or an order that the process left without an answer.
    pub(crate) fn lose_plan_call<P: Plan>(&mut self, ticket: Ticket) {
        if let Some(call) = P::book_mut(self).open.remove(&ticket) {
            P::note_automatic(self, &call);
        }
        let now = self.time.instant();
        P::book_mut(self).mark_uncertain(ticket, now);
    }
}
