//! A ledger of the value that left the wallet. It counts every authorization once, at the first order to sign it, and
//! does not use the rules that allowed it.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::time::{LocalDay, Moment};
use bursar_domain::requests::Request;
use bursar_domain::{Effect, Status};

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The digest that the wallet was ordered to sign for each request.
    orders: BTreeMap<RequestId, B256>,
    digests: BTreeSet<B256>,
    nonces: BTreeSet<B256>,
    /// The value that left, by agent and allowance.
    by_allowance: BTreeMap<(AgentId, usize), u64>,
    /// The value that left by agent and local date, and the largest limit in force on that date.
    by_date: BTreeMap<(AgentId, LocalDay), (u64, u64)>,
    /// The last seen status of each request.
    last_status: BTreeMap<RequestId, Status>,
}

/// The circumstances of a step, from outside the rules.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) now: &'a Moment,
    pub(crate) frozen: bool,
    pub(crate) unlocked: bool,
    /// Whether the agent is suspended or has no commission.
    pub(crate) idle: bool,
    /// The number of the agent's allowance, the value of its held requests, and its daily limit now.
    pub(crate) allowance: usize,
    pub(crate) waiting: u64,
    pub(crate) limit: u64,
}

impl Ledger {
    /// Records an order to sign, with the request in its current state.
    pub(crate) fn sign(&mut self, effect: Effect, request: &Request, scene: &Scene<'_>) {
        let Effect::Sign(id) = effect else { return };
        assert_eq!(id, request.id);
        assert!(!scene.frozen, "I-g: signed while frozen");
        assert!(scene.unlocked, "I-f: signed while locked");
        assert!(!scene.idle, "I-i: signed for an agent that may not work");
        let Status::Authorized { terms, .. } = &request.status else {
            panic!("an order to sign {:?}", request.status)
        };
        assert!(terms.valid_before > scene.now.utc.seconds().unsigned_abs(), "signed for nothing");
        let payment = request.ask.payment().expect("a payment");
        assert_eq!((terms.from, terms.to), (request.from, payment.payee));
        assert_eq!((terms.value, terms.valid_after), (payment.amount.0, 0));
        let digest = request.digest().expect("authorized");
        if let Some(first) = self.orders.insert(id, digest) {
            assert_eq!(first, digest, "I-b: two authorizations of one request");
            return;
        }
        assert!(self.digests.insert(digest), "I-b: one digest for two requests");
        assert!(self.nonces.insert(terms.nonce), "I-b: one nonce for two requests");
        let key = (request.agent.clone(), scene.allowance);
        let left = self.by_allowance.entry(key).or_default();
        *left += request.ask.usd().0;
        assert!(
            *left + scene.waiting <= scene.limit,
            "I-a: {left} left and {} waits under a limit of {}",
            scene.waiting,
            scene.limit
        );
        self.note_limit(&request.agent, scene);
        let key = (request.agent.clone(), scene.now.local_day);
        self.by_date.entry(key).or_default().0 += request.ask.usd().0;
    }

    /// Checks a reservation: the spent and the held value fit the limit together.
    pub(crate) fn hold(&mut self, request: &Request, scene: &Scene<'_>) {
        let left = self.value_left(&request.agent, scene.allowance);
        assert!(left + scene.waiting <= scene.limit, "I-a: reserved beyond the limit");
        self.note_limit(&request.agent, scene);
    }

    pub(crate) fn value_left(&self, agent: &AgentId, allowance: usize) -> u64 {
        self.by_allowance.get(&(agent.clone(), allowance)).copied().unwrap_or(0)
    }

    fn note_limit(&mut self, agent: &AgentId, scene: &Scene<'_>) {
        let date = self.by_date.entry((agent.clone(), scene.now.local_day)).or_default();
        date.1 = date.1.max(scene.limit);
    }

    /// I-p: checks that a request never moves back, and that a finished one does not change.
    pub(crate) fn check_status(&mut self, request: &Request) {
        let Some(before) = self.last_status.insert(request.id, request.status.clone()) else {
            return;
        };
        let allowed = match (&before, &request.status) {
            (Status::Held { .. }, _) => true,
            (
                Status::Authorized { terms, at, by, signature: None },
                Status::Authorized { terms: same_terms, at: same_at, by: same_by, .. },
            ) => (terms, at, by) == (same_terms, same_at, same_by),
            (over, now) => over == now,
        };
        assert!(allowed, "I-p: {before:?} became {:?}", request.status);
    }

    /// Checks that exactly the authorized requests were ordered to be signed.
    pub(crate) fn assert_complete(&self) {
        for (id, status) in &self.last_status {
            let authorized = matches!(status, Status::Authorized { .. });
            assert_eq!(authorized, self.orders.contains_key(id), "{status:?}");
        }
    }

    /// Checks I-a for every local date.
    pub(crate) fn assert_dates(&self) {
        for ((agent, day), (left, limit)) in &self.by_date {
            assert!(left <= limit, "{agent} let {left} go on {day:?} under at most {limit}");
        }
    }
}
