//! The messages of eip712-x402.json as typed data, including those that the wallet does not sign, so that every case
//! is checked.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolStruct};
use bursar_x402::channel::deposit::ReceiveWithAuthorization;
use bursar_x402::typed_data::{self, TransferWithAuthorization};
use bursar_x402::upto;
use serde_json::Value;

use crate::text;

mod exact {
    alloy_sol_types::sol! {
        struct TokenPermissions { address token; uint256 amount; }
        struct Witness { address to; uint256 validAfter; }
        struct PermitWitnessTransferFrom {
            TokenPermissions permitted;
            address spender;
            uint256 nonce;
            uint256 deadline;
            Witness witness;
        }
        struct CancelAuthorization { address authorizer; bytes32 nonce; }
    }
}

/// The hashes of a message.
pub(crate) struct Hashes {
    pub(crate) type_text: String,
    pub(crate) type_hash: B256,
    pub(crate) struct_hash: B256,
    pub(crate) digest: B256,
}

pub(crate) fn number(value: &Value, key: &str) -> U256 {
    U256::from_str_radix(text(value, key), 10).unwrap()
}

pub(crate) fn address(value: &Value, key: &str) -> Address {
    text(value, key).parse().unwrap()
}

pub(crate) fn word(value: &Value, key: &str) -> B256 {
    text(value, key).parse().unwrap()
}

pub(crate) fn domain_of(case: &Value) -> Eip712Domain {
    let domain = &case["domain"];
    let optional = |key: &str| domain.get(key).map(|_| text(domain, key).to_owned().into());
    Eip712Domain {
        name: optional("name"),
        version: optional("version"),
        chain_id: Some(number(domain, "chainId")),
        verifying_contract: Some(address(domain, "verifyingContract")),
        salt: None,
    }
}

pub(crate) fn hashes_of(case: &Value) -> Hashes {
    let (message, domain) = (&case["message"], domain_of(case));
    match (text(case, "primary_type"), message["witness"].get("facilitator").is_some()) {
        ("TransferWithAuthorization", _) => compute_hashes(&transfer(message), &domain),
        ("ReceiveWithAuthorization", _) => compute_hashes(&receive(message), &domain),
        ("CancelAuthorization", _) => compute_hashes(&cancel(message), &domain),
        ("PermitWitnessTransferFrom", false) => compute_hashes(&exact_permit(message), &domain),
        ("PermitWitnessTransferFrom", true) => compute_hashes(&upto_permit(message), &domain),
        (other, _) => panic!("no type {other}"),
    }
}

fn compute_hashes<T: SolStruct>(message: &T, domain: &Eip712Domain) -> Hashes {
    Hashes {
        type_text: T::eip712_encode_type().into_owned(),
        type_hash: message.eip712_type_hash(),
        struct_hash: message.eip712_hash_struct(),
        digest: typed_data::digest(domain.separator(), message),
    }
}

pub(crate) fn transfer(message: &Value) -> TransferWithAuthorization {
    TransferWithAuthorization {
        from: address(message, "from"),
        to: address(message, "to"),
        value: number(message, "value"),
        validAfter: number(message, "validAfter"),
        validBefore: number(message, "validBefore"),
        nonce: word(message, "nonce"),
    }
}

fn receive(message: &Value) -> ReceiveWithAuthorization {
    let TransferWithAuthorization { from, to, value, validAfter, validBefore, nonce } =
        transfer(message);
    ReceiveWithAuthorization { from, to, value, validAfter, validBefore, nonce }
}

fn cancel(message: &Value) -> exact::CancelAuthorization {
    exact::CancelAuthorization {
        authorizer: address(message, "authorizer"),
        nonce: word(message, "nonce"),
    }
}

fn exact_permit(message: &Value) -> exact::PermitWitnessTransferFrom {
    let (permitted, witness) = (&message["permitted"], &message["witness"]);
    exact::PermitWitnessTransferFrom {
        permitted: exact::TokenPermissions {
            token: address(permitted, "token"),
            amount: number(permitted, "amount"),
        },
        spender: address(message, "spender"),
        nonce: number(message, "nonce"),
        deadline: number(message, "deadline"),
        witness: exact::Witness {
            to: address(witness, "to"),
            validAfter: number(witness, "validAfter"),
        },
    }
}

fn upto_permit(message: &Value) -> upto::PermitWitnessTransferFrom {
    let (permitted, witness) = (&message["permitted"], &message["witness"]);
    upto::PermitWitnessTransferFrom {
        permitted: upto::TokenPermissions {
            token: address(permitted, "token"),
            amount: number(permitted, "amount"),
        },
        spender: address(message, "spender"),
        nonce: number(message, "nonce"),
        deadline: number(message, "deadline"),
        witness: upto::Witness {
            to: address(witness, "to"),
            facilitator: address(witness, "facilitator"),
            validAfter: number(witness, "validAfter"),
        },
    }
}
