//! Runs one history. Each step goes through the real rules, and the model and the ledger check the result.

mod asks;
mod decisions;
mod operator;

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::time::Moment;
use bursar_domain::agents::Credential;
use bursar_domain::identity::Identity;
use bursar_domain::{Action, Decision, Effect, Event, PaymentAsk, Refusal, Reply, Status};

use crate::properties::ledger::{Ledger, Scene};
use crate::properties::model::{Model, ModelRequest, ModelStatus, Prediction};
use crate::properties::rules::{Due, VARIANTS};
use crate::properties::workload::{CardChoice, History, Oddity, PaymentChoice, Pick, Size, Step};
use crate::support::clock::{Clock, HOUR, MINUTE};
use crate::support::{Answer, OPERATOR, World, build, count_decisive, denial};

#[derive(Debug)]
pub(crate) struct Run {
    world: World,
    model: Model,
    pub(crate) ledger: Ledger,
    /// All requests so far, for repeats.
    asked: Vec<(usize, Identity, PaymentAsk)>,
    /// The first card of each held request, and the serial number of the policy version at that time.
    cards: BTreeMap<RequestId, (String, u64)>,
    /// The events, answers and codes that occurred in this history.
    pub(crate) reached: BTreeSet<String>,
}

fn policy_name(index: usize) -> String {
    format!("policy {index}")
}

fn label(spare: bool) -> &'static str {
    if spare { "spare" } else { "main" }
}

