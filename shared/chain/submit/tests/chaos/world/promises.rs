//! Invariants that hold in every run.

use std::collections::{BTreeMap, BTreeSet};

use bursar_submit::{Event, Outcome};

use super::{Lies, World};
use crate::net::Tx;

impl World {
    pub(super) fn one_nonce_each(&self, sent: &Tx) {
        if sent.value.is_zero() {
            return;
        }
        for other in self.net.ever.values().filter(|other| other.value == sent.value) {
            assert_eq!(other.nonce, sent.nonce, "one submission with two nonces");
        }
    }

    /// Asserts that no submission took effect twice: the central guarantee.
    pub(super) fn once(&self) {
        for (value, hashes) in self.net.effects() {
            let submission = self.values.get(&value);
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
    pub(super) fn ends_are_true(&self) {
        if self.lies == Lies::AboutAll {
            return;
        }
        let effects = self.net.effects();
        let mut seen = BTreeSet::new();
        let values: BTreeMap<_, _> = self.values.iter().map(|(value, id)| (*id, *value)).collect();
        for event in &self.journal {
            let Event::Finished { id, outcome } = event else { continue };
            assert!(seen.insert(*id), "{id} ended twice");
            let Some(value) = values.get(id) else { continue };
            let mined = effects.contains_key(value);
            let says = matches!(outcome, Outcome::Succeeded { .. } | Outcome::Reverted { .. });
            assert_eq!(says, mined, "seed {}: {id} ended {outcome:?}", self.seed);
        }
        let next = self.net.count();
        for tx in self.net.ever.values() {
            assert!(tx.nonce < next, "seed {}: nonce {} waits behind a gap", self.seed, tx.nonce);
        }
    }
}
