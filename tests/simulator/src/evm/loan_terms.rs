//! Decodes the terms of a loan from call data, and the amounts that its transaction moved.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolEvent;
use bursar_chain::ports::Log;

use super::VenueName;
use super::abi;
use super::blue::market_id;
use super::contracts::Contracts;
use super::machine::is_call;
use super::state::State;

/// The terms of a supply or a withdrawal, as its call data show them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoanTerms {
    pub(super) venue: VenueName,
    pub(super) supplies: bool,
    /// The assets, if the call names them. Otherwise it names `shares`.
    pub(super) assets: Option<U256>,
    pub(super) shares: Option<U256>,
    /// The account whose position changes. `receiver` gets the money of a withdrawal.
    pub(super) on_behalf: Address,
    pub(super) receiver: Address,
}

/// Decodes the terms of a loan; `None` if the call is not a loan.
pub(super) fn loan_terms(
    contracts: &Contracts,
    state: &State,
    to: Address,
    data: &[u8],
) -> Option<LoanTerms> {
    if contracts.network.lending.is_some_and(|one| one.singleton == to) {
        return market_terms(data);
    }
    if state.lending.vaults.contains_key(&to) {
        vault_terms(VenueName::Vault(to), data)
    } else {
        None
    }
}

fn market_terms(data: &[u8]) -> Option<LoanTerms> {
    use alloy_sol_types::SolCall;
    let named = |amount: U256| (!amount.is_zero()).then_some(amount);
    if is_call::<abi::Blue::supplyCall>(data) {
        let call = abi::Blue::supplyCall::abi_decode_validate(data).ok()?;
        return Some(LoanTerms {
            venue: VenueName::Market(market_id(&call.params)),
            supplies: true,
            assets: named(call.assets),
            shares: named(call.shares),
            on_behalf: call.onBehalf,
            receiver: call.onBehalf,
        });
    }
    if is_call::<abi::Blue::withdrawCall>(data) {
        let call = abi::Blue::withdrawCall::abi_decode_validate(data).ok()?;
        return Some(LoanTerms {
            venue: VenueName::Market(market_id(&call.params)),
            supplies: false,
            assets: named(call.assets),
            shares: named(call.shares),
            on_behalf: call.onBehalf,
            receiver: call.receiver,
        });
    }
    None
}

fn vault_terms(venue: VenueName, data: &[u8]) -> Option<LoanTerms> {
    use alloy_sol_types::SolCall;
    if is_call::<abi::Vault::depositCall>(data) {
        let call = abi::Vault::depositCall::abi_decode_validate(data).ok()?;
        let (assets, on_behalf) = (Some(call.assets), call.onBehalf);
        let receiver = on_behalf;
        return Some(LoanTerms {
            venue,
            supplies: true,
            assets,
            shares: None,
            on_behalf,
            receiver,
        });
    }
    if is_call::<abi::Vault::mintCall>(data) {
        let call = abi::Vault::mintCall::abi_decode_validate(data).ok()?;
        let (shares, on_behalf) = (Some(call.shares), call.onBehalf);
        let receiver = on_behalf;
        return Some(LoanTerms {
            venue,
            supplies: true,
            assets: None,
            shares,
            on_behalf,
            receiver,
        });
    }
    if is_call::<abi::Vault::withdrawCall>(data) {
        let call = abi::Vault::withdrawCall::abi_decode_validate(data).ok()?;
        let (assets, on_behalf, receiver) = (Some(call.assets), call.onBehalf, call.receiver);
        return Some(LoanTerms {
            venue,
            supplies: false,
            assets,
            shares: None,
            on_behalf,
            receiver,
        });
    }
    if is_call::<abi::Vault::redeemCall>(data) {
        let call = abi::Vault::redeemCall::abi_decode_validate(data).ok()?;
        let (shares, on_behalf, receiver) = (Some(call.shares), call.onBehalf, call.receiver);
        return Some(LoanTerms {
            venue,
            supplies: false,
            assets: None,
            shares,
            on_behalf,
            receiver,
        });
    }
    None
}

/// Returns the assets and shares that a transaction moved in a venue for an account, by its events.
pub(super) fn moved(
    contracts: &Contracts,
    terms: &LoanTerms,
    owner: Address,
    logs: &[Log],
) -> Option<(U256, U256)> {
    let singleton = contracts.network.lending?.singleton;
    logs.iter().find_map(|log| match (terms.venue, terms.supplies) {
        (VenueName::Vault(vault), true) if log.address == vault => {
            let event = decode::<abi::Vault::Deposit>(log)?;
            (event.owner == owner).then_some((event.assets, event.shares))
        }
        (VenueName::Vault(vault), false) if log.address == vault => {
            let event = decode::<abi::Vault::Withdraw>(log)?;
            (event.owner == owner).then_some((event.assets, event.shares))
        }
        (VenueName::Market(id), true) if log.address == singleton => {
            let event = decode::<abi::Blue::Supply>(log)?;
            (event.id == id && event.onBehalf == owner).then_some((event.assets, event.shares))
        }
        (VenueName::Market(id), false) if log.address == singleton => {
            let event = decode::<abi::Blue::Withdraw>(log)?;
            (event.id == id && event.onBehalf == owner).then_some((event.assets, event.shares))
        }
        _other => None,
    })
}

fn decode<E: SolEvent>(log: &Log) -> Option<E> {
    if log.topics.first() != Some(&E::SIGNATURE_HASH) {
        return None;
    }
    E::decode_raw_log_validate(log.topics.iter().copied(), &log.data).ok()
}

/// Returns the spender and the amount of an approval; `None` if the call is not an approval.
pub(crate) fn approval(data: &[u8]) -> Option<(Address, U256)> {
    use alloy_sol_types::SolCall;
    let call = abi::Erc20::approveCall::abi_decode_validate(data).ok()?;
    Some((call.spender, call.value))
}
