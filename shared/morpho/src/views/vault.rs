//! Reads of vaults. Assets are in smallest units; shares have 18 decimals if the asset has at most 18.

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

/// Encodes `asset`; [`decode_address`](super::decode_address) decodes the answer.
pub fn asset_call() -> Bytes {
    encode(&IVault::assetCall {})
}

/// Encodes `curator`; [`decode_address`](super::decode_address) decodes the answer.
///
/// The owner can set any curator at any time.
pub fn curator_call() -> Bytes {
    encode(&IVault::curatorCall {})
}

/// Encodes `owner`; [`decode_address`](super::decode_address) decodes the answer.
pub fn owner_call() -> Bytes {
    encode(&IVault::ownerCall {})
}

/// Encodes `totalAssets`; [`decode_amount`](super::decode_amount) decodes the answer.
pub fn total_assets_call() -> Bytes {
    encode(&IVault::totalAssetsCall {})
}

/// Encodes `totalSupply`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer does not include fee shares that are due, so value a position by [`preview_redeem_call`].
pub fn total_supply_call() -> Bytes {
    encode(&IVault::totalSupplyCall {})
}

/// Encodes `balanceOf` of shares or any token; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The vault's balance of its asset is its idle money.
pub fn balance_call(account: Address) -> Bytes {
    encode(&IVault::balanceOfCall { account })
}

/// Encodes `previewDeposit`; [`decode_amount`](super::decode_amount) decodes the answer: the shares for `assets`.
pub fn preview_deposit_call(assets: U256) -> Bytes {
    encode(&IVault::previewDepositCall { assets })
}

/// Encodes `previewMint`; [`decode_amount`](super::decode_amount) decodes the answer: the assets that `shares` cost.
pub fn preview_mint_call(shares: U256) -> Bytes {
    encode(&IVault::previewMintCall { shares })
}

/// Encodes `previewWithdraw`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer is the shares that a withdrawal of `assets` burns.
pub fn preview_withdraw_call(assets: U256) -> Bytes {
    encode(&IVault::previewWithdrawCall { assets })
}

/// Encodes `previewRedeem`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer is the assets that `shares` are worth.
pub fn preview_redeem_call(shares: U256) -> Bytes {
    encode(&IVault::previewRedeemCall { shares })
}

/// Encodes `convertToAssets`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer is the worth of `shares` at the average price. [`preview_redeem_call`] reads the assets that a
/// redemption pays.
pub fn convert_to_assets_call(shares: U256) -> Bytes {
    encode(&IVault::convertToAssetsCall { shares })
}

/// Encodes MetaMorpho's `maxWithdraw`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// Vault V2 always answers zero.
pub fn max_withdraw_call(owner: Address) -> Bytes {
    encode(&IVault::maxWithdrawCall { owner })
}

/// Encodes Vault V2's `adaptersLength`; [`decode_length`](super::decode_length) decodes the answer.
pub fn adapter_count_call() -> Bytes {
    encode(&IVaultV2::adaptersLengthCall {})
}

/// Encodes Vault V2's `adapters`; [`decode_address`](super::decode_address) decodes the answer.
pub fn adapter_call(index: u64) -> Bytes {
    encode(&IVaultV2::adaptersCall { index: U256::from(index) })
}

/// Encodes Vault V2's `adapterRegistry`; [`decode_address`](super::decode_address) decodes the answer.
pub fn adapter_registry_call() -> Bytes {
    encode(&IVaultV2::adapterRegistryCall {})
}

/// Encodes Vault V2's `liquidityAdapter`; [`decode_address`](super::decode_address) decodes the answer.
///
/// The answer is zero if the vault has no liquidity adapter.
pub fn liquidity_adapter_call() -> Bytes {
    encode(&IVaultV2::liquidityAdapterCall {})
}

/// Encodes Vault V2's `liquidityData`; [`decode_liquidity_data`] decodes the answer.
pub fn liquidity_data_call() -> Bytes {
    encode(&IVaultV2::liquidityDataCall {})
}

/// Decodes the answer to [`liquidity_data_call`]: the bytes that the vault gives its liquidity adapter.
///
/// [`decode_liquidity_market`](super::adapter::decode_liquidity_market) decodes the bytes of a market adapter.
pub fn decode_liquidity_data(answer: &[u8]) -> Option<Bytes> {
    decode::<IVaultV2::liquidityDataCall>(answer)
}

/// Encodes Vault V2's `virtualShares`; [`decode_amount`](super::decode_amount) decodes the answer.
pub fn virtual_shares_call() -> Bytes {
    encode(&IVaultV2::virtualSharesCall {})
}

/// Encodes Vault V2's `absoluteCap`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// [`crate::caps`] computes `cap_id`. The answer is in smallest units.
pub fn absolute_cap_call(cap_id: B256) -> Bytes {
    encode(&IVaultV2::absoluteCapCall { id: cap_id })
}

/// Encodes Vault V2's `forceDeallocatePenalty`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer has 18 decimals.
pub fn force_deallocate_penalty_call(adapter: Address) -> Bytes {
    encode(&IVaultV2::forceDeallocatePenaltyCall { adapter })
}

/// Encodes Vault V2's getter of a gate; [`decode_address`](super::decode_address) decodes the answer.
///
/// The answer is zero if the vault has no such gate.
pub fn gate_call(gate: GateKind) -> Bytes {
    match gate {
        GateKind::ReceiveShares => encode(&IVaultV2::receiveSharesGateCall {}),
        GateKind::SendAssets => encode(&IVaultV2::sendAssetsGateCall {}),
        GateKind::SendShares => encode(&IVaultV2::sendSharesGateCall {}),
        GateKind::ReceiveAssets => encode(&IVaultV2::receiveAssetsGateCall {}),
    }
}

/// Encodes the question whether an account passes a gate of Vault V2.
///
/// [`decode_flag`](super::decode_flag) decodes the answer.
pub fn passes_gate_call(gate: GateKind, account: Address) -> Bytes {
    match gate {
        GateKind::ReceiveShares => encode(&IVaultV2::canReceiveSharesCall { account }),
        GateKind::SendAssets => encode(&IVaultV2::canSendAssetsCall { account }),
        GateKind::SendShares => encode(&IVaultV2::canSendSharesCall { account }),
        GateKind::ReceiveAssets => encode(&IVaultV2::canReceiveAssetsCall { account }),
    }
}

/// Encodes MetaMorpho's `withdrawQueueLength`; [`decode_length`](super::decode_length) decodes the answer.
pub fn withdraw_queue_length_call() -> Bytes {
    encode(&IMetaMorpho::withdrawQueueLengthCall {})
}

/// Encodes MetaMorpho's `withdrawQueue`; [`decode_market_id`](super::decode_market_id) decodes the answer.
pub fn withdraw_queue_call(index: u64) -> Bytes {
    encode(&IMetaMorpho::withdrawQueueCall { index: U256::from(index) })
}

/// Encodes MetaMorpho's `config` of a market; [`decode_market_config`] decodes the answer.
pub fn market_config_call(market_id: B256) -> Bytes {
    encode(&IMetaMorpho::configCall { id: market_id })
}

/// Decodes the answer to [`market_config_call`].
pub fn decode_market_config(answer: &[u8]) -> Option<MarketConfig> {
    let config = decode::<IMetaMorpho::configCall>(answer)?;
    Some(MarketConfig {
        cap: U256::from(config.cap),
        is_enabled: config.enabled,
        removable_at: config.removableAt,
    })
}
