//! Reads of vaults. Assets are in smallest units of the asset; shares have 18 decimals for assets of at most 18.

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::abi::vault::{IMetaMorpho, IVault, IVaultV2};
use crate::abi::{decode, encode};
use crate::gates::GateKind;

/// How a MetaMorpho vault uses one market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketConfig {
    /// Maximum amount that the vault lends to the market, in smallest units.
    pub cap: U256,
    /// Whether the market is in the withdrawal queue.
    pub is_enabled: bool,
    /// Unix seconds from which the market can be removed; zero if its removal is not announced.
    pub removable_at: u64,
}

/// Returns `asset`, read by [`decode_address`](super::decode_address).
pub fn asset_call() -> Bytes {
    encode(&IVault::assetCall {})
}

/// Returns the call of `curator`, whose answer [`decode_address`](super::decode_address) reads.
///
/// The owner sets any curator at any time.
pub fn curator_call() -> Bytes {
    encode(&IVault::curatorCall {})
}

/// Returns `owner`, read by [`decode_address`](super::decode_address).
pub fn owner_call() -> Bytes {
    encode(&IVault::ownerCall {})
}

/// Returns `totalAssets`, read by [`decode_amount`](super::decode_amount).
pub fn total_assets_call() -> Bytes {
    encode(&IVault::totalAssetsCall {})
}

/// Returns the call of `totalSupply`, whose answer [`decode_amount`](super::decode_amount) reads.
///
/// The answer lacks fee shares that are due: value a position by [`preview_redeem_call`].
pub fn total_supply_call() -> Bytes {
    encode(&IVault::totalSupplyCall {})
}

/// Returns the call of `balanceOf` for shares or any token; [`decode_amount`](super::decode_amount) reads its answer.
///
/// The vault's balance of its asset is its idle money.
pub fn balance_call(account: Address) -> Bytes {
    encode(&IVault::balanceOfCall { account })
}

/// Returns `previewDeposit`: the shares for `assets`, read by [`decode_amount`](super::decode_amount).
pub fn preview_deposit_call(assets: U256) -> Bytes {
    encode(&IVault::previewDepositCall { assets })
}

/// Returns `previewMint`: the assets that `shares` cost, read by [`decode_amount`](super::decode_amount).
pub fn preview_mint_call(shares: U256) -> Bytes {
    encode(&IVault::previewMintCall { shares })
}

/// Returns `previewWithdraw`: the shares that `assets` burn, read by [`decode_amount`](super::decode_amount).
pub fn preview_withdraw_call(assets: U256) -> Bytes {
    encode(&IVault::previewWithdrawCall { assets })
}

/// Returns `previewRedeem`: the assets that `shares` are worth, read by [`decode_amount`](super::decode_amount).
pub fn preview_redeem_call(shares: U256) -> Bytes {
    encode(&IVault::previewRedeemCall { shares })
}

/// Returns the call of `convertToAssets`, whose answer [`decode_amount`](super::decode_amount) reads.
///
/// The answer is the worth of `shares` at the average price. [`preview_redeem_call`] asks what a redemption pays.
pub fn convert_to_assets_call(shares: U256) -> Bytes {
    encode(&IVault::convertToAssetsCall { shares })
}

/// Returns the call of MetaMorpho's `maxWithdraw`, whose answer [`decode_amount`](super::decode_amount) reads.
///
/// Vault V2 always answers zero.
pub fn max_withdraw_call(owner: Address) -> Bytes {
    encode(&IVault::maxWithdrawCall { owner })
}

/// Returns Vault V2's `adaptersLength`, read by [`decode_length`](super::decode_length).
pub fn adapter_count_call() -> Bytes {
    encode(&IVaultV2::adaptersLengthCall {})
}

/// Returns Vault V2's `adapters`, read by [`decode_address`](super::decode_address).
pub fn adapter_call(index: u64) -> Bytes {
    encode(&IVaultV2::adaptersCall { index: U256::from(index) })
}

