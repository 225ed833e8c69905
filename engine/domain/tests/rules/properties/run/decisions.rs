//! Decisions about requests: approvals, denials, signatures, and the policy check at an approval.

use super::*;

impl Run {
    pub(super) fn pick_request(&self, pick: Pick) -> RequestId {
        let waiting = self.model.all_waiting();
        let from: Vec<_> = if pick.among_held && !waiting.is_empty() {
            waiting
        } else {
            self.model.requests.keys().copied().collect()
        };
        let place = usize::from(pick.index).checked_rem(from.len());
        place.map_or(RequestId::from_entropy([7; 16]), |place| from[place])
    }

    pub(super) fn approve(&mut self, pick: Pick, shown: CardChoice) {
        let (id, now) = (self.pick_request(pick), self.world.now());
        let agent = self.model.requests.get(&id).map(|known| known.agent);
        let serial = agent.and_then(|agent| self.model.serial(agent));
        let (digest, fits) = match (shown, self.cards.get(&id)) {
            (CardChoice::Current, _) => {
                (self.world.card(id).map_or(String::new(), |card| card.digest), true)
            }
            (CardChoice::AtArrival, Some((digest, then))) => {
                (digest.clone(), Some(*then) == serial)
            }
            (CardChoice::AtArrival, None) | (CardChoice::Invalid, _) => ("0".repeat(64), false),
        };
        let action = self.world.approval(id, &digest);
        let foretold = self.world.card(id).and_then(|card| card.obstacle);
        assert!(!self.model.frozen || self.world.card(id).is_none() || foretold.is_some());
        if self.refuses_or_ends("approved", id, &now, fits, action.clone()) {
            return;
        }
        let decision = self.perform(action).expect("the approval is heard");
        assert_eq!((decision.reply.clone(), count_decisive(&decision)), (Reply::Request(id), 1));
        self.second_look(id, &decision, &now);
        let came = match &self.world.records[&id].status {
            Status::Refused { refusal, .. } => Some(refusal.describe()),
            _approved => None,
        };
        assert_eq!(foretold, came, "the card told otherwise");
    }

    pub(super) fn change_and_approve(&mut self, pick: Pick, variant: usize) {
        let known = self.model.requests.get(&self.pick_request(pick));
        let work = known.and_then(|known| self.model.agents[known.agent].commission.as_ref());
        if let Some(policy) = work.map(|work| work.policy) {
            self.edit(policy, variant);
        }
        self.approve(pick, CardChoice::Current);
    }

