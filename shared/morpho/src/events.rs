//! The events of factories, vaults and the singleton, decoded from an address, topics and data.
//!
//! A decoder returns `None` for another event and for bytes that the contract's encoder does not write. It does not
//! know which contracts are official: any contract can emit any event, so the caller compares the address.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolEvent;

use crate::abi::blue::IMorphoBlue;
use crate::abi::decode_event;
use crate::abi::factory::{IMetaMorphoFactory, IVaultV2Factory};
use crate::abi::vault::IVault;
use bursar_core::networks::VaultKind;

/// First topic of the event of a new Vault V2.
///
/// The second topic is the vault's owner, the third the vault's asset, the fourth the vault.
pub const CREATE_VAULT_V2: B256 = IVaultV2Factory::CreateVaultV2::SIGNATURE_HASH;
/// First topic of the event of a new MetaMorpho vault.
///
/// The second topic is the vault, the third the caller, the fourth the vault's asset.
pub const CREATE_METAMORPHO: B256 = IMetaMorphoFactory::CreateMetaMorpho::SIGNATURE_HASH;
/// First topic of a vault's deposit.
///
/// The second topic is the sender, the third the owner of the shares.
pub const VAULT_DEPOSIT: B256 = IVault::Deposit::SIGNATURE_HASH;
/// First topic of a vault's withdrawal.
///
/// The second topic is the sender, the third the receiver, the fourth the owner.
pub const VAULT_WITHDRAW: B256 = IVault::Withdraw::SIGNATURE_HASH;
/// First topic of a supply to a market.
///
/// The second topic is the market, the third the caller, the fourth the owner.
pub const MARKET_SUPPLY: B256 = IMorphoBlue::Supply::SIGNATURE_HASH;
/// First topic of a withdrawal from a market.
///
/// The second topic is the market, the third the owner, the fourth the receiver.
pub const MARKET_WITHDRAW: B256 = IMorphoBlue::Withdraw::SIGNATURE_HASH;

/// A vault that a factory created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultCreated {
    /// The contract that emitted the event.
    pub factory: Address,
    pub kind: VaultKind,
    pub vault: Address,
    pub asset: Address,
    /// The owner when the vault was created.
    pub owner: Address,
}

/// Assets that entered a vault or a market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deposited {
    /// The contract that emitted the event: the vault or the singleton.
    pub contract: Address,
    /// The market; `None` for a vault.
    pub market_id: Option<B256>,
    /// The account that paid.
    pub sender: Address,
    /// The account that got the shares.
    pub owner: Address,
    /// Smallest units of the asset.
    pub assets: U256,
    pub shares: U256,
}

/// Assets that left a vault or a market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// The contract that emitted the event: the vault or the singleton.
    pub contract: Address,
    /// The market; `None` for a vault.
    pub market_id: Option<B256>,
    /// The caller.
    pub sender: Address,
    /// The account that got the assets.
    pub receiver: Address,
    /// The account whose shares were burned.
    pub owner: Address,
    /// Smallest units of the asset.
    pub assets: U256,
    pub shares: U256,
}

/// Reads `CreateVaultV2` or `CreateMetaMorpho` of a factory.
pub fn vault_created(factory: Address, topics: &[B256], data: &[u8]) -> Option<VaultCreated> {
    if let Some(event) = decode_event::<IVaultV2Factory::CreateVaultV2>(topics, data) {
        let (vault, asset, owner) = (event.newVaultV2, event.asset, event.owner);
        return Some(VaultCreated { factory, kind: VaultKind::V2, vault, asset, owner });
    }
    let event = decode_event::<IMetaMorphoFactory::CreateMetaMorpho>(topics, data)?;
    Some(VaultCreated {
        factory,
        kind: VaultKind::MetaMorpho,
        vault: event.metaMorpho,
        asset: event.asset,
        owner: event.initialOwner,
    })
}

/// Reads `Deposit` of a vault, of either kind.
pub fn vault_deposit(vault: Address, topics: &[B256], data: &[u8]) -> Option<Deposited> {
    let event = decode_event::<IVault::Deposit>(topics, data)?;
    Some(Deposited {
        contract: vault,
        market_id: None,
        sender: event.sender,
        owner: event.owner,
        assets: event.assets,
        shares: event.shares,
    })
}

/// Reads `Withdraw` of a vault, of either kind.
pub fn vault_withdrawal(vault: Address, topics: &[B256], data: &[u8]) -> Option<Withdrawn> {
    let event = decode_event::<IVault::Withdraw>(topics, data)?;
    Some(Withdrawn {
        contract: vault,
        market_id: None,
        sender: event.sender,
        receiver: event.receiver,
        owner: event.owner,
        assets: event.assets,
        shares: event.shares,
    })
}

/// Reads `Supply` of the singleton.
pub fn market_supply(singleton: Address, topics: &[B256], data: &[u8]) -> Option<Deposited> {
    let event = decode_event::<IMorphoBlue::Supply>(topics, data)?;
    Some(Deposited {
        contract: singleton,
        market_id: Some(event.id),
        sender: event.caller,
        owner: event.onBehalf,
        assets: event.assets,
        shares: event.shares,
    })
}

/// Reads `Withdraw` of the singleton.
pub fn market_withdrawal(singleton: Address, topics: &[B256], data: &[u8]) -> Option<Withdrawn> {
    let event = decode_event::<IMorphoBlue::Withdraw>(topics, data)?;
    Some(Withdrawn {
        contract: singleton,
        market_id: Some(event.id),
        sender: event.caller,
        receiver: event.receiver,
        owner: event.onBehalf,
        assets: event.assets,
        shares: event.shares,
    })
}

#[cfg(test)]
mod tests;
