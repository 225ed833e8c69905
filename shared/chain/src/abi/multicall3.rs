//! Multicall3, which batches many calls into one.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IMulticall3 {
        struct Call3 {
            address target;
            bool allowFailure;
            bytes callData;
        }

        struct Call3Value {
            address target;
            bool allowFailure;
            uint256 value;
            bytes callData;
        }

        struct CallResult {
            bool success;
            bytes returnData;
        }

        function aggregate3(Call3[] calldata calls) external payable returns (CallResult[] memory);
        function aggregate3Value(Call3Value[] calldata calls) external payable returns (CallResult[] memory);
        function getCurrentBlockTimestamp() external view returns (uint256 timestamp);
        function getEthBalance(address addr) external view returns (uint256 balance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_sol_types::SolCall;

    #[test]
    fn the_selectors_are_those_of_the_contract() {
        assert_eq!(IMulticall3::aggregate3Call::SELECTOR, [0x82, 0xad, 0x56, 0xcb]);
        assert_eq!(IMulticall3::aggregate3Call::SIGNATURE, "aggregate3((address,bool,bytes)[])");
        assert_eq!(IMulticall3::aggregate3ValueCall::SELECTOR, [0x17, 0x4d, 0xea, 0x71]);
        assert_eq!(IMulticall3::getCurrentBlockTimestampCall::SELECTOR, [0x0f, 0x28, 0xc9, 0x7d]);
        assert_eq!(IMulticall3::getEthBalanceCall::SELECTOR, [0x4d, 0x23, 0x01, 0xcc]);
    }
}
