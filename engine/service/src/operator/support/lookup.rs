//! Finds the objects that an operator names.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::edition::EditionRules;
use bursar_core::fault::Fault;
use bursar_core::ids::Name;
use bursar_core::limits::FUNDS_ADDRESSES_MAX;
use bursar_core::networks::{NETWORKS, Network, by_id_name_or_title};
use bursar_core::text;
use bursar_domain::agents::Agent;
use bursar_domain::wallets::{PayingAddress, Wallet};

use crate::context::EngineContext;

/// Returns the address with this label.
///
/// # Errors
/// `NOTHING_FOUND`.
pub(crate) fn find_address<'a>(
    wallet: &'a Wallet,
    label: &Name,
) -> Result<&'a Arc<PayingAddress>, Fault> {
    wallet.address(label).ok_or_else(|| {
        let why = format!("There is no address {label}: see `address list`.");
        Fault::because(Code::NothingFound, why)
    })
}

/// Returns the agent with this name or code.
///
/// # Errors
/// `NOTHING_FOUND`.
pub(crate) fn agent(engine: &EngineContext, text: &Name) -> Result<Arc<Agent>, Fault> {
    engine.core.view().state.find_agent(text).cloned().ok_or_else(|| {
        Fault::because(Code::NothingFound, format!("There is no agent {text}: see `agent list`."))
    })
}

/// Returns the network of the edition with this chain id, name or title.
///
/// # Errors
/// `NOTHING_FOUND`.
pub(crate) fn network(edition: &EditionRules, network: &str) -> Result<&'static Network, Fault> {
    let row = by_id_name_or_title(network).filter(|row| edition.knows(row.chain));
    row.ok_or_else(|| {
        Fault::because(
            Code::NothingFound,
            format!(
                "{} is not a network Bursar knows: see `network list`.",
                text::snippet(network)
            ),
        )
    })
}

/// Returns the named network, or all enabled networks that fit. `what` names the required feature in the error.
///
/// # Errors
/// `NOTHING_FOUND`, `NETWORK_DISABLED`, or `BAD_INPUT` if the named network does not fit.
pub(crate) fn networks(
    engine: &EngineContext,
    named: Option<&str>,
    fits: fn(&Network) -> bool,
    what: &str,
) -> Result<Vec<&'static Network>, Fault> {
    let view = engine.core.view();
    let Some(name) = named else {
        let chosen = |row: &&Network| fits(row) && view.state.is_network_enabled(row.chain);
        return Ok(NETWORKS.iter().filter(chosen).collect());
    };
    let row = network(&view.state.edition, name)?;
    if !view.state.is_network_enabled(row.chain) {
        return Err(Fault::new(Code::NetworkDisabled));
    }
    if !fits(row) {
        let message = format!("Bursar knows no {what} on {}.", row.title);
        return Err(Fault::because(Code::BadInput, message));
    }
    Ok(vec![row])
}

/// Returns the error that asks for one of several networks.
pub(crate) fn several_networks<'a>(networks: impl Iterator<Item = &'a Network>) -> Fault {
    let names: Vec<String> =
        networks.map(|network| format!("{} ({})", network.title, network.chain)).collect();
    let message = format!("Choose one network with --network: {}.", names.join(", "));
    Fault::because(Code::BadInput, message)
}

/// Returns the address with this label, or all addresses. `command` is the command's name.
///
/// # Errors
/// `NOTHING_FOUND`; `BAD_INPUT` if there are too many to read all of them; those of [`wallet`].
pub(crate) fn addresses(
    engine: &EngineContext,
    label: Option<&Name>,
    command: &str,
) -> Result<Vec<Arc<PayingAddress>>, Fault> {
    let wallet = wallet(engine)?;
    if let Some(label) = label {
        return Ok(vec![Arc::clone(find_address(&wallet, label)?)]);
    }
    if wallet.addresses.len() > FUNDS_ADDRESSES_MAX {
        let why = format!(
            "There are more than {FUNDS_ADDRESSES_MAX} addresses: choose one with `{command} --address <label>`."
        );
        return Err(Fault::because(Code::BadInput, why));
    }
    Ok(wallet.addresses.values().map(Arc::clone).collect())
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
