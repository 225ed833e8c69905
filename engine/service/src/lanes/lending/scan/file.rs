//! The saved form of the findings: a line with a checksum, then JSON. Pure.
//!
//! The data of a network is dropped, and searched for again, if it exceeds a bound or if this program's table of
//! contracts has changed.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256};
use bursar_core::limits::{
    SCAN_OWN_DEPOSIT_VENUES_MAX, SCAN_OWNERS_MAX, SCAN_RECEIVED_DEPOSIT_VENUES_MAX, SCAN_VAULTS_MAX,
};
use bursar_core::networks::{ChainId, Lending as Contracts, Network, VaultKind, by_chain};
use bursar_morpho::VenueId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::findings::{Findings, OwnerFindings};

/// The name and version of the format. The version increases with each change of the format or of a bound, because
/// findings beyond the earlier bound must be searched for again.
const FORMAT: &str = "bursar-lending-scan 1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedNetwork {
    chain: ChainId,
    /// A hash of the inputs of the search; see [`fingerprint`].
    contracts: String,
    next_creation: u64,
    vaults_v2: Vec<RankedVault>,
    vaults_metamorpho: Vec<RankedVault>,
    ignores_vaults: bool,
    owners: Vec<SavedOwner>,
}

/// A vault with its index in the order of all vaults.
type RankedVault = (usize, Address);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOwner {
    owner: Address,
    next_block: u64,
    own_vaults: BTreeSet<Address>,
    own_markets: BTreeSet<B256>,
    given_vaults: BTreeSet<Address>,
    given_markets: BTreeSet<B256>,
    ignores_venues: bool,
}

/// Encodes findings. `None` if they cannot be encoded.
pub(super) fn encode(all: &BTreeMap<ChainId, Findings>) -> Option<Vec<u8>> {
    let lending = |chain: ChainId| by_chain(chain).and_then(|row| Some((row, row.lending?)));
    let each = all.iter().filter_map(|(chain, findings)| {
        let (network, contracts) = lending(*chain)?;
        Some(saved_network(network, contracts, findings))
    });
    let body = serde_json::to_vec(&each.collect::<Vec<_>>()).ok()?;
    let mut bytes = format!("{FORMAT} {}\n", checksum(&body)).into_bytes();
    bytes.extend(body);
    Some(bytes)
}

/// Decodes findings.
///
/// # Errors
/// The bytes are damaged, or another program or version wrote them.
pub(super) fn decode(bytes: &[u8]) -> Result<BTreeMap<ChainId, Findings>, &'static str> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no first line")?;
    let (head, body) = bytes.split_at_checked(end).ok_or("it has no first line")?;
    let body = body.get(1..).ok_or("it has no content")?;
    if head != format!("{FORMAT} {}", checksum(body)).as_bytes() {
        return Err("it is damaged, or of another version");
    }
    let saved: Vec<SavedNetwork> =
        serde_json::from_slice(body).map_err(|_quotes| "its content is not valid")?;
    let restored = saved.into_iter().filter_map(|one| {
        let network = by_chain(one.chain)?;
        let contracts = network.lending?;
        let is_same = one.contracts == fingerprint(network, contracts);
        is_same.then(|| Some((one.chain, one.restore(contracts)?))).flatten()
    });
    Ok(restored.collect())
}

fn saved_network(network: &Network, contracts: &Contracts, findings: &Findings) -> SavedNetwork {
    let placed = |wanted: VaultKind| {
        let vaults = findings.vaults.iter().enumerate();
        let of_kind = vaults.filter(|(_at, (_vault, kind))| *kind == wanted);
        of_kind.map(|(at, (vault, _kind))| (at, *vault)).collect()
    };
    SavedNetwork {
        chain: network.chain,
        contracts: fingerprint(network, contracts),
        next_creation: findings.next_creation,
        vaults_v2: placed(VaultKind::V2),
        vaults_metamorpho: placed(VaultKind::MetaMorpho),
        ignores_vaults: findings.ignores_vaults,
        owners: findings.owners.iter().map(|(owner, found)| saved_owner(*owner, found)).collect(),
    }
}

fn saved_owner(owner: Address, found: &OwnerFindings) -> SavedOwner {
    let vaults = |venues: &BTreeSet<VenueId>| {
        let vault = |venue: &VenueId| match venue {
            VenueId::Vault(vault) => Some(*vault),
            VenueId::Market(_) => None,
        };
        venues.iter().filter_map(vault).collect()
    };
    let markets = |venues: &BTreeSet<VenueId>| {
        let market = |venue: &VenueId| match venue {
            VenueId::Vault(_) => None,
            VenueId::Market(market) => Some(*market),
        };
        venues.iter().filter_map(market).collect()
    };
    SavedOwner {
        owner,
        next_block: found.next_block,
        own_vaults: vaults(&found.own_deposit_venues),
        own_markets: markets(&found.own_deposit_venues),
        given_vaults: vaults(&found.others_deposit_venues),
        given_markets: markets(&found.others_deposit_venues),
        ignores_venues: found.ignores_venues,
    }
}

