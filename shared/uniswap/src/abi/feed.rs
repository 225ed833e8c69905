//! A Chainlink price feed, and the tokens of stocks that such feeds value.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IFeed {
        function latestRoundData() external view returns (
            uint80 roundId,
            int256 answer,
            uint256 startedAt,
            uint256 updatedAt,
            uint80 answeredInRound
        );
        function decimals() external view returns (uint8);
    }

    /// Older tokens have no such function.
    #[derive(Debug)]
    interface IStockToken {
        function oraclePaused() external view returns (bool);
    }
}
