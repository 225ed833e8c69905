//! Judges from on-chain data whether a venue is trusted.
//!
//! If any value of a venue cannot be read, there is no reading, and the venue is not trusted. Judge again before each
//! supply, because owner, curator and adapters change.

use alloy_primitives::{Address, U256};
use bursar_core::networks::VaultKind;
use serde::{Deserialize, Serialize};

/// The accounts and contracts that are trusted on one network.
#[derive(Debug, Clone, Copy)]
pub struct TrustList<'a> {
    /// The token that may be lent.
    pub stablecoin: Address,
    /// Accounts that may choose the markets of a vault.
    pub curators: &'a [Address],
    /// Accounts that may own a vault.
    pub owners: &'a [Address],
    /// Vaults that are trusted without a trusted owner.
    ///
    /// All other conditions of trust apply to them.
    pub pinned_vaults: &'a [Address],
    /// The official registry of adapters.
    pub adapter_registry: Address,
    /// The official interest rate model of markets.
    pub interest_model: Address,
}

/// The chain's data about a vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultReading {
    pub vault: Address,
    pub kind: VaultKind,
    /// Whether the official factory of this kind created it.
    pub is_from_official_factory: bool,
    pub asset: Address,
    pub curator: Address,
    pub owner: Address,
    /// All adapters of a Vault V2; empty for MetaMorpho, which has no adapters.
    pub adapters: Vec<AdapterReading>,
    /// The registry that limits which adapters can be added; `None` for MetaMorpho.
    pub adapter_registry: Option<Address>,
}

/// The chain's data about an adapter of a Vault V2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterReading {
    pub adapter: Address,
    pub origin: AdapterOrigin,
}

/// Which official factory created an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterOrigin {
    /// The factory of market adapters.
    Markets,
    /// The factory of vault adapters. Such an adapter can wrap any contract that has the right asset.
    Vault {
        /// The vault that the adapter lends to.
        inner_vault: Address,
        /// Whether an official factory of vaults created the inner vault.
        is_inner_official: bool,
    },
    /// No official factory created it.
    Unofficial,
}

/// The chain's data about a market of the singleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketReading {
    pub loan_token: Address,
    pub interest_model: Address,
    /// Unix seconds; zero for a market that does not exist.
    pub last_update: u128,
    /// The highest cap that a trusted vault has on this market, in smallest units.
    pub cap: U256,
}

/// The judgement of a venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Curator and owner are trusted, or a trusted vault has a cap for the market.
    Curated,
    /// The vault is pinned and its curator is trusted.
    Pinned,
    /// The vault names a trusted curator, but nothing proves that the curator agreed. The operator must confirm it.
    NewNeedsConfirmation(NeedsConfirmation),
    /// The venue must not be used.
    Refused(UntrustedReason),
}

/// Why a new vault with a trusted curator needs the operator's confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedsConfirmation {
    #[error(
        "the vault names a trusted curator, but its owner {0} is not trusted and could name another"
    )]
    Owner(Address),
    #[error("the vault is not bound to the official registry of adapters")]
    Registry,
}

/// Why a venue is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UntrustedReason {
    #[error("the official factory did not create the vault")]
    Factory,
    #[error("the venue lends {0}, not the stablecoin of this network")]
    Asset(Address),
    #[error("no official factory created the vault's adapter {0}")]
    Adapter(Address),
    #[error("the vault's adapter lends to {0}, which no official factory created")]
    InnerVault(Address),
    #[error("the vault's curator {0} is not trusted")]
    Curator(Address),
    #[error("the market does not exist")]
    NoMarket,
    #[error("the market's interest rate model {0} is not the official one")]
    InterestModel(Address),
    #[error("no trusted vault has a cap for this market")]
    NotEndorsed,
    #[error("the venue's parts cannot be read")]
    Unreadable,
}

/// Judges a vault.
///
/// The curator alone proves nothing: the owner of a vault can name any address. A pin replaces only the checks of the
/// owner and of the registry.
pub fn judge_vault(vault: &VaultReading, trusted: &TrustList<'_>) -> Trust {
    if let Some(reason) = fault_of_vault(vault, trusted) {
        return Trust::Refused(reason);
    }
    if trusted.pinned_vaults.contains(&vault.vault) {
        return Trust::Pinned;
    }
    if !is_listed(trusted.owners, vault.owner) {
        return Trust::NewNeedsConfirmation(NeedsConfirmation::Owner(vault.owner));
    }
    match (vault.kind, vault.adapter_registry) {
        (VaultKind::V2, Some(registry)) if registry == trusted.adapter_registry => Trust::Curated,
        (VaultKind::V2, _) => Trust::NewNeedsConfirmation(NeedsConfirmation::Registry),
        (VaultKind::MetaMorpho, _) => Trust::Curated,
    }
}

/// Judges whether a market is trusted.
///
/// A market has no curator that limits its risk, so a trusted vault must have a cap for the market.
pub fn judge_market(market: &MarketReading, trusted: &TrustList<'_>) -> Trust {
    let refused = if market.last_update == 0 {
        UntrustedReason::NoMarket
    } else if market.loan_token != trusted.stablecoin {
        UntrustedReason::Asset(market.loan_token)
    } else if market.interest_model != trusted.interest_model {
        UntrustedReason::InterestModel(market.interest_model)
    } else if market.cap.is_zero() {
        UntrustedReason::NotEndorsed
    } else {
        return Trust::Curated;
    };
    Trust::Refused(refused)
}

fn fault_of_vault(vault: &VaultReading, trusted: &TrustList<'_>) -> Option<UntrustedReason> {
    if !vault.is_from_official_factory {
        return Some(UntrustedReason::Factory);
    }
    if vault.asset != trusted.stablecoin {
        return Some(UntrustedReason::Asset(vault.asset));
    }
    if let Some(fault) = vault.adapters.iter().find_map(fault_of_adapter) {
        return Some(fault);
    }
    if !is_listed(trusted.curators, vault.curator) {
        return Some(UntrustedReason::Curator(vault.curator));
    }
    None
}

fn fault_of_adapter(adapter: &AdapterReading) -> Option<UntrustedReason> {
    match adapter.origin {
        AdapterOrigin::Markets => None,
        AdapterOrigin::Vault { inner_vault, is_inner_official } => {
            (!is_inner_official).then_some(UntrustedReason::InnerVault(inner_vault))
        }
        AdapterOrigin::Unofficial => Some(UntrustedReason::Adapter(adapter.adapter)),
    }
}

/// Returns whether a party is listed. The zero address is never listed, because it means that no account has the
/// role.
fn is_listed(list: &[Address], party: Address) -> bool {
    !party.is_zero() && list.contains(&party)
}

#[cfg(test)]
mod tests;
