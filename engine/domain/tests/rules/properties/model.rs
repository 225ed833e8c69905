//! The state that the specification requires at each moment: commissions, held requests and authorizations. The model
//! follows the events and rejects those that must not happen.

use std::collections::BTreeMap;

use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::time::{Moment, Utc};
use bursar_domain::PaymentAsk;
use bursar_domain::allowance::WindowStart;
use bursar_domain::identity::{Identity, KeyClaim};

use crate::properties::rules::{Allowance, Context, Due, Rules, VARIANTS};
use crate::support::build;
use crate::support::clock::MINUTE;

const QUARTER_HOUR: i64 = 15 * MINUTE;

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) rules: [Rules; 2],
    pub(crate) serials: [u64; 2],
    pub(crate) agents: Vec<Agent>,
    pub(crate) network_on: bool,
    pub(crate) frozen: bool,
    pub(crate) requests: BTreeMap<RequestId, ModelRequest>,
    latest: BTreeMap<Identity, RequestId>,
    /// For each idempotency key, the content and the request of its last use.
    keys: BTreeMap<[u8; 32], ([u8; 32], RequestId)>,
    /// I-d: the total value that was ever reserved; `returned` and `used` are its parts that ended.
    pub(crate) reserved: u64,
    pub(crate) returned: u64,
    pub(crate) used: u64,
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) bears_token: bool,
    pub(crate) suspended: bool,
    pub(crate) commission: Option<ModelCommission>,
    /// Number of allowances that the agent has received.
    pub(crate) allowances: usize,
    /// The latest minute (since 1970) with a recorded refusal, and the number of refusals in it.
    refused: (i64, u32),
}

#[derive(Debug)]
pub(crate) struct ModelCommission {
    pub(crate) policy: usize,
    pub(crate) label: &'static str,
    pub(crate) allowance: Allowance,
}

#[derive(Debug)]
pub(crate) struct ModelRequest {
    pub(crate) agent: usize,
    pub(crate) label: &'static str,
    pub(crate) ask: PaymentAsk,
    pub(crate) status: ModelStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelStatus {
    Held {
        since: Moment,
    },
    /// `lapsed` is set once the wall clock has shown the end of the validity.
    ///
    /// `is_void` is set if an untrusted journal was accepted before the signature; the payment is then never signed.
    Authorized {
        valid_before: u64,
        signed: bool,
        lapsed: bool,
        is_void: bool,
    },
    Refused,
    Denied {
        at: Moment,
    },
    Expired {
        at: Moment,
    },
}

/// The expected answer to a request, before the payment rules apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prediction {
    New,
    /// The wallet refuses the request without a record, with one of these codes.
    Unrecorded(Vec<Code>),
    Locked,
    /// The stored answer. If the host lists have changed since, a refusal by them is correct too.
    Earlier(RequestId, Option<Code>),
    /// The earlier request was held past its deadline. Its expiry is recorded now.
    HoldOver(RequestId, Option<Code>),
}

impl Agent {
    /// Returns whether a refusal is recorded: only the first 30 of each minute are.
    pub(crate) fn is_recorded(&self, at: Utc) -> bool {
        self.refused.0 != at.seconds().div_euclid(60) || self.refused.1 < 30
    }

    pub(crate) fn record_refusal(&mut self, at: Utc) {
        let minute = at.seconds().div_euclid(60);
        let before = if self.refused.0 == minute { self.refused.1 } else { 0 };
        self.refused = (minute, before + 1);
    }
}

impl ModelStatus {
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, ModelStatus::Held { .. })
    }
}

/// Returns whether 15 minutes have passed since a moment.
///
/// Within a boot, either the wall clock or the boot clock may show it. After a reboot, the time since the boot counts
/// if the wall clock is behind `since`.
fn is_quarter_hour_later(since: &Moment, now: &Moment) -> bool {
    let boot = |moment: &Moment| i64::try_from(moment.boottime_ms).unwrap();
    let wall = now.utc.0 - since.utc.0;
    let by_boot = if now.boot_id == since.boot_id {
        boot(now) - boot(since)
    } else if wall < 0 {
        boot(now)
    } else {
        0
    };
    wall >= QUARTER_HOUR || by_boot >= QUARTER_HOUR
}

impl ModelRequest {
    /// Returns whether the 15 minutes of a hold are over.
    pub(crate) fn is_hold_over(&self, now: &Moment) -> bool {
        let ModelStatus::Held { since } = &self.status else { return false };
        is_quarter_hour_later(since, now)
    }

