//! Payments with keys on a hardware device: none leaves the wallet unless a person approves it on that device.
//!
//! Their requests are judged by what was recorded, displayed, approved and read. The rules that predict every answer to
//! a payment with software keys do not apply.

use crate::clocks::MIN_PERIOD_MS;
use crate::device_trades::{DeviceTradeLimits, DeviceTradeObservation};
use crate::observations::{Address, Answer, Atoms, Id, Micros, Payment};
use crate::{Auditor, Violation, violation};
use std::collections::{BTreeMap, BTreeSet};

/// How long the wallet remembers an ended request, in milliseconds (30 days).
const REQUEST_KNOWN_MS: i64 = 30 * 86_400_000;

/// An observed event of a payment from a hardware address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceObservation {
    /// The address is on a hardware device.
    Enrolled { address: Address },
    /// The agent pays from a hardware address. Payments of `auto_below` or more need the operator.
    Commissioned { agent: String, is_signed: bool, limits: DeviceLimits },
    /// The agent asks for a payment for the first time.
    Called { call: u64, payment: DeviceAsk },
    /// The journal has begun the agent's next allowance, which counts from this instant of the wall clock.
    Renewed { agent: String, start_ms: i64 },
    /// The journal has these terms on disk: from now on the wallet may ask the device for them.
    Recorded(DeviceTerms),
    /// The device shows terms to a person.
    Prompted { signer: Address, digest: String },
    /// The connected device returned the address at the enrolled path.
    Derived { address: Address },
    /// A person decided on the device. `signature` is the device's answer; `None` if the person refused.
    Pressed { signer: Address, digest: String, signature: Option<String> },
    /// The wallet read the answer of a prompt for this digest.
    AnswerRead { digest: String },
    /// The journal has the signature of this request on disk.
    Signed { request: Id, signature: String },
    /// An operator has ordered the approval of this request, or has denied it.
    Decided { request: Id, approved: bool },
    /// The agent was answered: to a call, a repeated call, or a poll.
    ///
    /// If `settled` is true, nothing fails any more and all terms have lapsed.
    Answered { agent: String, call: Option<u64>, answer: Answer, settled: bool },
    /// An event of a trade.
    Trade(DeviceTradeObservation),
}

/// The limits of an agent that pays from a hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    pub daily: Micros,
    pub per_request: Micros,
    pub auto_below: Micros,
    pub trades: DeviceTradeLimits,
}

/// A payment that an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAsk {
    pub chain: u64,
    pub asset: Address,
    pub payee: Address,
    pub amount: Atoms,
}

/// The terms of a payment as fixed in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTerms {
    pub request: Id,
    /// The call that the request answers. Each call has its own URL.
    pub call: u64,
    pub agent: String,
    pub payer: Address,
    pub digest: String,
    pub nonce: String,
    pub amount: Atoms,
    pub micros: Micros,
    pub valid_before_s: u64,
}

/// An agent that pays from a hardware address.
#[derive(Debug)]
struct Payer {
    /// Whether the agent signs its calls. A repeat of a signed call never pays a second time.
    is_signed: bool,
    limits: DeviceLimits,
    /// The sum that was signed in this allowance.
    spent: Micros,
    /// The wall-clock instant at which this allowance began.
    start_ms: Option<i64>,
}

/// The observations about one request.
#[derive(Debug, Default)]
struct ObservedRequest {
    terms: Option<DeviceTerms>,
    signature: Option<String>,
    header: Option<Payment>,
    approved: bool,
    denied: bool,
    /// The last answer: 0 for pending, 1 for executing, 2 for rejected, 3 for paid.
    answer_rank: u8,
    first_ms: i64,
    /// The call that the request answers, if the terms or an answer have shown it.
    call: Option<u64>,
    /// The boot in which the call of the request was made.
    boot: u32,
    /// The observation at which the terms were recorded.
    terms_recorded_at: u64,
    /// The latest wall time since the terms were recorded.
    latest_ms: i64,
    /// The observation since which `latest_ms` is past the end of the terms.
    lapsed_at_observation: Option<u64>,
    /// Whether the process ended after it read the signature, while it was allowed to use it.
    ///
    /// It may have written the signature to disk, which only the next process shows.
    may_be_written: bool,
}

