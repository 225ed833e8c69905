//! Chainlink price feeds, and the stock tokens whose prices they report.

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

    /// Older stock tokens lack the function `oraclePaused`.
    #[derive(Debug)]
    interface IStockToken {
        function oraclePaused() external view returns (bool);
    }
}
