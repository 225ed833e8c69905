//! From what the operator typed to what would be put on the chain, and its card. Everything is looked at
//! before anybody is asked: what would fail is refused here.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault};
use bursar_chain::{data_fee, errands, revert, token};
use bursar_core::card::Balance;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::SendOrder;
use bursar_core::ids::{Name, RequestId};
use bursar_core::money::{Atoms, TokenAmount, parse_decimal};
use bursar_core::networks::{NATIVE_DECIMALS, NETWORKS, Network, by_name};
use bursar_core::send_card::SendCard;
use bursar_core::text;
use bursar_domain::desks::Send;
use bursar_domain::payees::{Paid, Payee};
use bursar_domain::wallets::Wallet;
use bursar_submit::{Call, DeskKey, fees};

use crate::engine::Shared;

/// More gas than any transfer needs, also of a token that does much beside it.
const GAS_MAX: u64 = 5_000_000;

/// What is sent.
struct Asset {
    /// `None` for the native coin.
    token: Option<Address>,
    symbol: String,
    decimals: u8,
    /// In our table.
    verified: bool,
}

pub(super) async fn plan(
    engine: &Arc<Shared>,
    order: &SendOrder,
    by: Client,
) -> Result<(Send, SendCard), Fault> {
    let view = engine.core.view();
    let wallet = view.state.wallet.clone().ok_or(Fault::new(Code::NoWallet))?;
    let known = wallet.address(&order.label).ok_or_else(|| no_address(&order.label))?.clone();
    let network = network(order, |row| view.state.network_enabled(row.chain))?;
    let chain = engine.ports.chains.get(&network.chain).ok_or_else(|| {
        let message =
            format!("No endpoint is set for {}: see `bursar network rpc`.", network.title);
        Fault::because(Code::ChainUnavailable, message)
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
            format!("{} is no amount of {}: {error}.", order.amount, asset.symbol),
        )
    })?;
    if atoms.is_zero() {
        return Err(Fault::because(Code::BadInput, "Nothing would be sent: the amount is zero."));
    }
    let amount = TokenAmount { atoms: Atoms(atoms), decimals: asset.decimals };
    // What is left of it once everything has happened that is on its way.
    let key = DeskKey { chain: network.chain, signer: known.address };
    let desks = Arc::clone(&view.state.desks);
    let free = |held: U256, token| {
        let taken = desks.on_its_way(&key, token).unwrap_or(U256::MAX);
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
    let quote = ask(network, errands::quote(&*chain, known.address, &network.gas).await)?;
    let offer = fees::within(&quote.fee, network.gas.ceiling).ok_or_else(|| {
        let message = format!(
            "Gas on {} costs more than Bursar ever offers: try again when it is cheaper.",
            network.title
        );
        Fault::because(Code::ChainUnavailable, message)
    })?;
    // Room for a few higher offers, which the card promises not to exceed.
    let ceiling = offer.most().saturating_mul(2).min(network.gas.ceiling);
    let gas_most = U256::from(call.gas_limit).checked_mul(U256::from(ceiling));
    // Signature and fields beside the call itself: more than any such transaction has.
    let bytes = call.data.len().saturating_add(200);
    let data_fee = ask(network, data_fee::most(&*chain, &network.gas, bytes).await)?;
    let gas_most = gas_most.and_then(|most| most.checked_add(data_fee));
    let gas_most = gas_most.ok_or(Fault::new(Code::InternalError))?;
    let native_after =
        native_held.checked_sub(gas_most).and_then(|left| left.checked_sub(call.value));
    if native_after.is_none() {
        let message = format!(
            "{} holds {} {}, and gas may cost up to {}: not enough.",
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
        to_label: label_of(&wallet, to),
        paid_before: paid.ok().map(Paid::told),
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

/// The named network, or the only enabled one that has the token.
fn network(
    order: &SendOrder,
    enabled: impl Fn(&Network) -> bool,
) -> Result<&'static Network, Fault> {
    if let Some(name) = &order.network {
        let row = by_name(name).ok_or_else(|| {
            let message = format!("{name} is not a network Bursar knows: see `network list`.");
            Fault::because(Code::NothingFound, message)
        })?;
        return if enabled(row) { Ok(row) } else { Err(Fault::new(Code::NetworkDisabled)) };
    }
    let fits: Vec<&Network> = NETWORKS
        .iter()
        .filter(|row| enabled(row))
        .filter(|row| match &order.token {
            None => true,
            Some(text) => of_table(row, text).is_some(),
        })
        .collect();
    match fits.as_slice() {
        [only] => Ok(only),
        _none_or_several => Err(Fault::because(
            Code::BadInput,
            "Say on which network: add --network, for example --network base.",
        )),
    }
}

/// The coin or token of our table that a text names: by symbol, in any case, or by address.
fn of_table(row: &Network, text: &str) -> Option<Asset> {
    let coin = &row.stablecoin;
    let tokens = row.tokens.iter().map(|token| (token.symbol, token.address, token.decimals));
    let mut all = std::iter::once((coin.symbol, coin.address, coin.decimals)).chain(tokens);
    if row.native.eq_ignore_ascii_case(text) {
        return Some(native_coin(row));
    }
    let address: Option<Address> = text.parse().ok();
    let (symbol, address, decimals) = all.find(|(symbol, contract, _decimals)| {
        symbol.eq_ignore_ascii_case(text) || Some(*contract) == address
    })?;
    Some(Asset { token: Some(address), symbol: symbol.to_owned(), decimals, verified: true })
}

fn native_coin(row: &Network) -> Asset {
    let symbol = row.native.to_owned();
    Asset { token: None, symbol, decimals: NATIVE_DECIMALS, verified: true }
}

async fn asset(
    chain: &dyn Chain,
    row: &'static Network,
    named: Option<&str>,
) -> Result<Asset, Fault> {
    let Some(text) = named else { return Ok(native_coin(row)) };
    if let Some(known) = of_table(row, text) {
        return Ok(known);
    }
    let unknown = || {
        let message = format!(
            "{} has no token {}: give the address of its contract.",
            row.title,
            text::visible(text)
        );
        Fault::because(Code::NothingFound, message)
    };
    let address = address(text).ok_or_else(unknown)?;
    let described = ask(row, token::describe(chain, address).await)?.ok_or_else(unknown)?;
    // Quoted, because a token may call itself USDC.
    let symbol = text::quoted(&described.symbol, 16);
    Ok(Asset { token: Some(address), symbol, decimals: described.decimals, verified: false })
}

/// An address, or the label of one of this wallet's own.
fn payee(wallet: &Wallet, text: &str) -> Result<Address, Fault> {
    if let Some(address) = address(text) {
        return if address.is_zero() {
            let message = "This is the zero address: what goes there is lost. Nothing was sent.";
            Err(Fault::because(Code::BadInput, message))
        } else {
            Ok(address)
        };
    }
    let named = text.parse::<Name>().ok();
    let known = named.and_then(|label| wallet.address(&label).map(|known| known.address));
    known.ok_or_else(|| {
        let message = format!(
            "{} is neither an address (0x and 40 hex digits with a valid checksum) nor a label of \
             this wallet: see `address list`.",
            text::visible(text)
        );
        Fault::because(Code::BadInput, message)
    })
}

/// `0x` and 40 hex digits. In mixed case the checksum must be right (ERC-55): a wrong one is a typing
/// mistake.
fn address(text: &str) -> Option<Address> {
    let digits = text.strip_prefix("0x")?;
    let address: Address = text.parse().ok()?;
    let one_case = !digits.bytes().any(|b| b.is_ascii_lowercase())
        || !digits.bytes().any(|b| b.is_ascii_uppercase());
    (one_case || address.to_checksum(None) == text).then_some(address)
}

fn label_of(wallet: &Wallet, address: Address) -> Option<Name> {
    let mut all = wallet.addresses.values();
    all.find(|known| known.address == address).map(|known| known.label.clone())
}

fn no_address(label: &Name) -> Fault {
    Fault::because(Code::NothingFound, format!("There is no address {label}: see `address list`."))
}

/// What the call needs, with a quarter more: what it does may cost more in another block.
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
            "It would use more gas than a transfer ever does, so nothing was sent.",
        )),
        Err(ChainFault::Reverted { data }) => {
            let reason = text::quoted(&revert::reason(&data), 200);
            let message =
                format!("It would fail, so nothing was sent: the contract says {reason}.");
            Err(Fault::because(Code::WouldFail, message))
        }
        Err(fault) => Err(unavailable(row, &fault)),
    }
}

