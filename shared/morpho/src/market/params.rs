//! The parameters that define a market, and its id.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::SolValue;
use serde::{Deserialize, Serialize};

use crate::abi::blue::AbiMarketParams;

/// The parameters that define a market.
///
/// Two markets with the same parameters are the same market.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MarketParams {
    /// The token that is lent.
    pub loan_token: Address,
    /// The token that borrowers pledge; zero for a market without loans.
    pub collateral_token: Address,
    /// The contract that prices the collateral.
    pub oracle: Address,
    /// The interest rate model; zero for a market without interest.
    pub interest_model: Address,
    /// The fraction of the collateral's value at which a loan is liquidated, with 18 decimals.
    pub lltv_e18: U256,
}

impl MarketParams {
    /// Returns the market's id in the singleton: the hash of the five parameters, one word each.
    pub fn id(&self) -> B256 {
        keccak256(self.to_abi().abi_encode())
    }

    pub(crate) fn to_abi(self) -> AbiMarketParams {
        AbiMarketParams {
            loanToken: self.loan_token,
            collateralToken: self.collateral_token,
            oracle: self.oracle,
            irm: self.interest_model,
            lltv: self.lltv_e18,
        }
    }

    pub(crate) fn from_abi(params: &AbiMarketParams) -> Self {
        Self {
            loan_token: params.loanToken,
            collateral_token: params.collateralToken,
            oracle: params.oracle,
            interest_model: params.irm,
            lltv_e18: params.lltv,
        }
    }
}
