//! A permit as typed data: Permit2's `PermitSingle`.

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_ledger::typed_data::{DOMAIN, Field, FieldType, StructType, TypedData, Value};
use bursar_uniswap::Permit;

/// The number of bytes of a `uint48`.
const UINT48_BYTES: u8 = 6;
/// The number of bytes of a `uint160`.
const UINT160_BYTES: u8 = 20;
/// The number of bytes of a `uint256`.
const UINT256_BYTES: u8 = 32;

/// Returns the terms of a permit, as the device shows them. Permit2's domain has no version.
pub(super) fn typed_data(chain: ChainId, permit2: Address, permit: &Permit) -> TypedData {
    let [primary, details] = ["PermitSingle", "PermitDetails"];
    let number = |number: u64| Value::number(U256::from(number));
    let domain_type = vec![
        Field::new("name", FieldType::String),
        Field::new("chainId", FieldType::Uint(UINT256_BYTES)),
        Field::new("verifyingContract", FieldType::Address),
    ];
    let details_type = vec![
        Field::new("token", FieldType::Address),
        Field::new("amount", FieldType::Uint(UINT160_BYTES)),
        Field::new("expiration", FieldType::Uint(UINT48_BYTES)),
        Field::new("nonce", FieldType::Uint(UINT48_BYTES)),
    ];
    let primary_type = vec![
        Field::new("details", FieldType::Struct(details.to_owned())),
        Field::new("spender", FieldType::Address),
        Field::new("sigDeadline", FieldType::Uint(UINT256_BYTES)),
    ];
    let domain = vec![Value::string("Permit2"), number(chain.0), Value::address(permit2)];
    let details_value = vec![
        Value::address(permit.token),
        Value::number(permit.amount),
        number(permit.expiration),
        number(permit.nonce),
    ];
    let message = vec![
        Value::Struct(details_value),
        Value::address(permit.spender),
        number(permit.signature_deadline),
    ];
    TypedData {
        types: vec![
            StructType::new(DOMAIN, domain_type),
            StructType::new(details, details_type),
            StructType::new(primary, primary_type),
        ],
        domain: Value::Struct(domain),
        primary: primary.to_owned(),
        message: Value::Struct(message),
    }
}
