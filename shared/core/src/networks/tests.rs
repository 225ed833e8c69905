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
        assert_eq!(keccak256(words.concat()), coin.domain_separator, "{}", row.title);
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
        assert_eq!(by_text(&row.caip2()), Some(row));
        assert_eq!(by_text(&row.chain.to_string()), Some(row));
        for name in row.v1_names {
            assert_eq!(by_text(&name.to_uppercase()), Some(row));
        }
    }
    for unknown in ["", "eip155:", "eip155:08453", "mainnet", "eip155:99999", "solana:8453", "+1"] {
        assert_eq!(by_text(unknown), None, "{unknown}");
    }
}

/// Every lookup reveals the wallet's addresses to an explorer, so a default is a decision per network.
#[test]
fn only_base_has_a_default_explorer() {
    let found = NETWORKS.iter().filter_map(|row| Some((row.chain, row.explorer?)));
    let expected = [(ChainId(8453), "https://base.blockscout.com/api/v2")];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
