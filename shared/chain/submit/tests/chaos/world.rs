//! The host of one outbox that may crash at any point, with its chain and nodes.

mod promises;
mod surroundings;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_submit::{
    Action, Call, Event, FoundReceipt, Input, Outbox, OutboxKey, Outcome, Rules, SendAnswer,
    SubmissionId, apply, resume, step,
};
use k256::ecdsa::SigningKey;
use proptest::prelude::Rng;
use proptest::test_runner::TestRng;

use crate::net::Net;
use surroundings::sign;
pub(crate) use tally::Tally;

const RULES: Rules = Rules {
    confirmations: 3,
    patience_ms: 10_000,
    window: 4,
    ceiling: 2 * CEILING,
    person_signs: false,
};
const CEILING: u128 = 10_000;

/// The data about which the nodes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    None,
    /// Lies about prices, pending nonces, answers to broadcasts and known transactions.
    NotAboutBlocks,
    AboutAll,
}

pub(crate) struct World {
    rng: TestRng,
    lies: Lies,
    seed: u64,
    net: Net,
    now: Utc,
    base_fee: u128,
    key: SigningKey,
    /// Everything on disk.
    journal: Vec<Event>,
    authorized: BTreeSet<(SubmissionId, B256)>,
    persisted_bytes: BTreeSet<(SubmissionId, Bytes)>,
    outbox: Outbox,
    queue: Vec<Action>,
    /// Answers in flight.
    answers_in_flight: Vec<Input>,
    submission_by_value: BTreeMap<U256, SubmissionId>,
    opened: u64,
    calm: bool,
    pub(crate) tally: Tally,
}

impl World {
    pub(crate) fn new(rng: TestRng, lies: Lies, seed: u64) -> Self {
        let key = SigningKey::from_slice(&[7; 32]).unwrap();
        let point = key.verifying_key().to_encoded_point(false);
        let signer = Address::from_word(keccak256(&point.as_bytes()[1..]));
        Self {
            rng,
            lies,
            seed,
            net: Net::default(),
            now: Utc(1_000_000),
            base_fee: 100,
            key,
            journal: Vec::new(),
            authorized: BTreeSet::new(),
            persisted_bytes: BTreeSet::new(),
            outbox: Outbox::new(OutboxKey { chain: ChainId(8453), signer }),
            queue: Vec::new(),
            answers_in_flight: Vec::new(),
            submission_by_value: BTreeMap::new(),
            opened: 0,
            calm: false,
            tally: Tally::default(),
        }
    }

    fn random_one_in(&mut self, many: u64) -> bool {
        self.rng.next_u64().is_multiple_of(many)
    }

    fn random_below(&mut self, end: usize) -> usize {
        (self.rng.next_u64() % end.max(1) as u64) as usize
    }

    fn node_lies(&mut self) -> bool {
        let lies = !self.calm && self.lies != Lies::None && self.random_one_in(4);
        if lies {
            self.tally.count("lied");
        }
        lies
    }

    fn node_lies_about_blocks(&mut self) -> bool {
        self.lies == Lies::AboutAll && self.node_lies()
    }

    /// Performs one random step.
    pub(crate) fn chaos(&mut self) {
        match self.random_below(20) {
            0 => self.open(),
            1 => self.cancel(),
            2..=9 => self.act(),
            10 | 11 => self.input(Input::Tick),
            12 | 13 => {
                let (memory, foreign, ok) =
                    (self.random_one_in(4), self.random_one_in(40), !self.random_one_in(5));
                self.net.mine(memory, foreign, ok);
                if foreign {
                    self.tally.count("foreign");
                }
                self.assert_no_double_effect();
            }
            14 => {
                let depth = self.random_below(3);
                let forget = self.random_one_in(2);
                self.net.reorganise(depth, forget);
                if depth > 0 {
                    self.tally.count("reorganised");
                }
            }
            15 => {
                let pooled = self.net.mempool_hashes();
                if !pooled.is_empty() {
                    let one = pooled[self.random_below(pooled.len())];
                    self.net.drop_from_mempool(&one);
                    self.tally.count("forgotten");
                }
            }
            16 => {
                self.base_fee = [10, 100, 400, 3_000, 9_000][self.random_below(5)];
                let jump = [50, 400, 4_000, 20_000, -100_000][self.random_below(5)];
                self.now = self.now.plus_ms(jump);
            }
            17 => {
                if !self.answers_in_flight.is_empty() {
                    let at = self.random_below(self.answers_in_flight.len());
                    let input = self.answers_in_flight.swap_remove(at);
                    self.input(input);
                }
            }
            18 => self.garbage(),
            _rarely if self.random_one_in(4) => self.crash(),
            _mostly => self.now = self.now.plus_ms(500),
        }
    }

    /// Makes nodes truthful, stops crashes, and mines blocks: every submission must end.
    pub(crate) fn calm(&mut self) {
        self.calm = true;
        self.base_fee = 10;
        // A restart restores the actions that the host lost without a crash.
        self.crash();
        for _round in 0..1_000 {
            if self.outbox.open.is_empty() {
                break;
            }
            self.now = self.now.plus_ms(1_500);
            self.input(Input::Tick);
            // Whatever the nodes answer, the actions of a round must end without a new block.
            let mut acts = 0;
            while !self.queue.is_empty() {
                self.act();
                acts += 1;
                assert!(acts < 20_000, "seed {}: no rest: {:#?}", self.seed, self.queue);
            }
            self.net.mine(false, false, true);
            self.assert_no_double_effect();
        }
        assert!(
            self.outbox.open.is_empty(),
            "seed {}: {:#?}\nnext {} pending {}",
            self.seed,
            self.outbox,
            self.net.count(),
            self.net.pending()
        );
        self.assert_no_double_effect();
        self.assert_outcomes_match_chain();
    }

