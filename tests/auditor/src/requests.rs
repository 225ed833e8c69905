//! The requests, the states that each may have, and the part of an allowance that they use.

use crate::clocks::{AllowancePeriod, HOLD_MS, Instant};
use crate::observations::{Id, Payment, Policy, Ticket};
use crate::policy::Terms;
use std::collections::BTreeSet;

/// A state of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// The request was never recorded.
    Nothing,
    Held,
    /// Authorized after the observation `lo` and not after `hi`.
    Authorized {
        lo: u64,
        hi: u64,
    },
    Denied,
    Expired,
    Refused {
        http: u16,
        code: String,
    },
}

/// The properties that make two calls the same request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity {
    Hmac { agent: String, signature: String },
    Bearer { agent: String, content: String, key: Option<String> },
}

/// A listed card, with its policy and digest.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    pub(crate) policy: Ticket,
    pub(crate) version: u64,
    pub(crate) content: Policy,
    pub(crate) digest: String,
}

/// A request that exists, or that may exist.
#[derive(Debug, Clone)]
pub(crate) struct RequestRecord {
    pub(crate) id: Option<Id>,
    /// The calls to which the request may belong, if its id appeared while several calls had lost their answers.
    pub(crate) possible_calls: Vec<u64>,
    pub(crate) agent: String,
    /// Other agents to which the request may belong.
    pub(crate) other_agents: Vec<String>,
    pub(crate) identity: Identity,
    pub(crate) request_url: Option<String>,
    /// The possible states, apart from the effects of open calls and orders.
    pub(crate) base: Vec<RequestState>,
    /// The states that open calls and orders may already have caused.
    pub(crate) overlay: Vec<(Ticket, RequestState)>,
    /// Open calls for this request.
    pub(crate) open: BTreeSet<Ticket>,
    /// Whether a call for this request got no answer because the process died.
    pub(crate) lost: bool,
    /// Terms with which the request may have been authorized, each with the instant. `holds` has the same for a hold.
    pub(crate) authorizations: Vec<(Terms, Instant)>,
    pub(crate) holds: Vec<(Terms, Instant)>,
    /// Instants at which the request may have been denied.
    pub(crate) denials: Vec<Instant>,
    /// The instants at which the expiry was first returned.
    pub(crate) ended: Vec<Instant>,
    /// The first instant at which the wallet may have recorded the expiry, returned or not.
    pub(crate) expired_since: Option<Instant>,
    pub(crate) payment: Option<Payment>,
    /// The digest that was signed for this request.
    pub(crate) digest: Option<String>,
    pub(crate) cards: Vec<Card>,
    /// The returned stage of the payment: 0 none, 1 submitted, 2 failed, 3 settled, 4 verified.
    pub(crate) stage: u8,
    /// Reports that may have been accepted, with the stage that each reports.
    pub(crate) stage_maybe: Vec<(Ticket, u8)>,
    pub(crate) reports: u32,
    pub(crate) hash_reported: bool,
    pub(crate) failure_reported: bool,
    pub(crate) failed_by_lookup: bool,
    pub(crate) is_redeemed: bool,
    /// Whether the wall clock has passed the end of the payment's validity. Setting it back does not undo every effect.
    pub(crate) has_lapsed: bool,
    /// Whether the denial or expiry was once 15 minutes old, so that a later request may have replaced this one before
    /// the clock was set back.
    pub(crate) may_be_replaced: bool,
    /// Whether the process died after the authorization, so that the record of the signature may be lost.
    pub(crate) died: bool,
    /// Whether the key holder has refused to sign.
    pub(crate) declined: bool,
    /// The instant since which, in the calm phase, the request could have been signed.
    pub(crate) signable_since: Option<Instant>,
}

impl RequestRecord {
    pub(crate) fn new(agent: String, identity: Identity, request_url: Option<String>) -> Self {
        Self {
            id: None,
            possible_calls: Vec::new(),
            agent,
            other_agents: Vec::new(),
            identity,
            request_url,
            base: vec![RequestState::Nothing],
            overlay: Vec::new(),
            open: BTreeSet::new(),
            lost: false,
            authorizations: Vec::new(),
            holds: Vec::new(),
            denials: Vec::new(),
            ended: Vec::new(),
            expired_since: None,
            payment: None,
            digest: None,
            cards: Vec::new(),
            stage: 0,
            stage_maybe: Vec::new(),
            reports: 0,
            hash_reported: false,
            failure_reported: false,
            failed_by_lookup: false,
            is_redeemed: false,
            has_lapsed: false,
            may_be_replaced: false,
            died: false,
            declined: false,
            signable_since: None,
        }
    }

    pub(crate) fn may_be_of(&self, agent: &str) -> bool {
        self.agent == agent || self.other_agents.iter().any(|other| other == agent)
    }

    /// Returns whether the answer was lost, and with it the id that the request may have.
    pub(crate) fn is_lost_call(&self) -> bool {
        self.id.is_none() && self.lost && self.open.is_empty()
    }

    /// Returns the states that the request may have, ignoring the effects of ticket `except`. States may repeat.
    pub(crate) fn possible_states(
        &self,
        except: Option<Ticket>,
    ) -> impl Iterator<Item = &RequestState> {
        let overlaid = self.overlay.iter().filter(move |(ticket, _)| Some(*ticket) != except);
        self.base.iter().chain(overlaid.map(|(_, st)| st))
    }

