//! The control channel: a Unix socket in the data folder, guarded by the token of an owner-only file.
//! Programs of the operator send orders through it; no web page and no other account can reach it.

mod channel;
mod dialogue;
mod entrance;
mod handshake;
mod listen;
mod session;

pub use listen::ControlServer;
pub(crate) use session::serve_attached;
