//! The control channel: a Unix socket, guarded by a token in an owner-only file. The operator's programs send orders
//! through it. Web pages and other accounts cannot reach it. The socket is in the data folder, or in
//! `XDG_RUNTIME_DIR` if the folder's path is too long.

mod channel;
mod connection_limits;
mod dialogue;
mod handshake;
mod listen;
mod running;
mod session;

use std::sync::Arc;

use bursar_core::fault::Fault;

use crate::context::EngineContext;

pub(crate) use running::RunningControl;
pub(crate) use session::serve_attached;

/// The control channel of a program that has one.
///
/// Only the program names it, so a sealed program contains none of its code.
#[derive(Debug, Clone, Copy)]
pub struct ControlChannel {
    start: fn(&Arc<EngineContext>) -> Started,
}

/// The open channel, or why it could not be opened.
type Started = Result<Box<dyn RunningControl>, Fault>;

impl ControlChannel {
    /// The Unix socket of the data folder.
    pub const SOCKET: Self = Self { start: listen::start };

    /// Opens the channel.
    pub(crate) fn start(self, engine: &Arc<EngineContext>) -> Started {
        (self.start)(engine)
    }
}
