//! The part of ERC-20 that is read.

// The interface is the standard's; what the macro makes of it needs no words of ours.
alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IErc20 {
        function balanceOf(address owner) external view returns (uint256);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_sol_types::SolCall;

    #[test]
    fn the_selectors_are_those_of_the_standard() {
        assert_eq!(IErc20::balanceOfCall::SELECTOR, [0x70, 0xa0, 0x82, 0x31]);
    }
}
