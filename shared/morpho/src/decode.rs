//! Decodes the calls of a loan's plan, so that people see the real effect of the call data, not the plan's intention.
//!
//! A decoder accepts only the bytes that the contract's encoder writes. Any other call data is unknown. No decoded
//! contract function is payable: the caller checks that a call sends no native coin.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolCall;
use serde::{Deserialize, Serialize};

use crate::abi::blue::{AbiMarketParams, IMorphoBlue};
use crate::abi::decode_call_data;
use crate::abi::token::IErc20;
use crate::abi::vault::{IVault, IVaultV2};
use crate::market::MarketParams;
use crate::views::adapter::decode_liquidity_market;

/// The meaning of a call.
///
/// Assets are in smallest units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decoded {
    /// Sets the allowance of a token for `spender`, in the token's smallest unit.
    Approve { token: Address, spender: Address, amount: U256 },
    /// Deposits exactly `assets` into a vault.
    Deposit { vault: Address, assets: U256, receiver: Address },
    /// Buys exactly `shares` of a vault, at a price that only the allowance limits.
    Mint { vault: Address, shares: U256, receiver: Address },
    /// Withdraws exactly `assets` from a vault.
    Withdraw { vault: Address, assets: U256, receiver: Address, owner: Address },
    /// Redeems exactly `shares` of a vault.
    Redeem { vault: Address, shares: U256, receiver: Address, owner: Address },
    /// Supplies to a market of the singleton. One of `assets` and `shares` is zero, or the call reverts.
    MarketSupply {
        /// The market's id.
        market: B256,
        assets: U256,
        shares: U256,
        owner: Address,
        /// Whether the singleton calls the sender back with data, which no plan needs.
        has_callback_data: bool,
    },
    /// Withdraws from a market of the singleton. One of `assets` and `shares` is zero, or the call reverts.
    MarketWithdraw {
        /// The market's id.
        market: B256,
        assets: U256,
        shares: U256,
        owner: Address,
        receiver: Address,
    },
    /// Moves `assets` from an adapter of a Vault V2 to its idle balance; `owner` pays the penalty.
    ForceDeallocate {
        vault: Address,
        adapter: Address,
        /// The id of the market from which a market adapter takes the assets; `None` for another adapter.
        market: Option<B256>,
        assets: U256,
        owner: Address,
    },
    /// A call that no part of a plan makes.
    Unknown {
        to: Address,
        /// The first four bytes of the call data; `None` if there are fewer.
        selector: Option<[u8; 4]>,
    },
}

/// Decodes a call to `to` on the network of `singleton`.
///
/// At the singleton's address only its market functions are decoded. At any other address the functions of vaults and
/// tokens are decoded: the caller knows whether the contract is a vault or a token.
pub fn decode_call(singleton: Address, to: Address, data: &[u8]) -> Decoded {
    let selector = data.first_chunk::<4>().copied();
    let known = selector.and_then(|selector| {
        if to == singleton {
            decode_singleton_call(selector, data)
        } else {
            decode_token_or_vault_call(selector, to, data)
        }
    });
    known.unwrap_or(Decoded::Unknown { to, selector })
}

/// Decodes a transaction to `to` into its calls, in order: the parts of a vault's `multicall`, or the only call.
///
/// A vault calls itself with each part of a multicall; the sender stays the same. A nested multicall and a multicall
/// without parts are unknown calls.
pub fn decode_parts(singleton: Address, to: Address, data: &[u8]) -> Vec<Decoded> {
    let parts = decode_call_data::<IVaultV2::multicallCall>(data).map(|call| call.data);
    match parts.filter(|parts| to != singleton && !parts.is_empty()) {
        Some(parts) => parts.iter().map(|part| decode_call(singleton, to, part)).collect(),
        None => vec![decode_call(singleton, to, data)],
    }
}

