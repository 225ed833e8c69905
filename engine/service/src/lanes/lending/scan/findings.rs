//! The findings of the scan on one network, and how far it has searched. Pure.
//!
//! The search for new vaults has one cursor. The search for deposits has a cursor for each address of the wallet, so
//! that it starts from the beginning for a new address. The cursor of an address is never ahead of the vault cursor:
//! a range is searched for deposits only once all official vaults up to its end are known. No deposit precedes the
//! creation of its vault.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::Address;
use bursar_core::limits::{
    SCAN_LAG_BLOCKS_MAX, SCAN_OWN_DEPOSIT_VENUES_MAX, SCAN_OWNERS_MAX,
    SCAN_RECEIVED_DEPOSIT_VENUES_MAX, SCAN_VAULTS_MAX,
};
use bursar_core::networks::{Lending as Contracts, VaultKind};
use bursar_morpho::VenueId;

/// A bound beyond which the scan ignores its findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanBound {
    #[error("there are more than {SCAN_VAULTS_MAX} vaults; those created later are ignored")]
    Vaults,
    #[error("an address has deposits in more venues than the scan keeps")]
    Venues,
    #[error("the wallet has more than {SCAN_OWNERS_MAX} addresses; the others are not searched")]
    Owners,
}

/// Who made a deposit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depositor {
    /// The address that got the shares.
    Owner,
    /// Another account.
    Other,
}

/// An event of a deposit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deposit {
    pub(super) owner: Address,
    pub(super) venue: VenueId,
    pub(super) depositor: Depositor,
}

/// A range of blocks that includes its first and its last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockRange {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl BlockRange {
    /// Returns the number of blocks.
    pub(super) fn blocks(self) -> u64 {
        self.to.saturating_sub(self.from).saturating_add(1)
    }
}

/// The next search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Search {
    Creations(BlockRange),
    /// Deposits for these addresses.
    Deposits(BlockRange, Vec<Address>),
}

/// The findings on one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Findings {
    /// The first block that is not yet searched for new vaults.
    pub(super) next_creation: u64,
    /// The vaults of official factories that lend the stablecoin, in the order of the search.
    pub(super) vaults: Vec<(Address, VaultKind)>,
    /// Whether there are vaults beyond the bound, which are ignored.
    pub(super) ignores_vaults: bool,
    pub(super) owners: BTreeMap<Address, OwnerFindings>,
    /// Whether the wallet has addresses beyond the bound, which are not searched.
    pub(super) ignores_owners: bool,
}

/// The findings about one address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct OwnerFindings {
    /// The first block that is not yet searched for deposits.
    pub(super) next_block: u64,
    /// Venues of deposits that the address made itself.
    pub(super) own_deposit_venues: BTreeSet<VenueId>,
    /// Venues of deposits that other accounts made for the address.
    pub(super) others_deposit_venues: BTreeSet<VenueId>,
    /// Whether there are venues beyond a bound, which are ignored.
    pub(super) ignores_venues: bool,
}

impl Findings {
    pub(super) fn new(contracts: &Contracts) -> Self {
        Self {
            next_creation: first_creation(contracts),
            vaults: Vec::new(),
            ignores_vaults: false,
            owners: BTreeMap::new(),
            ignores_owners: false,
        }
    }

    /// Sets the addresses to search for. Returns whether one of them is new, so that the search for it starts from the
    /// beginning.
    pub(super) fn set_owners(&mut self, owners: &BTreeSet<Address>, contracts: &Contracts) -> bool {
        self.owners.retain(|owner, _findings| owners.contains(owner));
        let next_block = contracts.first_block.min(first_creation(contracts));
        let mut is_new = false;
        self.ignores_owners = false;
        for owner in owners {
            if self.owners.contains_key(owner) {
                continue;
            }
            if self.owners.len() >= SCAN_OWNERS_MAX {
                self.ignores_owners = true;
                break;
            }
            let fresh = OwnerFindings { next_block, ..OwnerFindings::default() };
            self.owners.insert(*owner, fresh);
            is_new = true;
        }
        is_new
    }

    /// Returns the next search of at most `width` blocks, up to and including the block `last`. `None` if everything
    /// up to `last` is searched.
    pub(super) fn next_search(&self, last: u64, width: u64) -> Option<Search> {
        let from = self.next_block();
        if from > last {
            return None;
        }
        let to = from.saturating_add(width.saturating_sub(1)).min(last);
        if from == self.next_creation {
            return Some(Search::Creations(BlockRange { from, to }));
        }
        let cursors = || self.owners.iter().map(|(owner, findings)| (owner, findings.next_block));
        let first: Vec<Address> =
            cursors().filter(|(_, next)| *next == from).map(|(owner, _)| *owner).collect();
        // Stop at the cursor of the next address, so that all addresses continue together from there.
        let others = cursors().map(|(_, next)| next).filter(|next| *next > from).min();
        let end = others.unwrap_or(u64::MAX).min(self.next_creation);
        Some(Search::Deposits(BlockRange { from, to: to.min(end.saturating_sub(1)) }, first))
    }

