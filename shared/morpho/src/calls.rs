//! Call data of each write of a loan. The called contract is the vault or the singleton; the token's approval names
//! the same contract as spender.

use alloy_primitives::{Address, Bytes, U256};

use crate::abi::blue::IMorphoBlue;
use crate::abi::encode;
use crate::abi::vault::{IVault, IVaultV2};
use crate::market::MarketParams;

/// The amount of a supply to a market or of a withdrawal from it.
///
/// The contract's functions have an argument for each variant; the call sets the unused argument to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoanAmount {
    /// Smallest units of the loan token.
    Assets(U256),
    /// Shares of the market. A full exit states shares, because an amount of assets could leave some shares behind.
    Shares(U256),
}

/// Why a write cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// The contracts reject a zero amount, or succeed without any effect.
    #[error("the amount is zero")]
    NoAmount,
    /// Shares or assets of the zero address are lost.
    #[error("an address of the call is the zero address")]
    NoAddress,
}

impl LoanAmount {
    /// Returns the arguments `assets` and `shares`.
    fn to_arguments(self) -> Result<(U256, U256), CallFault> {
        match self {
            Self::Assets(assets) => Ok((require_nonzero_amount(assets)?, U256::ZERO)),
            Self::Shares(shares) => Ok((U256::ZERO, require_nonzero_amount(shares)?)),
        }
    }
}

/// Deposits `assets`, in smallest units, into a vault of either kind; `receiver` gets the shares.
///
/// # Errors
/// The amount or the receiver is zero.
pub fn deposit(assets: U256, receiver: Address) -> Result<Bytes, CallFault> {
    let (assets, receiver) = (require_nonzero_amount(assets)?, require_nonzero_address(receiver)?);
    Ok(encode(&IVault::depositCall { assets, receiver }))
}

/// Buys exactly `shares` of a vault of either kind.
///
/// Only the token's allowance limits the price.
///
/// # Errors
/// The amount or the receiver is zero.
pub fn mint(shares: U256, receiver: Address) -> Result<Bytes, CallFault> {
    let (shares, receiver) = (require_nonzero_amount(shares)?, require_nonzero_address(receiver)?);
    Ok(encode(&IVault::mintCall { shares, receiver }))
}

/// Withdraws exactly `assets`, in smallest units, from a vault of either kind to the owner itself.
///
/// # Errors
/// The amount or the owner is zero.
pub fn withdraw(assets: U256, owner: Address) -> Result<Bytes, CallFault> {
    let (assets, owner) = (require_nonzero_amount(assets)?, require_nonzero_address(owner)?);
    Ok(encode(&IVault::withdrawCall { assets, receiver: owner, owner }))
}

/// Redeems `shares` of a vault of either kind; their owner receives the assets.
///
/// A full exit uses this function, because a withdrawal by assets could leave some shares behind.
///
/// # Errors
/// The amount or the owner is zero.
pub fn redeem(shares: U256, owner: Address) -> Result<Bytes, CallFault> {
    let (shares, owner) = (require_nonzero_amount(shares)?, require_nonzero_address(owner)?);
    Ok(encode(&IVault::redeemCall { shares, receiver: owner, owner }))
}

/// Supplies to a market of the singleton, without a callback.
///
/// # Errors
/// The amount or the owner is zero.
pub fn supply(
    market: &MarketParams,
    amount: LoanAmount,
    owner: Address,
) -> Result<Bytes, CallFault> {
    let (assets, shares) = amount.to_arguments()?;
    Ok(encode(&IMorphoBlue::supplyCall {
        params: market.to_abi(),
        assets,
        shares,
        onBehalf: require_nonzero_address(owner)?,
        data: Bytes::new(),
    }))
}

/// Withdraws from a market of the singleton to the owner itself.
///
/// # Errors
/// The amount or the owner is zero.
pub fn withdraw_from_market(
    market: &MarketParams,
    amount: LoanAmount,
    owner: Address,
) -> Result<Bytes, CallFault> {
    let (assets, shares) = amount.to_arguments()?;
    let owner = require_nonzero_address(owner)?;
    Ok(encode(&IMorphoBlue::withdrawCall {
        params: market.to_abi(),
        assets,
        shares,
        onBehalf: owner,
        receiver: owner,
    }))
}

/// Moves `assets`, in smallest units, from an adapter of a Vault V2 to its idle balance.
///
/// The owner pays the [penalty](crate::vault::force_deallocate_cost) in shares.
///
/// `market` is the market of a market adapter, `None` for an adapter of a MetaMorpho vault.
///
/// # Errors
/// The amount, the adapter or the owner is zero.
pub fn force_deallocate(
    adapter: Address,
    market: Option<&MarketParams>,
    assets: U256,
    owner: Address,
) -> Result<Bytes, CallFault> {
    let data = market.map_or_else(Bytes::new, liquidity_data);
    let (assets, adapter, owner) = (
        require_nonzero_amount(assets)?,
        require_nonzero_address(adapter)?,
        require_nonzero_address(owner)?,
    );
    Ok(encode(&IVaultV2::forceDeallocateCall { adapter, data, assets, onBehalf: owner }))
}

/// One forced deallocation of a [`forced_exit`], which moves assets to the idle balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedPart {
    pub adapter: Address,
    /// The market of a market adapter, `None` for an adapter of a MetaMorpho vault.
    pub market: Option<MarketParams>,
    /// Smallest units of the asset.
    pub assets: U256,
}

/// Withdraws from a Vault V2 after forced deallocations, all in one transaction of the owner.
///
/// # Errors
/// There is no forced deallocation, or the amount, an adapter or the owner is zero.
pub fn forced_exit(
    parts: &[ForcedPart],
    exit: LoanAmount,
    owner: Address,
) -> Result<Bytes, CallFault> {
    if parts.is_empty() {
        return Err(CallFault::NoAmount);
    }
    let forced = parts
        .iter()
        .map(|part| force_deallocate(part.adapter, part.market.as_ref(), part.assets, owner));
    let exit = match exit {
        LoanAmount::Assets(assets) => withdraw(assets, owner),
        LoanAmount::Shares(shares) => redeem(shares, owner),
    };
    let data = forced.chain([exit]).collect::<Result<Vec<Bytes>, CallFault>>()?;
    Ok(encode(&IVaultV2::multicallCall { data }))
}

/// Returns the data with which a Vault V2 names a market to its market adapter.
pub fn liquidity_data(market: &MarketParams) -> Bytes {
    alloy_sol_types::SolValue::abi_encode(&market.to_abi()).into()
}

fn require_nonzero_amount(amount: U256) -> Result<U256, CallFault> {
    if amount.is_zero() { Err(CallFault::NoAmount) } else { Ok(amount) }
}

fn require_nonzero_address(address: Address) -> Result<Address, CallFault> {
    if address.is_zero() { Err(CallFault::NoAddress) } else { Ok(address) }
}

#[cfg(test)]
mod tests;
