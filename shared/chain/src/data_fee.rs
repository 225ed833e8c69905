//! What a network takes for a transaction's data, on top of its gas (OP stack): no estimate of gas contains
//! it, and no field of the transaction bounds it.

use alloy_primitives::U256;
use alloy_sol_types::SolCall;
use bursar_core::networks::{FeeModel, Gas, OP_GAS_PRICE_ORACLE};

use crate::ports::{BlockTag, Chain, ChainFault};

// The interface is the predeploy's; what the macro makes of it needs no words of ours.
alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IGasPriceOracle {
        function getL1FeeUpperBound(uint256 unsignedTxSize) external view returns (uint256);
    }
}

/// The most that is taken for a transaction of so many bytes, in wei, with room for the price to double
/// before it is mined. Nothing on networks that fold it into gas, or take nothing.
///
/// # Errors
/// No node answered. A network of the OP stack without its oracle, as a local chain is, takes nothing.
pub async fn most(chain: &dyn Chain, gas: &Gas, bytes: usize) -> Result<U256, ChainFault> {
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
        message: "the gas price oracle gave no valid price".to_owned(),
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
