//! Builds the transaction of a send and its card from the operator's command. Runs every check before the operator is
//! asked: a send that would fail is refused here.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault};
use bursar_chain::{chain_tasks, data_fee, revert, token};
use bursar_core::card::Balance;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::SendOrder;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, TokenAmount, parse_decimal};
use bursar_core::networks::{NATIVE_DECIMALS, Network};
use bursar_core::send_card::SendCard;
use bursar_core::text;
use bursar_domain::cards::own_label;
use bursar_domain::outboxes::Send;
use bursar_domain::payees::{Paid, Payee};
use bursar_submit::{Call, OutboxKey, fees};

use super::unavailable::{ask, unavailable};
use super::words::{asset, network, payee};
use crate::context::EngineContext;
use crate::operator::support::lookup::labelled;

/// Upper bound for the gas of a transfer, including tokens with extra logic.
const GAS_MAX: u64 = 5_000_000;

pub(super) async fn plan(
    engine: &Arc<EngineContext>,
    order: &SendOrder,
    by: Client,
) -> Result<(Send, SendCard), Fault> {
    let view = engine.core.view();
    let wallet = view.state.wallet.clone().ok_or(Fault::new(Code::NoWallet))?;
    let known = labelled(&wallet, &order.label)?.clone();
    let network = network(order, |row| view.state.network_enabled(row.chain))?;
    let chain = engine.ports.chains.get(&network.chain).ok_or_else(|| {
        let message = format!("No endpoint is set for {}.", network.title);
        Fault::because(Code::ChainUnavailable, message).with_hint("network rpc")
    })?;
    let to = payee(&wallet, &order.to)?;
    let asset = asset(&*chain, network, order.token.as_deref()).await?;
    if to == known.address || Some(to) == asset.token {
        let what = if to == known.address {
            "the paying address itself"
        } else {
            "the token's own contract"
        };
        return Err(Fault::because(
            Code::BadInput,
            format!("This would go to {what}: nothing was sent."),
        ));
    }
    let atoms = parse_decimal(&order.amount, asset.decimals).map_err(|error| {
        Fault::because(
            Code::BadInput,
            format!("{} is not a valid amount of {}: {error}.", order.amount, asset.symbol),
        )
    })?;
    if atoms.is_zero() {
        return Err(Fault::because(Code::BadInput, "Nothing would be sent: the amount is zero."));
    }
    let amount = TokenAmount { atoms: Atoms(atoms), decimals: asset.decimals };
    // The balance without the amounts of sends in flight.
    let key = OutboxKey { chain: network.chain, signer: known.address };
    let outboxes = Arc::clone(&view.state.outboxes);
    let free = |held: U256, token| {
        let taken = outboxes.in_flight(&key, token).unwrap_or(U256::MAX);
        held.saturating_sub(taken)
    };
    let native_held = ask(network, chain.balance(known.address, BlockTag::Latest).await)?;
    let native_held = free(native_held, None);
    let held = match asset.token {
        None => native_held,
        Some(contract) => {
            let held = ask(network, token::balance(&*chain, contract, known.address).await)?;
            free(held, asset.token)
        }
    };
    if held < atoms {
        let held = TokenAmount { atoms: Atoms(held), decimals: asset.decimals }.told();
        let message = format!(
            "{} has {held} {} free on {}: not enough.",
            known.label, asset.symbol, network.title
        );
        return Err(Fault::because(Code::InsufficientFunds, message));
    }
    let mut call = match asset.token {
        None => Call { to, value: atoms, data: Default::default(), gas_limit: 0 },
        Some(contract) => {
            Call { to: contract, value: U256::ZERO, data: token::transfer(to, atoms), gas_limit: 0 }
        }
    };
    let to_contract = !ask(network, chain.code_at(to, BlockTag::Latest).await)?.is_empty();
    call.gas_limit = estimate(&*chain, network, known.address, &call).await?;
    let quote = ask(network, chain_tasks::quote(&*chain, known.address, &network.gas).await)?;
    let offer = fees::within(&quote.fee, network.gas.ceiling).ok_or_else(|| {
        let message = format!(
            "Gas on {} costs more than Bursar's maximum: try again when it is cheaper.",
            network.title
        );
        Fault::because(Code::ChainUnavailable, message)
    })?;
    // Leaves room for a few higher gas offers. The card states this ceiling as the maximum.
    let ceiling = offer.most().saturating_mul(2).min(network.gas.ceiling);
    let gas_most = U256::from(call.gas_limit).checked_mul(U256::from(ceiling));
    // 200 bytes cover the signature and the other fields of any such transaction.
    let bytes = call.data.len().saturating_add(200);
    let data_fee = ask(network, data_fee::most(&*chain, &network.gas, bytes).await)?;
    let gas_most = gas_most.and_then(|most| most.checked_add(data_fee));
    let gas_most = gas_most.ok_or(Fault::new(Code::InternalError))?;
    let native_after =
        native_held.checked_sub(gas_most).and_then(|left| left.checked_sub(call.value));
    if native_after.is_none() {
        let message = format!(
            "{} has {} {} free, and gas may cost up to {}: not enough.",
            known.label,
            native(native_held),
            network.native,
            native(gas_most)
        );
        return Err(Fault::because(Code::InsufficientFunds, message));
    }
    let send = Send {
        id: RequestId::from_entropy(engine.random()?),
        label: known.label.clone(),
        from: known.address,
        chain: network.chain,
        token: asset.token,
        symbol: asset.symbol.clone(),
        to,
        amount,
        call,
        ceiling,
        by,
    };
    let read = text::utc(engine.core.now().utc);
    let left = match asset.token {
        None => native_after,
        Some(_token) => held.checked_sub(atoms),
    };
    let show = |atoms| TokenAmount { atoms: Atoms(atoms), decimals: asset.decimals }.told();
    let paid = engine.core.reader().paid(&Payee { chain: network.chain, address: to });
    let card = SendCard {
        amount: send.amount_text(),
        network_title: format!("{} ({})", network.title, network.chain),
        from: known.address.to_checksum(None),
        label: known.label.clone(),
        to: to.to_checksum(None),
        to_label: own_label(&view.state, to),
        paid_before: paid.ok().map(Paid::for_card),
        to_contract,
        token: asset.token.map(|token| token.to_checksum(None)),
        unverified: !asset.verified,
        balance: Balance {
            before: show(held),
            after: left.map(show),
            symbol: asset.symbol,
            read: read.clone(),
        },
        gas_most: format!("{} {}", native(gas_most), network.native),
        gas: Balance {
            before: native(native_held),
            after: native_after.map(native),
            symbol: network.native.to_owned(),
            read,
        },
    };
    Ok((send, card))
}

/// Estimates the gas limit: the node's estimate plus a quarter, because the cost can rise in a later block.
async fn estimate(
    chain: &dyn Chain,
    row: &Network,
    from: Address,
    call: &Call,
) -> Result<u64, Fault> {
    match chain.estimate_gas(from, call.clone()).await {
        Ok(needed) if needed <= GAS_MAX => Ok(needed.saturating_add(needed / 4)),
        Ok(_absurd) => Err(Fault::because(
            Code::WouldFail,
            "It would use far more gas than a transfer, so nothing was sent.",
        )),
        Err(ChainFault::Reverted { data }) => {
            let reason = text::quoted(&revert::reason(&data), 200);
            let message =
                format!("It would fail, so nothing was sent: the contract reports {reason}.");
            Err(Fault::because(Code::WouldFail, message))
        }
        Err(fault) => Err(unavailable(row, &fault)),
    }
}

fn native(wei: U256) -> String {
    TokenAmount { atoms: Atoms(wei), decimals: NATIVE_DECIMALS }.plain()
}
