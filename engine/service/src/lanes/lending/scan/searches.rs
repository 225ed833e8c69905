//! The log queries of the scan, and the decoding of their answers. Pure.
//!
//! Only topics are decoded. The data of a creation event contains text that the vault's creator chose, and invalid text
//! must not stop the scan.

use alloy_primitives::{Address, B256};
use bursar_chain::ports::{FoundLog, LogFilter};
use bursar_core::networks::{VaultFactory, VaultKind};
use bursar_morpho::VenueId;
use bursar_morpho::events::{CREATE_METAMORPHO, CREATE_VAULT_V2, MARKET_SUPPLY, VAULT_DEPOSIT};

use super::findings::{BlockRange, Deposit, Depositor};

/// Returns the query for vaults that a factory created for an asset.
pub(super) fn creation_filter(
    factory: &VaultFactory,
    asset: Address,
    range: BlockRange,
) -> LogFilter {
    let asset = address_topics(&[asset]);
    let (event, indexed) = match factory.kind {
        VaultKind::V2 => (CREATE_VAULT_V2, vec![Vec::new(), asset]),
        VaultKind::MetaMorpho => (CREATE_METAMORPHO, vec![Vec::new(), Vec::new(), asset]),
    };
    filter(range, vec![factory.address], event, indexed)
}

/// Returns the created vault; `None` if the event is not one that a factory emits.
pub(super) fn decode_creation(kind: VaultKind, found: &FoundLog) -> Option<Address> {
    match (kind, found.log.topics.as_slice()) {
        (VaultKind::V2, [_event, _owner, _asset, vault]) => address_of(vault),
        (VaultKind::MetaMorpho, [_event, vault, _caller, _asset]) => address_of(vault),
        _other => None,
    }
}

/// Returns the query for deposits to vaults. There must be at least one vault: a query without contracts would match
/// every contract that emits such an event.
pub(super) fn deposit_filter(
    vaults: &[Address],
    owners: &[Address],
    range: BlockRange,
) -> LogFilter {
    filter(range, vaults.to_vec(), VAULT_DEPOSIT, vec![Vec::new(), address_topics(owners)])
}

/// Returns a deposit to a vault; `None` if the event is not one that a vault emits.
pub(super) fn decode_deposit(found: &FoundLog) -> Option<Deposit> {
    let [_event, sender, owner] = found.log.topics.as_slice() else { return None };
    let depositor = depositor(sender, owner);
    Some(Deposit { owner: address_of(owner)?, venue: VenueId::Vault(found.log.address), depositor })
}

/// Returns the query for supplies to markets of the singleton.
pub(super) fn supply_filter(
    singleton: Address,
    owners: &[Address],
    range: BlockRange,
) -> LogFilter {
    let indexed = vec![Vec::new(), Vec::new(), address_topics(owners)];
    filter(range, vec![singleton], MARKET_SUPPLY, indexed)
}

/// Returns a supply to a market; `None` if the event is not one that the singleton emits.
pub(super) fn decode_supply(found: &FoundLog) -> Option<Deposit> {
    let [_event, market, caller, owner] = found.log.topics.as_slice() else { return None };
    let depositor = depositor(caller, owner);
    Some(Deposit { owner: address_of(owner)?, venue: VenueId::Market(*market), depositor })
}

fn depositor(sender: &B256, owner: &B256) -> Depositor {
    if sender == owner { Depositor::Owner } else { Depositor::Other }
}

fn filter(
    range: BlockRange,
    addresses: Vec<Address>,
    event: B256,
    indexed: Vec<Vec<B256>>,
) -> LogFilter {
    let BlockRange { from: from_block, to: to_block } = range;
    LogFilter { from_block, to_block, addresses, events: vec![event], indexed }
}

fn address_topics(addresses: &[Address]) -> Vec<B256> {
    addresses.iter().map(Address::into_word).collect()
}

fn address_of(word: &B256) -> Option<Address> {
    let address = Address::from_word(*word);
    (address.into_word() == *word && !address.is_zero()).then_some(address)
}