impl ObservedRequest {
    fn note_time(&mut self, wall_ms: i64, seq: u64) {
        self.latest_ms = self.latest_ms.max(wall_ms);
        let end_s = self.terms.as_ref().map(|terms| terms.valid_before_s);
        let end_ms = end_s.and_then(|end| i64::try_from(end.saturating_mul(1000)).ok());
        if end_ms.is_some_and(|end| self.latest_ms >= end) {
            self.lapsed_at_observation.get_or_insert(seq);
        }
    }
}

/// A call of an agent, and the boot in which it was made.
#[derive(Debug)]
struct Call {
    ask: DeviceAsk,
    boot: u32,
}

/// All payments from hardware addresses.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    addresses: BTreeSet<Address>,
    /// The address that the device has derived since the last prompt.
    derived_address: Option<Address>,
    payers: BTreeMap<String, Payer>,
    requests: BTreeMap<Id, ObservedRequest>,
    calls: BTreeMap<u64, Call>,
    /// The request of each digest that the journal holds.
    digests: BTreeMap<String, Id>,
    /// The signatures that a person approved, by digest.
    signed_digests: BTreeMap<String, String>,
    read_digests: BTreeSet<String>,
}

impl Devices {
    pub(crate) fn on_clocks(&mut self, wall_ms: i64, seq: u64) {
        for seen in self.requests.values_mut().filter(|seen| seen.terms.is_some()) {
            seen.note_time(wall_ms, seq);
        }
    }

    /// Returns whether the address is on a hardware device.
    pub(crate) fn has(&self, address: &str) -> bool {
        self.addresses.contains(&address.to_lowercase())
    }

    /// Returns whether a person pressed for this digest, and the wallet read the answer.
    pub(crate) fn is_pressed_and_read(&self, digest: &str) -> bool {
        self.signed_digests.contains_key(digest) && self.read_digests.contains(digest)
    }

    /// Returns whether a press made this signature of the digest.
    ///
    /// A transaction carries the parity of the signature in another form, so only `r` and `s` are compared.
    pub(crate) fn has_pressed(&self, digest: &str, signature: &str) -> bool {
        let both = |text: &str| text.get(..130).map(str::to_lowercase);
        let made = self.signed_digests.get(digest).and_then(|made| both(made));
        made.is_some() && made == both(signature)
    }

    /// Returns whether a person approved the terms of this request on the device.
    fn is_pressed(&self, seen: &ObservedRequest) -> bool {
        seen.terms.as_ref().is_some_and(|terms| self.signed_digests.contains_key(&terms.digest))
    }
}

impl Auditor {
    /// Judges an event of a payment from a hardware address.
    pub(crate) fn on_device(&mut self, seen: &DeviceObservation) -> Result<(), Violation> {
        match seen {
            DeviceObservation::Enrolled { address } => {
                self.devices.addresses.insert(address.to_lowercase());
            }
            DeviceObservation::Commissioned { agent, is_signed, limits } => {
                let (is_signed, limits) = (*is_signed, *limits);
                self.device_plans.add_trader(agent, is_signed, limits.trades);
                let payer = Payer { is_signed, limits, spent: 0, start_ms: None };
                self.devices.payers.insert(agent.clone(), payer);
            }
            DeviceObservation::Called { call, payment } => {
                let boot = self.time.now.boot;
                self.devices.calls.insert(*call, Call { ask: payment.clone(), boot });
            }
            DeviceObservation::Renewed { agent, start_ms } => {
                self.on_device_renewal(agent, *start_ms)?
            }
            DeviceObservation::Recorded(terms) => self.on_device_terms(terms)?,
            DeviceObservation::Prompted { signer, digest } => {
                self.check_device_prompt(signer, digest)?
            }
            DeviceObservation::Derived { address } => {
                self.devices.derived_address = Some(address.to_lowercase());
            }
            DeviceObservation::Pressed { signer, digest, signature } => {
                self.on_device_pressed(signer, digest, signature.as_ref())?;
            }
            DeviceObservation::AnswerRead { digest } => {
                self.devices.read_digests.insert(digest.clone());
                self.count("device: read");
            }
            DeviceObservation::Signed { request, signature } => {
                self.on_device_signed(request, signature)?;
            }
            DeviceObservation::Decided { request, approved } => {
                self.device_plans.note_decision(request, *approved);
                let seen = self.devices.requests.entry(request.clone()).or_default();
                seen.approved |= approved;
                seen.denied |= !approved;
            }
            DeviceObservation::Answered { agent, call, answer, settled } => {
                self.on_device_answer(agent, *call, answer, *settled)?;
            }
            DeviceObservation::Trade(seen) => self.on_device_trade(seen)?,
        }
        Ok(())
    }

