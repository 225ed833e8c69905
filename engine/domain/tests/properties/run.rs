//! One history: each step goes through the real rules, and model and ledger judge what came of it.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::time::Moment;
use bursar_domain::agents::Credential;
use bursar_domain::idempotency::Identity;
use bursar_domain::{Action, Decision, Effect, Event, PaymentAsk, Refusal, Reply, Status};

use crate::ledger::{Ledger, Scene};
use crate::model::{Hearing, Known, Model, Standing};
use crate::rules::{Due, VARIANTS};
use crate::support::clock::{Clock, HOUR, MINUTE};
use crate::support::{Answer, OPERATOR, World, build, decisive, denial};
use crate::workload::{History, Oddity, Pick, Shown, Size, Step, What};

#[derive(Debug)]
pub(crate) struct Run {
    world: World,
    model: Model,
    pub(crate) ledger: Ledger,
    /// What was asked so far, to be asked again.
    asked: Vec<(usize, Identity, PaymentAsk)>,
    /// The card of each held request when it came, and the policy version it was drawn under.
    cards: BTreeMap<RequestId, (String, u64)>,
    /// Events, answers and codes that this history has seen.
    pub(crate) seen: BTreeSet<String>,
}

fn policy_name(index: usize) -> String {
    format!("policy {index}")
}

fn label(spare: bool) -> &'static str {
    if spare { "spare" } else { "main" }
}

impl Run {
    /// The whole history.
    pub(crate) fn through(history: &History) -> Self {
        let mut run = Self::start(history);
        for step in &history.steps {
            run.step(step);
        }
        run
    }

