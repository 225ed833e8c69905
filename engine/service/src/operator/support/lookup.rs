//! Finds the objects that an operator names.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::Name;
use bursar_core::networks::{Network, by_name};
use bursar_domain::wallets::{PayingAddress, Wallet};

use crate::context::EngineContext;

/// Returns the address with this label.
///
/// # Errors
/// `NOTHING_FOUND`.
pub(crate) fn labelled<'a>(
    wallet: &'a Wallet,
    label: &Name,
) -> Result<&'a Arc<PayingAddress>, Fault> {
    wallet.address(label).ok_or_else(|| {
        let why = format!("There is no address {label}: see `address list`.");
        Fault::because(Code::NothingFound, why)
    })
}

/// Returns the network with this chain id, name or title.
///
/// # Errors
/// `NOTHING_FOUND`.
pub(crate) fn network(network: &str) -> Result<&'static Network, Fault> {
    by_name(network).ok_or_else(|| {
        Fault::because(
            Code::NothingFound,
            format!("{network} is not a network Bursar knows: see `network list`."),
        )
    })
}

/// Returns the wallet of the journal.
///
/// # Errors
/// Those of `no_wallet`.
pub(crate) fn wallet(engine: &EngineContext) -> Result<Arc<Wallet>, Fault> {
    let known = engine.core.view().state.wallet.clone();
    known.ok_or_else(|| no_wallet(engine))
}

/// Returns the error for a journal without a wallet. If a wallet file exists, it names the command that adopts the
/// file.
pub(crate) fn no_wallet(engine: &EngineContext) -> Fault {
    match engine.vault.file_names().first() {
        None => Fault::new(Code::NoWallet),
        Some(name) => Fault::because(
            Code::NoWallet,
            format!(
                "The journal has no wallet, but there is a wallet file {name}: `wallet recover {name}` adopts it, \
                 `wallet restore <file>` restores a backup."
            ),
        )
        .with_hint(format!("wallet recover {name}")),
    }
}
