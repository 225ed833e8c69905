//! Resolves the network, token and payee that the operator names. Rejects ambiguous names.

use alloy_primitives::Address;
use bursar_chain::ports::Chain;
use bursar_chain::token;
use bursar_control::grammar::SendOrder;
use bursar_core::address::{self, AddressError};
use bursar_core::codes::Code;
use bursar_core::edition::EditionRules;
use bursar_core::fault::Fault;
use bursar_core::ids::Name;
use bursar_core::networks::{NATIVE_DECIMALS, NETWORKS, Network};
use bursar_core::text;
use bursar_domain::wallets::Wallet;

use super::unavailable::or_unavailable;
use crate::operator::support::lookup::network as named;

/// The token or coin to send.
pub(super) struct Asset {
    /// `None` for the native coin.
    pub(super) token: Option<Address>,
    pub(super) symbol: String,
    pub(super) decimals: u8,
    /// Whether the token is in our table.
    pub(super) verified: bool,
}

/// Returns the named network, or the only enabled one that has the token, if a token is named.
pub(super) fn network(
    edition: &EditionRules,
    order: &SendOrder,
    enabled: impl Fn(&Network) -> bool,
) -> Result<&'static Network, Fault> {
    if let Some(name) = &order.network {
        let row = named(edition, name)?;
        return if enabled(row) { Ok(row) } else { Err(Fault::new(Code::NetworkDisabled)) };
    }
    let fits: Vec<&Network> = NETWORKS
        .iter()
        .filter(|row| enabled(row))
        .filter(|row| match &order.token {
            None => true,
            Some(text) => find_in_table(row, text).is_some(),
        })
        .collect();
    match fits.as_slice() {
        [only] => Ok(only),
        _none_or_several => Err(Fault::because(
            Code::BadInput,
            "The network is not clear: add --network, for example --network base.",
        )),
    }
}

/// Finds a coin or token of our table by symbol, ignoring case, or by address.
fn find_in_table(row: &Network, text: &str) -> Option<Asset> {
    let coin = &row.stablecoin;
    let tokens = row.tokens.iter().map(|token| (token.symbol, token.address, token.decimals));
    let mut all = std::iter::once((coin.symbol, coin.address, coin.decimals)).chain(tokens);
    if row.native.eq_ignore_ascii_case(text) {
        return Some(native_coin(row));
    }
    let address = address::read(text).ok();
    let (symbol, address, decimals) = all.find(|(symbol, contract, _decimals)| {
        symbol.eq_ignore_ascii_case(text) || Some(*contract) == address
    })?;
    Some(Asset { token: Some(address), symbol: symbol.to_owned(), decimals, verified: true })
}

fn native_coin(row: &Network) -> Asset {
    let symbol = row.native.to_owned();
    Asset { token: None, symbol, decimals: NATIVE_DECIMALS, verified: true }
}

pub(super) async fn asset(
    chain: &dyn Chain,
    row: &'static Network,
    named: Option<&str>,
) -> Result<Asset, Fault> {
    let Some(text) = named else { return Ok(native_coin(row)) };
    if let Some(known) = find_in_table(row, text) {
        return Ok(known);
    }
    let unknown = || {
        let message = format!(
            "{1} is not a known token on {0}: give the address of a token contract.",
            row.title,
            text::snippet(text)
        );
        Fault::because(Code::NothingFound, message)
    };
    let address = address::parse(text).map_err(|error| match error {
        AddressError::Checksum => Fault::because(Code::BadInput, format!("{error}.")),
        AddressError::Form | AddressError::Zero => unknown(),
    })?;
    let described =
        or_unavailable(row, token::describe(chain, address).await)?.ok_or_else(unknown)?;
    // Quote the symbol, because any token can call itself USDC.
    let symbol = text::quoted(&described.symbol, 16);
    Ok(Asset { token: Some(address), symbol, decimals: described.decimals, verified: false })
}

/// Parses an address, or resolves the label of one of the wallet's own addresses.
pub(super) fn payee(wallet: &Wallet, text: &str) -> Result<Address, Fault> {
    match address::parse(text) {
        Ok(address) => return Ok(address),
        Err(AddressError::Zero) => {
            let message = "This is the zero address: money sent there is lost. Nothing was sent.";
            return Err(Fault::because(Code::BadInput, message));
        }
        Err(AddressError::Form | AddressError::Checksum) => {}
    }
    let named = text.parse::<Name>().ok();
    let known = named.and_then(|label| wallet.address(&label).map(|known| known.address));
    known.ok_or_else(|| {
        let message = format!(
            "{} is neither an address (0x and 40 hex digits with a valid checksum) nor a label of \
             this wallet: see `address list`.",
            text::snippet(text)
        );
        Fault::because(Code::BadInput, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::by_id_name_or_title;

    #[test]
    fn tokens_are_found_by_symbol_and_by_address_and_nothing_else_is() {
        let base = by_id_name_or_title("base").unwrap();
        let dollar = find_in_table(base, "usdc").unwrap();
        assert_eq!((dollar.token, dollar.decimals), (Some(base.stablecoin.address), 6));
        let same = find_in_table(base, &base.stablecoin.address.to_checksum(None)).unwrap();
        assert_eq!(same.symbol, "USDC");
        let wrong = "0x833589fcD6eDb6E08f4c7C32D4f71b54bdA02913";
        assert!(find_in_table(base, wrong).is_none(), "its checksum is wrong");
        assert!(find_in_table(base, "eth").unwrap().token.is_none());
        assert!(find_in_table(base, "USDG").is_none());
    }
}
