//! The balances of addresses. An unknown amount is shown as `?` with its reason below, never as zero.

use bursar_control::answers::{BalanceAnswer, HoldingsAnswer, NetworkHoldingsAnswer};
use bursar_core::amount::Amount;

use crate::oneshot::sheet::{Sheet, quote_foreign};

pub(super) fn balances(to: &mut Sheet, addresses: &[HoldingsAnswer]) {
    if addresses.is_empty() {
        to.line("There is no address yet.");
        return to.next("Next", "bursar address create <label> 0");
    }
    let rows: Vec<[String; 6]> = addresses
        .iter()
        .flat_map(|address| address.networks.iter().map(move |on| (address, on)))
        .flat_map(|(address, on)| on.balances.iter().map(move |held| row(address, on, held)))
        .collect();
    if rows.is_empty() {
        to.line("No network is enabled.");
        return to.next("Next", "bursar network enable <network>");
    }
    to.table(["LABEL", "NETWORK", "TOKEN", "AMOUNT", "USD", ""], &rows);
    reasons(to, addresses);
}

fn row(address: &HoldingsAnswer, on: &NetworkHoldingsAnswer, held: &BalanceAnswer) -> [String; 6] {
    let unknown = held.amount.is_none();
    let usd = held.usd.clone().unwrap_or_else(|| if unknown { "?" } else { "-" }.to_owned());
    [
        address.label.clone(),
        on.name.clone(),
        // Any token can choose any symbol, so only the symbols of verified tokens are printed without quotes.
        if held.verified { held.symbol.clone() } else { quote_foreign(&held.symbol) },
        amount(held),
        usd,
        mark(held),
    ]
}

/// Formats the amount. If the token's decimals are unknown, formats the amount in smallest units.
fn amount(held: &BalanceAnswer) -> String {
    match &held.amount {
        Some(Amount { coins: Some(coins), .. }) => coins.clone(),
        Some(Amount { coins: None, atoms, .. }) => format!("{atoms} units"),
        None => "?".to_owned(),
    }
}

fn mark(held: &BalanceAnswer) -> String {
    let unverified = held.token_address.as_ref().filter(|_token| !held.verified);
    unverified.map_or(String::new(), |token| format!("unverified {token}"))
}

/// Prints each reason once, because a network that does not answer fails for every address.
fn reasons(to: &mut Sheet, addresses: &[HoldingsAnswer]) {
    let mut lines: Vec<String> = Vec::new();
    for on in addresses.iter().flat_map(|address| &address.networks) {
        // If the whole network failed, its reason applies to every balance.
        let unread = |held: &&BalanceAnswer| on.error.is_none() && held.amount.is_none();
        let alone = on.balances.iter().filter(unread);
        let named = |what: &str, why: &str| format!("{}: {what}{why}", on.name);
        let of_tokens = alone.filter_map(|held| {
            let why = held.amount_unknown_reason.as_ref()?;
            Some(named(&format!("{}: ", held.symbol), why))
        });
        // The network's own reason already contains the network's name.
        let of_all = on.error.clone().into_iter();
        let of_list = on.incomplete.iter().map(|why| named("", why));
        for line in of_all.chain(of_list).chain(of_tokens) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if !lines.is_empty() {
        to.blank();
    }
    for line in &lines {
        to.line(line);
    }
}