    /// Notes the decision of a person at the device.
    fn on_device_pressed(
        &mut self,
        signer: &str,
        digest: &str,
        signature: Option<&String>,
    ) -> Result<(), Violation> {
        self.devices.read_digests.remove(digest);
        if let Some(id) = self.devices.digests.get(digest)
            && let Some(seen) = self.devices.requests.get_mut(id)
        {
            seen.may_be_written = false;
        }
        let is_ours = self.devices.has(signer);
        let is_step = self.device_plans.holds(digest);
        if is_ours && is_step {
            self.on_device_step_pressed(digest, signature.is_some());
        }
        if let Some(signature) = signature.filter(|_signature| is_ours) {
            self.devices.signed_digests.insert(digest.to_owned(), signature.clone());
            if !is_step {
                self.check_signed_terms(digest)?;
            }
        }
        self.count(if signature.is_some() { "device: pressed" } else { "device: refused" });
        self.check_device_limits()
    }

    fn on_device_renewal(&mut self, agent: &str, start_ms: i64) -> Result<(), Violation> {
        let Some(payer) = self.devices.payers.get_mut(agent) else { return Ok(()) };
        if let Some(before) = payer.start_ms {
            // A process reads its journal again when it starts.
            if start_ms <= before {
                return Ok(());
            }
            if start_ms.saturating_sub(before) < MIN_PERIOD_MS {
                let what = format!("{agent} got allowances at {before} and at {start_ms}");
                return Err(violation("I-d", what));
            }
        }
        (payer.spent, payer.start_ms) = (0, Some(start_ms));
        self.device_plans.note_renewal(agent, self.seq);
        Ok(())
    }

    /// Checks recorded terms: the journal may fix terms a second time only if no person can have signed the first.
    fn on_device_terms(&mut self, terms: &DeviceTerms) -> Result<(), Violation> {
        let request = &terms.request;
        let devices = &mut self.devices;
        if !devices.addresses.contains(&terms.payer.to_lowercase()) {
            let what = format!("{} is on no device: {terms:?}", terms.payer);
            return Err(violation("T-35", what));
        }
        // A process reads its journal again when it starts.
        if devices.digests.contains_key(&terms.digest) {
            return Ok(());
        }
        let seen = devices.requests.entry(request.clone()).or_default();
        if let Some(before) = seen.terms.as_ref().filter(|before| before.digest != terms.digest)
            && devices.signed_digests.contains_key(&before.digest)
        {
            let what = format!("{request} was signed as {before:?} and now has {terms:?}");
            return Err(violation("I-b", what));
        }
        let too_much = |payer: &Payer| terms.micros > payer.limits.per_request;
        if devices.payers.get(&terms.agent).is_some_and(too_much) {
            let what = format!("{terms:?} is over the limit of a payment");
            return Err(violation("I-a", what));
        }
        let needs_operator = |payer: &Payer| terms.micros >= payer.limits.auto_below;
        if devices.payers.get(&terms.agent).is_some_and(needs_operator) && !seen.approved {
            let what = format!("the device is asked for {terms:?}, which no operator approved");
            return Err(violation("I-j", what));
        }
        // The wait for the device may have begun immediately after the call.
        let boot = devices.calls.get(&terms.call).map_or(self.time.now.boot, |call| call.boot);
        (seen.terms, seen.boot) = (Some(terms.clone()), boot);
        (seen.terms_recorded_at, seen.latest_ms, seen.lapsed_at_observation) =
            (self.seq, self.time.now.wall_ms, None);
        devices.digests.insert(terms.digest.clone(), request.clone());
        self.count("device: recorded");
        self.note_request_call(request, terms.call)
    }

