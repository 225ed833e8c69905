//! Permit2. Its structs are also the EIP-712 types of a permit.

alloy_sol_types::sol! {
    /// The token, the amount, the expiration and the nonce of a permit.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitDetails {
        address token;
        uint160 amount;
        uint48 expiration;
        uint48 nonce;
    }

    /// A permit for one token.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitSingle {
        PermitDetails details;
        address spender;
        uint256 sigDeadline;
    }

    /// A token and the spender whose allowance `lockdown` removes.
    #[derive(Debug, PartialEq, Eq)]
    struct TokenSpenderPair {
        address token;
        address spender;
    }

    #[derive(Debug)]
    interface IPermit2 {
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function allowance(address user, address token, address spender)
            external view returns (uint160 amount, uint48 expiration, uint48 nonce);
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
        function permit(address owner, PermitSingle permitSingle, bytes signature) external;
        function lockdown(TokenSpenderPair[] approvals) external;
    }
}
