//! The function and the event of ERC-20 that a loan uses.

alloy_sol_types::sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IErc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        function approve(address spender, uint256 value) external returns (bool);
    }
}
