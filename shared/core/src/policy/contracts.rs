//! A list of contracts in a policy.

use std::collections::BTreeSet;
use std::str::FromStr;

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

use crate::address;
use crate::text::snippet;

/// Contracts by address, on any network.
///
/// They are parsed from a comma-separated list; an empty text is the empty list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Contracts(BTreeSet<Address>);

impl Contracts {
    /// Returns whether the list names a contract.
    pub fn contains(&self, contract: Address) -> bool {
        self.0.contains(&contract)
    }

    /// Returns the addresses in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Address> {
        self.0.iter().copied()
    }

    /// Returns the addresses with checksums (EIP-55), in ascending order.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(|one| one.to_checksum(None)).collect()
    }

    pub(super) fn contains_more_than(&self, old: &Self) -> bool {
        !self.0.is_subset(&old.0)
    }
}

impl FromIterator<Address> for Contracts {
    fn from_iter<T: IntoIterator<Item = Address>>(each: T) -> Self {
        Self(each.into_iter().collect())
    }
}

impl FromStr for Contracts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let contract = |part: &str| {
            address::parse(part).map_err(|error| format!("{}: {error}", snippet(part)))
        };
        parts.map(contract).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WETH: &str = "0x4200000000000000000000000000000000000006";
    const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

    #[test]
    fn a_list_is_parsed_sorted_and_shown_with_checksums() {
        let list: Contracts = format!(" {},{WETH},, {WETH}", USDC.to_lowercase()).parse().unwrap();
        assert_eq!(list.texts(), [WETH, USDC]);
        assert!("".parse::<Contracts>().unwrap().texts().is_empty());
    }

    #[test]
    fn the_error_names_the_wrong_entry() {
        let error = format!("{WETH},WETH").parse::<Contracts>().unwrap_err();
        assert_eq!(error, "WETH: an address must be 0x and 40 hex digits");
    }
}
