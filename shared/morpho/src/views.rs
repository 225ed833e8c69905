//! Call data and answers of each read of the lending lane, one file per contract family.
//!
//! Each `…_call` returns call data; its comment names the decoder of the answer. A decoder returns `None` for any bytes
//! that the contract's encoder would not write, such as the answer of an account without code or of another contract.

use alloy_primitives::{Address, B256, U256};

use crate::abi::adapter::IMarketAdapter;
use crate::abi::decode;
use crate::abi::vault::{IVault, IVaultV2};

pub mod adapter;
pub mod factory;
pub mod market;
pub mod vault;

/// Decodes an answer that is one address, which may be zero.
pub fn decode_address(answer: &[u8]) -> Option<Address> {
    decode::<IVault::assetCall>(answer)
}

/// Decodes an answer that is one amount, share count, rate or cap.
pub fn decode_amount(answer: &[u8]) -> Option<U256> {
    decode::<IVault::totalAssetsCall>(answer)
}

/// Decodes an answer that is the length of a list; `None` also if it exceeds 64 bits.
pub fn decode_length(answer: &[u8]) -> Option<u64> {
    u64::try_from(decode::<IVaultV2::adaptersLengthCall>(answer)?).ok()
}

/// Decodes an answer that is one boolean.
pub fn decode_flag(answer: &[u8]) -> Option<bool> {
    decode::<IVaultV2::canSendSharesCall>(answer)
}

/// Decodes an answer that is the id of a market.
pub fn decode_market_id(answer: &[u8]) -> Option<B256> {
    decode::<IMarketAdapter::marketIdsCall>(answer)
}

#[cfg(test)]
mod tests;