    /// Runs an approval or denial that must be refused or too late, whatever the policy. Returns false for any other
    /// one.
    pub(super) fn refuses_or_ends(
        &mut self,
        how: &str,
        id: RequestId,
        now: &Moment,
        fits: bool,
        action: Action,
    ) -> bool {
        let approving = how == "approved";
        let known = self.model.requests.get(&id);
        if !known.is_some_and(|known| known.status.is_held()) {
            let result = self.perform(action);
            self.expect_refused(how, result, &[Code::AlreadyDecided, Code::RequestNotFound]);
            return true;
        }
        if known.is_some_and(|known| known.is_hold_over(now)) {
            let decision = self.perform(action).expect("its end is recorded");
            assert_eq!(decision.reply, Reply::Refused(Code::RequestExpired.into()));
            assert_eq!(decision.effects, []);
            assert!(!self.model.requests[&id].status.is_held(), "I-e: over, and still waiting");
            self.mark_reached(how, "too late");
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

    /// I-h: checks that the policy in force at the approval decided.
    pub(super) fn second_look(&mut self, id: RequestId, decision: &Decision, now: &Moment) {
        let known = &self.model.requests[&id];
        let (agent, label, ask) = (known.agent, known.label, known.ask.clone());
        let suspended = self.model.agents[agent].suspended;
        let due = self.model.due(agent, now);
        assert!(suspended || !matches!(due, Due::Renewal(_)), "the day was not renewed first");
        let mut context = self.model.context(agent, label, self.world.trusted);
        context.reserved -= ask.usd.0;
        let mut refusals = context.refusals(&ask);
        refusals.extend(suspended.then_some(Code::AgentSuspended));
        match &self.world.records[&id].status {
            Status::Refused { refusal, .. } => {
                assert!(refusals.contains(&refusal.code), "{refusal:?}, not of {refusals:?}");
                assert_eq!(decision.effects, []);
                let code = refusal.code.text();
                self.model.end(id, ModelStatus::Refused);
                self.mark_reached("rejected", code);
            }
            Status::Authorized { .. } => {
                assert_eq!(refusals, [], "I-h: approved");
                let status = ModelStatus::Authorized {
                    valid_before: 0,
                    signed: false,
                    lapsed: false,
                    is_void: false,
                };
                self.model.end(id, status);
                self.check_authorized(id, now, &decision.effects);
            }
            other => panic!("approved, and now {other:?}"),
        }
    }

    pub(super) fn deny(&mut self, pick: Pick) {
        let (id, now) = (self.pick_request(pick), self.world.now());
        let action = denial(id);
        if self.refuses_or_ends("denied", id, &now, true, action.clone()) {
            return;
        }
        let decision = self.perform(action).expect("a denial is heard");
        assert_eq!(count_decisive(&decision), 1);
        assert_eq!((decision.reply, &decision.effects[..]), (Reply::Request(id), &[][..]));
        let (at, told_until) =
            (self.journal_time(), bursar_domain::requests::Deadline::after(&now));
        let denied =
            Status::Denied { reason: None, at, by: OPERATOR, repeatable_until: told_until };
        assert_eq!(self.world.status(id), &denied);
        self.model.end(id, ModelStatus::Denied { at: now });
    }

    pub(super) fn sign(&mut self, pick: Pick) {
        let id = self.pick_authorized(pick).unwrap_or_else(|| self.pick_request(pick));
        let action = self.world.signed_action(id);
        let recorded = !self.perform(action).expect("never refused").events.is_empty();
        match self.model.requests.get_mut(&id).map(|known| &mut known.status) {
            Some(ModelStatus::Authorized { is_void: true, .. }) => {
                assert!(!recorded, "a signature that nobody may make");
            }
            Some(ModelStatus::Authorized { signed, lapsed, .. }) => {
                assert!(*signed != recorded || *lapsed, "a signature is recorded once");
                *signed |= recorded;
            }
            _not_authorized => assert!(!recorded, "a signature of nothing"),
        }
    }

    /// Returns one of the newest authorized requests.
    pub(super) fn pick_authorized(&self, pick: Pick) -> Option<RequestId> {
        let is_authorized = |id: &RequestId| {
            let known = self.model.requests.get(id);
            known.is_some_and(|known| matches!(known.status, ModelStatus::Authorized { .. }))
        };
        let ids = self.world.entries.iter().rev().filter_map(|entry| match &entry.event {
            Event::PaymentAuthorized { draft: asked, .. } => Some(asked.id),
            Event::PaymentApproved { id, .. } => Some(*id),
            _other => None,
        });
        ids.filter(is_authorized).nth(usize::from(pick.index % 6))
    }

    pub(super) fn reissue(&mut self) {
        let now = self.world.now();
        let decision = self.perform(Action::Reissue).expect("never refused");
        assert_eq!(decision.events, []);
        let signs = decision.effects.iter().filter_map(|effect| match effect {
            Effect::Sign(id) => Some(*id),
            Effect::SignPermit(_)
            | Effect::SignMandate(_)
            | Effect::SignStatement(_)
            | Effect::Outbox(..) => None,
        });
        let ordered: BTreeSet<_> = signs.collect();
        assert_eq!(ordered.len(), decision.effects.len());
        let still = self.model.frozen || !self.world.unlocked || !self.world.trusted;
        for (id, known) in &self.model.requests {
            let ModelStatus::Authorized { valid_before: before, signed, lapsed, is_void: void } =
                known.status
            else {
                continue;
            };
            let good = now.utc.seconds().unsigned_abs() < before && !void;
            let wanted = !still && !signed && good && !self.model.agents[known.agent].suspended;
            // If the wall clock once showed a later time, the state may have dropped the lapsed authorization.
            assert!(ordered.contains(id) == wanted || (wanted && lapsed), "reissued or not");
        }
        if !ordered.is_empty() {
            self.reached.insert("reissued".to_owned());
        }
        self.record_orders(&decision.effects, &now);
    }
}
