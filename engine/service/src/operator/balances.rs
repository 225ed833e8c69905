//! The commands `balances` and `address balance`.

use std::sync::Arc;

use alloy_primitives::Address;
use bursar_control::answers::{Answer, BalanceAnswer, HoldingsAnswer, NetworkHoldingsAnswer};
use bursar_control::grammar::BalancesOrder;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::Name;
use bursar_core::limits::{FUNDS_ADDRESSES_MAX, FUNDS_FOREIGN_TOKENS_MAX};
use bursar_core::networks::{NETWORKS, Network};
use futures::StreamExt;
use futures::stream;

use super::support::{Done, balance_error, lookup};
use crate::config::Config;
use crate::context::EngineContext;
use crate::funds::{NetworkFunds, TokenHolding};

/// Addresses that are looked up concurrently. Public nodes limit the rate of requests.
const CONCURRENT_ADDRESSES_MAX: usize = 8;

pub(super) async fn run(engine: &Arc<EngineContext>, order: BalancesOrder) -> Result<Done, Fault> {
    let networks = networks(engine, order.network.as_deref())?;
    let addresses = addresses(engine, order.address.as_ref())?;
    // Copy the values that a lookup needs, so that no view of the state is held while the networks answer.
    let lookups = addresses.into_iter().map(|(label, address)| {
        let networks = &networks;
        async move { (label, address, engine.funds.of(address, networks).await) }
    });
    let found: Vec<_> = stream::iter(lookups).buffered(CONCURRENT_ADDRESSES_MAX).collect().await;
    let config = engine.settings.get();
    let all = || found.iter().flat_map(|(_label, _address, funds)| funds);
    if all().next().is_some() && !all().any(|on| on.has_any_amount()) {
        return Err(no_balance_fault(all().map(Arc::as_ref), &config));
    }
    let mut room = FUNDS_FOREIGN_TOKENS_MAX;
    let config = &config;
    let addresses = found.iter().map(|(label, address, funds)| HoldingsAnswer {
        label: label.as_str().to_owned(),
        address: address.to_checksum(None),
        networks: funds.iter().map(|on| network(on, config, &mut room)).collect(),
    });
    Ok(Answer::Balances { addresses: addresses.collect() }.into())
}

/// Returns the named network, or all enabled ones.
fn networks(engine: &EngineContext, named: Option<&str>) -> Result<Vec<&'static Network>, Fault> {
    let Some(name) = named else {
        let view = engine.core.view();
        return Ok(NETWORKS
            .iter()
            .filter(|row| view.state.is_network_enabled(row.chain))
            .collect());
    };
    Ok(vec![lookup::network(&engine.edition.rules, name)?])
}

/// Returns the named address, or all addresses.
fn addresses(engine: &EngineContext, named: Option<&Name>) -> Result<Vec<(Name, Address)>, Fault> {
    let wallet = engine.core.view().state.wallet.clone().ok_or(Fault::new(Code::NoWallet))?;
    if let Some(label) = named {
        let known = lookup::find_address(&wallet, label)?;
        return Ok(vec![(known.label.clone(), known.address)]);
    }
    if wallet.addresses.len() > FUNDS_ADDRESSES_MAX {
        let why = format!(
            "There are more than {FUNDS_ADDRESSES_MAX} addresses: choose one with `balances --address <label>`."
        );
        return Err(Fault::because(Code::BadInput, why));
    }
    let all = wallet.addresses.values();
    Ok(all.map(|known| (known.label.clone(), known.address)).collect())
}

/// Returns the error if no balance could be read. Names each reason once, because it repeats for every address of a
/// network.
fn no_balance_fault<'a>(all: impl Iterator<Item = &'a NetworkFunds>, config: &Config) -> Fault {
    let mut reasons: Vec<String> = Vec::new();
    for on in all {
        let why = on.failure().map(|why| balance_error::reason(why, on.network, config));
        let reason = why.unwrap_or_default();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let message = format!("No balance could be read. {}", reasons.join(" "));
    Fault::because(Code::ChainUnavailable, message)
}

/// Describes one network. `room` is how many unverified tokens still fit into the answer.
fn network(on: &NetworkFunds, config: &Config, room: &mut usize) -> NetworkHoldingsAnswer {
    let mut left_out = 0usize;
    let listed = on.held.iter().filter(|held| {
        if held.is_verified() {
            return true;
        }
        let fits = *room > 0;
        *room = room.saturating_sub(1);
        left_out = left_out.saturating_add(usize::from(!fits));
        fits
    });
    let balances = listed.map(|held| balance(held, on.network, config)).collect();
    let incomplete = match left_out {
        0 => on.incomplete.map(str::to_owned),
        more => Some(format!("{more} more tokens are not shown: choose one address and network.")),
    };
    NetworkHoldingsAnswer {
        chain_id: on.network.chain.0,
        caip2: on.network.caip2(),
        name: on.network.title.to_owned(),
        balances,
        error: on.failure().map(|why| balance_error::reason(why, on.network, config)),
        incomplete,
    }
}

fn balance(held: &TokenHolding, network: &Network, config: &Config) -> BalanceAnswer {
    let unread = held.amount.err().map(|why| balance_error::reason(why, network, config));
    BalanceAnswer {
        symbol: held.symbol.clone(),
        token_address: held.token.map(|token| token.to_checksum(None)),
        decimals: held.decimals,
        amount: held.described(),
        amount_unknown_reason: unread.or(held.unknown_reason().map(str::to_owned)),
        usd: held.usd().map(|usd| usd.to_string()),
        verified: held.is_verified(),
    }
}