    /// T-35: checks that the device derived the address before this prompt. If the device is swapped after that, the
    /// prompt yields no signature.
    fn check_device_prompt(&mut self, signer: &str, digest: &str) -> Result<(), Violation> {
        let signer = signer.to_lowercase();
        let derived = self.devices.derived_address.take();
        if derived.as_ref().is_none_or(|derived| !self.devices.addresses.contains(derived)) {
            let what = format!("{signer} was asked for {digest}, and derived was {derived:?}");
            return Err(violation("T-35", what));
        }
        if !self.devices.addresses.contains(&signer) {
            self.count("device: swapped");
            return Ok(());
        }
        if self.device_plans.holds(digest) {
            return self.check_device_step_prompt(&signer, digest);
        }
        let Some(request) = self.devices.digests.get(digest) else {
            let what = format!("{signer} is asked for {digest}, which is not in the journal");
            return Err(violation("unrecorded", what));
        };
        let seen = self.devices.requests.get(request);
        let terms = seen.and_then(|seen| seen.terms.as_ref());
        if !terms.is_some_and(|terms| terms.digest == digest && terms.payer == signer) {
            let what = format!("{signer} is asked for {digest}, but {request} has {terms:?}");
            return Err(violation("unrecorded", what));
        }
        if let Some(seen) = seen.filter(|seen| seen.denied || seen.signature.is_some()) {
            let what = format!("{signer} is asked for {digest} of an ended request: {seen:?}");
            return Err(violation("late prompt", what));
        }
        let agent = terms.map(|terms| terms.agent.as_str());
        if let Some(rule) = self.forbidding_rule(agent) {
            let what = format!("{signer} is asked for {digest}, but {agent:?} may not pay now");
            return Err(violation(rule, what));
        }
        self.count("device: asked");
        Ok(())
    }

    /// Checks that the signed terms are in the journal, and that no other terms of the same request or call were
    /// signed.
    fn check_signed_terms(&self, digest: &str) -> Result<(), Violation> {
        let devices = &self.devices;
        let Some(id) = devices.digests.get(digest) else {
            return Err(violation("unrecorded", format!("{digest} is signed without terms")));
        };
        let mut same = devices.digests.iter().filter(|(other, of)| *of == id && *other != digest);
        if let Some((other, _id)) =
            same.find(|(other, _id)| devices.signed_digests.contains_key(*other))
        {
            return Err(violation("I-b", format!("{id} was signed as {other} and as {digest}")));
        }
        devices
            .requests
            .get(id)
            .and_then(|seen| seen.call)
            .map_or(Ok(()), |call| self.check_call(call))
    }

    /// Rule I-b: a call pays once. If a bearer agent repeats it, it may pay again after the first terms have lapsed.
    fn check_call(&self, call: u64) -> Result<(), Violation> {
        let devices = &self.devices;
        let mut paid: Vec<(&Id, &ObservedRequest)> = devices
            .requests
            .iter()
            .filter(|(_id, seen)| seen.call == Some(call) && devices.is_pressed(seen))
            .collect();
        paid.sort_by_key(|(_id, seen)| seen.terms_recorded_at);
        for pair in paid.windows(2) {
            let [(first, seen), (second, next)] = pair else { continue };
            let agent = next.terms.as_ref().and_then(|terms| devices.payers.get(&terms.agent));
            let never = agent.is_none_or(|payer| payer.is_signed);
            if never
                || seen.lapsed_at_observation.is_none_or(|lapsed| lapsed > next.terms_recorded_at)
            {
                let what = format!("call {call} was paid by {first} and by {second}");
                return Err(violation("I-b", what));
            }
        }
        Ok(())
    }

    /// Notes which signatures the process may have written before it ended.
    pub(crate) fn device_process_ended(&mut self) {
        let may_be_written = |seen: &ObservedRequest| {
            let terms = seen.terms.as_ref().filter(|_terms| seen.signature.is_none());
            terms.is_some_and(|terms| {
                self.devices.read_digests.contains(&terms.digest)
                    && self.forbidding_rule(Some(&terms.agent)).is_none()
            })
        };
        let written = self.devices.requests.iter().filter(|(_id, seen)| may_be_written(seen));
        let written: Vec<Id> = written.map(|(id, _seen)| id.clone()).collect();
        for id in written {
            self.devices.requests.entry(id).or_default().may_be_written = true;
        }
    }

