//! The EIP-712 digest of an authorization and its signer. Written without the wallet's code, so that an error
//! in one is not repeated in the other.

use alloy_primitives::{Address, B256, Signature, U256};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use bursar_core::networks::Network;

use crate::stable::Authorization;

sol! {
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }
}

/// Returns the digest that the payer must sign on this network.
pub(super) fn digest(network: &Network, terms: &Authorization) -> B256 {
    let coin = &network.stablecoin;
    let domain = Eip712Domain::new(
        Some(coin.domain_name.into()),
        Some(coin.domain_version.into()),
        Some(U256::from(network.chain.0)),
        Some(coin.address),
        None,
    );
    TransferWithAuthorization {
        from: terms.from,
        to: terms.to,
        value: terms.value,
        validAfter: terms.valid_after,
        validBefore: terms.valid_before,
        nonce: terms.nonce,
    }
    .eip712_signing_hash(&domain)
}

/// Returns the signer of the digest. Returns `None` for signatures that no stablecoin accepts: not 65 bytes, `v` out
/// of range, or the higher of the two valid `s` values (EIP-2).
pub(super) fn signer(digest: &B256, signature: &[u8]) -> Option<Address> {
    let [.., 0 | 1 | 27 | 28] = signature else { return None };
    let signature = Signature::from_raw(signature).ok()?;
    if signature.normalize_s().is_some() {
        return None;
    }
    signature.recover_address_from_prehash(digest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, b256, hex};
    use bursar_core::networks::{ChainId, by_chain};

    /// The values are from the handbook's vectors, which two other implementations produced.
    #[test]
    fn a_known_authorization_has_the_known_digest_and_signer() {
        let terms = Authorization {
            from: address!("0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"),
            to: address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C"),
            value: U256::from(1000),
            valid_after: U256::from(1_767_225_540),
            valid_before: U256::from(1_767_225_660),
            nonce: B256::repeat_byte(0xab),
        };
        let digest = digest(by_chain(ChainId(8453)).unwrap(), &terms);
        assert_eq!(
            digest,
            b256!("0xc5050269c5890eba8b551a91d3c604fe4722c555a96e774cfef29f09825668cb")
        );
        let mut signature = hex!(
            "66bb15e0192d2cb47eec6ec5d393b97781528842ee517c1299f19cc4230932a6"
            "156cb3e312b616e0b778660dc23e9fd2e747f4ef5a0342f66e8cf35209722a2b1c"
        );
        assert_eq!(signer(&digest, &signature), Some(terms.from));
        signature[64] = 1;
        assert_eq!(signer(&digest, &signature), Some(terms.from));
        signature[64] = 27;
        assert_ne!(signer(&digest, &signature), Some(terms.from));
        signature[64] = 29;
        assert_eq!(signer(&digest, &signature), None);
        assert_eq!(signer(&digest, &signature[..64]), None);
    }

    #[test]
    fn a_high_s_signature_is_rejected() {
        let digest = B256::repeat_byte(1);
        let order = U256::from_be_bytes(hex!(
            "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
        ));
        let high = (order - U256::from(5)).to_be_bytes::<32>();
        let low = U256::from(5).to_be_bytes::<32>();
        let r = hex!("66bb15e0192d2cb47eec6ec5d393b97781528842ee517c1299f19cc4230932a6");
        assert!(signer(&digest, &[&r[..], &low, &[27]].concat()).is_some());
        assert!(signer(&digest, &[&r[..], &high, &[28]].concat()).is_none());
    }
}
