//! The record of a trade or loan: what it may still become.

use super::{Authorization, Plan, PlanState};
use crate::basics::{Address, Id, Ticket};
use crate::clocks::{HOLD_MS, Instant};
use crate::trading::OpenAllowance;
use std::collections::BTreeSet;

/// What makes two calls the same trade or loan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanIdentity {
    Hmac {
        agent: String,
        signature: String,
    },
    Keyed {
        agent: String,
        key: String,
        content: String,
    },
    /// A bearer agent's call without a key.
    Content {
        agent: String,
        content: String,
    },
    /// An operator's withdrawal is never merged with another.
    Single(Ticket),
}

impl PlanIdentity {
    /// Returns whether it is a bearer agent's, so that a later call may be a new trade or loan.
    pub(crate) fn is_of_bearer(&self) -> bool {
        matches!(self, Self::Keyed { .. } | Self::Content { .. })
    }

    pub(crate) fn is_content(&self) -> bool {
        matches!(self, Self::Content { .. })
    }
}

/// How far an order to deny got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    Open,
    Lost,
    Done,
}

/// A trade or a loan, or one that may exist.
#[derive(Debug, Clone)]
pub(crate) struct PlanRecord<P: Plan> {
    pub(crate) id: Option<Id>,
    /// Empty for an operator's withdrawal.
    pub(crate) agent: String,
    pub(crate) identity: PlanIdentity,
    /// The requested trade or loan.
    pub(crate) terms: P,
    /// What only this kind of record has.
    pub(crate) own: P::Own,
    /// The observation of the first call, and of its answer.
    pub(crate) from: u64,
    pub(crate) until: Option<u64>,
    /// Calls without an answer yet.
    pub(crate) open: BTreeSet<Ticket>,
    /// Whether a call got no answer because the process died.
    pub(crate) lost: bool,
    pub(crate) accepted: bool,
    /// The refusal of the call.
    pub(crate) refused: Option<P::State>,
    /// The refusal had no id, so the wallet did not record it.
    pub(crate) unrecorded: bool,
    /// Instants at which it may have been accepted.
    pub(crate) moments: Vec<Instant>,
    pub(crate) may_have_expired: bool,
    /// Whether it may have been executed without an approval, and why surely not.
    pub(crate) automatic: bool,
    pub(crate) not_automatic: Option<P::Reason>,
    /// Addresses that may execute it; empty if unknown.
    pub(crate) payers: BTreeSet<Address>,
    /// Phases that answers have shown: 0 pending, 1 executing, 2 ended.
    pub(crate) history: Vec<(u64, u8)>,
    pub(crate) end: Option<P::State>,
    pub(crate) ended: Option<Instant>,
    /// The end was returned while the disk failed, so it may be lost.
    pub(crate) soft_end: bool,
    pub(crate) authorizations: Vec<Authorization>,
    pub(crate) denials: Vec<(Ticket, Denial)>,
    /// An approval was refused for a reason that may have closed it.
    pub(crate) maybe_closed: bool,
    /// The id of a later request of the same content shows that its plan was rejected before any broadcast. A slow signer
    /// may still answer for it, but nothing is done with that signature.
    pub(crate) rejected: bool,
    /// Freezes, locks and suspensions since the first authorization.
    pub(crate) disturbed: bool,
    /// Allowances before the first step.
    pub(crate) baseline: Option<Vec<OpenAllowance>>,
    /// Since when, in the calm phase, a poll has shown it unfinished.
    pub(crate) last_poll: Option<Instant>,
    pub(crate) cards: Vec<(Ticket, u64, String)>,
    /// The UTC day of the first call, if no clock was ever further: then the wallet's records are of that day too.
    pub(crate) day: Option<i64>,
}

impl<P: Plan> PlanRecord<P> {
    pub(crate) fn new(agent: String, identity: PlanIdentity, terms: P, from: u64) -> Self {
        Self {
            id: None,
            agent,
            identity,
            terms,
            own: P::Own::default(),
            from,
            until: None,
            open: BTreeSet::new(),
            lost: false,
            accepted: false,
            refused: None,
            unrecorded: false,
            moments: Vec::new(),
            may_have_expired: false,
            automatic: false,
            not_automatic: None,
            payers: BTreeSet::new(),
            history: Vec::new(),
            end: None,
            ended: None,
            soft_end: false,
            authorizations: Vec::new(),
            denials: Vec::new(),
            maybe_closed: false,
            rejected: false,
            disturbed: false,
            baseline: None,
            last_poll: None,
            cards: Vec::new(),
            day: None,
        }
    }