    fn on_device_signed(&mut self, request: &str, signature: &str) -> Result<(), Violation> {
        let now_ms = self.time.now.wall_ms;
        let Some(seen) = self.devices.requests.get(request) else {
            return Err(violation("unrecorded", format!("{request} is signed without terms")));
        };
        if seen.signature.is_some() {
            // A process reads its journal again when it starts.
            return Ok(());
        }
        let Some(terms) = seen.terms.clone() else {
            return Err(violation("unrecorded", format!("{request} is signed without terms")));
        };
        let made = self.devices.signed_digests.get(&terms.digest);
        if made.is_none_or(|made| made != signature) {
            let what = format!("{request} has a signature that no person pressed for: {terms:?}");
            return Err(violation("I-l", what));
        }
        if !self.devices.read_digests.contains(&terms.digest) {
            let what = format!("{request} has a signature that the wallet did not read");
            return Err(violation("I-l", what));
        }
        let forbidden = self.forbidding_rule(Some(&terms.agent));
        if let Some(rule) = forbidden.filter(|_rule| !seen.may_be_written) {
            let what = format!("{request} was signed, but {} may not pay now", terms.agent);
            return Err(violation(rule, what));
        }
        if seen.denied || seen.answer_rank == 2 {
            let what = format!("{request} was signed after its end: {terms:?}");
            return Err(violation("late press", what));
        }
        if !seen.may_be_written
            && i64::try_from(terms.valid_before_s)
                .is_ok_and(|end| now_ms >= end.saturating_mul(1000))
        {
            let what = format!("{request} was signed at {now_ms}, too late for {terms:?}");
            return Err(violation("late press", what));
        }
        if let Some(seen) = self.devices.requests.get_mut(request) {
            seen.signature = Some(signature.to_owned());
        }
        if let Some(payer) = self.devices.payers.get_mut(&terms.agent) {
            payer.spent = payer.spent.saturating_add(terms.micros);
        }
        self.count("device: signed");
        self.check_device_limits()
    }

    /// Rule I-a: limits the sum of the payments signed in this allowance.
    ///
    /// Payments that can be redeemed although the wallet has not read their signatures count too.
    fn check_device_limits(&mut self) -> Result<(), Violation> {
        for (agent, payer) in &self.devices.payers {
            let all = payer.spent.saturating_add(self.unread_micros(agent));
            if all > payer.limits.daily {
                let what = format!("{agent} may take {all} micros of {}", payer.limits.daily);
                return Err(violation("I-a", what));
            }
        }
        Ok(())
    }

    /// Returns the sum that a person signed for an agent, that can still be redeemed, and that the wallet has not read.
    fn unread_micros(&self, agent: &str) -> Micros {
        let unread = self.devices.requests.values().filter(|seen| {
            seen.signature.is_none()
                && seen.lapsed_at_observation.is_none()
                && self.devices.is_pressed(seen)
        });
        let terms = unread.filter_map(|seen| seen.terms.as_ref());
        let terms = terms.filter(|terms| terms.agent == agent);
        terms.fold(0, |sum, terms| sum.saturating_add(terms.micros))
    }

    /// Returns the sum of all recorded terms that have no signature and may not have lapsed.
    ///
    /// Terms lapse by the wallet's clock. If the machine has booted since, and its clock was set back, they count as
    /// open.
    fn unlapsed_micros(&self, agent: &str) -> Micros {
        let now_s = u64::try_from(self.time.now.wall_ms.div_euclid(1000)).unwrap_or(0);
        let open = self.devices.requests.values().filter(|seen| seen.signature.is_none());
        let behind = self.time.now.wall_ms < self.time.latest_ms;
        let terms = open.filter_map(|seen| {
            let maybe = behind && seen.boot != self.time.now.boot;
            seen.terms
                .as_ref()
                .filter(|terms| terms.agent == agent && (maybe || now_s < terms.valid_before_s))
        });
        terms.fold(0, |sum, terms| sum.saturating_add(terms.micros))
    }

