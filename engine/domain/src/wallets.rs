//! The wallet as the journal records it: names and addresses, readable while the wallet is locked. The secrets are in
//! the wallet file only.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::derivation::Layout;
use bursar_core::ids::{Name, SeedId};
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

/// The one wallet of a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wallet {
    pub name: Name,
    /// The id in the wallet file's header.
    ///
    /// A file with another id is not this wallet, even if it has the same name.
    pub wallet_id: [u8; 16],
    pub created: Utc,
    pub seeds: BTreeMap<SeedId, Seed>,
    /// Keyed by [`Name::key`] of the label.
    pub addresses: BTreeMap<String, Arc<PayingAddress>>,
}

/// A seed of the wallet, without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    pub words: u8,
    pub created: Utc,
}

/// An address from which agents may pay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayingAddress {
    pub label: Name,
    pub description: String,
    pub index: u32,
    pub backing: Backing,
    /// BIP-32 path, such as `m/44'/60'/0'/0/0`.
    pub path: String,
    pub address: Address,
    pub created: Utc,
}

/// The origin of an address's key.
///
/// Journal entries store the position of a variant, so new variants are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    Seed(SeedId),
    /// A hardware device, which holds the key and shows what it signs.
    Device {
        layout: Layout,
    },
}

impl Wallet {
    /// Returns the id of the next seed.
    pub fn next_seed(&self) -> SeedId {
        let last = self.seeds.keys().next_back().map_or(0, |id| id.0);
        SeedId(last.saturating_add(1))
    }

    /// Returns the address with this label, ignoring case.
    pub fn address(&self, label: &Name) -> Option<&Arc<PayingAddress>> {
        self.addresses.get(&label.key())
    }
}