    pub(crate) fn usd(&self) -> u64 {
        self.ask.usd.0
    }
}

impl Model {
    pub(crate) fn new(agents: usize) -> Self {
        let agent = |index: usize| Agent {
            id: build::agent(index),
            bears_token: index == 1,
            suspended: false,
            commission: None,
            allowances: 0,
            refused: (0, 0),
        };
        Self {
            rules: [VARIANTS[0], VARIANTS[1]],
            serials: [1, 2],
            agents: (0..agents).map(agent).collect(),
            network_on: true,
            frozen: false,
            requests: BTreeMap::new(),
            latest: BTreeMap::new(),
            keys: BTreeMap::new(),
            reserved: 0,
            returned: 0,
            used: 0,
        }
    }

    pub(crate) fn index(&self, id: &AgentId) -> usize {
        self.agents.iter().position(|agent| agent.id == *id).expect("a registered agent")
    }

    pub(crate) fn commission(
        &mut self,
        agent: usize,
        policy: usize,
        label: &'static str,
        now: &Moment,
    ) {
        let agent = &mut self.agents[agent];
        // A new policy does not start a new allowance.
        let allowance = match agent.commission.take() {
            Some(work) => work.allowance,
            None => {
                agent.allowances += 1;
                Allowance::first(now)
            }
        };
        agent.commission = Some(ModelCommission { policy, label, allowance });
    }

    pub(crate) fn edit_policy(&mut self, policy: usize, rules: Rules) {
        let newest = self.serials.into_iter().max().expect("two policies");
        (self.rules[policy], self.serials[policy]) = (rules, newest + 1);
    }

    /// Returns the serial number of the version of an agent's policy.
    pub(crate) fn serial(&self, agent: usize) -> Option<u64> {
        self.agents[agent].commission.as_ref().map(|work| self.serials[work.policy])
    }

    pub(crate) fn rules_of(&self, agent: usize) -> Option<Rules> {
        self.agents[agent].commission.as_ref().map(|work| self.rules[work.policy])
    }

    pub(crate) fn due(&self, agent: usize, now: &Moment) -> Due {
        let work = self.agents[agent].commission.as_ref();
        work.map_or(Due::Nothing, |work| work.allowance.due(now))
    }

    /// Checks and applies a renewal, made by the engine or by the operator.
    pub(crate) fn renew(
        &mut self,
        agent: usize,
        start: &WindowStart,
        now: &Moment,
        operator: bool,
    ) {
        let next = match (self.due(agent, now), operator) {
            (Due::Renewal(next) | Due::Either(next), _) | (Due::Grant(next), true) => next,
            (not, _) => panic!("renewed although {not:?}"),
        };
        assert_eq!((start.day, start.utc.0), (next.day, next.start_ms), "another start");
        let agent = &mut self.agents[agent];
        agent.allowances += 1;
        let work = agent.commission.as_mut().expect("a commissioned agent");
        assert!(work.allowance.day < next.day, "I-a: two allowances of one date");
        work.allowance = next;
    }

    pub(crate) fn waiting(
        &self,
        agent: usize,
    ) -> impl Iterator<Item = (&RequestId, &ModelRequest)> {
        self.requests
            .iter()
            .filter(move |(_, known)| known.agent == agent && known.status.is_held())
    }

    pub(crate) fn all_waiting(&self) -> Vec<RequestId> {
        let waiting = self.requests.iter().filter(|(_, known)| known.status.is_held());
        waiting.map(|(id, _)| *id).collect()
    }

    pub(crate) fn reserved_by(&self, agent: usize) -> u64 {
        self.waiting(agent).map(|(_, known)| known.usd()).sum()
    }

    pub(crate) fn spent_by(&self, agent: usize) -> u64 {
        self.agents[agent].commission.as_ref().map_or(0, |work| work.allowance.spent)
    }

    /// Returns the circumstances of a request that is not held now.
    pub(crate) fn context(&self, agent: usize, label: &'static str, trusted: bool) -> Context {
        Context {
            rules: self.rules_of(agent).expect("a commissioned agent"),
            from: build::address(label),
            network_on: self.network_on,
            trusted,
            spent: self.spent_by(agent),
            reserved: self.reserved_by(agent),
        }
    }

    pub(crate) fn spend(&mut self, agent: usize, usd: u64) {
        let work = self.agents[agent].commission.as_mut().expect("a commissioned agent");
        work.allowance.spent += usd;
    }

