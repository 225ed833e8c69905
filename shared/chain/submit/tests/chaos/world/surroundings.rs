//! Nodes and signers, which answer the actions of an outbox truthfully or not.

use alloy_primitives::{B256, Bytes};
use bursar_submit::fees::FeeQuote;
use bursar_submit::{Action, Fees, FoundReceipt, Input, Quote, SendAnswer, SubmissionId};
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;

use super::World;
use crate::net::Tx;

impl World {
    /// Performs an action, or loses it.
    pub(super) fn act(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let at = if self.calm { 0 } else { self.random_below(self.queue.len()) };
        let action = self.queue.remove(at);
        if !self.calm && self.random_one_in(12) {
            return;
        }
        let input = match action {
            Action::Quote => Some(self.quote()),
            Action::Sign { id, attempt, digest } => self.sign(id, attempt, digest),
            Action::Send { id, raw } => self.send(id, &raw.bytes),
            Action::Lookup { id, hashes } => Some(self.look_up(id, &hashes)),
        };
        if let Some(input) = input {
            if !self.calm && self.random_one_in(6) {
                self.answers_in_flight.push(input);
                self.answers_in_flight.truncate(50);
            } else {
                self.input(input);
            }
        }
    }

    fn quote(&mut self) -> Input {
        let mut base = self.base_fee;
        let mut pending = self.net.pending();
        if self.node_lies() {
            base = [0, 1, 1_000_000_000_000][self.random_below(3)];
        }
        if self.node_lies() {
            // The outbox refuses implausible jumps, except if it has never sent anything. A separate test covers that
            // case.
            let near = pending.saturating_add(self.random_below(9) as u64);
            let known = self.outbox.floor > 0 || !self.outbox.held_nonces().is_empty();
            let far = [0, near, u64::MAX, 1 << 40][self.random_below(4)];
            pending = if known { far } else { near };
        }
        let fees = Fees::Dynamic { max_fee: base * 2 + 3, tip: 3 };
        let fee = FeeQuote { fees, needed: base + 3 };
        let mined = self.net.count();
        Input::Quoted(Quote { fee, plain_gas: 21_000, pending, mined })
    }

    fn sign(&mut self, id: SubmissionId, attempt: usize, digest: B256) -> Option<Input> {
        let allowed = self.authorized.contains(&(id, digest));
        assert!(allowed, "{id} is to be signed before it was authorized");
        if self.calm {
            return Some(Input::Signature { id, attempt, signature: sign(&self.key, digest) });
        }
        match self.random_below(12) {
            0 => {
                self.tally.count("declined");
                Some(Input::Declined { id, attempt })
            }
            1 => {
                let other = SigningKey::from_slice(&[9; 32]).unwrap();
                Some(Input::Signature { id, attempt, signature: sign(&other, digest) })
            }
            2 => {
                self.tally.count("late signature");
                let signature = sign(&self.key, digest);
                self.answers_in_flight.push(Input::Signature { id, attempt, signature });
                None
            }
            _mostly => Some(Input::Signature { id, attempt, signature: sign(&self.key, digest) }),
        }
    }

    fn send(&mut self, id: SubmissionId, raw: &Bytes) -> Option<Input> {
        let kept = self.persisted_bytes.contains(&(id, raw.clone()));
        assert!(kept, "{id} is sent although it was not kept");
        self.assert_nonce_of_one_submission(&Tx::read(raw));
        if !self.calm && self.random_one_in(10) {
            // Lost in transit.
            return Some(Input::Answered { id, answer: SendAnswer::Unclear });
        }
        let mut answer = self.net.receive_broadcast(raw);
        if self.node_lies() {
            answer = self.any_answer();
        }
        Some(Input::Answered { id, answer })
    }

    fn look_up(&mut self, id: SubmissionId, hashes: &[B256]) -> Input {
        let mut found = hashes.iter().find_map(|hash| self.net.found(hash));
        let mut known = hashes.last().is_some_and(|hash| self.net.knows(hash));
        let (mut head, mut settled) = (self.net.head(), self.net.count_below(2));
        if self.node_lies() {
            known = !known;
        }
        if self.node_lies_about_blocks() {
            let hash = hashes[self.random_below(hashes.len())];
            let made_up =
                FoundReceipt { hash, block: head, block_hash: B256::repeat_byte(1), ok: true };
            found = if found.is_some() { None } else { Some(made_up) };
        }
        if self.node_lies_about_blocks() {
            head = [0, head + 1_000, u64::MAX][self.random_below(3)];
        }
        if self.node_lies_about_blocks() {
            settled = [0, settled + 5, u64::MAX][self.random_below(3)];
        }
        Input::LookedUp { id, asked: hashes.len(), found, known, head, settled }
    }
}

pub(super) fn sign(key: &SigningKey, digest: B256) -> Signature65 {
    let (scalars, id) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    let (r, s) = scalars.split_bytes();
    Signature65::new(B256::from_slice(&r), B256::from_slice(&s), id.to_byte()).unwrap()
}
