//! The error if a network gives no valid answer before a send.

use bursar_chain::ports::ChainFault;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::Network;

/// Maps a chain fault to the error of [`unavailable`].
pub(super) fn or_unavailable<T>(row: &Network, answer: Result<T, ChainFault>) -> Result<T, Fault> {
    answer.map_err(|fault| unavailable(row, &fault))
}

/// Returns `CHAIN_UNAVAILABLE` with the chain fault as detail. Nothing was sent.
pub(super) fn unavailable(row: &Network, fault: &ChainFault) -> Fault {
    let message = format!("No endpoint of {} gave a valid answer: nothing was sent.", row.title);
    Fault::because(Code::ChainUnavailable, message).with_detail(fault)
}
