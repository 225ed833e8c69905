use super::*;
use alloy_primitives::{U256, keccak256};

#[test]
fn every_row_hashes_to_its_domain_separator() {
    let domain = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
    );
    for row in NETWORKS {
        let coin = row.stablecoin;
        let words = [
            domain.0,
            keccak256(coin.domain_name).0,
            keccak256(coin.domain_version).0,
            U256::from(row.chain.0).to_be_bytes(),
            coin.address.into_word().0,
        ];
        let computed = keccak256(words.concat());
        assert_eq!(
            computed, coin.domain_separator,
            "{}: the left value follows from the row; compare both with the contract's",
            row.title
        );
    }
}

#[test]
fn no_two_tokens_of_a_network_share_an_address_or_a_symbol() {
    for row in NETWORKS {
        let coin = (row.stablecoin.symbol, row.stablecoin.address);
        let known = row.tokens.iter().map(|token| (token.symbol, token.address));
        let all: Vec<_> = std::iter::once(coin).chain(known).collect();
        for (index, (symbol, address)) in all.iter().enumerate() {
            let others = all.iter().skip(index + 1);
            assert!(*symbol != row.native && !address.is_zero(), "{}: {symbol}", row.title);
            assert!(others.clone().all(|(s, a)| s != symbol && a != address), "{}", row.title);
        }
    }
}

#[test]
fn networks_are_found_by_their_own_names_only() {
    for row in NETWORKS {
        assert_eq!(by_id_or_v1_name(&row.caip2()), Some(row));
        assert_eq!(by_id_or_v1_name(&row.chain.to_string()), Some(row));
        for name in row.v1_names {
            assert_eq!(by_id_or_v1_name(&name.to_uppercase()), Some(row));
        }
    }
    for unknown in ["", "eip155:", "eip155:08453", "mainnet", "eip155:99999", "solana:8453", "+1"] {
        assert_eq!(by_id_or_v1_name(unknown), None, "{unknown}");
    }
}

/// Every lookup reveals the wallet's addresses to an explorer, so a default is a decision per network.
#[test]
fn only_base_has_a_default_explorer() {
    let found = NETWORKS.iter().filter_map(|row| Some((row.chain, row.explorer?)));
    let expected = [(ChainId(8453), "https://base.blockscout.com/api/v2")];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// The wrapped coin is the table's WETH, and no contract or dollar token is the stablecoin.
#[test]
fn exchanges_fit_their_networks() {
    let traded: Vec<ChainId> =
        NETWORKS.iter().filter(|row| row.exchange.is_some()).map(|row| row.chain).collect();
    assert_eq!(traded, [ChainId(4663), ChainId(8453)]);
    for row in NETWORKS {
        let Some(exchange) = row.exchange else { continue };
        let wrapped = row.tokens.iter().find(|token| token.symbol == "WETH").unwrap();
        assert_eq!(wrapped.address, exchange.wrapped_native, "{}", row.title);
        let (v3, v4) = (exchange.v3, exchange.v4);
        let mut all = vec![
            v3.factory,
            v3.quoter,
            v3.router,
            v4.pool_manager,
            v4.state_view,
            v4.quoter,
            v4.router,
            exchange.wrapped_native,
            exchange.permit2,
            row.stablecoin.address,
        ];
        all.extend(exchange.native_feed.map(|feed| feed.address));
        all.extend(exchange.dollar_tokens.iter().map(|token| token.address));
        all.extend(
            exchange.stock_tokens.iter().flat_map(|one| [one.token.address, one.feed.address]),
        );
        assert!(all.iter().all(|address| !address.is_zero()), "{}", row.title);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{}: an address occurs twice", row.title);
    }
}

#[test]
fn known_tokens_are_found_by_symbol_and_by_address() {
    let robinhood = by_id_name_or_title("robinhood").unwrap();
    let found = |text: &str| robinhood.known_token(text).map(|known| known.symbol);
    assert_eq!(found("eth"), Some("ETH"));
    assert_eq!(found("usdg"), Some("USDG"));
    assert_eq!(found("nvda"), Some("NVDA"));
    assert_eq!(found("0xd0601ce157db5bdc3162bbac2a2c8af5320d9eec"), Some("NVDA"));
    assert_eq!(found("0xd0601CE157Db5bdC3162BbaC2a2C8aF5320D9EEc"), None, "the checksum is wrong");
    assert_eq!(found(&Address::ZERO.to_string()), None, "the native coin has no address");
    assert_eq!((found("USDC"), found("")), (None, None));
    for row in NETWORKS {
        let all: Vec<KnownToken> = row.known_tokens().collect();
        for (index, one) in all.iter().enumerate() {
            let clash = |other: &KnownToken| {
                other.address == one.address || other.symbol.eq_ignore_ascii_case(one.symbol)
            };
            assert!(!all.iter().skip(index + 1).any(clash), "{}: {}", row.title, one.symbol);
        }
    }
}
