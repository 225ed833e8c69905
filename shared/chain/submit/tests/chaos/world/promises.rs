//! Invariants that hold in every run.

use std::collections::{BTreeMap, BTreeSet};

use bursar_submit::{Event, Outcome};

use super::{Lies, World};
use crate::net::Tx;

impl World {
    pub(super) fn assert_nonce_of_one_submission(&self, sent: &Tx) {
        if sent.value.is_zero() {
            return;
        }
        for other in self.net.ever_broadcast.values().filter(|other| other.value == sent.value) {
            assert_eq!(other.nonce, sent.nonce, "one submission with two nonces");
        }
    }

    /// Asserts that no submission took effect twice: the central guarantee.
    pub(super) fn assert_no_double_effect(&self) {
        for (value, hashes) in self.net.effects() {
            let submission = self.submission_by_value.get(&value);
            assert!(
                submission.is_none() || hashes.len() == 1,
                "seed {}: {submission:?} took effect {} times",
                self.seed,
                hashes.len()
            );
        }
    }

    /// Asserts that outcomes match the chain and that no transaction waits behind a nonce gap, unless nodes
    /// lied about blocks.
    pub(super) fn assert_outcomes_match_chain(&self) {
        if self.lies == Lies::AboutAll {
            return;
        }
        let effects = self.net.effects();
        let mut seen = BTreeSet::new();
        let values: BTreeMap<_, _> =
            self.submission_by_value.iter().map(|(value, id)| (*id, *value)).collect();
        for event in &self.journal {
            let Event::Finished { id, outcome } = event else { continue };
            assert!(seen.insert(*id), "{id} ended twice");
            let Some(value) = values.get(id) else { continue };
            let mined = effects.contains_key(value);
            let says = matches!(outcome, Outcome::Succeeded { .. } | Outcome::Reverted { .. });
            assert_eq!(says, mined, "seed {}: {id} ended {outcome:?}", self.seed);
        }
        let next = self.net.count();
        for tx in self.net.ever_broadcast.values() {
            assert!(tx.nonce < next, "seed {}: nonce {} waits behind a gap", self.seed, tx.nonce);
        }
    }
}
