//! The parts of the lending contracts' interfaces that the kit calls.

use alloy_sol_types::sol;

sol! {
    #[derive(Debug)]
    struct MarketParams {
        address loanToken; address collateralToken; address oracle; address irm; uint256 lltv;
    }

    interface IMorpho {
        function enableIrm(address irm) external;
        function enableLltv(uint256 lltv) external;
        function createMarket(MarketParams params) external;
        function supply(
            MarketParams params, uint256 assets, uint256 shares, address onBehalf, bytes data
        ) external returns (uint256, uint256);
        function supplyCollateral(
            MarketParams params, uint256 assets, address onBehalf, bytes data
        ) external;
        function borrow(
            MarketParams params, uint256 assets, uint256 shares, address onBehalf, address receiver
        ) external returns (uint256, uint256);
        function repay(
            MarketParams params, uint256 assets, uint256 shares, address onBehalf, bytes data
        ) external returns (uint256, uint256);
        function liquidate(
            MarketParams params, address borrower, uint256 seizedAssets, uint256 repaidShares,
            bytes data
        ) external returns (uint256, uint256);
        function accrueInterest(MarketParams params) external;
        function isIrmEnabled(address irm) external view returns (bool);
        function market(bytes32 id) external view returns (
            uint128 totalSupplyAssets, uint128 totalSupplyShares, uint128 totalBorrowAssets,
            uint128 totalBorrowShares, uint128 lastUpdate, uint128 fee
        );
        function position(bytes32 id, address user) external view returns (
            uint256 supplyShares, uint128 borrowShares, uint128 collateral
        );
    }

    interface IIrm {
        function set(bytes32 market, uint256 rate) external;
    }

    interface IOracle {
        function price() external view returns (uint256);
        function set(uint256 price) external;
    }

    interface IVaultV2 {
        function owner() external view returns (address);
        function asset() external view returns (address);
        function adapterRegistry() external view returns (address);
        function setCurator(address newCurator) external;
        function setNameAndSymbol(string name, string symbol) external;
        function setAdapterRegistry(address registry) external;
        function addAdapter(address adapter) external;
        function removeAdapter(address adapter) external;
        function setLiquidityAdapterAndData(address adapter, bytes data) external;
        function setCaps(bytes32 id, uint256 absolute, uint256 relative_) external;
        function setReceiveSharesGate(address gate) external;
        function setSendSharesGate(address gate) external;
        function setReceiveAssetsGate(address gate) external;
        function setSendAssetsGate(address gate) external;
        function setMaxRate(uint64 rate) external;
        function setFees(uint96 performance, uint96 management, address recipient) external;
        function setForceDeallocatePenalty(address adapter, uint256 penalty) external;
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function allocate(address adapter, bytes data, uint256 assets) external;
        function deallocate(address adapter, bytes data, uint256 assets) external;
    }

    interface IVaultV2Factory {
        function createVaultV2(address owner, address asset, bytes32 salt) external
            returns (address vault);
        function register(address owner, address asset, bytes32 salt, address vault) external;
    }

    interface IAdapters {
        function createMorphoMarketV1AdapterV2(address parentVault) external
            returns (address adapter);
        function createMorphoVaultV1Adapter(address parentVault, address morphoVaultV1) external
            returns (address adapter);
    }

    interface IMarketAdapter {
        function ids(MarketParams params) external view returns (bytes32[]);
    }

    interface IPlainAdapter {
        function ids() external view returns (bytes32[]);
    }

    interface IMetaMorpho {
        function setCurator(address newCurator) external;
        function setCap(MarketParams params, uint184 cap) external;
        function setFee(uint96 fee, address recipient) external;
    }

    interface IMetaMorphoFactory {
        function createMetaMorpho(
            address initialOwner, uint256 initialTimelock, address asset, string name,
            string symbol, bytes32 salt
        ) external returns (address vault);
        function register(address vault, bytes32 salt) external;
    }

    interface IGate {
        function setOpen(bool open) external;
    }

    interface ILyingVault {
        function setLie(uint8 lie, uint256 value) external;
    }

    interface IOddAdapter {
        function setPart(uint256 part) external;
        function setLeverage(uint256 leverage) external;
        function setRefuses(bool refuses) external;
        function steal(address to, uint256 assets) external;
    }

    interface IForger {
        function forgeDeposit(address owner, uint256 assets, uint256 shares) external;
        function forgeSupply(bytes32 id, address owner, uint256 assets, uint256 shares) external;
    }
}
