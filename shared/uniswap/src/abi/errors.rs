//! The custom errors with which a quote or a swap may revert.

/// Errors of the Universal Router and its v4 swaps.
pub mod router {
    alloy_sol_types::sol! {
        #[derive(Debug)]
        interface RouterErrors {
            error V4TooLittleReceived(uint256 minAmountOutReceived, uint256 amountReceived);
            error V4TooMuchRequested(uint256 maxAmountInRequested, uint256 amountRequested);
            error V4TooLittleReceivedPerHopSingle(uint256 minPrice, uint256 price);
            error V4TooLittleReceivedPerHop(uint256 hopIndex, uint256 minPrice, uint256 price);
            error V3TooLittleReceived();
            error V3TooLittleReceivedPerHop(uint256 hopIndex, uint256 minPrice, uint256 price);
            error InvalidHopPriceLength();
            error TransactionDeadlinePassed();
            error ExecutionFailed(uint256 commandIndex, bytes message);
            error SliceOutOfBounds();
            error InsufficientETH();
            error InsufficientToken();
            error InvalidEthSender();
            error LengthMismatch();
            error InputLengthMismatch();
            error InvalidCommandType(uint256 commandType);
            error UnsupportedAction(uint256 action);
        }
    }
}

/// Errors of the v4 pools, their hooks and V4Quoter.
pub mod pool {
    alloy_sol_types::sol! {
        #[derive(Debug)]
        interface PoolErrors {
            error NotEnoughLiquidity(bytes32 poolId);
            error UnexpectedRevertBytes(bytes revertData);
            error QuoteSwap(uint256 amount);
            error PoolNotInitialized();
            error CurrencyNotSettled();
            error SwapAmountCannotBeZero();
            error PriceLimitAlreadyExceeded(uint160 sqrtPriceCurrentX96, uint160 sqrtPriceLimitX96);
            error HookCallFailed();
            error InvalidHookResponse();
            error HookDeltaExceedsSwapAmount();
            error ERC20TransferFailed();
            error NativeTransferFailed();
            error SafeCastOverflow();
            error WrappedError(address target, bytes4 selector, bytes reason, bytes details);
        }
    }
}

/// Errors of Permit2.
pub mod permit2 {
    alloy_sol_types::sol! {
        #[derive(Debug)]
        interface Permit2Errors {
            error AllowanceExpired(uint256 deadline);
            error InsufficientAllowance(uint256 amount);
            error InvalidNonce();
            error SignatureExpired(uint256 signatureDeadline);
            error InvalidSigner();
            error InvalidSignature();
            error InvalidSignatureLength();
            error InvalidContractSignature();
        }
    }
}
