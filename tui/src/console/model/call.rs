//! A command that waits to be sent.

use bursar_control::grammar::Order;
use bursar_control::wire::Asking;

/// A queued command.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) order: Order,
    pub(super) asking: Asking,
    pub(super) urgent: bool,
}
