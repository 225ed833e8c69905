//! The adapters through which a Vault V2 lends.

alloy_sol_types::sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IMarketAdapter {
        function marketIdsLength() external view returns (uint256);
        function marketIds(uint256 index) external view returns (bytes32);
        function expectedSupplyAssets(bytes32 marketId) external view returns (uint256);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IVaultAdapter {
        function morphoVaultV1() external view returns (address);
    }
}
