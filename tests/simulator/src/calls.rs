//! The calls of agents in the world.

use bursar_auditor::observations::{Answer, Ask, Call, Event, Id, Observation, Proof, Report};
use bursar_chain::ports::Clock;
use bursar_devnet::agent::Agent;
use bursar_tests::engine::ask;
use serde_json::{Value, json};

use crate::plan::{Pick, PlannedPayment, RepeatVariant, Size, Step, UNPROVEN_EVENTS};
use crate::wire::{self, Challenge, URLS};
use crate::world::{SentCall, World, WorldFailure};

/// Longer than most payments are valid, in milliseconds.
const EXPIRED_PAYMENT_MS: u64 = 61_000;

impl World {
    /// Sends one call. Waits until all tasks are idle, unless the next step must run concurrently.
    pub(crate) fn call(
        &mut self,
        call: Call,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
        read: fn(u16, &Value) -> Answer,
    ) -> Result<(), WorldFailure> {
        let ticket = self.ticket();
        self.tape.write(Observation::Called { ticket, call });
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let path = path.to_owned();
        let (http, tape) = (self.process().http.clone(), self.tape.clone());
        self.process().spawn(async move {
            let (status, bytes) = ask(http, method, &path, body).await;
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            tape.write(Observation::Answered { ticket, answer: read(status, &body) });
        });
        if self.concurrency.keeps_in_flight { Ok(()) } else { self.settle() }
    }

    fn now_s(&self) -> i64 {
        self.clock.now().utc.seconds()
    }

    fn pick_agent(&self, pick: Pick) -> Option<usize> {
        pick.of(self.agents.len())
    }

    pub(crate) fn ask(&mut self, planned: &PlannedPayment) -> Result<(), WorldFailure> {
        let Some(agent) = self.pick_agent(planned.agent) else { return Ok(()) };
        let sent = self.build_call(agent, planned);
        self.send(sent)
    }

    /// Builds a request that no agent has sent before.
    pub(crate) fn build_call(&mut self, agent: usize, planned: &PlannedPayment) -> SentCall {
        self.request_number += 1;
        let micros = self.amount_micros(agent, planned.size);
        let own = self.paying_address(agent);
        let challenge =
            Challenge::new(self.swarm.edition, planned, micros, &own, self.request_number);
        let url = planned.request_url.map(|url| URLS[url].to_owned());
        let client = &self.agents[agent];
        build_sign_request(agent, client, self.now_s(), &challenge, url, planned.key)
    }

    pub(crate) fn send(&mut self, sent: SentCall) -> Result<(), WorldFailure> {
        self.sent_calls.push(sent.clone());
        let call = Call::Sign(Box::new(sent.ask));
        self.call(call, "POST", "/sign", Some(&sent.body), wire::answer)
    }

    pub(crate) fn ask_copies(
        &mut self,
        planned: &PlannedPayment,
        count: u8,
    ) -> Result<(), WorldFailure> {
        let Some(agent) = self.pick_agent(planned.agent) else { return Ok(()) };
        let sent = self.build_call(agent, planned);
        self.concurrency.keeps_in_flight = true;
        for _copy in 0..count {
            self.send(sent.clone())?;
        }
        self.concurrency.keeps_in_flight = false;
        self.settle()
    }

    pub(crate) fn crowd(
        &mut self,
        planned: &PlannedPayment,
        count: u8,
    ) -> Result<(), WorldFailure> {
        let Some(agent) = self.pick_agent(planned.agent) else { return Ok(()) };
        self.concurrency.keeps_in_flight = true;
        for _one in 0..count {
            let sent = self.build_call(agent, planned);
            self.send(sent)?;
        }
        self.concurrency.keeps_in_flight = false;
        self.settle()
    }

    pub(crate) fn repeat(
        &mut self,
        pick: Pick,
        variant: RepeatVariant,
    ) -> Result<(), WorldFailure> {
        match pick.of(self.sent_calls.len()) {
            Some(which) => self.repeat_call(which, variant),
            None => Ok(()),
        }
    }

