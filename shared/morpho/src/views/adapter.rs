//! Reads of the adapters through which a Vault V2 lends.

use alloy_primitives::{B256, Bytes, U256};
use alloy_sol_types::SolValue;

use crate::abi::adapter::{IMarketAdapter, IVaultAdapter};
use crate::abi::blue::AbiMarketParams;
use crate::abi::encode;
use crate::market::MarketParams;

/// Returns a market adapter's `marketIdsLength`, read by [`decode_length`](super::decode_length).
pub fn market_count_call() -> Bytes {
    encode(&IMarketAdapter::marketIdsLengthCall {})
}

/// Returns a market adapter's `marketIds`, read by [`decode_market_id`](super::decode_market_id).
pub fn market_id_call(index: u64) -> Bytes {
    encode(&IMarketAdapter::marketIdsCall { index: U256::from(index) })
}

/// Returns a market adapter's `expectedSupplyAssets`, interest included, read by
/// [`decode_amount`](super::decode_amount) in smallest units.
pub fn supplied_call(market_id: B256) -> Bytes {
    encode(&IMarketAdapter::expectedSupplyAssetsCall { marketId: market_id })
}

/// Returns a vault adapter's `morphoVaultV1`, the vault that it lends to, read by
/// [`decode_address`](super::decode_address).
///
/// The adapter's factory does not check which vault that is: any contract can be behind an official adapter.
pub fn inner_vault_call() -> Bytes {
    encode(&IVaultAdapter::morphoVaultV1Call {})
}

/// Reads the market that a Vault V2 names to its market adapter, from the bytes of its `liquidityData`.
pub fn decode_liquidity_market(data: &[u8]) -> Option<MarketParams> {
    let params = AbiMarketParams::abi_decode_validate(data).ok()?;
    (params.abi_encode() == data).then(|| MarketParams::from_abi(&params))
}
