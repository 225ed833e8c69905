//! The control channel: a Unix socket, guarded by a token in an owner-only file. The operator's programs send orders
//! through it. Web pages and other accounts cannot reach it. The socket is in the data folder, or in
//! `XDG_RUNTIME_DIR` if the folder's path is too long.

mod channel;
mod connection_limits;
mod dialogue;
mod handshake;
mod listen;
mod session;

pub use listen::ControlServer;
pub(crate) use session::serve_attached;
