//! The custom errors with which a vault's deposit or withdrawal may revert. Morpho Blue itself reverts with texts.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface VaultErrors {
        error TransferFromReverted();
        error TransferReverted();
        error CannotReceiveShares();
        error CannotSendShares();
        error CannotReceiveAssets();
        error CannotSendAssets();
        error Unauthorized();
        error CapExceeded();
        error AbsoluteCapExceeded();
        error RelativeCapExceeded();
        error ZeroAbsoluteCap();
        error NotEnoughLiquidity();
        error AllCapsReached();
        error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
        error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    }
}