/// Returns the vault from which a transaction withdraws after forced deallocations; `None` for any other transaction.
pub fn forced_exit_from(parts: &[Decoded]) -> Option<Address> {
    let (exit, forced) = parts.split_last()?;
    let is_forced = |part: &Decoded| matches!(part, Decoded::ForceDeallocate { .. });
    match *exit {
        Decoded::Withdraw { vault, .. } | Decoded::Redeem { vault, .. } => {
            (!forced.is_empty() && forced.iter().all(is_forced)).then_some(vault)
        }
        Decoded::Approve { .. }
        | Decoded::Deposit { .. }
        | Decoded::Mint { .. }
        | Decoded::MarketSupply { .. }
        | Decoded::MarketWithdraw { .. }
        | Decoded::ForceDeallocate { .. }
        | Decoded::Unknown { .. } => None,
    }
}

fn decode_singleton_call(selector: [u8; 4], data: &[u8]) -> Option<Decoded> {
    match selector {
        IMorphoBlue::supplyCall::SELECTOR => market_supply(data),
        IMorphoBlue::withdrawCall::SELECTOR => market_withdrawal(data),
        _other => None,
    }
}

fn decode_token_or_vault_call(selector: [u8; 4], to: Address, data: &[u8]) -> Option<Decoded> {
    match selector {
        IErc20::approveCall::SELECTOR => approval(to, data),
        IVault::depositCall::SELECTOR => deposit(to, data),
        IVault::mintCall::SELECTOR => mint(to, data),
        IVault::withdrawCall::SELECTOR => withdrawal(to, data),
        IVault::redeemCall::SELECTOR => redemption(to, data),
        IVaultV2::forceDeallocateCall::SELECTOR => forced_exit(to, data),
        _other => None,
    }
}

fn market_supply(data: &[u8]) -> Option<Decoded> {
    let call = decode_call_data::<IMorphoBlue::supplyCall>(data)?;
    Some(Decoded::MarketSupply {
        market: id(&call.params),
        assets: call.assets,
        shares: call.shares,
        owner: call.onBehalf,
        has_callback_data: !call.data.is_empty(),
    })
}

fn market_withdrawal(data: &[u8]) -> Option<Decoded> {
    let call = decode_call_data::<IMorphoBlue::withdrawCall>(data)?;
    Some(Decoded::MarketWithdraw {
        market: id(&call.params),
        assets: call.assets,
        shares: call.shares,
        owner: call.onBehalf,
        receiver: call.receiver,
    })
}

fn approval(token: Address, data: &[u8]) -> Option<Decoded> {
    let call = decode_call_data::<IErc20::approveCall>(data)?;
    Some(Decoded::Approve { token, spender: call.spender, amount: call.value })
}

fn deposit(vault: Address, data: &[u8]) -> Option<Decoded> {
    let IVault::depositCall { assets, receiver } = decode_call_data(data)?;
    Some(Decoded::Deposit { vault, assets, receiver })
}

fn mint(vault: Address, data: &[u8]) -> Option<Decoded> {
    let IVault::mintCall { shares, receiver } = decode_call_data(data)?;
    Some(Decoded::Mint { vault, shares, receiver })
}

fn withdrawal(vault: Address, data: &[u8]) -> Option<Decoded> {
    let IVault::withdrawCall { assets, receiver, owner } = decode_call_data(data)?;
    Some(Decoded::Withdraw { vault, assets, receiver, owner })
}

fn redemption(vault: Address, data: &[u8]) -> Option<Decoded> {
    let IVault::redeemCall { shares, receiver, owner } = decode_call_data(data)?;
    Some(Decoded::Redeem { vault, shares, receiver, owner })
}

/// Decodes a forced deallocation. Its data for the adapter is empty or the parameters of a market: plans use no
/// adapter whose data has another form.
fn forced_exit(vault: Address, data: &[u8]) -> Option<Decoded> {
    let call = decode_call_data::<IVaultV2::forceDeallocateCall>(data)?;
    let market = match call.data.is_empty() {
        true => None,
        false => Some(decode_liquidity_market(&call.data)?.id()),
    };
    let (adapter, assets, owner) = (call.adapter, call.assets, call.onBehalf);
    Some(Decoded::ForceDeallocate { vault, adapter, market, assets, owner })
}

fn id(params: &AbiMarketParams) -> B256 {
    MarketParams::from_abi(params).id()
}

#[cfg(test)]
mod tests;
