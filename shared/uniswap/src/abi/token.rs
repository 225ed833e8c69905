//! The functions and events of ERC-20 and WETH9 that a trade uses.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IErc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        function approve(address spender, uint256 value) external returns (bool);
    }

    #[derive(Debug)]
    interface IWrappedNative {
        event Deposit(address indexed dst, uint256 wad);
        event Withdrawal(address indexed src, uint256 wad);
        function deposit() external payable;
        function withdraw(uint256 wad) external;
    }
}
