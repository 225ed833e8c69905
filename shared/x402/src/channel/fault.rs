//! Faults of a payload for which the protocol has an error code.

/// A fault with an official code: `invalid_batch_settlement_evm_` and the variant's name in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChannelFault {
    /// `type` is absent or unknown.
    #[error("the payload's `type` is missing, or batch-settlement does not have it")]
    PayloadType,
    #[error("channelId is not 0x and 64 hex digits")]
    ChannelIdInvalid,
    #[error("channelId is not the id of channelConfig on this network")]
    ChannelIdMismatch,
    #[error("withdrawDelay is not from 900 to 2592000 seconds")]
    WithdrawDelayOutOfRange,
    /// Both authorizations are present. Only the specification and the Python package have this code.
    #[error("a deposit must have exactly one authorization, and this one has two")]
    DepositPayload,
    /// No authorization is present. The code names EIP-3009, the default of official clients and facilitators.
    #[error("a deposit needs an erc3009Authorization or a permit2Authorization")]
    Erc3009AuthorizationRequired,
}
