//! The result of a finished loan, from the events of a receipt or a simulation.
//!
//! A preview never replaces an unreadable value: the result is `None`. Events are read only from the venue itself and
//! from the lent token, because any contract can emit any event.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolEvent;

use crate::abi::decode_event;
use crate::abi::token::IErc20;
use crate::events::{
    self, Deposited, MARKET_SUPPLY, MARKET_WITHDRAW, VAULT_DEPOSIT, VAULT_WITHDRAW, Withdrawn,
};
use crate::venue::VenueId;

/// An event of a receipt or of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The contract that emitted it.
    pub address: Address,
    /// The event's signature and its indexed fields.
    pub topics: Vec<B256>,
    /// The fields that are not indexed.
    pub data: Bytes,
}

/// The assets and shares that entered or left a venue for one owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MovedAmounts {
    /// Smallest units of the asset.
    pub assets: U256,
    pub shares: U256,
}

impl MovedAmounts {
    fn checked_add(self, assets: U256, shares: U256) -> Option<Self> {
        Some(Self {
            assets: self.assets.checked_add(assets)?,
            shares: self.shares.checked_add(shares)?,
        })
    }
}

/// Returns the assets that entered `venue`, and the shares that `owner` got for them.
///
/// `None` if no assets entered, if an event of the venue cannot be read, or if a sum exceeds 256 bits.
pub fn supplied_amounts(
    singleton: Address,
    venue: &VenueId,
    owner: Address,
    logs: &[Log],
) -> Option<MovedAmounts> {
    type Read = fn(Address, &[B256], &[u8]) -> Option<Deposited>;
    let (contract, market_id, topic, read): (_, _, _, Read) = match *venue {
        VenueId::Vault(vault) => (vault, None, VAULT_DEPOSIT, events::vault_deposit),
        VenueId::Market(id) => (singleton, Some(id), MARKET_SUPPLY, events::market_supply),
    };
    let mut moved: Option<MovedAmounts> = None;
    for log in events_with_topic(logs, contract, topic) {
        let event = read(contract, &log.topics, &log.data)?;
        if event.owner == owner && event.market_id == market_id {
            moved = Some(moved.unwrap_or_default().checked_add(event.assets, event.shares)?);
        }
    }
    moved
}

/// Returns the assets that `owner` received from `venue`, and its shares that were burned for them.
///
/// Shares whose assets another account received do not count. So the penalty of a `forceDeallocate` does not count:
/// the vault withdraws the penalty to itself.
///
/// `None` if `owner` received nothing, if an event of the venue cannot be read, or if a sum exceeds 256 bits.
pub fn withdrawn_amounts(
    singleton: Address,
    venue: &VenueId,
    owner: Address,
    logs: &[Log],
) -> Option<MovedAmounts> {
    type Read = fn(Address, &[B256], &[u8]) -> Option<Withdrawn>;
    let (contract, market_id, topic, read): (_, _, _, Read) = match *venue {
        VenueId::Vault(vault) => (vault, None, VAULT_WITHDRAW, events::vault_withdrawal),
        VenueId::Market(id) => (singleton, Some(id), MARKET_WITHDRAW, events::market_withdrawal),
    };
    let mut moved: Option<MovedAmounts> = None;
    for log in events_with_topic(logs, contract, topic) {
        let event = read(contract, &log.topics, &log.data)?;
        if event.owner == owner && event.receiver == owner && event.market_id == market_id {
            moved = Some(moved.unwrap_or_default().checked_add(event.assets, event.shares)?);
        }
    }
    moved
}

/// Returns the penalty of forced deallocations: the shares of `owner` that were burned, and their assets.
///
/// These assets stay in the vault. Both amounts are zero without a forced deallocation.
///
/// `None` if a withdrawal of the vault cannot be read, or if a sum exceeds 256 bits.
pub fn penalty_amounts(vault: Address, owner: Address, logs: &[Log]) -> Option<MovedAmounts> {
    let mut moved = MovedAmounts::default();
    for log in events_with_topic(logs, vault, VAULT_WITHDRAW) {
        let event = events::vault_withdrawal(vault, &log.topics, &log.data)?;
        if event.owner == owner && event.receiver == vault {
            moved = moved.checked_add(event.assets, event.shares)?;
        }
    }
    Some(moved)
}

/// Returns the amounts of `token` that `owner` received and sent, in this order, in smallest units.
///
/// Both are zero without a transfer. A transfer from `owner` to itself counts in both. `None` if a transfer of the
/// token cannot be read, or if a sum exceeds 256 bits.
pub fn token_received_and_sent(
    token: Address,
    owner: Address,
    logs: &[Log],
) -> Option<(U256, U256)> {
    let (mut inward, mut outward) = (U256::ZERO, U256::ZERO);
    for log in events_with_topic(logs, token, IErc20::Transfer::SIGNATURE_HASH) {
        let event = decode_event::<IErc20::Transfer>(&log.topics, &log.data)?;
        if event.to == owner {
            inward = inward.checked_add(event.value)?;
        }
        if event.from == owner {
            outward = outward.checked_add(event.value)?;
        }
    }
    Some((inward, outward))
}

/// Returns the events of a contract whose first topic is `topic`.
fn events_with_topic(logs: &[Log], contract: Address, topic: B256) -> impl Iterator<Item = &Log> {
    logs.iter().filter(move |log| log.address == contract && log.topics.first() == Some(&topic))
}

#[cfg(test)]
mod tests;
