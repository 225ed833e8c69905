//! The escrow of payment channels, x402BatchSettlement: its functions, views, events and errors.
//!
//! Sources: the public contract source of the x402 project, and the ABI in `@x402/evm` 2.27.0. That ABI has only the
//! functions and the event `Settled`.

use alloy_primitives::aliases::U40;

use super::config::{ChannelConfig, WithdrawDelay};

alloy_sol_types::sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IBatchSettlement {
        struct ChannelConfig {
            address payer;
            address payerAuthorizer;
            address receiver;
            address receiverAuthorizer;
            address token;
            uint40 withdrawDelay;
            bytes32 salt;
        }

        /// The signed part of a claim. The EIP-712 type of the same name is another type: it has the channel's id
        /// in place of the config.
        struct Voucher {
            ChannelConfig channel;
            uint128 maxClaimableAmount;
        }

        struct VoucherClaim {
            Voucher voucher;
            bytes signature;
            uint128 totalClaimed;
        }

        /// Calls **any** collector that the caller names.
        function deposit(ChannelConfig calldata config, uint128 amount, address collector, bytes calldata collectorData) external;
        /// Callable only by the receiver or the receiverAuthorizer of every row.
        function claim(VoucherClaim[] calldata voucherClaims) external;
        /// Callable by any sender. All rows must have the same receiverAuthorizer.
        ///
        /// The escrow skips a row that does not raise the recorded total. It then emits no event and does not check the
        /// voucher's signature. So the success of the call proves nothing: read `channels` or the events.
        function claimWithSignature(VoucherClaim[] calldata voucherClaims, bytes calldata authorizerSignature) external;
        /// Callable by any sender. Emits no event if there is nothing to pay out.
        function settle(address receiver, address token) external;
        /// Callable only by the payer or payerAuthorizer, as is `finalizeWithdraw`.
        function initiateWithdraw(ChannelConfig calldata config, uint128 amount) external;
        function finalizeWithdraw(ChannelConfig calldata config) external;
        /// Callable only by the receiver or receiverAuthorizer. Raises the refund nonce, even if nothing is left to
        /// refund.
        function refund(ChannelConfig calldata config, uint128 amount) external;
        /// Callable by any sender. Refunds at most the unclaimed balance.
        function refundWithSignature(ChannelConfig calldata config, uint128 amount, uint256 nonce, bytes calldata receiverAuthorizerSignature) external;
        function multicall(bytes[] calldata data) external returns (bytes[] memory results);

        function getChannelId(ChannelConfig calldata config) external view returns (bytes32);
        /// `balance` is the sum of deposits less withdrawals and refunds. Claims do not reduce it.
        function channels(bytes32 channelId) external view returns (uint128 balance, uint128 totalClaimed);
        /// `initiatedAt` is in Unix seconds; 0 means that no withdrawal is pending.
        function pendingWithdrawals(bytes32 channelId) external view returns (uint128 amount, uint40 initiatedAt);
        function receivers(address receiver, address token) external view returns (uint128 totalClaimed, uint128 totalSettled);
        function refundNonce(bytes32 channelId) external view returns (uint256);
        function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount) external view returns (bytes32);
        function getRefundDigest(bytes32 channelId, uint256 nonce, uint128 amount) external view returns (bytes32);
        function getClaimBatchDigest(VoucherClaim[] calldata voucherClaims) external view returns (bytes32);
        function MIN_WITHDRAW_DELAY() external view returns (uint40);
        function MAX_WITHDRAW_DELAY() external view returns (uint40);
        function CHANNEL_CONFIG_TYPEHASH() external view returns (bytes32);
        function VOUCHER_TYPEHASH() external view returns (bytes32);
        function REFUND_TYPEHASH() external view returns (bytes32);
        function CLAIM_ENTRY_TYPEHASH() external view returns (bytes32);
        function CLAIM_BATCH_TYPEHASH() external view returns (bytes32);

        /// Emitted by a deposit into a channel without balance and claims. It may be emitted again after a full
        /// withdrawal.
        event ChannelCreated(bytes32 indexed channelId, ChannelConfig config);
        event ChannelClosed(bytes32 indexed channelId, ChannelConfig config);
        event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
        event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed);
        event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
        event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
        /// `finalizeAfter` is in Unix seconds.
        event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
        event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);

        error InvalidChannel();
        error ZeroDeposit();
        error DepositOverflow();
        error InvalidSignature();
        error NotReceiverAuthorizer();
        error NotAuthorizedToClaim();
        error NotAuthorizedToRefund();
        error ClaimExceedsCeiling();
        error ClaimExceedsBalance();
        error WithdrawalAlreadyPending();
        error WithdrawalNotPending();
        error NotAuthorizedToFinalizeWithdraw();
        error WithdrawDelayNotElapsed();
        error NothingToWithdraw();
        error WithdrawAmountExceedsAvailable();
        error WithdrawDelayOutOfRange();
        error EmptyBatch();
        error DepositCollectionFailed();
        error InvalidCollector();
        error InvalidRefundNonce();
        error ZeroRefund();
        // Errors of the libraries that the escrow uses (OpenZeppelin 5).
        error ECDSAInvalidSignature();
        error ECDSAInvalidSignatureLength(uint256 length);
        error ECDSAInvalidSignatureS(bytes32 s);
        error ReentrancyGuardReentrantCall();
        error SafeERC20FailedOperation(address token);
    }
}