/// Returns Vault V2's `adapterRegistry`, read by [`decode_address`](super::decode_address).
pub fn adapter_registry_call() -> Bytes {
    encode(&IVaultV2::adapterRegistryCall {})
}

/// Returns Vault V2's `liquidityAdapter`, read by [`decode_address`](super::decode_address); zero if there is none.
pub fn liquidity_adapter_call() -> Bytes {
    encode(&IVaultV2::liquidityAdapterCall {})
}

/// Returns Vault V2's `liquidityData`, read by [`decode_liquidity_data`].
pub fn liquidity_data_call() -> Bytes {
    encode(&IVaultV2::liquidityDataCall {})
}

/// Reads the answer of [`liquidity_data_call`]: the bytes that the vault gives its liquidity adapter, which
/// [`decode_liquidity_market`](super::adapter::decode_liquidity_market) reads for a market adapter.
pub fn decode_liquidity_data(answer: &[u8]) -> Option<Bytes> {
    decode::<IVaultV2::liquidityDataCall>(answer)
}

/// Returns Vault V2's `virtualShares`, read by [`decode_amount`](super::decode_amount).
pub fn virtual_shares_call() -> Bytes {
    encode(&IVaultV2::virtualSharesCall {})
}

/// Returns Vault V2's `absoluteCap` of a name of [`crate::caps`], read by [`decode_amount`](super::decode_amount) in
/// smallest units.
pub fn absolute_cap_call(cap_id: B256) -> Bytes {
    encode(&IVaultV2::absoluteCapCall { id: cap_id })
}

/// Returns Vault V2's `forceDeallocatePenalty`, read by [`decode_amount`](super::decode_amount) with 18 decimals.
pub fn force_deallocate_penalty_call(adapter: Address) -> Bytes {
    encode(&IVaultV2::forceDeallocatePenaltyCall { adapter })
}

/// Returns the getter of a gate of Vault V2, read by [`decode_address`](super::decode_address); zero if there is none.
pub fn gate_call(gate: GateKind) -> Bytes {
    match gate {
        GateKind::ReceiveShares => encode(&IVaultV2::receiveSharesGateCall {}),
        GateKind::SendAssets => encode(&IVaultV2::sendAssetsGateCall {}),
        GateKind::SendShares => encode(&IVaultV2::sendSharesGateCall {}),
        GateKind::ReceiveAssets => encode(&IVaultV2::receiveAssetsGateCall {}),
    }
}

/// Returns whether an account passes a gate of Vault V2, read by [`decode_flag`](super::decode_flag).
pub fn passes_gate_call(gate: GateKind, account: Address) -> Bytes {
    match gate {
        GateKind::ReceiveShares => encode(&IVaultV2::canReceiveSharesCall { account }),
        GateKind::SendAssets => encode(&IVaultV2::canSendAssetsCall { account }),
        GateKind::SendShares => encode(&IVaultV2::canSendSharesCall { account }),
        GateKind::ReceiveAssets => encode(&IVaultV2::canReceiveAssetsCall { account }),
    }
}

/// Returns MetaMorpho's `withdrawQueueLength`, read by [`decode_length`](super::decode_length).
pub fn withdraw_queue_length_call() -> Bytes {
    encode(&IMetaMorpho::withdrawQueueLengthCall {})
}

/// Returns MetaMorpho's `withdrawQueue`, read by [`decode_market_id`](super::decode_market_id).
pub fn withdraw_queue_call(index: u64) -> Bytes {
    encode(&IMetaMorpho::withdrawQueueCall { index: U256::from(index) })
}

/// Returns MetaMorpho's `config` of a market, read by [`decode_market_config`].
pub fn market_config_call(market_id: B256) -> Bytes {
    encode(&IMetaMorpho::configCall { id: market_id })
}

/// Reads the answer of [`market_config_call`].
pub fn decode_market_config(answer: &[u8]) -> Option<MarketConfig> {
    let config = decode::<IMetaMorpho::configCall>(answer)?;
    Some(MarketConfig {
        cap: U256::from(config.cap),
        is_enabled: config.enabled,
        removable_at: config.removableAt,
    })
}
