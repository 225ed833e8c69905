//! Definitions of the contracts' functions, events and errors, independent of the wallet's own.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface Erc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        event Approval(address indexed owner, address indexed spender, uint256 value);
        function allowance(address owner, address spender) external view returns (uint256);
        function approve(address spender, uint256 value) external returns (bool);
        function balanceOf(address owner) external view returns (uint256);
        function decimals() external view returns (uint8);
        function symbol() external view returns (string);
        function transfer(address to, uint256 value) external returns (bool);
    }

    #[derive(Debug)]
    interface Weth {
        event Deposit(address indexed dst, uint256 wad);
        event Withdrawal(address indexed src, uint256 wad);
        function deposit() external payable;
        function withdraw(uint256 wad) external;
    }

    #[derive(Debug)]
    interface Many {
        struct One { address target; bool allowFailure; bytes callData; }
        struct OneWithValue { address target; bool allowFailure; uint256 value; bytes callData; }
        struct Outcome { bool success; bytes returnData; }
        function aggregate3(One[] calls) external payable returns (Outcome[] outcomes);
        function aggregate3Value(OneWithValue[] calls) external payable returns (Outcome[] outcomes);
        function getCurrentBlockTimestamp() external view returns (uint256 timestamp);
        function getEthBalance(address addr) external view returns (uint256 balance);
    }

    #[derive(Debug)]
    struct Details { address token; uint160 amount; uint48 expiration; uint48 nonce; }

    #[derive(Debug)]
    struct Single { Details details; address spender; uint256 sigDeadline; }

    #[derive(Debug)]
    interface Permit2 {
        event Approval(address indexed owner, address indexed token, address indexed spender, uint160 amount, uint48 expiration);
        event Permit(address indexed owner, address indexed token, address indexed spender, uint160 amount, uint48 expiration, uint48 nonce);
        error AllowanceExpired(uint256 deadline);
        error InsufficientAllowance(uint256 amount);
        error SignatureExpired(uint256 signatureDeadline);
        error InvalidNonce();
        error InvalidSigner();
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function allowance(address user, address token, address spender) external view returns (uint160 amount, uint48 expiration, uint48 nonce);
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
    }

    #[derive(Debug)]
    interface Factory3 {
        function getPool(address a, address b, uint24 fee) external view returns (address pool);
    }

    #[derive(Debug)]
    interface Pool3 {
        event Swap(address indexed sender, address indexed recipient, int256 amount0, int256 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick);
        function slot0() external view returns (uint160 sqrtPriceX96, int24 tick, uint16 i, uint16 c, uint16 n, uint8 f, bool unlocked);
        function liquidity() external view returns (uint128);
    }

    #[derive(Debug)]
    interface Quoter3 {
        struct Params { address tokenIn; address tokenOut; uint256 amountIn; uint24 fee; uint160 limit; }
        function quoteExactInputSingle(Params params) external returns (uint256 amountOut, uint160 after_, uint32 ticks, uint256 gas);
        function quoteExactInput(bytes path, uint256 amountIn) external returns (uint256 amountOut, uint160[] after_, uint32[] ticks, uint256 gas);
    }

    #[derive(Debug)]
    interface Router3 {
        struct SingleParams { address tokenIn; address tokenOut; uint24 fee; address recipient; uint256 amountIn; uint256 amountOutMinimum; uint160 limit; }
        struct PathParams { bytes path; address recipient; uint256 amountIn; uint256 amountOutMinimum; }
        function multicall(uint256 deadline, bytes[] data) external payable returns (bytes[] results);
        function exactInputSingle(SingleParams params) external payable returns (uint256 amountOut);
        function exactInput(PathParams params) external payable returns (uint256 amountOut);
        function unwrapWETH9(uint256 amountMinimum, address recipient) external payable;
        function refundETH() external payable;
        function factory() external view returns (address);
        function WETH9() external view returns (address);
    }

    #[derive(Debug)]
    struct Key { address currency0; address currency1; uint24 fee; int24 tickSpacing; address hooks; }

    #[derive(Debug)]
    interface View4 {
        function getSlot0(bytes32 id) external view returns (uint160 sqrtPriceX96, int24 tick, uint24 protocolFee, uint24 lpFee);
        function getLiquidity(bytes32 id) external view returns (uint128);
        function poolManager() external view returns (address);
    }

    #[derive(Debug)]
    interface Quoter4 {
        struct Params { Key key; bool zeroForOne; uint128 exactAmount; bytes hookData; }
        error UnexpectedRevertBytes(bytes revertData);
        error NotEnoughLiquidity(bytes32 poolId);
        error PoolNotInitialized();
        function quoteExactInputSingle(Params params) external returns (uint256 amountOut, uint256 gas);
    }

    #[derive(Debug)]
    interface Manager4 {
        event Swap(bytes32 indexed id, address indexed sender, int128 amount0, int128 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick, uint24 fee);
        error CurrencyNotSettled();
    }

    /// The layout of version 2.1.1 of the router, which both networks have.
    #[derive(Debug)]
    struct Swap4 { Key key; bool zeroForOne; uint128 amountIn; uint128 amountOutMinimum; uint256 minHopPriceX36; bytes hookData; }

    #[derive(Debug)]
    interface Universal {
        error TransactionDeadlinePassed();
        error InvalidCommandType(uint256 commandType);
        error V4TooLittleReceived(uint256 minimum, uint256 received);
        error V4TooMuchRequested(uint256 maximum, uint256 requested);
        error V4TooLittleReceivedPerHop(uint256 hop, uint256 minPrice, uint256 price);
        error ETHNotAccepted();
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
    }

    #[derive(Debug)]
    interface Feed {
        function latestRoundData() external view returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
        function decimals() external view returns (uint8);
    }

    #[derive(Debug)]
    interface DataFee {
        function getL1FeeUpperBound(uint256 size) external view returns (uint256);
    }

    #[derive(Debug, PartialEq, Eq)]
    struct MarketParams { address loanToken; address collateralToken; address oracle; address irm; uint256 lltv; }

    #[derive(Debug)]
    interface Blue {
        event Supply(bytes32 indexed id, address indexed caller, address indexed onBehalf, uint256 assets, uint256 shares);
        event Withdraw(bytes32 indexed id, address caller, address indexed onBehalf, address indexed receiver, uint256 assets, uint256 shares);
        function idToMarketParams(bytes32 id) external view returns (address loanToken, address collateralToken, address oracle, address irm, uint256 lltv);
        function market(bytes32 id) external view returns (uint128 supplyAssets, uint128 supplyShares, uint128 borrowAssets, uint128 borrowShares, uint128 lastUpdate, uint128 fee);
        function position(bytes32 id, address user) external view returns (uint256 supplyShares, uint128 borrowShares, uint128 collateral);
        function supply(MarketParams params, uint256 assets, uint256 shares, address onBehalf, bytes data) external returns (uint256 supplied, uint256 received);
        function withdraw(MarketParams params, uint256 assets, uint256 shares, address onBehalf, address receiver) external returns (uint256 withdrawn, uint256 given);
        function accrueInterest(MarketParams params) external;
    }

    #[derive(Debug)]
    interface Vault {
        event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
        event Withdraw(address indexed sender, address indexed receiver, address indexed owner, uint256 assets, uint256 shares);
        error TransferFromReverted();
        error TransferReverted();
        error CannotReceiveShares();
        error CannotSendShares();
        error CannotReceiveAssets();
        error CannotSendAssets();
        error Unauthorized();
        error AbsoluteCapExceeded();
        error ZeroAbsoluteCap();
        error NotEnoughLiquidity();
        error AllCapsReached();
        error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
        function name() external view returns (string);
        function symbol() external view returns (string);
        function asset() external view returns (address);
        function owner() external view returns (address);
        function curator() external view returns (address);
        function totalAssets() external view returns (uint256);
        function totalSupply() external view returns (uint256);
        function convertToAssets(uint256 shares) external view returns (uint256);
        function previewDeposit(uint256 assets) external view returns (uint256);
        function previewMint(uint256 shares) external view returns (uint256);
        function previewWithdraw(uint256 assets) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function maxWithdraw(address owner) external view returns (uint256);
        function deposit(uint256 assets, address onBehalf) external returns (uint256 shares);
        function mint(uint256 shares, address onBehalf) external returns (uint256 assets);
        function withdraw(uint256 assets, address receiver, address onBehalf) external returns (uint256 shares);
        function redeem(uint256 shares, address receiver, address onBehalf) external returns (uint256 assets);
    }

    #[derive(Debug)]
    interface VaultTwo {
        function adaptersLength() external view returns (uint256);
        function adapters(uint256 index) external view returns (address);
        function adapterRegistry() external view returns (address);
        function liquidityAdapter() external view returns (address);
        function liquidityData() external view returns (bytes);
        function virtualShares() external view returns (uint256);
        function absoluteCap(bytes32 id) external view returns (uint256);
        function canReceiveShares(address account) external view returns (bool);
        function canSendShares(address account) external view returns (bool);
        function canReceiveAssets(address account) external view returns (bool);
        function canSendAssets(address account) external view returns (bool);
    }

    #[derive(Debug)]
    interface VaultOne {
        function withdrawQueueLength() external view returns (uint256);
        function withdrawQueue(uint256 index) external view returns (bytes32);
        function config(bytes32 id) external view returns (uint184 cap, bool enabled, uint64 removableAt);
    }

    #[derive(Debug)]
    interface Adapter {
        function marketIdsLength() external view returns (uint256);
        function marketIds(uint256 index) external view returns (bytes32);
        function expectedSupplyAssets(bytes32 id) external view returns (uint256);
        function morphoVaultV1() external view returns (address);
    }

    #[derive(Debug)]
    interface Factories {
        function isVaultV2(address account) external view returns (bool);
        function isMetaMorpho(address account) external view returns (bool);
        function isMorphoMarketV1AdapterV2(address account) external view returns (bool);
        function isMorphoVaultV1Adapter(address account) external view returns (bool);
    }

    #[derive(Debug)]
    interface Authorizations {
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    }
}