    /// Adds a new request.
    pub(crate) fn add_request(&mut self, id: RequestId, known: ModelRequest, identity: &Identity) {
        if known.status.is_held() {
            self.reserved += known.usd();
        }
        if let Some(claim) = identity.claim() {
            self.keys.insert(claim.name, (claim.content, id));
        }
        self.latest.insert(identity.clone(), id);
        assert!(self.requests.insert(id, known).is_none(), "an id was used twice");
    }

    /// Ends a held request. Its reservation is used or returned exactly once.
    pub(crate) fn end(&mut self, id: RequestId, status: ModelStatus) {
        let known = self.requests.get_mut(&id).expect("a known request");
        assert!(known.status.is_held(), "I-d: ended twice");
        let usd = known.usd();
        match status {
            ModelStatus::Authorized { .. } => self.used += usd,
            ModelStatus::Held { .. } => panic!("no end"),
            ModelStatus::Refused | ModelStatus::Denied { .. } | ModelStatus::Expired { .. } => {
                self.returned += usd;
            }
        }
        known.status = status;
    }

    /// Applies the acceptance of a journal.
    pub(crate) fn accept_journal(&mut self) {
        for known in self.requests.values_mut() {
            if let ModelStatus::Authorized { signed: false, is_void: void, .. } = &mut known.status
            {
                *void = true;
            }
        }
    }

    /// Notes a new reading of the wall clock.
    pub(crate) fn note_clock(&mut self, now: &Moment) {
        for known in self.requests.values_mut() {
            if let ModelStatus::Authorized { valid_before: before, lapsed, .. } = &mut known.status
            {
                *lapsed |= now.utc.seconds().unsigned_abs() >= *before;
            }
        }
    }

    /// Predicts the answer before the payment rules apply: locks, idempotency keys and repeats.
    ///
    /// Repeats follow the table "Same ask, same answer" of the specification (decisions.md).
    pub(crate) fn predict(
        &self,
        agent: usize,
        identity: &Identity,
        ask: &PaymentAsk,
        unlocked: bool,
        now: &Moment,
    ) -> Prediction {
        let caller = &self.agents[agent];
        let idle = [
            (caller.commission.is_none(), Code::AgentNotCommissioned),
            (caller.suspended, Code::AgentSuspended),
            (self.frozen, Code::AgentsFrozen),
        ];
        let idle: Vec<_> = idle.into_iter().filter_map(|(so, code)| so.then_some(code)).collect();
        if !unlocked {
            return Prediction::Locked;
        }
        if !idle.is_empty() {
            return Prediction::Unrecorded(idle);
        }
        let bound = |claim: &KeyClaim| {
            self.keys.get(&claim.name).is_some_and(|(content, first)| {
                // A key stays bound to its content while the answer to that content is remembered.
                let remembered = match &self.requests[first].status {
                    ModelStatus::Held { .. } => true,
                    ModelStatus::Authorized { valid_before: before, .. } => {
                        now.utc.seconds().unsigned_abs() < *before
                    }
                    ModelStatus::Denied { at } | ModelStatus::Expired { at } => {
                        !is_quarter_hour_later(at, now)
                    }
                    ModelStatus::Refused => false,
                };
                *content != claim.content && remembered
            })
        };
        if identity.claim().is_some_and(bound) {
            return Prediction::Unrecorded(vec![Code::IdempotencyConflict]);
        }
        let Some(id) = self.latest.get(identity) else { return Prediction::New };
        let first = &self.requests[id];
        let signature = !caller.bears_token;
        let remembered = match &first.status {
            ModelStatus::Held { .. } => true,
            ModelStatus::Authorized { valid_before: before, .. }
                if now.utc.seconds().unsigned_abs() < *before =>
            {
                true
            }
            ModelStatus::Authorized { .. } if signature => {
                return Prediction::Unrecorded(vec![Code::PaymentExpired]);
            }
            ModelStatus::Authorized { .. } => false,
            ModelStatus::Denied { at } | ModelStatus::Expired { at } => {
                signature || !is_quarter_hour_later(at, now)
            }
            ModelStatus::Refused => signature,
        };
        if !remembered {
            return Prediction::New;
        }
        let rules = self.rules_of(agent).expect("a commissioned agent");
        let refusal =
            rules.domains(ask.request_url.as_deref(), first.ask.resource_url.as_deref()).err();
        match refusal {
            Some(code) if ask.request_url != first.ask.request_url => {
                Prediction::Unrecorded(vec![code])
            }
            lists_now if first.is_hold_over(now) => Prediction::HoldOver(*id, lists_now),
            lists_now => Prediction::Earlier(*id, lists_now),
        }
    }
}
