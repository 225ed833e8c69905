//! The factories of vaults and adapters. Each answers whether it created a given contract.

alloy_sol_types::sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IVaultV2Factory {
        event CreateVaultV2(
            address indexed owner,
            address indexed asset,
            bytes32 salt,
            address indexed newVaultV2
        );
        function isVaultV2(address account) external view returns (bool);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IMetaMorphoFactory {
        event CreateMetaMorpho(
            address indexed metaMorpho,
            address indexed caller,
            address initialOwner,
            uint256 initialTimelock,
            address indexed asset,
            string name,
            string symbol,
            bytes32 salt
        );
        function isMetaMorpho(address account) external view returns (bool);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IMarketAdapterFactory {
        function isMorphoMarketV1AdapterV2(address account) external view returns (bool);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IVaultAdapterFactory {
        function isMorphoVaultV1Adapter(address account) external view returns (bool);
    }
}
