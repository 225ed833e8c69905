//! The contracts through which a network's stablecoin is lent, and the accounts that are trusted to run a vault.
//!
//! Addresses are those of Morpho's own software kit and of its deployment list; each is in at least two sources.

use alloy_primitives::{Address, address};
use serde::{Deserialize, Serialize};

/// Morpho on one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lending {
    /// Morpho Blue, the contract of all markets.
    pub singleton: Address,
    /// The first block with the singleton.
    pub first_block: u64,
    /// The interest rate model of markets: AdaptiveCurveIRM.
    pub interest_model: Address,
    /// Factories of vaults; each reports which vaults it has created.
    pub vault_factories: &'static [VaultFactory],
    /// Factories of adapters of Vault V2; each reports which adapters it has created.
    pub adapter_factories: &'static [AdapterFactory],
    /// The registry of adapters that a vault may use.
    pub adapter_registry: Address,
    /// Accounts that are trusted to choose the markets of a vault.
    ///
    /// A vault's owner can name any curator at any time, so a curator alone proves nothing.
    pub curators: &'static [Address],
    /// Accounts that are trusted to own a vault.
    pub owners: &'static [Address],
    /// Vaults that are trusted with any owner.
    pub pinned_vaults: &'static [Address],
}

/// A factory of vaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultFactory {
    pub kind: VaultKind,
    pub address: Address,
    /// The block in which the factory was created; none of its vaults is older.
    pub first_block: u64,
}

/// The two kinds of vaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VaultKind {
    /// Vault V2, which lends through adapters.
    V2,
    /// MetaMorpho V1.1, which lends to markets of the singleton itself.
    MetaMorpho,
}

/// A factory of adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterFactory {
    pub kind: AdapterKind,
    pub address: Address,
}

/// The venue to which an adapter of Vault V2 lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterKind {
    /// Markets of the singleton: MorphoMarketV1AdapterV2.
    Markets,
    /// One MetaMorpho vault: MorphoVaultV1Adapter.
    MetaMorpho,
}

impl Lending {
    /// Returns the factory of this kind of vault; `None` where the network has none.
    pub fn vault_factory(&self, kind: VaultKind) -> Option<&'static VaultFactory> {
        self.vault_factories.iter().find(|factory| factory.kind == kind)
    }
}

pub(super) static ROBINHOOD: Lending = Lending {
    singleton: address!("0x9D53d5E3bd5E8d4Cbfa6DB1ca238AEA02E651010"),
    first_block: 286,
    interest_model: address!("0x2BD3d5965B26B51814AC95127B2b80dD6CcC0fa1"),
    vault_factories: &[VaultFactory {
        kind: VaultKind::V2,
        address: address!("0x0FBad98595b0186dA120E41f77C102beb49f803c"),
        first_block: 288,
    }],
    adapter_factories: &[
        AdapterFactory {
            kind: AdapterKind::Markets,
            address: address!("0x79370Ed003CE325C088E530d5e8655c99c2993e1"),
        },
        AdapterFactory {
            kind: AdapterKind::MetaMorpho,
            address: address!("0x7a91222F3f7B927bB8fb624593Ca86e111C2F85e"),
        },
    ],
    adapter_registry: address!("0xe785a2eFD384BA7B95BaEd3851BC76aeD67C676f"),
    // Steakhouse.
    curators: &[address!("0x9023fbd6a08c666491a2d1648737e400cf42d2fb")],
    // The contract that owns the vault behind Robinhood's own product.
    owners: &[address!("0xCa50D23F1c18C1Dfaff5d3cae3aa4B9dC5C8db73")],
    pinned_vaults: &[
        // Steakhouse USDG, and Ethena × Steakhouse USDG.
        address!("0xBeEff033F34C046626B8D0A041844C5d1A5409dd"),
        address!("0xbEeFF0fb1Dc19344A87b8479dAb60A2e16160737"),
    ],
};

pub(super) static BASE: Lending = Lending {
    singleton: address!("0xBBBBBbbBBb9cC5e90e3b3Af64bdAF62C37EEFFCb"),
    first_block: 13_977_148,
    interest_model: address!("0x46415998764C29aB2a25CbeA6254146D50D22687"),
    vault_factories: &[
        VaultFactory {
            kind: VaultKind::V2,
            address: address!("0x4501125508079A99ebBebCE205DeC9593C2b5857"),
            first_block: 35_615_206,
        },
        VaultFactory {
            kind: VaultKind::MetaMorpho,
            address: address!("0xFf62A7c278C62eD665133147129245053Bbf5918"),
            first_block: 23_928_808,
        },
    ],
    adapter_factories: &[
        AdapterFactory {
            kind: AdapterKind::Markets,
            address: address!("0x9a1B378C43BA535cDB89934230F0D3890c51C0EB"),
        },
        AdapterFactory {
            kind: AdapterKind::MetaMorpho,
            address: address!("0xF42D9c36b34c9c2CF3Bc30eD2a52a90eEB604642"),
        },
    ],
    adapter_registry: address!("0x5C2531Cbd2cf112Cf687da3Cd536708aDd7DB10a"),
    // Steakhouse.
    curators: &[address!("0x827e86072B06674a077f592A531dcE4590aDeCdB")],
    owners: &[],
    pinned_vaults: &[
        // Steakhouse USDC, Grove × Steakhouse USDC High Yield, and Steakhouse Prime USDC.
        address!("0xbeeF010f9cb27031ad51e3333f9aF9C6B1228183"),
        address!("0xBeEf2d50B428675a1921bC6bBF4bfb9D8cF1461A"),
        address!("0xBEEFE94c8aD530842bfE7d8B397938fFc1cb83b2"),
    ],
};
