//! The one table of keys: what each is called, what it is until somebody sets it, what it means, and how
//! it is set. The file, the environment and the manual all come from it.

mod network;
mod service;

use bursar_core::networks::ChainId;
use bursar_serve::settings::{Given, HEAD, Key, put, rows};

use super::{Config, NetworkConfig};

pub(super) use network::NETWORK;
pub(super) use service::SERVICE;

/// Behind the variables of a network: `RPC_URL_8453`.
pub(super) fn suffix(chain: ChainId) -> String {
    format!("_{chain}")
}

/// The manual: every key with its variable, its default and its meaning.
pub fn reference() -> String {
    [HEAD, &rows(SERVICE, "", ""), &rows(NETWORK, "networks.<id>.", "_<id>")].concat()
}
