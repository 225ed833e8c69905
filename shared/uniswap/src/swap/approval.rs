//! Approvals of ERC-20 tokens and of Permit2, and their removal.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolCall;

use super::call::Call;
use crate::abi::permit2::{IPermit2, TokenSpenderPair};
use crate::abi::token::IErc20;
use crate::permit::{PermitFault, abi_amount, abi_expiration};

/// Returns the call that sets a token's allowance for `spender`, in its smallest unit.
///
/// Zero removes the allowance.
pub fn approve(token: Address, spender: Address, amount: U256) -> Call {
    let data = IErc20::approveCall { spender, value: amount }.abi_encode().into();
    Call { to: token, value: U256::ZERO, data }
}

/// Returns the call that sets the Permit2 allowance of a token for `spender`.
///
/// The allowance lasts until `expiration`, in Unix seconds. An expiration of zero lasts for the same block only.
///
/// # Errors
/// The amount exceeds 160 bits or the expiration 48 bits.
pub fn permit2_approve(
    permit2: Address,
    token: Address,
    spender: Address,
    amount: U256,
    expiration: u64,
) -> Result<Call, PermitFault> {
    let (amount, expiration) = (abi_amount(amount)?, abi_expiration(expiration)?);
    let data = IPermit2::approveCall { token, spender, amount, expiration }.abi_encode().into();
    Ok(Call { to: permit2, value: U256::ZERO, data })
}

/// Returns the call that removes the Permit2 allowances of pairs of token and spender.
///
/// Approvals of tokens to Permit2 itself remain.
pub fn permit2_lockdown(permit2: Address, pairs: &[(Address, Address)]) -> Call {
    let pair = |&(token, spender): &(Address, Address)| TokenSpenderPair { token, spender };
    let approvals = pairs.iter().map(pair).collect();
    let data = IPermit2::lockdownCall { approvals }.abi_encode().into();
    Call { to: permit2, value: U256::ZERO, data }
}