impl Run {
    /// Runs the whole history.
    pub(crate) fn run_history(history: &History) -> Self {
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
                if agent.bears_token { bearer } else { Credential::Hmac { secret_hash: [7; 32] } };
            build::register(&mut world, index, credential);
        }
        let mut run = Self {
            world,
            model,
            ledger: Ledger::default(),
            asked: Vec::new(),
            cards: BTreeMap::new(),
            reached: BTreeSet::new(),
        };
        for agent in 0..history.agents.min(2) {
            run.commission(agent, agent, agent == 1);
        }
        run
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Ask { agent, choice: ref what, key, repeat } => {
                self.ask(agent, what, key, repeat)
            }
            Step::Flood { agent, asks } => self.flood(agent, asks),
            Step::Approve { pick, shown } => self.approve(pick, shown),
            Step::SecondLook { pick, variant } => self.change_and_approve(pick, variant),
            Step::Deny { pick } => self.deny(pick),
            Step::Signed { pick } => self.sign(pick),
            Step::Tick => self.tick(),
            Step::Reissue => self.reissue(),
            Step::Pass(ms) => self.world.clock.pass(ms),
            Step::Midnight(after) => self.pass_midnight(after),
            Step::SetClock(ms) => self.world.clock.shift_wall_clock(ms),
            Step::Reboot(ms) => self.reboot(ms),
            Step::Zone(zone) => {
                self.world.clock.zone = jiff::tz::TimeZone::get(zone).expect("a zone");
            }
            Step::Block(behind) => {
                let utc = self.world.clock.utc;
                self.world.clock.chain_hint = behind.map(|ms| utc.plus_ms(-ms));
            }
            Step::Edit { policy, variant } => self.edit(policy, variant),
            Step::Commission { agent, policy, to_spare_address: spare } => {
                self.commission(agent, policy, spare)
            }
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
        self.model.note_clock(&now);
        self.compare();
    }

    /// Runs an action, and checks the events that the engine adds by itself: renewals and ends of holds.
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
            self.reached.insert(name.to_owned());
            match event {
                Event::AllowanceRenewed { agent, start } => {
                    let agent = self.model.index(agent);
                    self.model.renew(agent, start, &now, operator);
                }
                Event::RequestExpired { id, .. } => {
                    assert!(self.model.requests[id].is_hold_over(&now), "expired before its time");
                    self.model.end(*id, ModelStatus::Expired { at: now.clone() });
                }
                _decided_by_the_command => {}
            }
        }
        result
    }

    /// Returns the time of the newest entry.
    fn journal_time(&self) -> bursar_core::time::Utc {
        self.world.entries.last().expect("a journal").at
    }

    fn mark_reached(&mut self, how: &str, what: &str) {
        self.reached.insert(format!("{how}: {what}"));
    }

    /// Expects a refusal with one of these codes and without a record.
    #[track_caller]
    fn expect_refused(&mut self, how: &str, result: Result<Decision, Refusal>, codes: &[Code]) {
        let refusal = result.expect_err("it must be refused");
        assert!(codes.contains(&refusal.code), "{:?}, not of {codes:?}", refusal.code);
        self.mark_reached(how, refusal.code.text());
    }

    fn scene<'a>(&self, agent: usize, now: &'a Moment) -> Scene<'a> {
        Scene {
            now,
            frozen: self.model.frozen,
            unlocked: self.world.unlocked,
            idle: self.model.agents[agent].suspended
                || self.model.agents[agent].commission.is_none(),
            allowance: self.model.agents[agent].allowances,
            waiting: self.model.reserved_by(agent),
            limit: self.model.rules_of(agent).map_or(0, |rules| rules.daily),
        }
    }

    /// Passes the orders to sign to the ledger.
    fn record_orders(&mut self, effects: &[Effect], now: &Moment) {
        for effect in effects {
            let Effect::Sign(id) = effect else { continue };
            let scene = self.scene(self.model.requests[id].agent, now);
            self.ledger.sign(effect.clone(), &self.world.records[id], &scene);
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

    /// Checks that an authorized request is spent and ordered to be signed.
    fn check_authorized(&mut self, id: RequestId, now: &Moment, effects: &[Effect]) {
        let known = self.model.requests.get_mut(&id).expect("a known request");
        let before = now.utc.seconds().unsigned_abs() + known.ask.valid_seconds.max(30);
        let (agent, usd) = (known.agent, known.usd());
        known.status = ModelStatus::Authorized {
            valid_before: before,
            signed: false,
            lapsed: false,
            is_void: false,
        };
        self.model.spend(agent, usd);
        let Status::Authorized { terms, .. } = &self.world.records[&id].status else {
            panic!("not authorized: {:?}", self.world.records[&id].status)
        };
        assert_eq!(terms.valid_before, before);
        assert_eq!(terms.value, Atoms(U256::from(usd)).0);
        assert_eq!(effects, [Effect::Sign(id)]);
        self.record_orders(effects, now);
    }

    fn tick(&mut self) {
        let now = self.world.now();
        let decision = self.perform(Action::Tick).expect("never refused");
        assert_eq!((decision.reply, &decision.effects[..]), (Reply::Done, &[][..]));
        for known in self.model.requests.values() {
            assert!(!known.is_hold_over(&now), "I-n: over, and still waiting after the tick");
        }
        for agent in 0..self.model.agents.len() {
            let due = self.model.due(agent, &now);
            let renews = matches!(due, Due::Renewal(_));
            assert!(!renews || !self.world.unlocked, "due, and not renewed by the tick");
        }
    }

    /// Reboots the machine and restarts the engine, whose state comes from the journal alone.
    fn reboot(&mut self, down_ms: i64) {
        self.world.clock.reboot(down_ms);
        self.world = self.world.restarted();
    }

    fn compare(&mut self) {
        let (state, model) = (&self.world.state, &self.model);
        for (index, agent) in model.agents.iter().enumerate() {
            let real = &state.agents[&agent.id];
            assert_eq!(real.suspended, agent.suspended);
            assert_eq!(real.reserved.payment.0, model.reserved_by(index), "I-d");
            assert_eq!(real.commission.is_some(), agent.commission.is_some());
            let (Some(real), Some(work)) = (&real.commission, &agent.commission) else { continue };
            let window = &real.window;
            assert_eq!(window.spent.payment.0, work.allowance.spent, "I-a");
            assert_eq!(
                window.spent.payment.0,
                self.ledger.value_left(&agent.id, agent.allowances),
                "I-a"
            );
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
            self.ledger.check_status(request);
        }
    }

    /// Checks the ledger and the replay at the end of the history.
    pub(crate) fn finish(&self) {
        self.ledger.assert_complete();
        self.world.assert_replays();
    }
}
