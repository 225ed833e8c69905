//! Makes one search: its queries, one after the other.

use alloy_primitives::Address;
use bursar_chain::ports::{Chain, ChainFault, FoundLog, LogFilter};
use bursar_core::limits::SCAN_QUERY_ADDRESSES_MAX;
use bursar_core::networks::{Lending as Contracts, Network, VaultKind};

use super::findings::{BlockRange, Deposit};
use super::searches;

/// Why the scan of a network pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanFault {
    #[error("no node is set for this network")]
    NoNode,
    #[error("no node answers")]
    Unavailable,
    /// The node refuses even a single block.
    #[error("the node refuses to search for events")]
    Refused,
    #[error("the node gives invalid answers")]
    Invalid,
}

impl From<ChainFault> for ScanFault {
    fn from(fault: ChainFault) -> Self {
        match fault {
            ChainFault::Rejected { .. } => Self::Refused,
            ChainFault::Malformed { .. } => Self::Invalid,
            ChainFault::Unavailable { .. }
            | ChainFault::WrongChain { .. }
            | ChainFault::Reverted { .. } => Self::Unavailable,
        }
    }
}

/// Returns the last block that may be searched: the safe block.
///
/// A reorganisation can still move the events of later blocks to earlier ones, and the scan does not return to a block
/// that it has searched.
pub(super) async fn last_block(chain: &dyn Chain, network: &Network) -> Result<u64, ScanFault> {
    match chain.safe_block_number().await {
        Ok(safe) => Ok(safe),
        // The node does not know the tag: use the depth at which the wallet's own transactions count as settled.
        Err(ChainFault::Rejected { .. } | ChainFault::Malformed { .. }) => {
            Ok(chain.block_number().await?.saturating_sub(network.gas.confirmations))
        }
        Err(other) => Err(other.into()),
    }
}

/// Returns the vaults that the official factories created in a range for the network's stablecoin.
pub(super) async fn creations(
    chain: &dyn Chain,
    network: &Network,
    contracts: &Contracts,
    range: BlockRange,
) -> Result<Vec<(Address, VaultKind)>, ScanFault> {
    let mut created = Vec::new();
    for factory in contracts.vault_factories {
        let from = range.from.max(factory.first_block);
        if from > range.to {
            continue;
        }
        let range = BlockRange { from, ..range };
        let filter = searches::creation_filter(factory, network.stablecoin.address, range);
        for found in logs(chain, filter).await? {
            let vault =
                searches::decode_creation(factory.kind, &found).ok_or(ScanFault::Invalid)?;
            created.push((vault, factory.kind));
        }
    }
    Ok(created)
}

/// Returns the deposits for some addresses in a range: to official vaults, and to markets of the singleton.
pub(super) async fn deposits(
    chain: &dyn Chain,
    contracts: &Contracts,
    range: BlockRange,
    owners: &[Address],
    vaults: &[Address],
) -> Result<Vec<Deposit>, ScanFault> {
    let mut deposits = Vec::new();
    for owners in owners.chunks(SCAN_QUERY_ADDRESSES_MAX) {
        for vaults in vaults.chunks(SCAN_QUERY_ADDRESSES_MAX) {
            for found in logs(chain, searches::deposit_filter(vaults, owners, range)).await? {
                deposits.push(searches::decode_deposit(&found).ok_or(ScanFault::Invalid)?);
            }
        }
        let from = range.from.max(contracts.first_block);
        if from > range.to {
            continue;
        }
        let range = BlockRange { from, ..range };
        for found in
            logs(chain, searches::supply_filter(contracts.singleton, owners, range)).await?
        {
            deposits.push(searches::decode_supply(&found).ok_or(ScanFault::Invalid)?);
        }
    }
    Ok(deposits)
}

/// Makes one query. An event that does not match the filter invalidates the answer: a node that ignores the filter may
/// also omit events.
async fn logs(chain: &dyn Chain, filter: LogFilter) -> Result<Vec<FoundLog>, ScanFault> {
    let found = chain.logs(filter.clone()).await?;
    let all_match = found.iter().all(|one| filter.matches(one));
    if all_match { Ok(found) } else { Err(ScanFault::Invalid) }
}