    pub(crate) fn by_operator(&self) -> bool {
        matches!(self.identity, PlanIdentity::Single(_))
    }

    /// Returns the agent whose permission to act a signature needs; `None` for the operator.
    pub(crate) fn actor(&self) -> Option<&str> {
        (!self.by_operator()).then_some(self.agent.as_str())
    }

    /// Returns whether it may exist and not have ended.
    pub(crate) fn may_live(&self) -> bool {
        let exists = self.accepted || self.lost || !self.open.is_empty();
        exists && self.refused.is_none() && (self.end.is_none() || self.soft_end)
    }

    /// Returns whether it has expired while it was held: (surely, possibly).
    pub(crate) fn expired(&self, now: &Instant) -> (bool, bool) {
        let all = self.moments.iter().all(|at| at.has_elapsed(now, HOLD_MS));
        let any = self.moments.iter().any(|at| at.has_elapsed(now, HOLD_MS));
        (all && !self.moments.is_empty(), any || self.may_have_expired)
    }

    /// Returns whether it may have ended without effect.
    pub(crate) fn may_have_failed(&self) -> bool {
        let failed = self.end.as_ref().is_some_and(P::State::is_without_effect);
        let killed = self.authorizations.iter().any(|auth| auth.killed);
        failed || killed || self.maybe_closed || self.denied() || self.may_have_expired
    }

    /// Returns whether its plan may have begun, and no answer shows an end.
    pub(crate) fn began(&self) -> bool {
        let executing = self.history.iter().any(|(_, phase)| *phase == 1);
        self.accepted && self.end.is_none() && (executing || !self.authorizations.is_empty())
    }

    pub(crate) fn denied(&self) -> bool {
        self.denials.iter().any(|(_, denial)| *denial == Denial::Done)
    }

    /// Returns whether it surely waits for the operator.
    pub(crate) fn surely_held(&self, now: &Instant) -> bool {
        let pending = self.history.last().is_some_and(|(_, phase)| *phase == 0);
        self.accepted
            && pending
            && self.authorizations.is_empty()
            && self.denials.is_empty()
            && !self.maybe_closed
            && !self.expired(now).1
            && self.end.is_none()
    }

    /// Returns whether it may wait for the operator.
    pub(crate) fn may_be_held(&self, now: &Instant) -> bool {
        let phase = self.history.iter().map(|(_, phase)| *phase).max().unwrap_or(0);
        let operator = self.by_operator();
        self.may_live() && phase == 0 && !operator && !self.denied() && !self.expired(now).0
    }

    /// Returns the highest phase that an answer showed at or before this observation.
    pub(crate) fn phase_at(&self, seq: u64) -> u8 {
        let shown = self.history.iter().filter(|(at, _)| *at <= seq);
        shown.map(|(_, phase)| *phase).max().unwrap_or(0)
    }

    /// Notes that the call or order with this ticket has surely been decided.
    pub(crate) fn close_authorization(&mut self, ticket: Ticket, now: Instant) {
        let mine = self.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
        mine.for_each(|auth| auth.closed = Some(now));
    }

    pub(crate) fn kill(&mut self) {
        self.authorizations.iter_mut().for_each(|auth| auth.killed = true);
    }

    /// Notes that its plan was rejected before any broadcast. What a freeze, lock or suspension had ended stays forbidden.
    pub(crate) fn reject(&mut self) {
        self.rejected |= self.authorizations.iter().any(|a| !a.killed || a.lost.is_some());
        self.kill();
    }

    /// Returns whether an address may pay for it: (surely, possibly).
    pub(crate) fn is_paid_by(&self, payer: &str) -> (bool, bool) {
        let has = self.payers.contains(payer);
        (has && self.payers.len() == 1, has || self.payers.is_empty())
    }
}
