//! Seeded histories of payments from a device. The person presses, refuses, pulls the cable or is late.
//!
//! A model of the device knows what it signed, whether or not the wallet read the answer.

use std::collections::BTreeMap;

use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_domain::{Action, Effect, Event, Status};
use bursar_x402::authorization::Authorization;
use bursar_x402::signature::Signature65;
use bursar_x402::typed_data::TokenDomain;

use crate::support::clock::{Clock, DAY, HOUR, MINUTE, SECOND};
use crate::support::{Answer, World, build, denial};
use build::{payment, policy};

const HISTORIES: u64 = 1_000;
const STEPS: usize = 120;

/// A signature that the device made. The wallet may not have read it.
#[derive(Debug, Clone)]
struct PressRecord {
    terms: Authorization,
    signature: Signature65,
    /// Whether the wallet read the answer and recorded it.
    recorded: bool,
}

struct History {
    world: World,
    random_state: u64,
    requests: Vec<RequestId>,
    /// The prompt on the device's screen.
    screen: Option<(RequestId, Authorization)>,
    press_records: Vec<(RequestId, PressRecord)>,
    /// The terms of each request that were recorded before the device received them for signing.
    prompted_terms: BTreeMap<RequestId, Vec<Authorization>>,
    event_counts: BTreeMap<&'static str, u32>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut policy = policy();
        policy.payments.daily = Usd::dollars(6);
        policy.payments.auto_below = Usd::dollars(3);
        let world = build::world_with_device(Clock::at("2026-01-15T21:00:00Z", "UTC"), &policy);
        let (asked, pressed) = (Vec::new(), Vec::new());
        let (recorded, seen) = (BTreeMap::new(), BTreeMap::new());
        let dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            world,
            random_state: dice,
            requests: asked,
            screen: None,
            press_records: pressed,
            prompted_terms: recorded,
            event_counts: seen,
        }
    }

    /// Returns a random number below `sides` (xorshift).
    fn roll(&mut self, sides: u64) -> u64 {
        self.random_state ^= self.random_state << 13;
        self.random_state ^= self.random_state >> 7;
        self.random_state ^= self.random_state << 17;
        (self.random_state >> 11) % sides
    }

    /// Returns a random index below `len`.
    fn index(&mut self, len: usize) -> usize {
        let sides = u64::try_from(len).expect("few");
        usize::try_from(self.roll(sides)).expect("few")
    }

    fn any_request(&mut self) -> Option<RequestId> {
        let count = self.requests.len();
        // Picks one of the four newest requests.
        let back = self.index(count.clamp(1, 4));
        (count > back).then(|| self.requests[count - 1 - back])
    }

    fn count_event(&mut self, what: &'static str) {
        *self.event_counts.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        match self.roll(20) {
            0..=3 => {
                let micros = 100_000 * (1 + self.roll(40));
                let answer = self.world.ask(payment(micros));
                match answer {
                    Answer::Awaits(id) | Answer::Holds(id, _) => self.requests.push(id),
                    Answer::Refuses(..) | Answer::Unrecorded(_) => {
                        self.count_event("refused at once")
                    }
                    Answer::Signs(_) | Answer::Earlier(_) => panic!("signed without a device"),
                }
            }
            4 => {
                if let Some(id) = self.any_request() {
                    drop(self.world.approve(id));
                }
            }
            5..=8 => self.prompt(),
            9..=12 => self.answer(),
            13 => {
                let ms = [SECOND, 20 * SECOND, MINUTE, 10 * MINUTE, HOUR][self.index(5)];
                self.world.clock.pass(ms);
                self.world.tick();
            }
            14 => {
                let ms = i64::try_from(self.roll(120)).expect("small") * SECOND - MINUTE;
                self.world.clock.shift_wall_clock(ms);
                self.count_event("clock set");
            }
            15 => {
                if let Some(id) = self.any_request() {
                    drop(self.world.run(denial(id)));
                }
            }
            16 => {
                let frozen = self.world.state.frozen.is_some();
                drop(self.world.run(if frozen { Action::Thaw } else { Action::Freeze }));
            }
            17 => {
                if self.world.unlocked {
                    self.world.lock()
                } else {
                    self.world.unlock()
                }
            }
            18 => {
                // The engine dies: an answer of the device that it has not recorded is lost.
                self.world = self.world.restarted();
                self.screen = None;
                self.count_event("restarted");
            }
            _pass => {
                self.world.clock.pass(SECOND);
                self.world.tick();
            }
        }
        self.check();
    }

    /// The wallet finds the device ready for a request and prompts it.
    fn prompt(&mut self) {
        let waiting: Vec<RequestId> = self.world.state.waiting.keys().copied().collect();
        if waiting.is_empty() || self.screen.is_some() {
            return;
        }
        let id = waiting[self.index(waiting.len())];
        let nonce = self.world.draw_nonce();
        let Ok(decision) = self.world.run(Action::Prompt { id, nonce }) else { return };
        for event in &decision.events {
            if let Event::PaymentPrompted { id, terms } = event {
                self.prompted_terms.entry(*id).or_default().push(terms.clone());
            }
        }
        if decision.effects == [Effect::Sign(id)] {
            let terms = self.world.records[&id].terms().expect("terms").clone();
            self.screen = Some((id, terms));
        }
    }

    /// The person answers the prompt, or the wallet loses its connection.
    fn answer(&mut self) {
        let Some((id, terms)) = self.screen.take() else { return };
        let digest = domain_of(&self.world, id).digest(&terms);
        let signature = build::sign("main", digest);
        match self.roll(8) {
            0..=2 => {
                let pressed = PressRecord { terms, signature, recorded: false };
                self.press_records.push((id, pressed));
                if self.world.run(Action::SignedOnDevice { id, signature }).is_ok() {
                    if let Some((_id, last)) = self.press_records.last_mut() {
                        last.recorded = true;
                    }
                    self.count_event("signed");
                } else {
                    self.count_event("signed too late");
                }
            }
            // The person pressed, but the cable was pulled before the answer.
            3 | 4 => {
                self.press_records.push((id, PressRecord { terms, signature, recorded: false }));
                self.count_event("answer lost");
            }
            5 => {
                drop(self.world.run(Action::RefusedOnDevice { id }));
                self.count_event("refused on the device");
            }
            6 => {
                drop(self.world.run(Action::FailPrompt { id }));
                self.count_event("not shown");
            }
            _abandoned => self.count_event("abandoned"),
        }
    }

    fn check(&mut self) {
        let state = &self.world.state;
        for (id, pressed) in &self.press_records {
            let recorded = &self.prompted_terms[id];
            assert!(recorded.contains(&pressed.terms), "signed terms that were not recorded");
            // The merchant's facilitator has an honest clock. It shows the machine's time, or the journal's if the
            // clock was set back.
            let now =
                u64::try_from(self.world.clock.utc.max(state.clock).seconds()).expect("after 1970");
            if pressed.recorded {
                assert!(matches!(self.world.records[id].status, Status::Authorized { .. }));
            } else if now < pressed.terms.valid_before {
                let waits =
                    state.waiting.get(id).is_some_and(|one| one.terms() == Some(&pressed.terms));
                let is_signed = matches!(&self.world.records[id].status, Status::Authorized { terms, .. } if *terms == pressed.terms);
                assert!(
                    waits || is_signed || state.unanswered.contains_key(id),
                    "{id:?} may be redeemed, and its value is free"
                );
            }
        }
        for (id, request) in &self.world.records {
            if let Status::Authorized { signature, .. } = &request.status {
                let made = self
                    .press_records
                    .iter()
                    .any(|(of, one)| of == id && Some(one.signature) == *signature);
                assert!(made, "I-l: {id:?} has a signature without a press");
            }
        }
        let limit = Usd::dollars(6);
        let sum = self.world.spent().checked_add(self.world.reserved_value()).expect("a small sum");
        assert!(sum <= limit, "{sum} of {limit}");
    }

    /// Checks that nothing stays reserved after all terms have lapsed.
    fn finish(mut self) -> BTreeMap<&'static str, u32> {
        if !self.world.unlocked {
            self.world.unlock();
        }
        self.world.clock.pass(2 * DAY);
        self.world.tick();
        self.world.tick();
        let held: u64 = self.world.state.held.values().map(|request| request.ask.usd().0).sum();
        assert_eq!(self.world.reserved_value(), Usd(held), "value is lost");
        self.event_counts
    }
}

fn domain_of(world: &World, id: RequestId) -> TokenDomain {
    let payment = world.records[&id].ask.payment().expect("a payment");
    payment.token_domain().expect("a reference stablecoin")
}

#[test]
fn no_history_signs_without_a_press_over_other_terms_or_loses_value() {
    let mut seen: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..HISTORIES {
        let mut history = History::new(seed);
        for _step in 0..STEPS {
            history.step();
        }
        for (what, count) in history.finish() {
            *seen.entry(what).or_default() += count;
        }
    }
    for what in [
        "signed",
        "signed too late",
        "answer lost",
        "refused on the device",
        "not shown",
        "abandoned",
        "restarted",
        "clock set",
        "refused at once",
    ] {
        assert!(seen.get(what).is_some_and(|count| *count > 100), "{what} is rare: {seen:?}");
    }
}
