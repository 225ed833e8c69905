//! Steps of agents: requests, repeats and floods.

use super::*;

impl Run {
    pub(super) fn ask(
        &mut self,
        agent: usize,
        what: &PaymentChoice,
        key: Option<u8>,
        repeat: Option<u8>,
    ) {
        let (identity, payment) = match self.pick_earlier(agent, repeat) {
            Some((identity, payment)) if !self.model.agents[agent].bears_token => {
                (identity, payment)
            }
            Some((_, payment)) => {
                let request_url = what.request_url.map(str::to_owned);
                self.with_identity(agent, key, PaymentAsk { request_url, ..payment })
            }
            None => {
                let payment = self.payment(agent, what);
                self.with_identity(agent, key, payment)
            }
        };
        self.asked.push((agent, identity.clone(), payment.clone()));
        let now = self.world.now();
        let unlocked = self.world.unlocked;
        let prediction = self.model.predict(agent, &identity, &payment, unlocked, &now);
        let id = self.model.agents[agent].id.clone();
        let action = self.world.ask_action(&id, identity.clone(), payment.clone());
        let result = self.perform(action);
        match prediction {
            Prediction::Locked => {
                result.expect_err("nobody is heard while the wallet is locked");
                self.mark_reached("asked", "while locked");
            }
            Prediction::Unrecorded(codes) => self.expect_refused("asked", result, &codes),
            Prediction::Earlier(first, lists_now) => {
                self.expect_earlier(first, lists_now, result, &now)
            }
            Prediction::HoldOver(first, lists_now) => match result {
                Ok(decision) => {
                    assert_eq!(decision.reply, Reply::Request(first));
                    assert_eq!(decision.effects, []);
                    assert!(!self.model.requests[&first].status.is_held());
                    self.mark_reached("repeated", "over");
                }
                Err(refusal) => assert_eq!(Some(refusal.code), lists_now),
            },
            Prediction::New => {
                let decision = result.expect("a new ask is heard");
                self.judge(agent, &identity, payment, &decision, &now);
            }
        }
    }

    pub(super) fn flood(&mut self, agent: usize, asks: usize) {
        let urls = Some("https://good.example/a");
        for micros in 1..=asks as u64 {
            let (size, oddity) = (Size::Micros(micros), Oddity::Contradicted);
            let what = PaymentChoice { size, oddity, request_url: urls, resource_url: urls };
            self.ask(agent, &what, None, None);
        }
    }

    /// Returns one of this agent's latest requests for a repeat.
    pub(super) fn pick_earlier(
        &self,
        agent: usize,
        repeat: Option<u8>,
    ) -> Option<(Identity, PaymentAsk)> {
        let mut latest = self.asked.iter().rev().filter(|(asker, ..)| *asker == agent);
        let (_, identity, payment) = latest.nth(usize::from(repeat?))?;
        Some((identity.clone(), payment.clone()))
    }

    pub(super) fn with_identity(
        &mut self,
        agent: usize,
        key: Option<u8>,
        ask: PaymentAsk,
    ) -> (Identity, PaymentAsk) {
        if !self.model.agents[agent].bears_token {
            return (build::signed_identity(self.world.draw(), self.world.clock.utc), ask);
        }
        let key = key.map(|key| format!("key {key}"));
        let content = format!(
            "{} {} {:?} {} {}",
            ask.amount, ask.payee, ask.resource_url, ask.domain_contradicted, ask.valid_seconds
        );
        let id = &self.model.agents[agent].id;
        (build::bearer_identity(id, content.as_bytes(), key.as_deref()), ask)
    }

