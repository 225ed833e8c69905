//! A world for the rules: state, journal, indexes and clock, all in memory and under the test's control.
//!
//! Every step of a test goes through `decide`, `apply` and `check`. The journal of every test is replayed at its end.

pub(crate) mod build;
pub(crate) mod cases;
pub(crate) mod clock;

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::card::{Card, HoldReason};
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::lock_cause::LockCause;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_core::status::AgentStatus;
use bursar_core::time::Moment;
use bursar_domain::agents::Commission;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::command::{Approval, Ask, AskBounds, Report, ReportContext, Requote};
use bursar_domain::decide::stop_plans;
use bursar_domain::event::Entry;
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::Identity;
use bursar_domain::settlement::{ReportContent, Settlement, Stage};
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::{
    Action, Command, Decision, Effect, Event, LaneAsk, PaymentAsk, Refusal, Reply, Request, State,
    Status, apply, cards, check, decide,
};
use bursar_submit::Event as OutboxEvent;

use self::clock::Clock;

/// The client of all decisions in these tests.
pub(crate) const OPERATOR: Client = Client::Inside;

/// A denial without a reason.
pub(crate) fn denial(id: RequestId) -> Action {
    Action::Deny { id, reason: None, by: OPERATOR }
}

/// The answer to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Authorized; the wallet signs it now.
    Signs(RequestId),
    Holds(RequestId, HoldReason),
    /// Allowed, and waiting for its device.
    Awaits(RequestId),
    /// Refused, with a record.
    Refuses(RequestId, Refusal),
    /// Refused without a record.
    Unrecorded(Refusal),
    /// The answer of an earlier, identical request.
    Earlier(Box<Request>),
}

