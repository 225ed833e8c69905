//! The rows of the Balances pane: balances, then positions, then addresses whose positions could not be read.

use bursar_control::answers::{
    BalanceAnswer, HoldingsAnswer, NetworkHoldingsAnswer, PositionAnswer, UnreadAnswer,
};

use super::server::Server;
use crate::wording;

/// A row of the pane.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HoldingRow<'a> {
    Balance(BalanceRow<'a>),
    Position(&'a PositionAnswer),
    /// An address whose positions could not all be read.
    Unread {
        unread: &'a UnreadAnswer,
        /// The index among the rows of this kind.
        index: usize,
    },
}

impl HoldingRow<'_> {
    /// Returns the identity of the row, which does not depend on rows of another kind.
    pub(super) fn key(&self) -> String {
        match self {
            HoldingRow::Balance(row) => row.key(),
            HoldingRow::Position(row) => {
                format!("position {} {} {} {}", row.label, row.address, row.caip2, row.venue)
            }
            // Two rows may have the same text, so the text cannot be the identity.
            HoldingRow::Unread { index, .. } => format!("unread {index}"),
        }
    }

    /// Returns the text that a filter searches.
    pub(super) fn text(&self) -> String {
        match self {
            HoldingRow::Balance(row) => {
                let held = row
                    .held
                    .map(|held| format!("{} {}", held.symbol, coins(held).unwrap_or("unknown")));
                let (address, network) = (row.address, row.network);
                let held = held.unwrap_or_default();
                format!("{} {} {} {held}", address.label, address.address, network.name)
            }
            HoldingRow::Position(row) => {
                let trust = wording::trust(row.trust);
                format!(
                    "{} {} {} {} {} {trust}",
                    row.label, row.network, row.name, row.venue, row.worth.text
                )
            }
            HoldingRow::Unread { unread, .. } => unread.label.clone(),
        }
    }

    /// Returns the wallet's address in the row. It never returns the venue's address, because a transfer to it would be
    /// lost.
    pub(crate) fn address(&self, server: &Server) -> Option<String> {
        match self {
            HoldingRow::Balance(row) => Some(row.address.address.clone()),
            HoldingRow::Position(row) => Some(row.address.clone()),
            HoldingRow::Unread { unread, .. } => {
                let mut known = server.addresses.iter().flatten();
                known.find(|known| known.label == unread.label).map(|known| known.address.clone())
            }
        }
    }
}

/// Returns the rows below the balances: positions, then addresses whose positions could not be read although their
/// network answers.
pub(crate) fn positions(server: &Server) -> impl Iterator<Item = HoldingRow<'_>> {
    let answer = server.positions.iter();
    let found = answer.clone().flat_map(|known| &known.positions).map(HoldingRow::Position);
    let is_named =
        |unread: &UnreadAnswer| server.silent().any(|silent| silent.network == unread.network);
    let unread = answer.flat_map(|known| &known.unread).enumerate();
    let unread = unread.filter(move |(_index, unread)| !is_named(unread));
    found.chain(unread.map(|(index, unread)| HoldingRow::Unread { unread, index }))
}

/// Returns all rows of the pane.
pub(super) fn holdings(server: &Server) -> impl Iterator<Item = HoldingRow<'_>> {
    balances(server).into_iter().map(HoldingRow::Balance).chain(positions(server))
}

pub(crate) fn holding(server: &Server, index: usize) -> Option<HoldingRow<'_>> {
    holdings(server).nth(index)
}

/// Returns the number of rows of the pane.
pub(super) fn count(server: &Server) -> usize {
    balances(server).len().saturating_add(positions(server).count())
}

/// One coin of one address on one network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BalanceRow<'a> {
    pub(crate) address: &'a HoldingsAnswer,
    pub(crate) network: &'a NetworkHoldingsAnswer,
    /// `None` if the answer contains no balance for the network.
    pub(crate) held: Option<&'a BalanceAnswer>,
}

/// Returns the amount in whole coins, if it is known.
pub(crate) fn coins(held: &BalanceAnswer) -> Option<&str> {
    held.amount.as_ref()?.coins.as_deref()
}

impl BalanceRow<'_> {
    /// Returns why there is no amount, with the network's name.
    pub(crate) fn unknown_reason(&self) -> Option<String> {
        let known = self.held.is_some_and(|held| coins(held).is_some());
        let own = || self.held.and_then(|held| held.amount_unknown_reason.as_ref());
        let why = self.network.error.as_ref().or_else(own).filter(|_why| !known)?;
        Some(format!("{}: {why}", self.network.name))
    }

    fn key(&self) -> String {
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