impl SavedNetwork {
    /// Returns the findings; `None` if they exceed a bound.
    fn restore(self, contracts: &Contracts) -> Option<Findings> {
        let v2 = self.vaults_v2.into_iter().map(|(at, vault)| (at, vault, VaultKind::V2));
        let metamorpho = self
            .vaults_metamorpho
            .into_iter()
            .map(|(at, vault)| (at, vault, VaultKind::MetaMorpho));
        let mut vaults: Vec<_> = v2.chain(metamorpho).collect();
        vaults.sort_unstable();
        if vaults.len() > SCAN_VAULTS_MAX || self.owners.len() > SCAN_OWNERS_MAX {
            return None;
        }
        let fresh = Findings::new(contracts);
        let next_creation = self.next_creation.max(fresh.next_creation);
        let owners = self.owners.into_iter().map(|one| one.restore(next_creation));
        Some(Findings {
            next_creation,
            vaults: vaults.into_iter().map(|(_at, vault, kind)| (vault, kind)).collect(),
            ignores_vaults: self.ignores_vaults,
            owners: owners.collect::<Option<_>>()?,
            ..fresh
        })
    }
}

impl SavedOwner {
    fn restore(self, next_creation: u64) -> Option<(Address, OwnerFindings)> {
        let venues = |vaults: BTreeSet<Address>, markets: BTreeSet<B256>| -> BTreeSet<VenueId> {
            let vaults = vaults.into_iter().map(VenueId::Vault);
            vaults.chain(markets.into_iter().map(VenueId::Market)).collect()
        };
        let found = OwnerFindings {
            // The cursor of an address must not be ahead of the search for vaults.
            next_block: self.next_block.min(next_creation),
            own_deposit_venues: venues(self.own_vaults, self.own_markets),
            others_deposit_venues: venues(self.given_vaults, self.given_markets),
            ignores_venues: self.ignores_venues,
        };
        let fits = found.own_deposit_venues.len() <= SCAN_OWN_DEPOSIT_VENUES_MAX
            && found.others_deposit_venues.len() <= SCAN_RECEIVED_DEPOSIT_VENUES_MAX;
        fits.then_some((self.owner, found))
    }
}

/// Returns a hash of the inputs that decide what the scan of a network finds. If a new version of this program
/// changes one of these inputs, the network is scanned again.
fn fingerprint(network: &Network, contracts: &Contracts) -> String {
    let mut hash = Sha256::new();
    hash.update(network.stablecoin.address);
    hash.update(contracts.singleton);
    hash.update(contracts.first_block.to_be_bytes());
    for factory in contracts.vault_factories {
        hash.update(match factory.kind {
            VaultKind::V2 => [2],
            VaultKind::MetaMorpho => [1],
        });
        hash.update(factory.address);
        hash.update(factory.first_block.to_be_bytes());
    }
    hex::encode(hash.finalize())
}

fn checksum(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

#[cfg(test)]
mod tests {
    use bursar_core::networks::NETWORKS;

    use super::*;

    fn sample() -> BTreeMap<ChainId, Findings> {
        let network = NETWORKS.iter().find(|row| row.lending.is_some()).unwrap();
        let contracts = network.lending.unwrap();
        let mut findings = Findings::new(contracts);
        findings.next_creation = 5_000;
        findings.vaults = vec![
            (Address::repeat_byte(9), VaultKind::V2),
            (Address::repeat_byte(1), VaultKind::MetaMorpho),
            (Address::repeat_byte(5), VaultKind::V2),
        ];
        let found = OwnerFindings {
            next_block: 4_000,
            own_deposit_venues: [VenueId::Vault(Address::repeat_byte(9))].into(),
            others_deposit_venues: [VenueId::Market(B256::repeat_byte(7))].into(),
            ignores_venues: true,
        };
        findings.owners.insert(Address::repeat_byte(3), found);
        BTreeMap::from([(network.chain, findings)])
    }

    #[test]
    fn findings_survive_in_their_order() {
        assert_eq!(decode(&encode(&sample()).unwrap()), Ok(sample()));
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let bytes = encode(&sample()).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    /// Returns a file with a valid checksum and a changed content.
    fn forged_file(from: &str, to: &str) -> Vec<u8> {
        let text = String::from_utf8(encode(&sample()).unwrap()).unwrap();
        let (_head, body) = text.split_once('\n').unwrap();
        assert!(body.contains(from), "{body}");
        let body = body.replace(from, to);
        format!("{FORMAT} {}\n{body}", checksum(body.as_bytes())).into_bytes()
    }

    #[test]
    fn findings_of_other_contracts_are_not_taken_over() {
        let (chain, _findings) = sample().pop_first().unwrap();
        let network = by_chain(chain).unwrap();
        let same = fingerprint(network, network.lending.unwrap());
        assert_eq!(decode(&forged_file(&same, &"0".repeat(64))), Ok(BTreeMap::new()));
        assert!(decode(&forged_file("\"owners\"", "\"owner\"")).is_err());
    }

    #[test]
    fn no_address_is_ahead_of_the_search_for_vaults() {
        let restored = decode(&forged_file("\"next_block\":4000", "\"next_block\":6000")).unwrap();
        let (_chain, findings) = restored.first_key_value().unwrap();
        assert_eq!(findings.owners.first_key_value().unwrap().1.next_block, 5_000);
    }
}