impl Answer {
    /// Returns the refusal's code, recorded or not.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Answer::Refuses(_, refusal) | Answer::Unrecorded(refusal) => Some(refusal.code),
            Answer::Signs(_) | Answer::Holds(..) | Answer::Awaits(_) | Answer::Earlier(_) => None,
        }
    }

    /// Returns the reason for which the request is held, if it is held.
    pub(crate) fn hold_reason(&self) -> Option<HoldReason> {
        match self {
            Answer::Holds(_, reason) => Some(*reason),
            Answer::Signs(_)
            | Answer::Awaits(_)
            | Answer::Refuses(..)
            | Answer::Unrecorded(_)
            | Answer::Earlier(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) clock: Clock,
    pub(crate) unlocked: bool,
    pub(crate) trusted: bool,
    pub(crate) entries: Vec<Entry>,
    /// Every request so far, in its current state.
    pub(crate) records: BTreeMap<RequestId, Request>,
    /// The newest request of each identity.
    latest: BTreeMap<Vec<u8>, RequestId>,
    pub(crate) settlements: BTreeMap<RequestId, Settlement>,
    /// The reply to each report.
    reported: BTreeMap<Vec<u8>, Stage>,
    /// The newest request of each idempotency key.
    latest_by_key: BTreeMap<Vec<u8>, RequestId>,
    draw_count: u64,
    /// The bounds that apply to every request.
    pub(crate) bounds: AskBounds,
}

impl World {
    /// Creates a world that contains only a clock. The wallet counts as unlocked.
    pub(crate) fn empty(clock: Clock) -> Self {
        Self {
            state: State::new(Arc::default()),
            clock,
            unlocked: true,
            trusted: true,
            entries: Vec::new(),
            records: BTreeMap::new(),
            latest: BTreeMap::new(),
            settlements: BTreeMap::new(),
            reported: BTreeMap::new(),
            latest_by_key: BTreeMap::new(),
            draw_count: 0,
            bounds: AskBounds::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.moment()
    }

    /// Decides, applies and checks one action.
    pub(crate) fn run(&mut self, action: Action) -> Result<Decision, Refusal> {
        let command =
            Command { moment: self.now(), unlocked: self.unlocked, trusted: self.trusted, action };
        let decided = decide(&self.state, &command);
        assert_eq!(decided, decide(&self.state, &command), "one command, two decisions");
        let decision = decided?;
        self.record_all(&decision.events);
        Ok(decision)
    }

    /// Records the events of one commit.
    fn record_all(&mut self, events: &[Event]) {
        for event in events {
            self.record(event.clone());
        }
        assert_eq!(check::check(&self.state), Ok(()), "after {events:?}");
    }

    /// Locks the wallet as the core does: unsigned plans end first.
    pub(crate) fn lock(&mut self) {
        let mut events = stop_plans(&self.state);
        events.push(Event::WalletLocked { cause: LockCause::Operator, noted_entry: None });
        self.record_all(&events);
        self.unlocked = false;
    }

    /// Unlocks the wallet by a person.
    pub(crate) fn unlock(&mut self) {
        self.unlocked = true;
        self.must(Action::RecordUnlock { attended: true, noted_entry: None });
    }

    /// Unlocks the wallet as the boot service does.
    pub(crate) fn unlock_unattended(&mut self) {
        self.unlocked = true;
        self.must(Action::RecordUnlock { attended: false, noted_entry: None });
    }

    /// Runs an action that must succeed.
    #[track_caller]
    pub(crate) fn must(&mut self, action: Action) -> Decision {
        self.run(action).expect("the action is not refused")
    }

    fn record(&mut self, event: Event) {
        // The journal's own time never moves back, whatever the clock does.
        let at = self.clock.utc.max(self.state.clock);
        let entry = Entry { seq: self.state.seq + 1, at, event };
        assert!(
            self.unlocked || may_follow_a_seal(&self.state, &entry)
                // Signatures are exempt from this check.
                || matches!(entry.event, Event::PaymentSigned { .. }),
            "no seal would cover {:?}",
            entry.event
        );
        self.store_entry(entry);
    }

    /// Records an entry that an attacker wrote into the file.
    pub(crate) fn forge(&mut self, event: Event) {
        self.store_entry(Entry { seq: self.state.seq + 1, at: self.state.clock, event });
    }

    fn store_entry(&mut self, entry: Entry) {
        let amid_commit = self.is_amid_commit(&entry.event);
        let changed = apply(&mut self.state, &entry);
        if !amid_commit {
            assert_eq!(check::check(&self.state), Ok(()), "after {:?}", entry.event);
        }
        if let Event::SettlementReported { settlement, identity } = &entry.event {
            self.reported.insert(identity.index_key(), settlement.stage);
        }
        if let Some(ChangedRecord::Settlement(settlement)) = &changed {
            self.settlements.insert(settlement.id, (**settlement).clone());
        }
        if let Some(ChangedRecord::Request(request)) = changed {
            let request = (*request).clone();
            if self.records.insert(request.id, request.clone()).is_none() {
                self.latest.insert(request.identity.index_key(), request.id);
                if let Some(key) = request.identity.claim_key() {
                    self.latest_by_key.insert(key, request.id);
                }
            }
        }
        self.entries.push(entry);
    }

    /// Returns whether the next event of the same commit completes this one.
    ///
    /// A plan's step and its transaction begin in one commit and end in one commit.
    fn is_amid_commit(&self, event: &Event) -> bool {
        match event {
            Event::StepOpened { .. } => true,
            Event::Outbox { event: OutboxEvent::Finished { id, .. }, .. } => {
                let mut plans = self.state.executing.values().filter_map(|one| one.execution());
                plans.any(|plan| plan.open_step().is_some_and(|step| step.submission == *id))
            }
            _complete => false,
        }
    }

    /// Returns the same world after a restart: state and indexes come from the journal alone.
    pub(crate) fn restarted(&self) -> Self {
        let mut next = Self::empty(self.clock.clone());
        (next.unlocked, next.trusted, next.draw_count) =
            (self.unlocked, self.trusted, self.draw_count);
        for entry in &self.entries {
            next.store_entry(entry.clone());
        }
        next
    }

    /// Returns the requests in the indexes that match a new request.
    fn prior(&self, identity: &Identity) -> Prior {
        let record = |id: &RequestId| self.records[id].clone();
        let paid = |id: &&RequestId| self.settlements.get(*id).is_some_and(Settlement::is_settled);
        let same = self.latest.get(&identity.index_key());
        let one = |id: &&RequestId| self.records[*id].identity.index_key() == identity.index_key();
        let earlier = || self.records.keys().filter(one).find(paid);
        Prior {
            newest: same.map(record),
            settled_payment: same.filter(paid).or_else(earlier).map(record),
            last_with_key: identity
                .claim_key()
                .and_then(|key| self.latest_by_key.get(&key))
                .map(record),
        }
    }

    /// Returns a number that this world has not drawn before.
    pub(crate) fn draw(&mut self) -> u64 {
        self.draw_count += 1;
        self.draw_count
    }

    fn draw_id(&mut self) -> RequestId {
        let mut bytes = [0x5a; 16];
        // The first half of the id differs too, so that shortened ids are different.
        bytes[..8].copy_from_slice(&self.draw().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        RequestId::from_entropy(bytes)
    }

    pub(crate) fn draw_nonce(&mut self) -> [u8; 32] {
        let mut nonce = [0xc3; 32];
        nonce[24..].copy_from_slice(&self.draw().to_be_bytes());
        nonce
    }

    /// Builds an agent's request with a new id and nonce, as the agent server sends it.
    pub(crate) fn ask_action(
        &mut self,
        agent: &AgentId,
        identity: Identity,
        ask: impl Into<LaneAsk>,
    ) -> Action {
        let (id, nonce) = (self.draw_id(), self.draw_nonce());
        let prior = self.prior(&identity);
        let bounds = self.bounds;
        Action::Ask(Box::new(Ask {
            agent: agent.clone(),
            identity,
            ask: ask.into(),
            lane_refusal: None,
            prior,
            id,
            nonce,
            bounds,
        }))
    }

    /// Makes a request, and reads the answer from the records as the agent would receive it.
    #[track_caller]
    pub(crate) fn ask_as(
        &mut self,
        agent: &AgentId,
        identity: Identity,
        payment: PaymentAsk,
    ) -> Answer {
        let action = self.ask_action(agent, identity, payment);
        match self.run(action) {
            Err(refusal) => Answer::Unrecorded(refusal),
            Ok(decision) => self.answer(&decision),
        }
    }

    #[track_caller]
    pub(crate) fn answer(&self, decision: &Decision) -> Answer {
        let id = match &decision.reply {
            Reply::Request(id) => *id,
            Reply::Earlier(first) => {
                // A payment that a crash left unsigned is signed now, with the same terms. Nothing is signed while
                // the journal is untrusted, or for a request that was dropped when a journal was accepted.
                let unsigned = matches!(first.status, Status::Authorized { signature: None, .. });
                let unsigned =
                    unsigned && self.trusted && self.state.authorized.contains_key(&first.id);
                let again = unsigned.then_some(Effect::Sign(first.id));
                assert_eq!(
                    (&decision.events[..], &decision.effects[..]),
                    (&[][..], again.as_slice())
                );
                return Answer::Earlier(first.clone());
            }
            Reply::Settled(first) => {
                assert_eq!((decision.events.len(), decision.effects.len()), (0, 0));
                assert!(self.settlements[&first.id].is_settled());
                return Answer::Unrecorded(Code::PaymentSettled.into());
            }
            Reply::Refused(refusal) => {
                assert_eq!((count_decisive(decision), decision.effects.len()), (0, 0));
                return Answer::Unrecorded(refusal.clone());
            }
            Reply::Done | Reply::Reported(_) => {
                panic!("no answer to an agent: {:?}", decision.reply)
            }
        };
        assert_eq!(count_decisive(decision), 1, "one ask, one record: {:?}", decision.events);
        let (answer, effects) = match &self.records[&id].status {
            Status::Authorized { .. } => (Answer::Signs(id), vec![Effect::Sign(id)]),
            Status::Held { reason, .. } => (Answer::Holds(id, *reason), Vec::new()),
            Status::Refused { refusal, .. } => (Answer::Refuses(id, refusal.clone()), Vec::new()),
            Status::AwaitingDevice(_) => (Answer::Awaits(id), Vec::new()),
            // The wait for the device had already ended.
            Status::NotSigned { .. } => {
                (Answer::Earlier(Box::new(self.records[&id].clone())), Vec::new())
            }
            over @ (Status::Executing(_)
            | Status::Ended(_)
            | Status::Denied { .. }
            | Status::Expired { .. }) => panic!("asked and {over:?}"),
        };
        assert_eq!(decision.effects, effects);
        answer
    }

    /// Builds an agent's report, as the agent server sends it.
    pub(crate) fn report_action(
        &mut self,
        agent: &AgentId,
        identity: Identity,
        id: RequestId,
        content: ReportContent,
    ) -> Action {
        let known = ReportContext {
            request: self.records.get(&id).cloned(),
            settlement: self.settlements.get(&id).cloned(),
            earlier_reply: self.reported.get(&identity.index_key()).copied(),
        };
        let agent = agent.clone();
        Action::Report(Box::new(Report {
            agent,
            identity,
            id,
            content,
            is_proven: true,
            check_chain: true,
            context: known,
        }))
    }

    /// Makes a new request of the world's first agent.
    #[track_caller]
    pub(crate) fn ask(&mut self, payment: PaymentAsk) -> Answer {
        let identity = build::signed_identity(self.draw(), self.clock.utc);
        self.ask_as(&build::agent(0), identity, payment)
    }

    /// Makes a new request that must be signed without approval.
    #[track_caller]
    pub(crate) fn signs(&mut self, payment: PaymentAsk) -> RequestId {
        match self.ask(payment) {
            Answer::Signs(id) => id,
            other => panic!("not signed: {other:?}"),
        }
    }

    /// Makes a new request that must be held.
    #[track_caller]
    pub(crate) fn holds(&mut self, payment: PaymentAsk) -> RequestId {
        match self.ask(payment) {
            Answer::Holds(id, _) => id,
            other => panic!("not held: {other:?}"),
        }
    }

    /// Makes a new request that must be refused without spending or reserving value.
    #[track_caller]
    pub(crate) fn refuses(&mut self, payment: PaymentAsk) -> Refusal {
        let before = (self.spent(), self.reserved_value());
        let refusal = match self.ask(payment) {
            Answer::Refuses(_, refusal) | Answer::Unrecorded(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        };
        assert_eq!((self.spent(), self.reserved_value()), before, "a refusal costs nothing");
        refusal
    }

    /// Runs an action that must be refused and must record nothing.
    #[track_caller]
    pub(crate) fn run_refused(&mut self, action: Action) -> Refusal {
        let before = (self.state.clone(), self.entries.len());
        let refusal = match self.run(action) {
            Err(refusal) => refusal,
            Ok(decision) => panic!("not refused: {decision:?}"),
        };
        assert_eq!((&self.state, self.entries.len()), (&before.0, before.1));
        refusal
    }

    /// Returns the card that the operator sees now.
    pub(crate) fn card(&self, id: RequestId) -> Option<Card> {
        cards::card(&self.state, self.state.held.get(&id)?, &self.now())
    }

    pub(crate) fn approval(&mut self, id: RequestId, shown: &str) -> Action {
        Action::Approve(Box::new(Approval {
            id,
            card_digest: shown.to_owned(),
            nonce: self.draw_nonce(),
            by: OPERATOR,
            quote: Requote::Nothing,
        }))
    }

    /// Approves the card as it is now.
    pub(crate) fn approve(&mut self, id: RequestId) -> Result<Decision, Refusal> {
        let shown = self.card(id).map_or(String::new(), |card| card.digest);
        let action = self.approval(id, &shown);
        self.run(action)
    }

    /// Runs an approval that must lead to a signature.
    #[track_caller]
    pub(crate) fn approves(&mut self, id: RequestId) {
        let decision = self.approve(id).expect("the approval is not refused");
        assert_eq!(decision.reply, Reply::Request(id));
        assert_eq!(
            (decision.effects.clone(), count_decisive(&decision)),
            (vec![Effect::Sign(id)], 1)
        );
        assert!(matches!(self.status(id), Status::Authorized { .. }), "{:?}", self.status(id));
    }

    /// Approves a request that the policy in force must refuse, with a record and without a signature.
    #[track_caller]
    pub(crate) fn rejects(&mut self, id: RequestId) -> Refusal {
        let decision = self.approve(id).expect("the approval is heard");
        assert_eq!(count_decisive(&decision), 1, "{:?}", decision.events);
        assert_eq!((decision.reply, &decision.effects[..]), (Reply::Request(id), &[][..]));
        match self.status(id) {
            Status::Refused { refusal, .. } => refusal.clone(),
            other => panic!("not rejected: {other:?}"),
        }
    }

    /// Builds the signer's report of a signature.
    pub(crate) fn signed_action(&self, id: RequestId) -> Action {
        Action::Signed { id, signature: build::signature(self.records.get(&id)) }
    }

    pub(crate) fn deny(&mut self, id: RequestId) -> Result<Decision, Refusal> {
        self.run(denial(id))
    }

    pub(crate) fn tick(&mut self) -> Decision {
        self.must(Action::Tick)
    }

    pub(crate) fn status(&self, id: RequestId) -> &Status {
        &self.records[&id].status
    }

    pub(crate) fn commission(&self) -> &Commission {
        self.state.agents[&build::agent(0)].commission.as_ref().expect("a commissioned agent")
    }

    /// Returns the amount spent of the first agent's allowance in force.
    pub(crate) fn spent(&self) -> Usd {
        self.state.spent(&self.state.agents[&build::agent(0)], &self.now()).payment
    }

    pub(crate) fn reserved_value(&self) -> Usd {
        self.state.agents[&build::agent(0)].reserved.payment
    }

    pub(crate) fn agent_status(&self) -> AgentStatus {
        self.state.status(&self.state.agents[&build::agent(0)], &self.now())
    }

    /// Edits the first policy. A locked wallet refuses edits that loosen it.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Policy)) -> Result<Decision, Refusal> {
        let name = policy_name();
        let mut policy = self.state.policy(&name).expect("the first policy").policy.clone();
        change(&mut policy);
        self.run(Action::EditPolicy { name, policy: Box::new(policy) })
    }

    /// Returns the state that a replay of the journal alone gives.
    pub(crate) fn replay(&self) -> State {
        let mut state = State::new(Arc::default());
        for entry in &self.entries {
            apply(&mut state, entry);
        }
        state
    }

    /// Checks that a replay gives the identical state, and that the state survives serialization.
    #[track_caller]
    pub(crate) fn assert_replays(&self) {
        let replayed = self.replay();
        assert_eq!(replayed, self.state, "the journal gives another state");
        let stored = postcard::to_allocvec(&self.state).expect("the state can be stored");
        assert_eq!(postcard::to_allocvec(&replayed).as_ref(), Ok(&stored));
        assert_eq!(postcard::from_bytes::<State>(&stored).as_ref(), Ok(&self.state));
        let journal = postcard::to_allocvec(&self.entries).expect("entries can be stored");
        assert_eq!(postcard::from_bytes::<Vec<Entry>>(&journal).as_ref(), Ok(&self.entries));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.assert_replays();
        }
    }
}

/// Counts the decisive events of a decision, without the renewals and ends of holds that come first.
pub(crate) fn count_decisive(decision: &Decision) -> usize {
    let on_the_way = |event: &Event| {
        matches!(
            event,
            Event::AllowanceRenewed { .. }
                | Event::UnattendedDayStarted { .. }
                | Event::RequestExpired { .. }
        )
    };
    decision.events.iter().filter(|event| !on_the_way(event)).count()
}

/// The policy of the world's first agent.
pub(crate) fn policy_name() -> Name {
    build::name("daily bread")
}