    fn open(&mut self) {
        self.opened += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.opened.to_be_bytes());
        let value = U256::from(self.opened);
        let call =
            Call { to: Address::repeat_byte(0xaa), value, data: Bytes::new(), gas_limit: 21_000 };
        self.submission_by_value.insert(value, SubmissionId(id));
        let limit = i64::try_from(self.random_below(60_000)).unwrap();
        let until = self.random_one_in(4).then(|| self.now.plus_ms(limit));
        self.input(Input::Open { id: SubmissionId(id), call, ceiling: CEILING, until });
    }

    fn random_submission(&mut self) -> Option<SubmissionId> {
        let ids: Vec<_> = self.outbox.open.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.random_below(ids.len())])
    }

    fn cancel(&mut self) {
        if let Some(id) = self.random_submission() {
            self.input(Input::Cancel { id });
        }
    }

    /// Feeds the answer to a request that was never made.
    fn garbage(&mut self) {
        let Some(id) = self.random_submission() else { return };
        let attempt = self.random_below(4);
        let answer = self.any_answer();
        let head = self.net.head();
        let settled = self.net.count_below(2);
        let made_up = FoundReceipt {
            hash: B256::repeat_byte(9),
            block: head,
            block_hash: B256::repeat_byte(8),
            ok: true,
        };
        let (digest, by) = (B256::repeat_byte(5), self.key.clone());
        let input = match self.random_below(4) {
            0 => Input::Declined { id, attempt },
            1 => Input::Answered { id, answer },
            2 => Input::LookedUp { id, asked: 1, found: Some(made_up), known: true, head, settled },
            _any => Input::Signature { id, attempt, signature: sign(&by, digest) },
        };
        if matches!(input, Input::Declined { .. }) {
            self.tally.count("declined");
        }
        self.input(input);
    }

    fn any_answer(&mut self) -> SendAnswer {
        let all = [
            SendAnswer::Accepted,
            SendAnswer::AlreadyKnown,
            SendAnswer::NonceTooLow,
            SendAnswer::Underpriced,
            SendAnswer::Unfunded,
            SendAnswer::Refused,
            SendAnswer::Unclear,
        ];
        all[self.random_below(all.len())]
    }

    /// Decides on an input, commits and applies the events, and queues the actions, with possible crashes in between.
    fn input(&mut self, input: Input) {
        let signature = matches!(input, Input::Signature { .. });
        let Ok(taken) = step(&self.outbox, &RULES, self.now, input.clone()) else {
            self.tally.count(if signature { "wrong signature" } else { "too late" });
            return;
        };
        let mortal = !self.calm;
        if mortal && self.random_one_in(50) {
            self.tally.count("killed before the commit");
            self.crash();
            return;
        }
        for event in &taken.events {
            self.check_event(event);
            apply(&mut self.outbox, event);
        }
        self.journal.extend(taken.events);
        if mortal && self.random_one_in(50) {
            self.tally.count("killed after the commit");
            self.crash();
            return;
        }
        self.queue.extend(taken.actions);
        // Hosts may repeat, reorder and delay actions.
        if mortal && self.random_one_in(10) && !self.queue.is_empty() {
            let at = self.random_below(self.queue.len());
            let twice = self.queue[at].clone();
            self.queue.push(twice);
        }
        self.queue.truncate(400);
    }

    fn check_event(&mut self, event: &Event) {
        match event {
            Event::Authorized { id, digest, .. } => {
                self.tally.count("bumped");
                self.authorized.insert((*id, *digest));
            }
            Event::Signed { id, raw, .. } => {
                self.persisted_bytes.insert((*id, raw.bytes.clone()));
            }
            Event::Reserved { id, nonce } => {
                let held = self.outbox.held_nonces();
                let taken = held.get(nonce);
                assert!(taken.is_none(), "{id} gets nonce {nonce}, which {taken:?} holds");
            }
            Event::Opened { filler: true, .. } => self.tally.count("filled"),
            Event::Finished { id, outcome } => {
                self.tally.count(match outcome {
                    Outcome::Succeeded { .. } => "succeeded",
                    Outcome::Reverted { .. } => "reverted",
                    Outcome::Cancelled { .. } => "cancelled",
                    Outcome::Dropped => "dropped",
                    Outcome::NonceTaken => "displaced",
                });
                if *outcome == Outcome::Dropped {
                    let value = self.outbox.open[id].call.value;
                    let sent = self
                        .net
                        .ever_broadcast
                        .values()
                        .any(|tx| !value.is_zero() && tx.value == value);
                    assert!(!sent, "{id} was dropped although it had been sent");
                }
            }
            _others => {}
        }
    }

    /// Loses everything that is not on disk.
    fn crash(&mut self) {
        let mut outbox = Outbox::new(self.outbox.key);
        for event in &self.journal {
            let bytes = postcard::to_allocvec(event).unwrap();
            apply(&mut outbox, &postcard::from_bytes(&bytes).unwrap());
        }
        let bytes = postcard::to_allocvec(&outbox).unwrap();
        assert_eq!(postcard::from_bytes::<Outbox>(&bytes).as_ref(), Ok(&outbox));
        self.outbox = outbox;
        self.queue = resume(&self.outbox, &RULES, self.now);
    }
}
