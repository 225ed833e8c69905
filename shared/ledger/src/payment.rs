//! A payment as typed data: EIP-3009's `TransferWithAuthorization`.

use alloy_primitives::{Address, B256, U256};
use bursar_x402::authorization::Authorization;
use bursar_x402::typed_data::TokenDomain;

use crate::command::{Command, RequestTooLong};
use crate::typed_data::{DOMAIN, Field, FieldType, StructType, TypedData, Value, ask_beginning};

/// The number of bytes of a `uint256` or `bytes32`.
const WORD_BYTES: u8 = 32;

/// Returns the type and the values of a domain with name, version, chain and contract.
pub fn domain_struct(domain: &TokenDomain) -> (StructType, Value) {
    let fields = vec![
        Field::new("name", FieldType::String),
        Field::new("version", FieldType::String),
        Field::new("chainId", FieldType::Uint(WORD_BYTES)),
        Field::new("verifyingContract", FieldType::Address),
    ];
    let values = vec![
        Value::string(&domain.name),
        Value::string(&domain.version),
        Value::number(U256::from(domain.chain.0)),
        Value::address(domain.contract),
    ];
    (StructType::new(DOMAIN, fields), Value::Struct(values))
}

/// Returns the first commands of a payment in this token.
///
/// They are the same for all terms: see [`ask_beginning`].
///
/// # Errors
/// [`RequestTooLong`].
pub fn first_commands(token: &TokenDomain) -> Result<Vec<Command>, RequestTooLong> {
    let none = Authorization {
        from: Address::ZERO,
        to: Address::ZERO,
        value: U256::ZERO,
        valid_after: 0,
        valid_before: 0,
        nonce: B256::ZERO,
    };
    ask_beginning(&typed_data(token, &none))
}

/// Returns the terms of a payment, as the device shows them.
pub fn typed_data(token: &TokenDomain, terms: &Authorization) -> TypedData {
    const NAME: &str = "TransferWithAuthorization";
    let (domain_type, domain) = domain_struct(token);
    let fields = vec![
        Field::new("from", FieldType::Address),
        Field::new("to", FieldType::Address),
        Field::new("value", FieldType::Uint(WORD_BYTES)),
        Field::new("validAfter", FieldType::Uint(WORD_BYTES)),
        Field::new("validBefore", FieldType::Uint(WORD_BYTES)),
        Field::new("nonce", FieldType::FixedBytes(WORD_BYTES)),
    ];
    let values = vec![
        Value::address(terms.from),
        Value::address(terms.to),
        Value::number(terms.value),
        Value::number(U256::from(terms.valid_after)),
        Value::number(U256::from(terms.valid_before)),
        Value::Atom(terms.nonce.to_vec()),
    ];
    TypedData {
        types: vec![domain_type, StructType::new(NAME, fields)],
        domain,
        primary: NAME.to_owned(),
        message: Value::Struct(values),
    }
}
