//! The table of keys: the name, default, meaning and setter of each. The file, the environment and the manual are
//! derived from it.

pub(super) mod network;
pub(super) mod service;

use bursar_core::networks::ChainId;
use bursar_serve::settings::{TABLE_HEAD, table_rows};

use network::NETWORK;
use service::SERVICE;

/// The suffix of a network's variables, as in `RPC_URL_8453`.
pub(super) fn suffix(chain: ChainId) -> String {
    format!("_{chain}")
}

/// The manual of the settings, in Markdown: every key with its variable, default and meaning.
pub fn reference() -> String {
    [TABLE_HEAD, &table_rows(SERVICE, "", ""), &table_rows(NETWORK, "networks.<id>.", "_<id>")]
        .concat()
}
