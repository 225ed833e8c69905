//! The token allowances that an address has given to contracts.

use alloy_primitives::{Address, U256};
use bursar_core::networks::Network;
use bursar_uniswap::{Call, permit, swap};

/// An allowance that is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    pub token: Address,
    /// The contract that may take the token.
    pub spender: Address,
    pub spender_name: &'static str,
    /// In the token's smallest unit.
    pub amount: U256,
    /// When the allowance expires, in Unix seconds; only allowances within Permit2 expire.
    pub until: Option<u64>,
}

impl Allowance {
    /// Returns whether the allowance is more than any balance can be.
    pub fn is_unlimited(&self) -> bool {
        // An amount from the largest 160-bit number on is unlimited in Permit2; in some tokens the largest 96-bit
        // number is unlimited.
        self.amount >= permit::PERMIT2_AMOUNT_MAX || self.amount == U256::from(u128::MAX >> 32)
    }
}

/// The allowances of one address on one network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowances {
    pub allowances: Vec<Allowance>,
    /// The number of allowances that were read.
    pub read_count: usize,
    /// Tokens that gave no valid answer.
    pub unreadable: Vec<Address>,
}

impl Allowances {
    pub(super) fn add(&mut self, allowance: Allowance) {
        self.read_count = self.read_count.saturating_add(1);
        if !allowance.amount.is_zero() {
            self.allowances.push(allowance);
        }
    }
}

/// Returns the call that sets an allowance to zero.
///
/// `None` for an allowance within Permit2 on a network without an exchange.
pub fn revocation_of(network: &Network, allowance: &Allowance) -> Option<Call> {
    let Allowance { token, spender, .. } = *allowance;
    if allowance.until.is_none() {
        return Some(swap::approve(token, spender, U256::ZERO));
    }
    let permit2 = network.exchange?.permit2;
    swap::permit2_approve(permit2, token, spender, U256::ZERO, 0).ok()
}