    pub(super) fn payment(&self, agent: usize, what: &PaymentChoice) -> PaymentAsk {
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

    pub(super) fn micros(&self, agent: usize, size: Size) -> u64 {
        let Some(rules) = self.model.rules_of(agent) else { return 1 };
        let spent = match self.model.due(agent, &self.world.now()) {
            Due::Renewal(_) => 0,
            Due::Nothing | Due::Either(_) | Due::Grant(_) => self.model.spent_by(agent),
        };
        let left = rules.daily.saturating_sub(spent + self.model.reserved_by(agent));
        match size {
            Size::Micros(micros) => micros,
            Size::Threshold(off) => rules.auto_below.saturating_add_signed(off),
            Size::PerRequest(off) => rules.per_request.saturating_add_signed(off),
            Size::Left(off) => left.saturating_add_signed(off),
        }
    }

    pub(super) fn expect_earlier(
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
        let what = match self.model.requests[&first].status {
            ModelStatus::Held { .. } => "held",
            ModelStatus::Authorized { signed: true, .. } => "signed",
            ModelStatus::Authorized { signed: false, .. } => "unsigned",
            ModelStatus::Refused => "refused",
            ModelStatus::Denied { .. } => "denied",
            ModelStatus::Expired { .. } => "expired",
        };
        self.mark_reached("repeated", what);
        self.record_orders(&decision.effects, now);
    }

    /// Checks a new request against the policy in force.
    pub(super) fn judge(
        &mut self,
        agent: usize,
        identity: &Identity,
        ask: PaymentAsk,
        decision: &Decision,
        now: &Moment,
    ) {
        let due = self.model.due(agent, now);
        assert!(!matches!(due, Due::Renewal(_)), "the day was not renewed first");
        let label = self.model.agents[agent].commission.as_ref().expect("at work").label;
        let context = self.model.context(agent, label, self.world.trusted);
        let (mut refusals, holds) = (context.refusals(&ask), context.holds(&ask, now));
        let waiting = self.model.waiting(agent).count();
        if refusals.is_empty() && !holds.is_empty() && waiting >= 20 {
            refusals.push(Code::TooManyPending);
        }
        let usd = ask.usd;
        let enter = |model: &mut Model, id, status| {
            model.add_request(id, ModelRequest { agent, label, ask, status }, identity);
        };
        let at = now.utc.max(self.journal_time());
        let recorded = self.model.agents[agent].is_recorded(at);
        match self.world.answer(decision) {
            Answer::Unrecorded(refusal) => {
                assert!(refusals.contains(&refusal.code), "{refusal:?}, not of {refusals:?}");
                assert!(!recorded, "a refusal left no trace");
                self.mark_reached("asked", "refused too often to be recorded");
            }
            Answer::Refuses(id, refusal) => {
                assert!(recorded, "too many refusals are recorded");
                self.model.agents[agent].record_refusal(at);
                assert!(refusals.contains(&refusal.code), "{refusal:?}, not of {refusals:?}");
                let left = context.rules.daily.saturating_sub(context.spent + context.reserved);
                let bound = match refusal.code {
                    Code::ExceedsPerRequestMax => Some(Usd(context.rules.per_request)),
                    Code::ExceedsDailyLimit => Some(Usd(left)),
                    Code::LimitReached => Some(Usd::ZERO),
                    _without_figures => None,
                };
                assert_eq!((refusal.bound, refusal.requested), (bound, bound.map(|_limit| usd)));
                self.mark_reached("asked", refusal.code.text());
                enter(&mut self.model, id, ModelStatus::Refused);
            }
            Answer::Holds(id, reason) => {
                assert_eq!(refusals, [], "held");
                assert!(holds.contains(&reason), "{reason:?}, not of {holds:?}");
                self.mark_reached("held", reason.text());
                enter(&mut self.model, id, ModelStatus::Held { since: now.clone() });
                let scene = self.scene(agent, now);
                self.ledger.hold(&self.world.records[&id], &scene);
                let card = self.world.card(id).expect("a card");
                let serial = self.model.serial(agent).expect("at work");
                assert_eq!(card.policy_serial, serial);
                self.cards.insert(id, (card.digest, serial));
            }
            Answer::Signs(id) => {
                assert_eq!((&refusals[..], &holds[..]), (&[][..], &[][..]), "signed");
                enter(&mut self.model, id, ModelStatus::Refused);
                self.check_authorized(id, now, &decision.effects);
            }
            other => panic!("a new ask got {other:?}"),
        }
    }
}
