//! The stablecoin of the local chain: its interface and the calls that pay with it.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::Stablecoin;

use crate::error::DevnetError;
use crate::own_contracts;

sol! {
    #[derive(Debug)]
    interface IStable {
        event Transfer(address indexed from, address indexed to, uint256 value);

        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function mint(address to, uint256 value) external returns (bool);
        function setPaused(bool paused) external;
        function balanceOf(address owner) external view returns (uint256);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
}

/// The terms that an EIP-3009 payer signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub valid_after: U256,
    pub valid_before: U256,
    pub nonce: B256,
}

impl Authorization {
    /// Returns the call that settles the authorization. Like facilitators, it uses the `v, r, s` form for a key's
    /// signature, and the `bytes` form for any other signature.
    pub(crate) fn calldata(&self, signature: &[u8]) -> Vec<u8> {
        match key_signature(signature) {
            Some((r, s, v)) => IStable::transferWithAuthorization_0Call {
                from: self.from,
                to: self.to,
                value: self.value,
                validAfter: self.valid_after,
                validBefore: self.valid_before,
                nonce: self.nonce,
                v,
                r,
                s,
            }
            .abi_encode(),
            None => IStable::transferWithAuthorization_1Call {
                from: self.from,
                to: self.to,
                value: self.value,
                validAfter: self.valid_after,
                validBefore: self.valid_before,
                nonce: self.nonce,
                signature: Bytes::copy_from_slice(signature),
            }
            .abi_encode(),
        }
    }
}

/// Splits a 65-byte signature.
fn key_signature(signature: &[u8]) -> Option<(B256, B256, u8)> {
    let (r, rest) = signature.split_first_chunk::<32>()?;
    let (s, rest) = rest.split_first_chunk::<32>()?;
    let [v] = *rest else { return None };
    // The contract only accepts 27 and 28, but some signers write the bare parity.
    let v = if v < 2 { v.saturating_add(27) } else { v };
    Some((B256::from(*r), B256::from(*s), v))
}

/// Returns the creation code of a coin with this name, symbol and version.
pub(crate) fn creation_code(coin: &Stablecoin) -> Result<Bytes, DevnetError> {
    let named = (coin.domain_name, coin.symbol, coin.domain_version);
    own_contracts::STABLE.creation_code(&named.abi_encode_params())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{b256, hex};
    use alloy_sol_types::SolEvent;

    #[test]
    fn the_interface_has_the_selectors_of_the_standards() {
        let calls = [
            (IStable::DOMAIN_SEPARATORCall::SELECTOR, hex!("3644e515")),
            (IStable::mintCall::SELECTOR, hex!("40c10f19")),
            (IStable::balanceOfCall::SELECTOR, hex!("70a08231")),
            (IStable::authorizationStateCall::SELECTOR, hex!("e94a0102")),
            (IStable::transferWithAuthorization_0Call::SELECTOR, hex!("e3ee160e")),
            (IStable::transferWithAuthorization_1Call::SELECTOR, hex!("cf092995")),
        ];
        for (ours, standard) in calls {
            assert_eq!(ours, standard);
        }
        assert_eq!(
            IStable::Transfer::SIGNATURE_HASH,
            b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
        );
    }

    #[test]
    fn the_committed_code_has_every_selector() {
        let code = ::hex::encode(own_contracts::STABLE.creation_code(&[]).unwrap());
        // The selectors of both forms of transfer, receipt, cancel and permit, and the events of FiatTokenV2.
        let pairs = ["e3ee160e", "cf092995", "ef55bec6", "88b7ab63", "5a049a70", "b7b72899"];
        let others = ["d505accf", "9fd5a6cf", "7ecebe00", "e94a0102", "3644e515"];
        for part in pairs.iter().chain(&others) {
            assert!(code.contains(&format!("63{part}")), "no {part}");
        }
        let used = alloy_primitives::keccak256("AuthorizationUsed(address,bytes32)");
        assert!(code.contains(&::hex::encode(used)));
    }

    #[test]
    fn only_65_bytes_are_a_signature_of_a_key_and_a_parity_becomes_v() {
        let terms = Authorization {
            from: Address::repeat_byte(1),
            to: Address::repeat_byte(2),
            value: U256::from(3),
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            nonce: B256::repeat_byte(4),
        };
        for (v, written) in [(0u8, 27u8), (1, 28), (27, 27), (28, 28)] {
            let call = terms.calldata(&[[7; 64].as_slice(), &[v]].concat());
            assert_eq!((&call[..4], call[4 + 6 * 32 + 31]), (&hex!("e3ee160e")[..], written));
        }
        assert_eq!(terms.calldata(&[7; 66])[..4], hex!("cf092995"));
        assert_eq!(terms.calldata(&[])[..4], hex!("cf092995"));
    }
}
