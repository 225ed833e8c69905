//! Morpho Blue and the interest rate models of its markets.

alloy_sol_types::sol! {
    #[derive(Debug, PartialEq, Eq)]
    struct AbiMarketParams {
        address loanToken;
        address collateralToken;
        address oracle;
        address irm;
        uint256 lltv;
    }

    #[derive(Debug, PartialEq, Eq)]
    struct AbiMarket {
        uint128 totalSupplyAssets;
        uint128 totalSupplyShares;
        uint128 totalBorrowAssets;
        uint128 totalBorrowShares;
        uint128 lastUpdate;
        uint128 fee;
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IMorphoBlue {
        event Supply(
            bytes32 indexed id,
            address indexed caller,
            address indexed onBehalf,
            uint256 assets,
            uint256 shares
        );
        event Withdraw(
            bytes32 indexed id,
            address caller,
            address indexed onBehalf,
            address indexed receiver,
            uint256 assets,
            uint256 shares
        );

        function idToMarketParams(bytes32 id) external view returns (AbiMarketParams params);
        function market(bytes32 id) external view returns (AbiMarket market);
        function position(bytes32 id, address user) external view returns (
            uint256 supplyShares,
            uint128 borrowShares,
            uint128 collateral
        );
        function supply(
            AbiMarketParams params,
            uint256 assets,
            uint256 shares,
            address onBehalf,
            bytes data
        ) external returns (uint256 assetsSupplied, uint256 sharesSupplied);
        function withdraw(
            AbiMarketParams params,
            uint256 assets,
            uint256 shares,
            address onBehalf,
            address receiver
        ) external returns (uint256 assetsWithdrawn, uint256 sharesWithdrawn);
        function accrueInterest(AbiMarketParams params) external;
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IInterestModel {
        function borrowRateView(AbiMarketParams params, AbiMarket market)
            external view returns (uint256 rate);
    }
}
