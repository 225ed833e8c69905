//! The errors of a local chain.

use alloy_primitives::{B256, Bytes};
use bursar_core::networks::ChainId;

use crate::missing::MissingChain;

/// An error of a local chain.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    #[error(transparent)]
    Missing(#[from] MissingChain),
    #[error("chain {0} is not in the table of networks")]
    UnknownChain(ChainId),
    #[error("anvil did not start: {0}")]
    Start(String),
    #[error("{method} failed: {detail}")]
    Rpc { method: String, detail: String },
    /// The contract reverted; the message ends with the contract's reason.
    #[error("{message}")]
    Reverted { message: String, data: Bytes },
    #[error("no receipt for {0} in time")]
    NoReceipt(B256),
    #[error("transaction {0} succeeded without moving the money")]
    NoTransfer(B256),
    #[error("the contract is not what it should be: {0}")]
    Contract(String),
}
