//! The ERC-20 functions that we call, and its events.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IErc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        event Approval(address indexed owner, address indexed spender, uint256 value);
        function allowance(address owner, address spender) external view returns (uint256);
        function approve(address spender, uint256 value) external returns (bool);
        function balanceOf(address owner) external view returns (uint256);
        function decimals() external view returns (uint8);
        function name() external view returns (string);
        function symbol() external view returns (string);
        function transfer(address to, uint256 value) external returns (bool);
    }

    /// A token that takes signed authorizations (EIP-3009).
    #[derive(Debug)]
    interface IErc3009 {
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;
    use alloy_sol_types::{SolCall, SolEvent};

    #[test]
    fn the_selectors_are_those_of_the_standard() {
        assert_eq!(IErc20::allowanceCall::SELECTOR, [0xdd, 0x62, 0xed, 0x3e]);
        assert_eq!(IErc20::approveCall::SELECTOR, [0x09, 0x5e, 0xa7, 0xb3]);
        assert_eq!(IErc20::balanceOfCall::SELECTOR, [0x70, 0xa0, 0x82, 0x31]);
        assert_eq!(IErc20::decimalsCall::SELECTOR, [0x31, 0x3c, 0xe5, 0x67]);
        assert_eq!(IErc20::nameCall::SELECTOR, [0x06, 0xfd, 0xde, 0x03]);
        assert_eq!(IErc20::symbolCall::SELECTOR, [0x95, 0xd8, 0x9b, 0x41]);
        assert_eq!(IErc20::transferCall::SELECTOR, [0xa9, 0x05, 0x9c, 0xbb]);
        assert_eq!(IErc3009::DOMAIN_SEPARATORCall::SELECTOR, [0x36, 0x44, 0xe5, 0x15]);
        assert_eq!(IErc3009::authorizationStateCall::SELECTOR, [0xe9, 0x4a, 0x01, 0x02]);
    }

    #[test]
    fn the_topics_are_those_of_the_standard() {
        let transfer = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
        let approval = b256!("8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925");
        assert_eq!(IErc20::Transfer::SIGNATURE_HASH, transfer);
        assert_eq!(IErc20::Approval::SIGNATURE_HASH, approval);
    }
}
