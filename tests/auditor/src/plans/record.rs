//! The record of a trade or loan: its known history, and the states that it may still reach.

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
    /// Returns whether the request is a bearer agent's, so that a later equal call may be a new trade or loan.
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
    /// Fields that only records of this kind have.
    pub(crate) extra: P::Extra,
    /// The observation of the first call; `until` is the observation of its answer.
    pub(crate) from: u64,
    pub(crate) until: Option<u64>,
    /// Calls without an answer yet.
    pub(crate) open: BTreeSet<Ticket>,
    /// Whether a call got no answer because the process died.
    pub(crate) lost: bool,
    pub(crate) accepted: bool,
    /// The refusal of the call.
    pub(crate) refused: Option<P::State>,
    /// Whether the refusal had no id, so that the wallet did not record it.
    pub(crate) unrecorded: bool,
    /// Instants at which the wallet may have accepted the request.
    pub(crate) acceptance_instants: Vec<Instant>,
    pub(crate) may_have_expired: bool,
    /// Whether the plan may have been executed without an approval. If surely not, `not_automatic` is the reason.
    pub(crate) may_be_automatic: bool,
    pub(crate) not_automatic: Option<P::Reason>,
    /// Addresses that may execute the plan; empty if unknown.
    pub(crate) payers: BTreeSet<Address>,
    /// Phases that answers have shown: 0 pending, 1 executing, 2 ended.
    pub(crate) history: Vec<(u64, u8)>,
    pub(crate) end: Option<P::State>,
    pub(crate) ended: Option<Instant>,
    /// Whether the end was returned while the disk failed, so that the wallet may have lost it.
    pub(crate) may_lose_end: bool,
    pub(crate) authorizations: Vec<Authorization>,
    pub(crate) denials: Vec<(Ticket, Denial)>,
    /// Whether an approval was refused for a reason that may have closed the request.
    pub(crate) maybe_closed: bool,
    /// Whether a later request of the same content shows that this plan was rejected before any broadcast.
    ///
    /// A slow signer may still sign for this plan, but the wallet must not use that signature.
    pub(crate) rejected: bool,
    /// Whether there was a freeze, lock or suspension since the first authorization.
    pub(crate) was_disturbed: bool,
    /// Allowances before the first step.
    pub(crate) baseline: Option<Vec<OpenAllowance>>,
    /// The instant of the latest poll, if that poll showed the plan unfinished.
    pub(crate) last_poll: Option<Instant>,
    pub(crate) cards: Vec<(Ticket, u64, String)>,
    /// The UTC day of the first call; `None` if the wall clock was ahead before, so that the wallet may record a later
    /// day.
    pub(crate) utc_day: Option<i64>,
}

impl<P: Plan> PlanRecord<P> {
    pub(crate) fn new(agent: String, identity: PlanIdentity, terms: P, from: u64) -> Self {
        Self {
            id: None,
            agent,
            identity,
            terms,
            extra: P::Extra::default(),
            from,
            until: None,
            open: BTreeSet::new(),
            lost: false,
            accepted: false,
            refused: None,
            unrecorded: false,
            acceptance_instants: Vec::new(),
            may_have_expired: false,
            may_be_automatic: false,
            not_automatic: None,
            payers: BTreeSet::new(),
            history: Vec::new(),
            end: None,
            ended: None,
            may_lose_end: false,
            authorizations: Vec::new(),
            denials: Vec::new(),
            maybe_closed: false,
            rejected: false,
            was_disturbed: false,
            baseline: None,
            last_poll: None,
            cards: Vec::new(),
            utc_day: None,
        }
    }

    pub(crate) fn by_operator(&self) -> bool {
        matches!(self.identity, PlanIdentity::Single(_))
    }

    /// Returns the agent that must be allowed to act before a step is signed; `None` for an operator's withdrawal.
    pub(crate) fn actor(&self) -> Option<&str> {
        (!self.by_operator()).then_some(self.agent.as_str())
    }

    /// Returns whether the request may exist and may be unfinished.
    pub(crate) fn may_live(&self) -> bool {
        let exists = self.accepted || self.lost || !self.open.is_empty();
        exists && self.refused.is_none() && (self.end.is_none() || self.may_lose_end)
    }

    /// Returns whether the request expired while it was held: (surely, possibly).
    pub(crate) fn expired(&self, now: &Instant) -> (bool, bool) {
        let all = self.acceptance_instants.iter().all(|at| at.has_elapsed(now, HOLD_MS));
        let any = self.acceptance_instants.iter().any(|at| at.has_elapsed(now, HOLD_MS));
        (all && !self.acceptance_instants.is_empty(), any || self.may_have_expired)
    }

    /// Returns whether the request may have ended without effect.
    pub(crate) fn may_have_failed(&self) -> bool {
        let failed = self.end.as_ref().is_some_and(P::State::is_without_effect);
        let killed = self.authorizations.iter().any(|auth| auth.is_killed);
        failed || killed || self.maybe_closed || self.is_denied() || self.may_have_expired
    }

    /// Returns whether the plan may have begun, and no answer shows its end.
    pub(crate) fn may_have_begun(&self) -> bool {
        let executing = self.history.iter().any(|(_, phase)| *phase == 1);
        self.accepted && self.end.is_none() && (executing || !self.authorizations.is_empty())
    }

    pub(crate) fn is_denied(&self) -> bool {
        self.denials.iter().any(|(_, denial)| *denial == Denial::Done)
    }

    /// Returns whether the request surely waits for the operator.
    pub(crate) fn is_surely_held(&self, now: &Instant) -> bool {
        let pending = self.history.last().is_some_and(|(_, phase)| *phase == 0);
        self.accepted
            && pending
            && self.authorizations.is_empty()
            && self.denials.is_empty()
            && !self.maybe_closed
            && !self.expired(now).1
            && self.end.is_none()
    }

    /// Returns whether the request may wait for the operator.
    pub(crate) fn may_be_held(&self, now: &Instant) -> bool {
        let phase = self.history.iter().map(|(_, phase)| *phase).max().unwrap_or(0);
        let operator = self.by_operator();
        self.may_live() && phase == 0 && !operator && !self.is_denied() && !self.expired(now).0
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

    pub(crate) fn end_unsigned(&mut self) {
        self.authorizations.iter_mut().for_each(|auth| auth.is_killed = true);
    }

    /// Notes that this plan was rejected before any broadcast.
    ///
    /// A plan that a freeze, lock or suspension had already ended is not marked as rejected.
    pub(crate) fn reject(&mut self) {
        self.rejected |= self.authorizations.iter().any(|a| !a.is_killed || a.lost_at.is_some());
        self.end_unsigned();
    }

    /// Returns whether an address pays for the plan: (surely, possibly).
    pub(crate) fn is_paid_by(&self, payer: &str) -> (bool, bool) {
        let has = self.payers.contains(payer);
        (has && self.payers.len() == 1, has || self.payers.is_empty())
    }
}