    fn start(history: &History) -> Self {
        let mut clock = Clock::at("2026-03-27T21:30:00Z", history.zone);
        if history.from_midnight {
            clock.utc = clock.moment().day_start;
        }
        let mut world = build::wallet(clock);
        for (index, rules) in VARIANTS[..2].iter().enumerate() {
            let name = build::name(&policy_name(index));
            world.must(Action::CreatePolicy { name, policy: Box::new(rules.policy()) });
        }
        let model = Model::new(history.agents);
        for (index, agent) in model.agents.iter().enumerate() {
            let bearer = Credential::Bearer { sha256: [1; 32] };
            let credential =
                if agent.bears_token { bearer } else { Credential::Hmac { check: [7; 32] } };
            build::register(&mut world, index, credential);
        }
        let mut run = Self {
            world,
            model,
            ledger: Ledger::default(),
            asked: Vec::new(),
            cards: BTreeMap::new(),
            seen: BTreeSet::new(),
        };
        for agent in 0..history.agents.min(2) {
            run.commission(agent, agent, agent == 1);
        }
        run
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Ask { agent, ref what, key, repeat } => self.ask(agent, what, key, repeat),
            Step::Flood { agent, asks } => self.flood(agent, asks),
            Step::Approve { pick, shown } => self.approve(pick, shown),
            Step::SecondLook { pick, variant } => self.change_and_approve(pick, variant),
            Step::Deny { pick } => self.deny(pick),
            Step::Signed { pick } => self.signed(pick),
            Step::Tick => self.tick(),
            Step::Reissue => self.reissue(),
            Step::Pass(ms) => self.world.clock.pass(ms),
            Step::Midnight(after) => self.pass_midnight(after),
            Step::SetClock(ms) => self.world.clock.set_by(ms),
            Step::Reboot(ms) => self.reboot(ms),
            Step::Zone(zone) => {
                self.world.clock.zone = jiff::tz::TimeZone::get(zone).expect("a zone");
            }
            Step::Block(behind) => {
                let utc = self.world.clock.utc;
                self.world.clock.chain_hint = behind.map(|ms| utc.plus_ms(-ms));
            }
            Step::Edit { policy, variant } => self.edit(policy, variant),
            Step::Commission { agent, policy, spare } => self.commission(agent, policy, spare),
            Step::Suspend(agent) => self.suspend(agent),
            Step::Resume(agent) => self.resume(agent),
            Step::Renew(agent) => self.renew(agent),
            Step::Freeze => self.freeze(),
            Step::Thaw => self.thaw(),
            Step::Lock => self.world.unlocked = false,
            Step::Unlock => self.world.unlocked = true,
            Step::Distrust => self.world.trusted = false,
            Step::AcceptJournal => self.accept_journal(),
            Step::Network(enabled) => self.network(enabled),
        }
        let now = self.world.now();
        self.model.clock_shows(&now);
        self.compare();
    }

    /// Runs an action. What the engine did on the way (a renewal, a hold that ended) is judged here.
    fn perform(&mut self, action: Action) -> Result<Decision, Refusal> {
        let operator = matches!(action, Action::Renew { .. });
        let before = (self.world.state.clone(), self.world.entries.len());
        let now = self.world.now();
        let result = self.world.run(action);
        let Ok(decision) = &result else {
            let after = (&self.world.state, self.world.entries.len());
            assert_eq!(after, (&before.0, before.1), "a refusal left a trace");
            return result;
        };
        for event in &decision.events {
            let name = format!("{event:?}");
            let name = name.split([' ', '{', '(']).next().expect("a name");
            self.seen.insert(name.to_owned());
            match event {
                Event::AllowanceRenewed { agent, start } => {
                    let agent = self.model.index(agent);
                    self.model.renewed(agent, start, &now, operator);
                }
                Event::PaymentExpired { id } => {
                    assert!(self.model.requests[id].is_over(&now), "expired before its time");
                    let at = self.journal_time();
                    self.model.end(*id, Standing::Expired { at });
                }
                _decided_by_the_command => {}
            }
        }
        result
    }

    /// The time of the newest entry.
    fn journal_time(&self) -> bursar_core::time::Utc {
        self.world.entries.last().expect("a journal").at
    }

    fn note(&mut self, how: &str, what: &str) {
        self.seen.insert(format!("{how}: {what}"));
    }

    /// A refusal that left no trace, for one of these reasons.
    #[track_caller]
    fn expect_refused(&mut self, how: &str, result: Result<Decision, Refusal>, codes: &[Code]) {
        let refusal = result.expect_err("it must be refused");
        assert!(codes.contains(&refusal.code), "{:?}, not of {codes:?}", refusal.code);
        self.note(how, refusal.code.text());
    }

    fn scene<'a>(&self, agent: usize, now: &'a Moment) -> Scene<'a> {
        Scene {
            now,
            frozen: self.model.frozen,
            unlocked: self.world.unlocked,
            idle: self.model.agents[agent].suspended || self.model.agents[agent].work.is_none(),
            allowance: self.model.agents[agent].allowances,
            waiting: self.model.reserved_by(agent),
            limit: self.model.rules_of(agent).map_or(0, |rules| rules.daily),
        }
    }

    /// Takes the orders to sign to the ledger.
    fn leaves(&mut self, effects: &[Effect], now: &Moment) {
        for effect in effects {
            let Effect::Sign(id) = effect;
            let scene = self.scene(self.model.requests[id].agent, now);
            self.ledger.sign(*effect, &self.world.records[id], &scene);
        }
    }

    fn pass_midnight(&mut self, after_ms: i64) {
        let clock = &mut self.world.clock;
        // Local days have 23 to 25 hours.
        let mut tomorrow = clock.clone();
        tomorrow.utc = clock.moment().day_start.plus_ms(25 * HOUR + 30 * MINUTE);
        let target = tomorrow.moment().day_start.plus_ms(after_ms);
        clock.pass(target.since_ms(clock.utc).max(0));
    }

    // Agents.

    fn ask(&mut self, agent: usize, what: &What, key: Option<u8>, repeat: Option<u8>) {
        let (identity, payment) = match self.earlier(agent, repeat) {
            Some((identity, payment)) if !self.model.agents[agent].bears_token => {
                (identity, payment)
            }
            Some((_, payment)) => {
                let request_url = what.request_url.map(str::to_owned);
                self.identified(agent, key, PaymentAsk { request_url, ..payment })
            }
            None => {
                let payment = self.payment(agent, what);
                self.identified(agent, key, payment)
            }
        };
        self.asked.push((agent, identity.clone(), payment.clone()));
        let now = self.world.now();
        let unlocked = self.world.unlocked;
        let hearing = self.model.hears(agent, &identity, &payment, unlocked, &now);
        let id = self.model.agents[agent].id.clone();
        let action = self.world.ask_action(&id, identity.clone(), payment.clone());
        let result = self.perform(action);
        match hearing {
            Hearing::Locked => {
                result.expect_err("nobody is heard while the wallet is locked");
                self.note("asked", "while locked");
            }
            Hearing::Unheard(codes) => self.expect_refused("asked", result, &codes),
            Hearing::Earlier(first, lists_now) => {
                self.expect_earlier(first, lists_now, result, &now)
            }
            Hearing::New => {
                let decision = result.expect("a new ask is heard");
                self.judge(agent, &identity, payment, &decision, &now);
            }
        }
    }

    fn flood(&mut self, agent: usize, asks: usize) {
        let urls = Some("https://good.example/a");
        for micros in 1..=asks as u64 {
            let (size, oddity) = (Size::Micros(micros), Oddity::Contradicted);
            let what = What { size, oddity, request_url: urls, resource_url: urls };
            self.ask(agent, &what, None, None);
        }
    }

    /// One of this agent's latest asks, to be asked again.
    fn earlier(&self, agent: usize, repeat: Option<u8>) -> Option<(Identity, PaymentAsk)> {
        let mut latest = self.asked.iter().rev().filter(|(asker, ..)| *asker == agent);
        let (_, identity, payment) = latest.nth(usize::from(repeat?))?;
        Some((identity.clone(), payment.clone()))
    }

    fn identified(
        &mut self,
        agent: usize,
        key: Option<u8>,
        ask: PaymentAsk,
    ) -> (Identity, PaymentAsk) {
        if !self.model.agents[agent].bears_token {
            return (build::signed(self.world.draw(), self.world.clock.utc), ask);
        }
        let key = key.map(|key| format!("key {key}"));
        let content = format!(
            "{} {} {:?} {} {}",
            ask.amount, ask.payee, ask.resource_url, ask.domain_contradicted, ask.valid_seconds
        );
        let id = &self.model.agents[agent].id;
        (build::bearer(id, content.as_bytes(), key.as_deref()), ask)
    }

    fn payment(&self, agent: usize, what: &What) -> PaymentAsk {
        let own = |url: Option<&str>| url.map(str::to_owned);
        let ask = PaymentAsk {
            request_url: own(what.request_url),
            resource_url: own(what.resource_url),
            ..build::payment(self.micros(agent, what.size))
        };
        match what.oddity {
            Oddity::None => ask,
            Oddity::Contradicted => PaymentAsk { domain_contradicted: true, ..ask },
            Oddity::Lasting(valid_seconds) => PaymentAsk { valid_seconds, ..ask },
            Oddity::ToNobody => PaymentAsk { payee: Address::ZERO, ..ask },
            Oddity::ToTheAddress(label) => PaymentAsk { payee: build::address(label), ..ask },
        }
    }

    fn micros(&self, agent: usize, size: Size) -> u64 {
        let Some(rules) = self.model.rules_of(agent) else { return 1 };
        let spent = match self.model.due(agent, &self.world.now()) {
            Due::Renewal(_) => 0,
            Due::Nothing | Due::Either(_) | Due::Grant(_) => self.model.spent_by(agent),
        };
        let left = rules.daily.saturating_sub(spent + self.model.reserved_by(agent));
        match size {
            Size::Micros(micros) => micros,
            Size::Threshold(off) => rules.alone_below.saturating_add_signed(off),
            Size::AtOnce(off) => rules.at_once.saturating_add_signed(off),
            Size::Left(off) => left.saturating_add_signed(off),
        }
    }

    fn expect_earlier(
        &mut self,
        first: RequestId,
        lists_now: Option<Code>,
        result: Result<Decision, Refusal>,
        now: &Moment,
    ) {
        let decision = match (result, lists_now) {
            (Err(refusal), Some(code)) => return assert_eq!(refusal.code, code),
            (result, _) => result.expect("a repeat is answered"),
        };
        let Answer::Earlier(record) = self.world.answer(&decision) else {
            panic!("a repeat was answered anew: {decision:?}")
        };
        assert_eq!(*record, self.world.records[&first]);
        let what = match self.model.requests[&first].standing {
            Standing::Waits { .. } => "held",
            Standing::Authorized { signed: true, .. } => "signed",
            Standing::Authorized { signed: false, .. } => "unsigned",
            Standing::Refused => "refused",
            Standing::Denied { .. } => "denied",
            Standing::Expired { .. } => "expired",
        };
        self.note("repeated", what);
        self.leaves(&decision.effects, now);
    }

    /// A new ask against the policy in force.
    fn judge(
        &mut self,
        agent: usize,
        identity: &Identity,
        ask: PaymentAsk,
        decision: &Decision,
        now: &Moment,
    ) {
        let due = self.model.due(agent, now);
        assert!(!matches!(due, Due::Renewal(_)), "the day was not renewed first");
        let label = self.model.agents[agent].work.as_ref().expect("at work").label;
        let around = self.model.around(agent, label, self.world.trusted);
        let (mut refusals, holds) = (around.refusals(&ask), around.holds(&ask, now));
        let waiting = self.model.waiting(agent).count();
        if refusals.is_empty() && !holds.is_empty() && waiting >= 20 {
            refusals.push(Code::TooManyPending);
        }
        let usd = ask.usd;
        let enter = |model: &mut Model, id, standing| {
            model.enter(id, Known { agent, label, ask, standing }, identity);
        };
        let at = now.utc.max(self.journal_time());
        let recorded = self.model.agents[agent].is_recorded(at);
        match self.world.answer(decision) {
            Answer::Unheard(refusal) => {
                assert!(refusals.contains(&refusal.code), "{refusal:?}, not of {refusals:?}");
                assert!(!recorded, "a refusal left no trace");
                self.note("asked", "refused too often to be recorded");
            }
            Answer::Refuses(id, refusal) => {
                assert!(recorded, "too many refusals are recorded");
                self.model.agents[agent].record_refusal(at);
                assert!(refusals.contains(&refusal.code), "{refusal:?}, not of {refusals:?}");
                let left = around.rules.daily.saturating_sub(around.spent + around.reserved);
                let bound = match refusal.code {
                    Code::ExceedsPerRequestMax => Some(Usd(around.rules.at_once)),
                    Code::ExceedsDailyLimit => Some(Usd(left)),
                    Code::LimitReached => Some(Usd::ZERO),
                    _without_figures => None,
                };
                assert_eq!((refusal.bound, refusal.requested), (bound, bound.map(|_limit| usd)));
                self.note("asked", refusal.code.text());
                enter(&mut self.model, id, Standing::Refused);
            }
            Answer::Holds(id, reason) => {
                assert_eq!(refusals, [], "held");
                assert!(holds.contains(&reason), "{reason:?}, not of {holds:?}");
                self.note("held", reason.text());
                enter(&mut self.model, id, Standing::Waits { since: now.clone() });
                let scene = self.scene(agent, now);
                self.ledger.hold(&self.world.records[&id], &scene);
                let card = self.world.card(id).expect("a card");
                let version = self.model.version(agent).expect("at work");
                assert_eq!(card.policy_version, version);
                self.cards.insert(id, (card.digest, version));
            }
            Answer::Signs(id) => {
                assert_eq!((&refusals[..], &holds[..]), (&[][..], &[][..]), "signed");
                enter(&mut self.model, id, Standing::Refused);
                self.authorized(id, now, &decision.effects);
            }
            other => panic!("a new ask got {other:?}"),
        }
    }

    /// A request is authorized: it is spent, and ordered to be signed.
    fn authorized(&mut self, id: RequestId, now: &Moment, effects: &[Effect]) {
        let known = self.model.requests.get_mut(&id).expect("a known request");
        let before = now.utc.seconds().unsigned_abs() + known.ask.valid_seconds.max(30);
        let (agent, usd) = (known.agent, known.usd());
        known.standing = Standing::Authorized { before, signed: false, lapsed: false, void: false };
        self.model.spend(agent, usd);
        let Status::Authorized { terms, .. } = &self.world.records[&id].status else {
            panic!("not authorized: {:?}", self.world.records[&id].status)
        };
        assert_eq!(terms.valid_before, before);
        assert_eq!(terms.value, Atoms(U256::from(usd)).0);
        assert_eq!(effects, [Effect::Sign(id)]);
        self.leaves(effects, now);
    }

    // The operator on requests.

    fn picked(&self, pick: Pick) -> RequestId {
        let waiting = self.model.all_waiting();
        let from: Vec<_> = if pick.waiting && !waiting.is_empty() {
            waiting
        } else {
            self.model.requests.keys().copied().collect()
        };
        let place = usize::from(pick.place).checked_rem(from.len());
        place.map_or(RequestId::from_entropy([7; 16]), |place| from[place])
    }

    fn approve(&mut self, pick: Pick, shown: Shown) {
        let (id, now) = (self.picked(pick), self.world.now());
        let agent = self.model.requests.get(&id).map(|known| known.agent);
        let version = agent.and_then(|agent| self.model.version(agent));
        let (digest, fits) = match (shown, self.cards.get(&id)) {
            (Shown::Now, _) => {
                (self.world.card(id).map_or(String::new(), |card| card.digest), true)
            }
            (Shown::WhenItCame, Some((digest, then))) => (digest.clone(), Some(*then) == version),
            (Shown::WhenItCame, None) | (Shown::Never, _) => ("0".repeat(64), false),
        };
        let action = self.world.approval(id, &digest);
        let foretold = self.world.card(id).and_then(|card| card.obstacle);
        assert!(!self.model.frozen || self.world.card(id).is_none() || foretold.is_some());
        if self.refuses_or_ends("approved", id, &now, fits, action.clone()) {
            return;
        }
        let decision = self.perform(action).expect("the approval is heard");
        assert_eq!((decision.reply.clone(), decisive(&decision)), (Reply::Request(id), 1));
        self.second_look(id, &decision, &now);
        let came = match &self.world.records[&id].status {
            Status::Refused { refusal, .. } => Some(refusal.told()),
            _approved => None,
        };
        assert_eq!(foretold, came, "the card told otherwise");
    }

    fn change_and_approve(&mut self, pick: Pick, variant: usize) {
        let known = self.model.requests.get(&self.picked(pick));
        let work = known.and_then(|known| self.model.agents[known.agent].work.as_ref());
        if let Some(policy) = work.map(|work| work.policy) {
            self.edit(policy, variant);
        }
        self.approve(pick, Shown::Now);
    }

    /// Whether an approval comes to nothing before the policy is asked; if so it is carried out here.
    fn refuses_or_ends(
        &mut self,
        how: &str,
        id: RequestId,
        now: &Moment,
        fits: bool,
        action: Action,
    ) -> bool {
        let approving = how == "approved";
        let known = self.model.requests.get(&id);
        if !known.is_some_and(|known| known.standing.waits()) {
            let result = self.perform(action);
            self.expect_refused(how, result, &[Code::AlreadyDecided, Code::RequestNotFound]);
            return true;
        }
        if known.is_some_and(|known| known.is_over(now)) {
            let decision = self.perform(action).expect("its end is recorded");
            assert_eq!(decision.reply, Reply::Refused(Code::RequestExpired.into()));
            assert_eq!(decision.effects, []);
            assert!(!self.model.requests[&id].standing.waits(), "I-e: over, and still waiting");
            self.note(how, "too late");
            return true;
        }
        let reasons = [
            (approving && !self.world.unlocked, Code::WalletLocked),
            (approving && self.model.frozen, Code::AgentsFrozen),
            (approving && !fits, Code::CardChanged),
        ];
        let codes: Vec<_> =
            reasons.into_iter().filter_map(|(so, code)| so.then_some(code)).collect();
        if codes.is_empty() {
            return false;
        }
        let result = self.perform(action);
        self.expect_refused(how, result, &codes);
        true
    }

    /// I-h: the policy in force at the approval decides.
    fn second_look(&mut self, id: RequestId, decision: &Decision, now: &Moment) {
        let known = &self.model.requests[&id];
        let (agent, label, ask) = (known.agent, known.label, known.ask.clone());
        let suspended = self.model.agents[agent].suspended;
        let due = self.model.due(agent, now);
        assert!(suspended || !matches!(due, Due::Renewal(_)), "the day was not renewed first");
        let mut around = self.model.around(agent, label, self.world.trusted);
        around.reserved -= ask.usd.0;
        let mut refusals = around.refusals(&ask);
        refusals.extend(suspended.then_some(Code::AgentSuspended));
        match &self.world.records[&id].status {
            Status::Refused { refusal, .. } => {
                assert!(refusals.contains(&refusal.code), "{refusal:?}, not of {refusals:?}");
                assert_eq!(decision.effects, []);
                let code = refusal.code.text();
                self.model.end(id, Standing::Refused);
                self.note("rejected", code);
            }
            Status::Authorized { .. } => {
                assert_eq!(refusals, [], "I-h: approved");
                let standing =
                    Standing::Authorized { before: 0, signed: false, lapsed: false, void: false };
                self.model.end(id, standing);
                self.authorized(id, now, &decision.effects);
            }
            other => panic!("approved, and now {other:?}"),
        }
    }

    fn deny(&mut self, pick: Pick) {
        let (id, now) = (self.picked(pick), self.world.now());
        let action = denial(id);
        if self.refuses_or_ends("denied", id, &now, true, action.clone()) {
            return;
        }
        let decision = self.perform(action).expect("a denial is heard");
        assert_eq!(decisive(&decision), 1);
        assert_eq!((decision.reply, &decision.effects[..]), (Reply::Request(id), &[][..]));
        let at = self.journal_time();
        assert_eq!(self.world.status(id), &Status::Denied { reason: None, at, by: OPERATOR });
        self.model.end(id, Standing::Denied { at });
    }

    fn signed(&mut self, pick: Pick) {
        let id = self.authorized_one(pick).unwrap_or_else(|| self.picked(pick));
        let action = self.world.signed(id);
        let recorded = !self.perform(action).expect("never refused").events.is_empty();
        match self.model.requests.get_mut(&id).map(|known| &mut known.standing) {
            Some(Standing::Authorized { void: true, .. }) => {
                assert!(!recorded, "a signature that nobody may make");
            }
            Some(Standing::Authorized { signed, lapsed, .. }) => {
                assert!(*signed != recorded || *lapsed, "a signature is recorded once");
                *signed |= recorded;
            }
            _not_authorized => assert!(!recorded, "a signature of nothing"),
        }
    }

    /// One of the newest authorizations.
    fn authorized_one(&self, pick: Pick) -> Option<RequestId> {
        let is_authorized = |id: &RequestId| {
            let known = self.model.requests.get(id);
            known.is_some_and(|known| matches!(known.standing, Standing::Authorized { .. }))
        };
        let ids = self.world.entries.iter().rev().filter_map(|entry| match &entry.event {
            Event::PaymentAuthorized { asked, .. } => Some(asked.id),
            Event::PaymentApproved { id, .. } => Some(*id),
            _other => None,
        });
        ids.filter(is_authorized).nth(usize::from(pick.place % 6))
    }

    fn reissue(&mut self) {
        let now = self.world.now();
        let decision = self.perform(Action::Reissue).expect("never refused");
        assert_eq!(decision.events, []);
        let ordered: BTreeSet<_> = decision.effects.iter().map(|Effect::Sign(id)| *id).collect();
        assert_eq!(ordered.len(), decision.effects.len());
        let still = self.model.frozen || !self.world.unlocked || !self.world.trusted;
        for (id, known) in &self.model.requests {
            let Standing::Authorized { before, signed, lapsed, void } = known.standing else {
                continue;
            };
            let good = now.utc.seconds().unsigned_abs() < before && !void;
            let wanted = !still && !signed && good && !self.model.agents[known.agent].suspended;
            // Where the clock once showed a later time, the state may have forgotten it.
            assert!(ordered.contains(id) == wanted || (wanted && lapsed), "reissued or not");
        }
        if !ordered.is_empty() {
            self.seen.insert("reissued".to_owned());
        }
        self.leaves(&decision.effects, &now);
    }

    fn tick(&mut self) {
        let now = self.world.now();
        let decision = self.perform(Action::Tick).expect("never refused");
        assert_eq!((decision.reply, &decision.effects[..]), (Reply::Done, &[][..]));
        for known in self.model.requests.values() {
            assert!(!known.is_over(&now), "I-n: over, and still waiting after the tick");
        }
        for agent in 0..self.model.agents.len() {
            let due = self.model.due(agent, &now);
            assert!(!matches!(due, Due::Renewal(_)), "due, and not renewed by the tick");
        }
    }

    /// The machine and the engine start again: all is read from the journal.
    fn reboot(&mut self, down_ms: i64) {
        self.world.clock.reboot(down_ms);
        self.world = self.world.restarted();
    }

    // The operator on everything else.

    fn edit(&mut self, policy: usize, variant: usize) {
        let rules = VARIANTS[variant];
        let old = self.model.rules[policy];
        let name = build::name(&policy_name(policy));
        let action = Action::EditPolicy { name, policy: Box::new(rules.policy()) };
        let result = self.perform(action);
        if rules.loosens(&old) && !self.world.unlocked {
            return self.expect_refused("edited", result, &[Code::WalletLocked]);
        }
        let changed = !result.expect("nothing to refuse").events.is_empty();
        assert_eq!(changed, rules != old);
        if changed {
            self.model.edited(policy, rules);
        }
    }

    fn commission(&mut self, agent: usize, policy: usize, spare: bool) {
        let now = self.world.now();
        let action = build::commission(agent, &policy_name(policy), label(spare));
        let result = self.perform(action);
        if !self.world.unlocked {
            return self.expect_refused("commissioned", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.commission(agent, policy, label(spare), &now);
    }

    fn suspend(&mut self, agent: usize) {
        let id = self.model.agents[agent].id.clone();
        self.perform(Action::Suspend { agent: id }).expect("always possible");
        self.model.agents[agent].suspended = true;
    }

    fn resume(&mut self, agent: usize) {
        let id = self.model.agents[agent].id.clone();
        let result = self.perform(Action::Resume { agent: id });
        if !self.world.unlocked {
            return self.expect_refused("resumed", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.agents[agent].suspended = false;
    }

    fn renew(&mut self, agent: usize) {
        let id = self.model.agents[agent].id.clone();
        let due = self.model.due(agent, &self.world.now());
        let result = self.perform(Action::Renew { agent: id });
        let reasons = [
            (!self.world.unlocked, Code::WalletLocked),
            (self.model.agents[agent].work.is_none(), Code::AgentNotCommissioned),
            (due == Due::Nothing, Code::BadInput),
        ];
        let codes: Vec<_> =
            reasons.into_iter().filter_map(|(so, code)| so.then_some(code)).collect();
        if !codes.is_empty() {
            return self.expect_refused("renewed", result, &codes);
        }
        assert_eq!(result.expect("nothing to refuse").events.len(), 1);
        self.seen.insert("renewed by the operator".to_owned());
    }

    fn freeze(&mut self) {
        self.perform(Action::Freeze).expect("always possible");
        self.model.frozen = true;
    }

    fn thaw(&mut self) {
        let result = self.perform(Action::Thaw);
        if !self.world.unlocked {
            return self.expect_refused("thawed", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.frozen = false;
    }

    fn accept_journal(&mut self) {
        let result = self.perform(Action::AcceptJournal);
        if !self.world.unlocked {
            return self.expect_refused("accepted", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.world.trusted = true;
        self.model.accepted();
    }

    fn network(&mut self, enabled: bool) {
        let chain = build::base().chain;
        let result = self.perform(Action::SetNetwork { chain, enabled });
        if enabled && !self.world.unlocked {
            return self.expect_refused("enabled", result, &[Code::WalletLocked]);
        }
        result.expect("nothing to refuse");
        self.model.network_on = enabled;
    }

    // What must hold after every step.

    fn compare(&mut self) {
        let (state, model) = (&self.world.state, &self.model);
        for (index, agent) in model.agents.iter().enumerate() {
            let real = &state.agents[&agent.id];
            assert_eq!(real.suspended, agent.suspended);
            assert_eq!(real.reserved.0, model.reserved_by(index), "I-d");
            assert_eq!(real.commission.is_some(), agent.work.is_some());
            let (Some(real), Some(work)) = (&real.commission, &agent.work) else { continue };
            let window = &real.payments;
            assert_eq!(window.spent.0, work.allowance.spent, "I-a");
            assert_eq!(window.spent.0, self.ledger.left(&agent.id, agent.allowances), "I-a");
            assert_eq!(
                (window.start.day, window.start.utc.0),
                (work.allowance.day, work.allowance.start_ms)
            );
        }
        let waiting: Vec<_> = state.held.keys().copied().collect();
        assert_eq!(waiting, model.all_waiting());
        assert_eq!(state.frozen.is_some(), model.frozen);
        let open: u64 = (0..model.agents.len()).map(|agent| model.reserved_by(agent)).sum();
        assert_eq!(model.reserved, model.used + model.returned + open, "I-d");
        for request in self.world.records.values() {
            self.ledger.stands(request);
        }
    }

    /// The end of the history.
    pub(crate) fn finish(&self) {
        self.ledger.assert_complete();
        self.world.assert_replays();
    }
}