    /// Like [`Self::possible_states`], but without repetitions.
    pub(crate) fn states(&self, except: Option<Ticket>) -> Vec<&RequestState> {
        let mut out = Vec::new();
        for st in self.possible_states(except) {
            if !out.contains(&st) {
                out.push(st);
            }
        }
        out
    }

    pub(crate) fn may_be(&self, st: &RequestState) -> bool {
        self.possible_states(None).any(|may| may == st)
    }

    pub(crate) fn add_possible(&mut self, ticket: Ticket, st: RequestState) {
        if !self.overlay.contains(&(ticket, st.clone())) {
            self.overlay.push((ticket, st));
        }
    }

    pub(crate) fn set_state(&mut self, st: RequestState) {
        self.base = vec![st];
        self.overlay.clear();
    }

    /// Keeps the possible states that satisfy `keep`. Returns false and changes nothing if none is left.
    pub(crate) fn narrow(&mut self, seq: u64, keep: impl Fn(&RequestState) -> bool) -> bool {
        let mut left: Vec<RequestState> =
            self.states(None).into_iter().filter(|s| keep(s)).cloned().collect();
        if left.is_empty() {
            return false;
        }
        for st in &mut left {
            if let RequestState::Authorized { hi, .. } = st {
                *hi = (*hi).min(seq);
            }
        }
        self.base = left;
        self.overlay.retain(|(_, s)| keep(s));
        true
    }

    /// Returns whether a held request has expired: (surely, possibly).
    pub(crate) fn expired(&self, now: &Instant) -> (bool, bool) {
        let all = self.holds.iter().all(|(_, at)| at.has_elapsed(now, HOLD_MS));
        let any = self.holds.iter().any(|(_, at)| at.has_elapsed(now, HOLD_MS));
        (all && !self.holds.is_empty(), any)
    }

    /// Returns whether 15 minutes may have passed since the denial, or since the expiry was recorded.
    pub(crate) fn may_be_forgotten(&self, now: &Instant) -> bool {
        // The wallet may have recorded the expiry as soon as the 15 minutes of the hold were over.
        let held = |(_, at): &(_, Instant)| at.has_elapsed(now, HOLD_MS.saturating_mul(2));
        let mut ends = self.denials.iter().chain(&self.ended).chain(&self.expired_since);
        ends.any(|at| at.has_elapsed(now, HOLD_MS)) || self.holds.iter().any(held)
    }

    /// Returns the second at which the payment expires, in Unix time: (earliest, latest).
    pub(crate) fn valid_before(&self) -> Option<(i64, i64)> {
        if let Some(p) = &self.payment {
            let at = i64::try_from(p.valid_before_s).unwrap_or(i64::MAX);
            return Some((at, at));
        }
        let ends = self.authorizations.iter().map(|(t, at)| {
            at.second().saturating_add(i64::try_from(t.validity_s).unwrap_or(i64::MAX))
        });
        let (least, most) = (ends.clone().min()?, ends.max()?);
        Some((least, most))
    }

    /// Returns whether this is a bearer agent's payment that may have expired, so that a repeat is judged as a new
    /// call.
    pub(crate) fn may_have_expired(&self, now: &Instant) -> bool {
        matches!(self.identity, Identity::Bearer { .. })
            && self.possible_states(None).any(|st| matches!(st, RequestState::Authorized { .. }))
            && (self.has_lapsed
                || self.valid_before().is_some_and(|(least, _)| now.second() >= least))
    }

    /// Returns whether a payment has terms with which this request may have been authorized.
    pub(crate) fn pays(&self, p: &Payment) -> bool {
        self.payment.as_ref() == Some(p)
            || self.authorizations.iter().any(|(t, at)| t.matches(at, p))
    }

    /// Calls `visit` with each possible use of this allowance by the request: (spent, reserved).
    ///
    /// Visits at least one pair; pairs may repeat. With `late`, expired requests may still be counted.
    pub(crate) fn visit_amounts(
        &self,
        p: &AllowancePeriod,
        now: &Instant,
        late: bool,
        mut visit: impl FnMut((u64, u64)),
    ) {
        let mut any = false;
        let mut out = |pair| {
            any = true;
            visit(pair);
        };
        for st in self.possible_states(None) {
            match st {
                RequestState::Held => {
                    let (sure, may) = self.expired(now);
                    if may {
                        out((0, 0));
                    }
                    if !sure || late {
                        self.holds.iter().for_each(|(t, _)| out((0, t.micros)));
                    }
                }
                RequestState::Expired if late && self.ended.is_empty() => {
                    out((0, 0));
                    self.holds.iter().for_each(|(t, _)| out((0, t.micros)));
                }
                RequestState::Authorized { lo, hi } => {
                    if *lo <= p.since_event {
                        out((0, 0));
                    }
                    if *hi > p.since_event {
                        self.authorizations.iter().for_each(|(t, _)| out((t.micros, 0)));
                    }
                }
                _ => out((0, 0)),
            }
        }
        if !any || !self.other_agents.is_empty() {
            visit((0, 0));
        }
    }
}
