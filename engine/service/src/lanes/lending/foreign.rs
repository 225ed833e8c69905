//! Recognises the events of a rehearsal that a loan must not cause.

use alloy_primitives::Address;
use bursar_chain::ports::Log;
use bursar_chain::token;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_morpho::VenueId;

use super::network_read::spender;

/// The balances and allowances that a loan of an address may change.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllowedChanges {
    owner: Address,
    coin: Address,
    /// The vault, whose shares are a token; `None` for a market.
    shares: Option<Address>,
    /// The contract whose allowance for the stablecoin may change.
    spender: Address,
}

impl AllowedChanges {
    pub(super) fn of(
        venue: VenueId,
        owner: Address,
        network: &Network,
        contracts: &Contracts,
    ) -> Self {
        let shares = match venue {
            VenueId::Vault(vault) => Some(vault),
            VenueId::Market(_) => None,
        };
        let coin = network.stablecoin.address;
        Self { owner, coin, shares, spender: spender(contracts, venue) }
    }

    /// Returns whether an event changes a balance or allowance of the owner that a loan must not change.
    pub(super) fn is_foreign(&self, log: &Log) -> bool {
        if let Some(moved) = token::transfer_of(log) {
            let ours = moved.from == self.owner || moved.to == self.owner;
            return ours && log.address != self.coin && Some(log.address) != self.shares;
        }
        token::approval_of(log).is_some_and(|approval| {
            approval.owner == self.owner
                && (log.address != self.coin || approval.spender != self.spender)
        })
    }
}
