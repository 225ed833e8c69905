//! What must hold whatever happens.

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

    /// The point of it all.
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

    /// Where nobody lied about blocks, ends are what the chain says, and nothing waits behind a gap.
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