fn ask<T>(row: &Network, answer: Result<T, ChainFault>) -> Result<T, Fault> {
    answer.map_err(|fault| unavailable(row, &fault))
}

fn unavailable(row: &Network, fault: &ChainFault) -> Fault {
    let message = format!("No endpoint of {} gave a usable answer: nothing was sent.", row.title);
    Fault::because(Code::ChainUnavailable, message).with_detail(fault)
}

fn native(wei: U256) -> String {
    TokenAmount { atoms: Atoms(wei), decimals: NATIVE_DECIMALS }.plain()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_wrong_checksum_is_none() {
        let right = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
        assert!(address(right).is_some());
        assert!(address(&right.to_lowercase()).is_some());
        assert!(address(&right.replace("Bc6", "bC6")).is_none());
        assert!(address(right.trim_start_matches("0x")).is_none());
        assert!(address("0x12").is_none());
    }

    #[test]
    fn tokens_are_found_by_symbol_and_by_address_and_nothing_else_is() {
        let base = by_name("base").unwrap();
        let dollar = of_table(base, "usdc").unwrap();
        assert_eq!((dollar.token, dollar.decimals), (Some(base.stablecoin.address), 6));
        let same = of_table(base, &base.stablecoin.address.to_checksum(None)).unwrap();
        assert_eq!(same.symbol, "USDC");
        assert!(of_table(base, "eth").unwrap().token.is_none());
        assert!(of_table(base, "USDG").is_none());
    }
}
