//! The EIP-712 digests of EIP-3009 authorizations and of other messages. The domain of a token comes from the network
//! table or from the token contract itself, never from an offer.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::{Eip712Domain, SolStruct};
use bursar_core::networks::{ChainId, Network};
use serde::{Deserialize, Serialize};

use crate::authorization::Authorization;

mod eip3009 {
    alloy_sol_types::sol! {
        /// The message of EIP-3009. Its times have 256 bits, because other signers may exceed this wallet's 64 bits.
        #[derive(Debug, PartialEq, Eq)]
        struct TransferWithAuthorization {
            address from;
            address to;
            uint256 value;
            uint256 validAfter;
            uint256 validBefore;
            bytes32 nonce;
        }
    }
}

pub use eip3009::TransferWithAuthorization;

impl From<&Authorization> for TransferWithAuthorization {
    fn from(terms: &Authorization) -> Self {
        Self {
            from: terms.from,
            to: terms.to,
            value: terms.value,
            validAfter: U256::from(terms.valid_after),
            validBefore: U256::from(terms.valid_before),
            nonce: terms.nonce,
        }
    }
}

/// The EIP-712 domain of a token.
///
/// A signature under one domain is invalid under any other. A wrong name or version only makes the payment fail; a
/// wrong chain or contract would cost money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenDomain {
    pub name: String,
    pub version: String,
    pub chain: ChainId,
    pub contract: Address,
}

impl TokenDomain {
    /// Returns the domain of a network's reference stablecoin, from the table.
    pub fn of_stablecoin(network: &Network) -> Self {
        Self {
            name: network.stablecoin.domain_name.to_owned(),
            version: network.stablecoin.domain_version.to_owned(),
            chain: network.chain,
            contract: network.stablecoin.address,
        }
    }

    /// Returns the separator, as the token's `DOMAIN_SEPARATOR()` does for this domain.
    pub fn separator(&self) -> B256 {
        self.to_eip712().separator()
    }

    /// Returns the digest to sign for a transfer of this token.
    ///
    /// EIP-712: Keccak-256 of `0x1901`, the separator and the struct hash.
    pub fn digest(&self, terms: &Authorization) -> B256 {
        TransferWithAuthorization::from(terms).eip712_signing_hash(&self.to_eip712())
    }

    fn to_eip712(&self) -> Eip712Domain {
        Eip712Domain {
            name: Some(Cow::Owned(self.name.clone())),
            version: Some(Cow::Owned(self.version.clone())),
            chain_id: Some(U256::from(self.chain.0)),
            verifying_contract: Some(self.contract),
            salt: None,
        }
    }
}

/// Returns the struct hash of an authorization, without its domain.
pub fn struct_hash(terms: &Authorization) -> B256 {
    TransferWithAuthorization::from(terms).eip712_hash_struct()
}

/// Returns the EIP-712 digest of any message: Keccak-256 of `0x1901`, the domain separator and the struct hash.
pub fn digest(separator: B256, message: &impl SolStruct) -> B256 {
    let struct_hash = message.eip712_hash_struct();
    keccak256([&[0x19, 0x01], separator.as_slice(), struct_hash.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;
    use bursar_core::networks::NETWORKS;

    fn terms() -> Authorization {
        Authorization {
            from: Address::repeat_byte(1),
            to: Address::repeat_byte(2),
            value: U256::from(1000),
            valid_after: 0,
            valid_before: 1_767_225_660,
            nonce: B256::repeat_byte(3),
        }
    }

    #[test]
    fn the_type_is_the_one_that_eip_3009_publishes() {
        let text = "TransferWithAuthorization(address from,address to,uint256 value,\
                    uint256 validAfter,uint256 validBefore,bytes32 nonce)";
        assert_eq!(TransferWithAuthorization::eip712_encode_type(), text);
        let published = b256!("0x7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267");
        assert_eq!(keccak256(text), published);
        assert_eq!(TransferWithAuthorization::from(&terms()).eip712_type_hash(), published);
    }

    #[test]
    fn every_network_of_the_table_has_its_published_separator() {
        for network in NETWORKS {
            let domain = TokenDomain::of_stablecoin(network);
            assert_eq!(
                domain.separator(),
                network.stablecoin.domain_separator,
                "{}",
                network.title
            );
        }
    }

    #[test]
    fn the_digest_is_laid_out_as_eip_712_says() {
        let domain = TokenDomain::of_stablecoin(NETWORKS.first().unwrap());
        let message = [&[0x19, 0x01], &domain.separator()[..], &struct_hash(&terms())[..]].concat();
        assert_eq!(domain.digest(&terms()), keccak256(message));
    }

    #[test]
    fn every_field_of_terms_and_domain_is_bound_by_the_digest() {
        let domain = TokenDomain::of_stablecoin(NETWORKS.first().unwrap());
        let mut seen = vec![domain.digest(&terms())];
        let other = Address::repeat_byte(9);
        for changed in [
            Authorization { from: other, ..terms() },
            Authorization { to: other, ..terms() },
            Authorization { value: U256::from(1001), ..terms() },
            Authorization { valid_after: 1, ..terms() },
            Authorization { valid_before: 1_767_225_661, ..terms() },
            Authorization { nonce: B256::repeat_byte(4), ..terms() },
        ] {
            seen.push(domain.digest(&changed));
        }
        for changed in [
            TokenDomain { name: "USDC".to_owned(), ..domain.clone() },
            TokenDomain { version: "2".to_owned(), ..domain.clone() },
            TokenDomain { chain: ChainId(1), ..domain.clone() },
            TokenDomain { contract: other, ..domain.clone() },
        ] {
            seen.push(changed.digest(&terms()));
        }
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((all, seen.len()), (11, 11));
    }
}
