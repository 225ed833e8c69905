//! Loans and share prices, as blocks show them.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolEvent;
use bursar_chain::ports::{Log, TxStatus};

use super::VenueName;
use super::abi;
use super::ledger::{Included, Ledger};
use super::loan_terms::{loan_terms, moved};
use super::state::State;
use crate::loan_book::{LoanMove, PRICED_SHARES};

/// Returns the loan that a transaction of the newest block made in a venue; `None` if the transaction is not a loan.
pub(crate) fn loan_move(ledger: &Ledger, one: &Included) -> Option<LoanMove> {
    let (contracts, tx) = (&ledger.contracts, &one.tx);
    let terms = loan_terms(contracts, &ledger.state, tx.to, &tx.data)?;
    let (owner, logs) = (tx.from, &one.receipt.logs);
    let succeeded = one.receipt.status == TxStatus::Succeeded;
    let (assets, shares) = moved(contracts, &terms, owner, logs).unwrap_or_default();
    let own = ledger.state.lending.shares_of(terms.venue, owner);
    let sum = |to_owner: bool| {
        let each = logs.iter().filter(|log| log.address == contracts.dollar());
        let each = each.filter_map(|log| transfer(log, owner, to_owner));
        each.fold(U256::ZERO, |sum, one| sum + one)
    };
    Some(LoanMove {
        chain: contracts.network.chain.0,
        block: one.receipt.block_number,
        block_s: one.block_s,
        hash: format!("{:#x}", tx.hash),
        owner,
        venue: terms.venue,
        supplies: terms.supplies,
        succeeded,
        assets,
        shares,
        received: sum(true),
        paid: sum(false),
        is_own: terms.on_behalf == owner && terms.receiver == owner && tx.value.is_zero(),
        position: ledger.state.worth(terms.venue, own, one.block_s),
        left: own,
    })
}

fn transfer(log: &Log, owner: Address, to_owner: bool) -> Option<U256> {
    if log.topics.first() != Some(&abi::Erc20::Transfer::SIGNATURE_HASH) {
        return None;
    }
    let topics = log.topics.iter().copied();
    let moved = abi::Erc20::Transfer::decode_raw_log_validate(topics, &log.data).ok()?;
    let is_owners = if to_owner { moved.to == owner } else { moved.from == owner };
    is_owners.then_some(moved.value)
}

/// Returns the value of [`PRICED_SHARES`] of each venue at a time in Unix seconds.
pub(crate) fn prices(state: &State, time: u64) -> Vec<(VenueName, U256)> {
    let names = state.lending.names().into_iter();
    names.map(|venue| (venue, state.worth(venue, U256::from(PRICED_SHARES), time))).collect()
}
