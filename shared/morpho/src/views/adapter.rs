//! Reads of the adapters through which a Vault V2 lends.

use alloy_primitives::{B256, Bytes, U256};
use alloy_sol_types::SolValue;

use crate::abi::adapter::{IMarketAdapter, IVaultAdapter};
use crate::abi::blue::AbiMarketParams;
use crate::abi::encode;
use crate::market::MarketParams;

/// Encodes a market adapter's `marketIdsLength`; [`decode_length`](super::decode_length) decodes the answer.
pub fn market_count_call() -> Bytes {
    encode(&IMarketAdapter::marketIdsLengthCall {})
}

/// Encodes a market adapter's `marketIds`; [`decode_market_id`](super::decode_market_id) decodes the answer.
pub fn market_id_call(index: u64) -> Bytes {
    encode(&IMarketAdapter::marketIdsCall { index: U256::from(index) })
}

/// Encodes a market adapter's `expectedSupplyAssets`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer is in smallest units and includes interest.
pub fn supplied_call(market_id: B256) -> Bytes {
    encode(&IMarketAdapter::expectedSupplyAssetsCall { marketId: market_id })
}

/// Encodes a vault adapter's `morphoVaultV1`; [`decode_address`](super::decode_address) decodes the answer.
///
/// The answer is the vault that the adapter lends to. The adapter's factory does not check this vault: any contract
/// can be behind an official adapter.
pub fn inner_vault_call() -> Bytes {
    encode(&IVaultAdapter::morphoVaultV1Call {})
}

/// Decodes the bytes of a Vault V2's `liquidityData` as the market that its market adapter uses.
pub fn decode_liquidity_market(data: &[u8]) -> Option<MarketParams> {
    let params = AbiMarketParams::abi_decode_validate(data).ok()?;
    (params.abi_encode() == data).then(|| MarketParams::from_abi(&params))
}
