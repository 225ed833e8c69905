//! The fee that OP stack networks charge for a transaction's data on top of its gas. No gas estimate contains
//! it, and no field of the transaction bounds it.

use alloy_primitives::U256;
use alloy_sol_types::SolCall;
use bursar_core::networks::{FeeModel, Gas, OP_GAS_PRICE_ORACLE};

use crate::ports::{BlockTag, Chain, ChainFault};

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IGasPriceOracle {
        function getL1FeeUpperBound(uint256 unsignedTxSize) external view returns (uint256);
    }
}

/// Returns an upper bound of the data fee, in wei, for a transaction of `bytes` bytes.
///
/// The bound leaves room for the price to double before the transaction is mined. It is zero on networks that include
/// the fee in gas or charge none.
///
/// # Errors
/// No node answered, the oracle reverted, or its answer is invalid. A missing oracle, as on a local chain, is not an
/// error: the fee is zero.
pub async fn upper_bound(chain: &dyn Chain, gas: &Gas, bytes: usize) -> Result<U256, ChainFault> {
    match gas.model {
        FeeModel::OpStack => {}
        FeeModel::Eip1559 | FeeModel::Arbitrum | FeeModel::Legacy | FeeModel::Free => {
            return Ok(U256::ZERO);
        }
    }
    let data = IGasPriceOracle::getL1FeeUpperBoundCall { unsignedTxSize: U256::from(bytes) };
    let answer =
        chain.call(OP_GAS_PRICE_ORACLE, data.abi_encode().into(), BlockTag::Latest).await?;
    if answer.is_empty() {
        return Ok(U256::ZERO);
    }
    let unusable = || ChainFault::Rejected {
        code: 0,
        message: "the gas price oracle returned no valid price".to_owned(),
    };
    let fee = IGasPriceOracle::getL1FeeUpperBoundCall::abi_decode_returns_validate(&answer)
        .map_err(|_odd| unusable())?;
    fee.checked_mul(U256::from(2)).ok_or_else(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_that_of_the_predeploy() {
        let selector = IGasPriceOracle::getL1FeeUpperBoundCall::SELECTOR;
        assert_eq!(selector, [0xf1, 0xc7, 0xa5, 0x8b]);
    }
}