    fn repeat_call(&mut self, which: usize, variant: RepeatVariant) -> Result<(), WorldFailure> {
        let mut sent = self.sent_calls[which].clone();
        let client = self.agents[sent.agent].clone();
        let now = self.now_s();
        let resign = |sent: &mut SentCall, at: i64, agent: &Agent| {
            let mut fields = sent.body.as_object().expect("an object").clone();
            fields.remove(client.field);
            fields.remove("signature");
            fields.remove("idempotency_key");
            let signature = agent.sign(at, &fields);
            sent.body["signature"] = json!(signature);
            sent.ask.proof = proof(agent, at, signature, true);
        };
        match variant {
            // A bearer agent uses its current token; a signing agent sends the old signature.
            RepeatVariant::None if client.uses_bearer => resign(&mut sent, now, &client),
            RepeatVariant::None => {}
            RepeatVariant::SignedAgain => resign(&mut sent, now, &client),
            RepeatVariant::OtherUrl(url) => {
                sent.body["request_url"] = json!(URLS[url]);
                sent.ask.request_url = Some(URLS[url].to_owned());
                resign(&mut sent, now, &client);
            }
            RepeatVariant::OtherKey(key) => {
                sent.body["idempotency_key"] = json!(format!("key-{key}"));
                sent.ask.idempotency_key = Some(format!("key-{key}"));
                if client.uses_bearer {
                    resign(&mut sent, now, &client);
                }
            }
            RepeatVariant::WrongProof => {
                let wrong = Agent { token: format!("AT_{}", "5".repeat(64)), ..client };
                resign(&mut sent, now, &wrong);
                mark_wrong(&mut sent.ask.proof);
            }
            RepeatVariant::Stale => {
                let off = self.dice.one_of(&[-301, -300, 300, 301, -90_000]);
                resign(&mut sent, now + off, &client);
            }
            RepeatVariant::UnknownAgent => {
                sent.body[client.field] = json!("ZZZ999");
                sent.ask.agent = "ZZZ999".to_owned();
                resign(&mut sent, now, &client);
                mark_wrong(&mut sent.ask.proof);
            }
        }
        if matches!(variant, RepeatVariant::WrongProof | RepeatVariant::UnknownAgent) {
            let call = Call::Sign(Box::new(sent.ask));
            return self.call(call, "POST", "/sign", Some(&sent.body), wire::answer);
        }
        self.send(sent)
    }

    pub(crate) fn read_standing(&mut self, agent: usize) -> Result<(), WorldFailure> {
        let client = self.agents[agent].clone();
        let at = self.now_s();
        let body = client.read(at);
        let signature = body["signature"].as_str().expect("a text").to_owned();
        let call =
            Call::Standing { agent: client.id.clone(), proof: proof(&client, at, signature, true) };
        self.call(call, "POST", "/status", Some(&body), wire::standing)
    }

    pub(crate) fn report(
        &mut self,
        pick: Pick,
        event: u8,
        hash: u8,
        other: Option<Pick>,
    ) -> Result<(), WorldFailure> {
        match pick.of(self.ids.len()) {
            Some(which) => self.report_event(self.ids[which].clone(), event, hash, other),
            None => Ok(()),
        }
    }

    fn report_event(
        &mut self,
        id: Id,
        event: u8,
        hash: u8,
        other: Option<Pick>,
    ) -> Result<(), WorldFailure> {
        let Some(reporter) =
            other.and_then(|pick| self.pick_agent(pick)).or_else(|| self.owner(&id))
        else {
            return Ok(());
        };
        let client = self.agents[reporter].clone();
        let has_proof = event < UNPROVEN_EVENTS;
        let (event, word) = [
            (Event::Submitted, "submitted"),
            (Event::Settled, "settled"),
            (Event::Failed, "failed"),
        ][usize::from(event) % 3];
        let paid =
            self.payments.iter().find(|(known, _)| *known == id).map(|(_, paid)| paid.clone());
        let tx_hash = match (hash, paid) {
            (0, _) if event != Event::Settled => None,
            (1, Some(paid)) => Some(format!("{:#x}", crate::chain::hash_of(&paid))),
            _other => Some(format!("0x{}", "ab".repeat(32))),
        };
        let at = self.now_s();
        let mut body = client.report(at, &id, word, tx_hash.as_deref());
        let signature = body["signature"].as_str().expect("a text").to_owned();
        let proof = match has_proof {
            true => proof(&client, at, signature, true),
            false => {
                body.as_object_mut().expect("an object").remove("signature");
                Proof::Missing
            }
        };
        let call = Call::Report(Report { agent: client.id, proof, id, event, tx_hash });
        self.call(call, "POST", "/callback", Some(&body), wire::answer)
    }

    /// Reports the settlement of a payment too late.
    ///
    /// Before the report, the payment has expired, another payment has used its allowance, and the agent has repeated
    /// its request.
    pub(crate) fn late_settlement_report(
        &mut self,
        planned: &PlannedPayment,
        pick: Pick,
    ) -> Result<(), WorldFailure> {
        let (sent, paid) = (self.sent_calls.len(), self.payments.len());
        self.ask(planned)?;
        let Some((id, _payment)) = self.payments.get(paid).cloned() else { return Ok(()) };
        self.pass(EXPIRED_PAYMENT_MS)?;
        self.ask(&PlannedPayment { size: Size::Left(0), ..*planned })?;
        self.repeat_call(sent, RepeatVariant::None)?;
        self.step(Step::Deny { pick })?;
        self.report_event(id, 1, 0, None)?;
        self.repeat_call(sent, RepeatVariant::None)
    }

