//! The rows of the Balances pane.

use bursar_control::answers::{BalanceAnswer, HoldingsAnswer, NetworkHoldingsAnswer};

use super::server::Server;

/// One coin of one address on one network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BalanceRow<'a> {
    pub(crate) address: &'a HoldingsAnswer,
    pub(crate) network: &'a NetworkHoldingsAnswer,
    /// `None` if the answer contains no balance for the network.
    pub(crate) held: Option<&'a BalanceAnswer>,
}

impl BalanceRow<'_> {
    /// Returns why there is no amount, with the network's name.
    pub(crate) fn unknown_reason(&self) -> Option<String> {
        let known = self.held.is_some_and(|held| held.amount.is_some());
        let own = || self.held.and_then(|held| held.amount_unknown_reason.as_ref());
        let why = self.network.error.as_ref().or_else(own).filter(|_why| !known)?;
        Some(format!("{}: {why}", self.network.name))
    }

    pub(super) fn key(&self) -> String {
        let token = self.held.map_or("", |held| held.token_address.as_deref().unwrap_or("native"));
        format!("{} {} {token}", self.address.address, self.network.chain_id)
    }
}

pub(crate) fn balances(server: &Server) -> Vec<BalanceRow<'_>> {
    let addresses = server.balances.iter().flatten();
    let networks = addresses
        .flat_map(|address| address.networks.iter().map(move |network| (address, network)));
    let rows = networks.flat_map(|(address, network)| {
        let unread = network.balances.is_empty();
        let held = network.balances.iter().map(Some).chain(unread.then_some(None));
        held.map(move |held| BalanceRow { address, network, held })
    });
    rows.collect()
}