    fn on_device_answer(
        &mut self,
        agent: &str,
        call: Option<u64>,
        answer: &Answer,
        settled: bool,
    ) -> Result<(), Violation> {
        let now_ms = self.time.latest_ms;
        let (id, rank) = match answer {
            Answer::Header { id, payment } => {
                self.check_device_header(id, payment)?;
                (id, 3)
            }
            Answer::AlreadySigned { id } => (id, 3),
            Answer::Pending { id } => (id, 0),
            Answer::Executing { id } => (id, 1),
            Answer::Rejected { id, .. } => (id, 2),
            Answer::Standing(standing) => {
                let (unread, unlapsed) = (self.unread_micros(agent), self.unlapsed_micros(agent));
                let Some(payer) = self.devices.payers.get(agent) else { return Ok(()) };
                // The standing already shows a renewal that the wallet records with the next request.
                let renews = payer.start_ms.is_none_or(|start_ms| {
                    self.time.latest_ms.saturating_sub(start_ms) >= MIN_PERIOD_MS
                });
                if standing.spent != payer.spent && !(renews && standing.spent == 0) {
                    let what = format!("{agent} has spent {}: {standing:?}", payer.spent);
                    return Err(violation("I-d", what));
                }
                let wrong = standing.reserved < unread || settled && standing.reserved > unlapsed;
                if wrong {
                    let what =
                        format!("{unread} to {unlapsed} of {agent} may be redeemed: {standing:?}");
                    return Err(violation("I-d", what));
                }
                self.count("device: standing");
                return Ok(());
            }
            Answer::Refused { code, id: Some(id), .. } if code == "REQUEST_NOT_FOUND" => (id, 4),
            _other => return Ok(()),
        };
        if let Some(call) = call {
            self.note_request_call(id, call)?;
        }
        let seen = self.devices.requests.entry(id.clone()).or_default();
        if seen.first_ms == 0 {
            seen.first_ms = now_ms;
        }
        if rank == 4 {
            if now_ms.saturating_sub(seen.first_ms) < REQUEST_KNOWN_MS {
                return Err(violation("I-p", format!("{id} is forgotten: {seen:?}")));
            }
            return Ok(());
        }
        let is_paid = seen.signature.is_some();
        if rank < seen.answer_rank || (seen.answer_rank == 2 && rank == 3) || is_paid && rank == 2 {
            let what = format!("{id} was answered {answer:?} after {seen:?}");
            return Err(violation("I-p", what));
        }
        if rank == 3 && !is_paid {
            let what = format!("{id} was answered {answer:?}, but no signature is recorded");
            return Err(violation("I-m", what));
        }
        if settled && rank < 2 {
            return Err(violation("I-n", format!("{id} is not finished: {answer:?}, {seen:?}")));
        }
        seen.answer_rank = rank;
        self.count(match rank {
            2 => "device: rejected",
            3 => "device: paid",
            _open => "device: waits",
        });
        Ok(())
    }

    /// Notes which call a request answers.
    fn note_request_call(&mut self, id: &str, call: u64) -> Result<(), Violation> {
        let seen = self.devices.requests.entry(id.to_owned()).or_default();
        if seen.call.is_some_and(|first| first != call) {
            return Err(violation("I-p", format!("call {call} was answered as {id}: {seen:?}")));
        }
        seen.call = Some(call);
        self.check_call(call)
    }

    fn check_device_header(&mut self, id: &str, payment: &Payment) -> Result<(), Violation> {
        let Some(seen) = self.devices.requests.get_mut(id) else {
            return Err(violation("I-l", format!("{id} was given {payment:?} without terms")));
        };
        if let Some(call) = seen.call.and_then(|call| self.devices.calls.get(&call)) {
            let given = DeviceAsk {
                chain: payment.chain,
                asset: payment.asset.to_lowercase(),
                payee: payment.payee.to_lowercase(),
                amount: payment.amount,
            };
            if given != call.ask {
                let what = format!("{id} was asked as {:?} and was given {payment:?}", call.ask);
                return Err(violation("I-l", what));
            }
        }
        // The driver recovers the signer from the header's terms and signature.
        if payment.signer.as_ref().is_some_and(|signer| *signer != payment.payer) {
            return Err(violation("I-l", format!("{id} was given {payment:?} of another signer")));
        }
        let fits = seen.terms.as_ref().is_some_and(|terms| {
            payment.payer.to_lowercase() == terms.payer
                && payment.nonce.to_lowercase() == terms.nonce
                && payment.amount == terms.amount
                && payment.valid_before_s == terms.valid_before_s
        });
        if !fits || seen.signature.as_ref() != Some(&payment.signature) {
            let what = format!("{id} was given {payment:?}, but has {seen:?}");
            return Err(violation("I-l", what));
        }
        if seen.header.as_ref().is_some_and(|first| first != payment) {
            let what = format!("{id} was given {:?} and now {payment:?}", seen.header);
            return Err(violation("I-b", what));
        }
        seen.header = Some(payment.clone());
        Ok(())
    }
}