    pub(crate) fn poll(&mut self, id: &str) -> Result<(), WorldFailure> {
        let call = Call::Poll { id: id.to_owned() };
        self.call(call, "GET", &format!("/sign/status/{id}"), None, wire::answer)
    }

    /// Redeems a payment on its chain, as a facilitator does.
    pub(crate) fn redeem(&mut self, pick: Pick) -> Result<(), WorldFailure> {
        let Some(which) = pick.of(self.payments.len()) else { return Ok(()) };
        let (_id, paid) = self.payments[which].clone();
        let Some(chain) =
            wire::chains(self.swarm.edition).iter().position(|chain| *chain == paid.chain)
        else {
            return Ok(());
        };
        let Some(chain) = self.chains.get(chain) else { return Ok(()) };
        let Some(hash) = chain.redeem(&paid) else { return Ok(()) };
        let hash = format!("{hash:#x}");
        let (payer, nonce) = (paid.payer, paid.nonce);
        self.tape.write(Observation::Redeemed { chain: paid.chain, payer, nonce, hash });
        self.settle()
    }

    /// Returns the agent that made the request, if the wallet still knows the request.
    fn owner(&mut self, id: &str) -> Option<usize> {
        let id = id.parse().ok()?;
        let record = self.process().core().find(id).ok().flatten()?;
        self.agents.iter().position(|client| client.id == record.agent.as_str())
    }

    /// Returns the amount of a new request, in micro-dollars. The auditor does not use it.
    fn amount_micros(&mut self, agent: usize, size: Size) -> u64 {
        let id = self.agents[agent].id.clone();
        let moment = self.clock.now();
        let state = self.process().core().state();
        let known = state.agents.values().find(|known| known.id.as_str() == id);
        let limits = known.and_then(|known| state.policy_of(known)).map(|policy| &policy.payments);
        let off = |base: u64, off: i64| base.saturating_add_signed(off);
        match (size, limits, known) {
            (Size::Micros(micros), _, _) => micros,
            (Size::Threshold(by), Some(limits), _) => off(limits.auto_below.0, by),
            (Size::Largest(by), Some(limits), _) => off(limits.per_request.0, by),
            (Size::Left(by), Some(limits), Some(known)) => {
                let spent = state.spent(known, &moment).payment;
                let left = limits.daily.left_after(spent).left_after(known.reserved.payment);
                // At most the automatic threshold, so that the payment needs no approval.
                off(left.0.min(limits.auto_below.0.max(1)), by)
            }
            _uncommissioned => 1_000,
        }
    }

    /// Returns the agent's paying address, for a payment to itself.
    fn paying_address(&mut self, agent: usize) -> String {
        let id = self.agents[agent].id.clone();
        let state = self.process().core().state();
        let known = state.agents.values().find(|known| known.id.as_str() == id);
        let label = known.and_then(|known| known.commission.as_ref()).map(|given| &given.label);
        let address = label.and_then(|label| state.wallet.as_ref()?.address(label));
        address.map_or_else(|| wire::PAYEE.to_owned(), |known| format!("{:#x}", known.address))
    }
}

fn build_sign_request(
    agent: usize,
    client: &Agent,
    at: i64,
    challenge: &Challenge,
    url: Option<String>,
    key: Option<u8>,
) -> SentCall {
    let content = challenge.content();
    let mut body = if challenge.is_sent_as_data {
        client.ask_v1(at, &challenge.json, url.as_deref())
    } else {
        client.ask(at, &content, url.as_deref())
    };
    let key = key.map(|key| format!("key-{key}"));
    if let Some(key) = &key {
        body["idempotency_key"] = json!(key);
    }
    let signature = body["signature"].as_str().expect("a text").to_owned();
    let ask = Ask {
        agent: client.id.clone(),
        proof: proof(client, at, signature, true),
        content,
        idempotency_key: key,
        request_url: url,
        offers: challenge.offers.clone(),
    };
    SentCall { agent, ask, body }
}

pub(crate) fn proof(client: &Agent, timestamp_s: i64, signature: String, right: bool) -> Proof {
    if client.uses_bearer {
        Proof::Bearer { is_valid: right }
    } else {
        Proof::Hmac { timestamp_s, signature, is_valid: right }
    }
}

pub(crate) fn mark_wrong(proof: &mut Proof) {
    match proof {
        Proof::Bearer { is_valid: right } | Proof::Hmac { is_valid: right, .. } => *right = false,
        Proof::Missing => {}
    }
}