impl From<&ChannelConfig> for IBatchSettlement::ChannelConfig {
    fn from(config: &ChannelConfig) -> Self {
        Self {
            payer: config.payer,
            payerAuthorizer: config.payer_authorizer,
            receiver: config.receiver,
            receiverAuthorizer: config.receiver_authorizer,
            token: config.token,
            // The conversion is exact, because a WithdrawDelay has at most 40 bits.
            withdrawDelay: U40::saturating_from(config.withdraw_delay.seconds()),
            salt: config.salt,
        }
    }
}

/// Converts the config of an event.
impl From<IBatchSettlement::ChannelConfig> for ChannelConfig {
    fn from(config: IBatchSettlement::ChannelConfig) -> Self {
        Self {
            payer: config.payer,
            payer_authorizer: config.payerAuthorizer,
            receiver: config.receiver,
            receiver_authorizer: config.receiverAuthorizer,
            token: config.token,
            withdraw_delay: WithdrawDelay::from(config.withdrawDelay),
            salt: config.salt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_sol_types::{SolCall, SolEvent};

    #[test]
    fn the_selectors_are_those_of_the_contract() {
        use IBatchSettlement as I;
        for (selector, published) in [
            (I::depositCall::SELECTOR, 0x140f_1e75_u32),
            (I::claimCall::SELECTOR, 0x2923_7b0c),
            (I::claimWithSignatureCall::SELECTOR, 0xe43c_e1f2),
            (I::settleCall::SELECTOR, 0x9db3_2a8f),
            (I::initiateWithdrawCall::SELECTOR, 0xcf5c_f3dc),
            (I::finalizeWithdrawCall::SELECTOR, 0xe883_77b1),
            (I::refundCall::SELECTOR, 0xdce4_bfae),
            (I::refundWithSignatureCall::SELECTOR, 0xb774_33e9),
            (I::multicallCall::SELECTOR, 0xac96_50d8),
            (I::getChannelIdCall::SELECTOR, 0x5e5e_0b87),
            (I::channelsCall::SELECTOR, 0x7a7e_bd7b),
            (I::pendingWithdrawalsCall::SELECTOR, 0xb7f0_6ebe),
            (I::receiversCall::SELECTOR, 0x21ff_6389),
            (I::refundNonceCall::SELECTOR, 0xf0dc_792e),
        ] {
            assert_eq!(u32::from_be_bytes(selector), published, "{published:x}");
        }
    }

    #[test]
    fn events_spell_out_the_config() {
        let config = "(address,address,address,address,address,uint40,bytes32)";
        assert_eq!(
            IBatchSettlement::ChannelCreated::SIGNATURE,
            format!("ChannelCreated(bytes32,{config})")
        );
        assert_eq!(
            IBatchSettlement::Settled::SIGNATURE,
            "Settled(address,address,address,uint128)"
        );
    }
}