    /// Records all vaults that were created in a range.
    pub(super) fn record_creations(&mut self, range: BlockRange, found: &[(Address, VaultKind)]) {
        for vault in found {
            if self.vaults.contains(vault) {
                continue;
            }
            if self.vaults.len() >= SCAN_VAULTS_MAX {
                self.ignores_vaults = true;
                break;
            }
            self.vaults.push(*vault);
        }
        self.next_creation = range.to.saturating_add(1);
    }

    /// Records all deposits for some addresses in a range. Returns whether a venue is new.
    pub(super) fn record_deposits(
        &mut self,
        range: BlockRange,
        owners: &[Address],
        found: &[Deposit],
    ) -> bool {
        let mut is_new = false;
        for deposit in found {
            if let Some(findings) = self.owners.get_mut(&deposit.owner) {
                is_new |= findings.record(deposit);
            }
        }
        for owner in owners {
            if let Some(findings) = self.owners.get_mut(owner) {
                findings.next_block = range.to.saturating_add(1);
            }
        }
        is_new
    }

    /// Returns whether the scan is too far ahead of the safe block `safe`: it has searched blocks that did not exist.
    pub(super) fn is_ahead_of(&self, safe: u64) -> bool {
        let owners = self.owners.values().map(|findings| findings.next_block);
        let newest = owners.max().unwrap_or(0).max(self.next_creation);
        newest > safe.saturating_add(SCAN_LAG_BLOCKS_MAX)
    }

    /// Resets all cursors, so that everything is searched again. The findings remain.
    pub(super) fn search_again(&mut self, contracts: &Contracts) {
        self.next_creation = first_creation(contracts);
        let next_block = contracts.first_block.min(self.next_creation);
        for findings in self.owners.values_mut() {
            findings.next_block = next_block;
        }
    }

    /// Returns the first block that is not completely searched.
    pub(super) fn next_block(&self) -> u64 {
        let owners = self.owners.values().map(|findings| findings.next_block);
        owners.min().unwrap_or(u64::MAX).min(self.next_creation)
    }

    /// Returns the venues of an address. The venues of the address's own deposits come first.
    pub(super) fn venues_of(&self, owner: Address) -> Vec<VenueId> {
        let Some(findings) = self.owners.get(&owner) else { return Vec::new() };
        findings.own_deposit_venues.iter().chain(&findings.others_deposit_venues).copied().collect()
    }

    pub(super) fn bound(&self) -> Option<ScanBound> {
        if self.ignores_owners {
            Some(ScanBound::Owners)
        } else if self.ignores_vaults {
            Some(ScanBound::Vaults)
        } else if self.owners.values().any(|findings| findings.ignores_venues) {
            Some(ScanBound::Venues)
        } else {
            None
        }
    }
}

impl OwnerFindings {
    fn record(&mut self, deposit: &Deposit) -> bool {
        let venue = deposit.venue;
        if self.own_deposit_venues.contains(&venue) {
            return false;
        }
        let (venues, bound) = match deposit.depositor {
            Depositor::Owner => {
                self.others_deposit_venues.remove(&venue);
                (&mut self.own_deposit_venues, SCAN_OWN_DEPOSIT_VENUES_MAX)
            }
            Depositor::Other => (&mut self.others_deposit_venues, SCAN_RECEIVED_DEPOSIT_VENUES_MAX),
        };
        if venues.len() >= bound && !venues.contains(&venue) {
            self.ignores_venues = true;
            return false;
        }
        venues.insert(venue)
    }
}

/// Returns the first block in which a factory can have created a vault.
pub(super) fn first_creation(contracts: &Contracts) -> u64 {
    let factories = contracts.vault_factories.iter().map(|factory| factory.first_block);
    factories.min().unwrap_or(contracts.first_block)
}

#[cfg(test)]
mod tests {
    use bursar_core::networks::NETWORKS;

    use super::*;

    #[test]
    fn addresses_that_meet_continue_together() {
        let contracts = NETWORKS.iter().find_map(|row| row.lending).unwrap();
        let [late, early] = [1, 2].map(Address::with_last_byte);
        let mut findings = Findings::new(contracts);
        findings.next_creation = 1_000;
        for (owner, next_block) in [(late, 100), (early, 500)] {
            findings.owners.insert(owner, OwnerFindings { next_block, ..Default::default() });
        }
        let mut searches = Vec::new();
        while let Some(search) = findings.next_search(1_200, 10_000) {
            match &search {
                Search::Creations(range) => findings.record_creations(*range, &[]),
                Search::Deposits(range, owners) => {
                    findings.record_deposits(*range, owners, &[]);
                }
            }
            searches.push(search);
        }
        let range = |from, to| BlockRange { from, to };
        let both = || vec![late, early];
        let expected = [
            Search::Deposits(range(100, 499), vec![late]),
            Search::Deposits(range(500, 999), both()),
            Search::Creations(range(1_000, 1_200)),
            Search::Deposits(range(1_000, 1_200), both()),
        ];
        assert_eq!(searches, expected);
    }
}
