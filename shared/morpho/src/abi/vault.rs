//! The two kinds of vaults: the functions of both (ERC-4626 and the roles), and those of only one kind.

alloy_sol_types::sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IVault {
        event Deposit(
            address indexed sender,
            address indexed owner,
            uint256 assets,
            uint256 shares
        );
        event Withdraw(
            address indexed sender,
            address indexed receiver,
            address indexed owner,
            uint256 assets,
            uint256 shares
        );

        function asset() external view returns (address);
        function totalAssets() external view returns (uint256);
        function totalSupply() external view returns (uint256);
        function balanceOf(address account) external view returns (uint256);
        function curator() external view returns (address);
        function owner() external view returns (address);
        function previewDeposit(uint256 assets) external view returns (uint256);
        function previewMint(uint256 shares) external view returns (uint256);
        function previewWithdraw(uint256 assets) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function convertToAssets(uint256 shares) external view returns (uint256);
        function maxWithdraw(address owner) external view returns (uint256);
        function deposit(uint256 assets, address receiver) external returns (uint256);
        function mint(uint256 shares, address receiver) external returns (uint256);
        function withdraw(uint256 assets, address receiver, address owner)
            external returns (uint256);
        function redeem(uint256 shares, address receiver, address owner)
            external returns (uint256);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IVaultV2 {
        function adaptersLength() external view returns (uint256);
        function adapters(uint256 index) external view returns (address);
        function adapterRegistry() external view returns (address);
        function liquidityAdapter() external view returns (address);
        function liquidityData() external view returns (bytes);
        function virtualShares() external view returns (uint256);
        function absoluteCap(bytes32 id) external view returns (uint256);
        function forceDeallocatePenalty(address adapter) external view returns (uint256);
        function receiveSharesGate() external view returns (address);
        function sendSharesGate() external view returns (address);
        function receiveAssetsGate() external view returns (address);
        function sendAssetsGate() external view returns (address);
        function canReceiveShares(address account) external view returns (bool);
        function canSendShares(address account) external view returns (bool);
        function canReceiveAssets(address account) external view returns (bool);
        function canSendAssets(address account) external view returns (bool);
        function forceDeallocate(address adapter, bytes data, uint256 assets, address onBehalf)
            external returns (uint256);
        function multicall(bytes[] data) external;
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IMetaMorpho {
        function withdrawQueueLength() external view returns (uint256);
        function withdrawQueue(uint256 index) external view returns (bytes32);
        function config(bytes32 id) external view returns (
            uint184 cap,
            bool enabled,
            uint64 removableAt
        );
    }
}
