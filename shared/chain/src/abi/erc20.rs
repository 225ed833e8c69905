//! The ERC-20 functions that we call.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IErc20 {
        function balanceOf(address owner) external view returns (uint256);
        function decimals() external view returns (uint8);
        function symbol() external view returns (string);
        function transfer(address to, uint256 value) external returns (bool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_sol_types::SolCall;

    #[test]
    fn the_selectors_are_those_of_the_standard() {
        assert_eq!(IErc20::balanceOfCall::SELECTOR, [0x70, 0xa0, 0x82, 0x31]);
        assert_eq!(IErc20::decimalsCall::SELECTOR, [0x31, 0x3c, 0xe5, 0x67]);
        assert_eq!(IErc20::symbolCall::SELECTOR, [0x95, 0xd8, 0x9b, 0x41]);
        assert_eq!(IErc20::transferCall::SELECTOR, [0xa9, 0x05, 0x9c, 0xbb]);
    }
}
