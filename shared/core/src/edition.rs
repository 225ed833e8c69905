//! The editions of the wallet, and what the rules of each one depend on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::lane::Lane;
use crate::networks::{ChainId, NETWORKS, Network};

/// The name of an edition, as journals and control files contain it.
///
/// A journal or control file without a name is the full edition's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditionName {
    /// All lanes, with a control channel.
    #[default]
    Full,
    /// All lanes in one process, without a control channel.
    Desktop,
    /// Payments only.
    Payments,
}

impl EditionName {
    pub const ALL: [Self; 3] = [Self::Full, Self::Desktop, Self::Payments];

    /// Returns the name of the edition's program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Full => "bursar",
            Self::Desktop => "bursar-desk",
            Self::Payments => "bursar-pay",
        }
    }

    /// Returns the edition and its program, for sentences.
    pub fn text(self) -> &'static str {
        match self {
            Self::Full => "the full edition (bursar)",
            Self::Desktop => "the desktop edition (bursar-desk)",
            Self::Payments => "the payments-only edition (bursar-pay)",
        }
    }
}

/// The part of an edition on which the rules depend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditionRules {
    pub name: EditionName,
    /// The lanes in which agents may make requests.
    pub lanes: BTreeSet<Lane>,
    /// The networks that the edition knows, and whether each is enabled by default.
    pub networks: BTreeMap<ChainId, bool>,
}

impl EditionRules {
    /// Returns the rules of an edition.
    pub fn of(name: EditionName) -> Self {
        let lanes = match name {
            EditionName::Full | EditionName::Desktop => Lane::ALL.into(),
            EditionName::Payments => BTreeSet::from([Lane::Payment]),
        };
        let networks = NETWORKS.iter().filter_map(|row| {
            let presence = match name {
                EditionName::Full | EditionName::Desktop => row.in_full,
                EditionName::Payments => row.in_payments,
            };
            Some((row.chain, presence.enabled()?))
        });
        Self { name, lanes, networks: networks.collect() }
    }

    /// Iterates over the rows of the networks that the edition knows.
    pub fn rows(&self) -> impl Iterator<Item = &'static Network> {
        NETWORKS.iter().filter(|row| self.knows(row.chain))
    }

    /// Returns whether the edition knows a network.
    pub fn knows(&self, chain: ChainId) -> bool {
        self.networks.contains_key(&chain)
    }

    /// Returns whether the edition knows a network and enables it by default.
    pub fn enables(&self, chain: ChainId) -> bool {
        self.networks.get(&chain).is_some_and(|enabled| *enabled)
    }
}

impl Default for EditionRules {
    fn default() -> Self {
        Self::of(EditionName::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wallet specification, "Networks", its appendix, and the decision about their defaults.
    #[test]
    fn editions_know_and_enable_the_networks_of_the_specification() {
        let full = EditionRules::of(EditionName::Full);
        let payments = EditionRules::of(EditionName::Payments);
        let on = |rules: &EditionRules| -> Vec<u64> {
            rules.networks.iter().filter(|(_chain, on)| **on).map(|(chain, _on)| chain.0).collect()
        };
        assert_eq!(on(&full), [4663, 8453]);
        assert_eq!(full.networks.len(), NETWORKS.len());
        assert_eq!(on(&payments), [8453, 1_187_947_933]);
        let known: Vec<u64> = payments.networks.keys().map(|chain| chain.0).collect();
        assert_eq!(known, [1, 8453, 84_532, 11_155_111, 324_705_682, 1_187_947_933]);
        assert_eq!(EditionRules::of(EditionName::Desktop).networks, full.networks);
    }
}
