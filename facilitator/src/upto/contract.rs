//! The contract that payers of the scheme `upto` can name as the facilitator. Through it, several of our accounts can
//! settle these payments, and many of them in one transaction. Its source is `contracts/UptoFacilitator.sol`. Pure.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::networks::CREATE2_DEPLOYER;
use serde::Deserialize;

use crate::contract_call::ContractCall;

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IUptoFacilitator {
        struct Settlement {
            uint256 gasLimit;
            bytes data;
        }

        function settleOne(bytes data) external;
        function settleMany(Settlement[] settlements) external;
    }
}

/// The compiled contract: its creation code and the hash of its source. It must not change, because the addresses that
/// payers have signed for depend on it. A new version must be a further contract.
const COMPILED: &str = include_str!("../../contracts/UptoFacilitator.json");

const SALT: B256 = B256::ZERO;

/// Gas that the contract uses in addition to the settlement of one payment.
pub(crate) const GAS: u64 = 15_000;
/// Gas that the contract uses between two settlements.
const LOOP_GAS: u64 = 3_000;

/// Upper bound of the gas that a call of the contract uses for several settlements with these gas limits. `None` on
/// overflow.
pub(crate) fn gas_of_several(limits: impl IntoIterator<Item = u64>) -> Option<u64> {
    limits.into_iter().try_fold(GAS, |sum, limit| {
        // A call gets at most 63/64 of the gas left (EIP-150).
        sum.checked_add(limit)?.checked_add(limit / 63)?.checked_add(LOOP_GAS)
    })
}

/// A contract, whether it is deployed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UptoContract {
    /// The address, which proves the code, the proxy and the senders.
    ///
    /// A contract that differs in any of them has another address.
    pub address: Address,
    /// The only accounts that can call it, in ascending order.
    pub senders: Vec<Address>,
    creation_code: Bytes,
}

impl UptoContract {
    /// Returns the contract that settles through `proxy` for these accounts.
    ///
    /// The order of the accounts does not matter.
    pub fn new(proxy: Address, mut senders: Vec<Address>) -> Self {
        senders.sort_unstable();
        senders.dedup();
        let arguments = (proxy, senders.clone()).abi_encode_params();
        let creation_code = Bytes::from([creation_code().as_ref(), &arguments].concat());
        let address = CREATE2_DEPLOYER.create2_from_code(SALT, &creation_code);
        Self { address, senders, creation_code }
    }

    /// Returns the call that deploys the contract, which any account can make.
    pub fn deployment(&self) -> ContractCall {
        let data = [SALT.as_slice(), &self.creation_code].concat();
        ContractCall { to: CREATE2_DEPLOYER, data: data.into() }
    }
}

fn creation_code() -> Bytes {
    #[derive(Deserialize)]
    struct CompiledContract {
        bytecode: Bytes,
    }
    // This cannot fail: the file is part of the program, and a test parses it.
    serde_json::from_str(COMPILED)
        .map(|compiled: CompiledContract| compiled.bytecode)
        .unwrap_or_default()
}

/// The call that settles one payment through the contract, and reverts as the proxy does. `settlement` is the call of
/// the proxy.
pub(crate) fn settle_one(contract: Address, settlement: ContractCall) -> ContractCall {
    let call = IUptoFacilitator::settleOneCall { data: settlement.data };
    ContractCall { to: contract, data: call.abi_encode().into() }
}

/// Returns the call that settles several payments through the contract, each with a gas limit. A failure of one does
/// not affect the others.
pub(crate) fn settle_many(
    contract: Address,
    settlements: impl IntoIterator<Item = (u64, ContractCall)>,
) -> ContractCall {
    let each = settlements.into_iter().map(|(gas, settlement)| IUptoFacilitator::Settlement {
        gasLimit: U256::from(gas),
        data: settlement.data,
    });
    let call = IUptoFacilitator::settleManyCall { settlements: each.collect() };
    ContractCall { to: contract, data: call.abi_encode().into() }
}

/// Returns the calls of `proxy` that the contract makes when it is called with this data.
pub(crate) fn settlements(proxy: Address, data: &[u8]) -> Vec<ContractCall> {
    let all: Vec<Bytes> = match IUptoFacilitator::settleOneCall::abi_decode_validate(data) {
        Ok(call) => vec![call.data],
        Err(_another) => IUptoFacilitator::settleManyCall::abi_decode_validate(data)
            .map(|call| call.settlements.into_iter().map(|each| each.data).collect())
            .unwrap_or_default(),
    };
    all.into_iter().map(|data| ContractCall { to: proxy, data }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, b256, keccak256};
    use sha2::{Digest, Sha256};

    const PROXY: Address = address!("0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");

    #[test]
    fn the_bytecode_matches_its_source_and_its_interface_the_calls() {
        let compiled: serde_json::Value = serde_json::from_str(COMPILED).unwrap();
        let source = include_str!("../../contracts/UptoFacilitator.sol");
        assert_eq!(
            compiled["source_sha256"],
            alloy_primitives::hex::encode(Sha256::digest(source)),
            "UptoFacilitator.sol changed: cargo xtask devnet --recompile"
        );
        // The addresses that payers have signed for depend on this hash.
        let frozen = b256!("0xc39f7b51ab17f7f6c0dd8184b3c24051a9cc1eeb305e508ef77cc4f1c52cb3ac");
        assert_eq!(keccak256(creation_code()), frozen);
        for signature in [
            IUptoFacilitator::settleOneCall::SIGNATURE,
            IUptoFacilitator::settleManyCall::SIGNATURE,
        ] {
            let interface = compiled["interface"].to_string();
            assert!(interface.contains(&format!("function {signature} ")), "{interface}");
        }
    }

    #[test]
    fn address_depends_on_the_proxy_and_on_the_accounts_in_any_order() {
        let [one, other] = [1, 2].map(Address::repeat_byte);
        let contract = UptoContract::new(PROXY, vec![one, other]);
        assert_eq!(contract.address, address!("0x31c40e09bf73aababf5f647df487492b2bde0c74"));
        assert_eq!(contract, UptoContract::new(PROXY, vec![other, one, other]));
        assert_eq!(contract.senders, [one, other]);
        for different in [
            UptoContract::new(PROXY, vec![one]),
            UptoContract::new(PROXY, vec![one, Address::repeat_byte(3)]),
            UptoContract::new(one, vec![one, other]),
        ] {
            assert_ne!(different.address, contract.address);
        }
    }

    #[test]
    fn calls_of_the_contract_contain_the_calls_of_the_proxy() {
        let contract = Address::repeat_byte(7);
        let call = |n: u8| ContractCall { to: PROXY, data: vec![n; 40].into() };
        let one = settle_one(contract, call(1));
        assert_eq!((one.to, settlements(PROXY, &one.data)), (contract, vec![call(1)]));
        let many = settle_many(contract, (1..4).map(|n| (7, call(n))));
        assert_eq!((many.to, settlements(PROXY, &many.data).len()), (contract, 3));
        assert_eq!(settlements(PROXY, &many.data), [call(1), call(2), call(3)]);
        assert!(settlements(PROXY, &[1, 2, 3]).is_empty());
    }
}
