//! The world's own definitions of the contracts' functions, events and errors.

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

    /// Version 2.1.1, which both networks have.
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

    #[derive(Debug)]
    interface Authorizations {
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    }
}
