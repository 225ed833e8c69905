//! The queue entry of a command.

use bursar_control::grammar::Order;
use bursar_control::wire::Asking;

/// A command that waits to be sent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) order: Order,
    pub(super) asking: Asking,
    pub(super) urgent: bool,
}
