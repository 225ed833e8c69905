//! The call of a transaction, the terms of a swap, and why a swap cannot be encoded.

use alloy_primitives::{Address, Bytes, U256};

use crate::permit::PermitFault;

/// The receiver, the value and the data of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The contract.
    pub to: Address,
    /// Native coin that the call pays, in wei.
    pub value: U256,
    /// Selector and arguments.
    pub data: Bytes,
}

/// The amounts and the time of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Smallest units of the input.
    pub amount_in: U256,
    /// Minimum output, in smallest units: a swap that would pay less reverts.
    pub min_out: U256,
    /// Unix seconds of chain time after which the swap reverts.
    pub deadline: u64,
}

/// Why a swap cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SwapFault {
    /// The amount is zero. Both routers read zero as a special value: the router's whole balance or its open debt.
    #[error("the swap's amount is zero")]
    NoAmount,
    #[error("the swap has no minimum output, so nothing would limit its price")]
    NoFloor,
    #[error("the amount exceeds what a v4 pool can trade")]
    TooLarge,
    #[error("the path does not start or end with the wrapped native coin")]
    NotNative,
    #[error("the recipient cannot be the zero address, a router's placeholder or a router")]
    Recipient,
    #[error("the minimum prices do not fit the path or the router's version")]
    HopPrices,
    #[error("the permit does not cover this swap: token, spender, amount or times differ")]
    PermitMismatch,
    #[error(transparent)]
    Permit(#[from] PermitFault),
}

impl Terms {
    pub(super) fn check(&self) -> Result<(), SwapFault> {
        if self.amount_in.is_zero() {
            return Err(SwapFault::NoAmount);
        }
        if self.min_out.is_zero() { Err(SwapFault::NoFloor) } else { Ok(()) }
    }
}
