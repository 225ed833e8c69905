//! Merges the balances of the chain and the explorer into one list. Tokens of our table come only from the chain; the
//! explorer adds only other tokens.

use std::collections::BTreeSet;

use bursar_chain::explorer_http::TOKENS_MAX;
use bursar_chain::multicall::{Holdings, ReadFault};
use bursar_chain::ports::TokenBalance;
use bursar_core::money::Atoms;
use bursar_core::networks::{NATIVE_DECIMALS, Network, Token};
use bursar_core::text::visible;

use super::holding::{DiscoveryFailure, Kind, NetworkFunds, TokenHolding, UnknownReason};

const NO_EXPLORER_ANSWER: &str = "The explorer gave no valid answer: other tokens may be missing.";
const TOO_MANY_TOKENS: &str =
    "The explorer lists more tokens than Bursar reads: some may be missing.";

/// Returns the tokens of our table, in the order in which they are read and shown.
pub(super) fn known_tokens(network: &'static Network) -> impl Iterator<Item = (Kind, Token)> {
    let coin = &network.stablecoin;
    let dollar = Token { symbol: coin.symbol, address: coin.address, decimals: coin.decimals };
    let others = network.tokens.iter().map(|token| (Kind::Known, *token));
    std::iter::once((Kind::Dollar, dollar)).chain(others)
}

/// Returns the funds of a network on which all amounts are unknown, for the reason `why`.
pub(super) fn unknown_funds(network: &'static Network, why: UnknownReason) -> NetworkFunds {
    merge(network, Err(why), None)
}

pub(super) fn merge(
    network: &'static Network,
    known: Result<Holdings, UnknownReason>,
    found: Option<Result<Vec<TokenBalance>, DiscoveryFailure>>,
) -> NetworkFunds {
    let mut held = table_tokens(network, known);
    let empty = held.iter().all(|held| held.amount == Ok(Atoms::default()));
    let incomplete = match found {
        None => None,
        Some(Ok(tokens)) => {
            let all = tokens.len() < TOKENS_MAX;
            held.extend(foreign_tokens(network, tokens));
            (!all).then_some(TOO_MANY_TOKENS)
        }
        // This explorer returns 500 for an address that it has never seen. Such an address holds nothing, so accept the
        // 500 only if every amount is zero.
        Some(Err(DiscoveryFailure::Status500)) if network.explorer_500_for_unseen && empty => None,
        Some(Err(DiscoveryFailure::Status500 | DiscoveryFailure::Failed)) => {
            Some(NO_EXPLORER_ANSWER)
        }
    };
    NetworkFunds { network, held, incomplete }
}

/// Returns the native coin and the tokens of our table.
fn table_tokens(
    network: &'static Network,
    known: Result<Holdings, UnknownReason>,
) -> Vec<TokenHolding> {
    let (native, tokens) = match known {
        Ok(Holdings { native, tokens }) => {
            (read_amount(native, UnknownReason::NoAnswer), Ok(tokens))
        }
        Err(why) => (Err(why), Err(why)),
    };
    let mut held = vec![TokenHolding {
        kind: Kind::Native,
        symbol: network.native.to_owned(),
        token: None,
        decimals: Some(NATIVE_DECIMALS),
        amount: native,
    }];
    for (index, (kind, token)) in known_tokens(network).enumerate() {
        let amount = match &tokens {
            Ok(tokens) => {
                tokens.get(index).cloned().map_or(Err(UnknownReason::NoAnswer), |amount| {
                    read_amount(amount, UnknownReason::NotAToken)
                })
            }
            Err(why) => Err(*why),
        };
        held.push(TokenHolding {
            kind,
            symbol: token.symbol.to_owned(),
            token: Some(token.address),
            decimals: Some(token.decimals),
            amount,
        });
    }
    held
}

fn read_amount(
    amount: Result<alloy_primitives::U256, ReadFault>,
    malformed: UnknownReason,
) -> Result<Atoms, UnknownReason> {
    amount.map(Atoms).map_err(|failure| match failure {
        ReadFault::Malformed(_) => malformed,
        ReadFault::Chain(_) | ReadFault::Reverted { .. } => UnknownReason::from(&failure),
    })
}

/// Returns the tokens outside our table, without zero amounts and duplicates.
fn foreign_tokens(network: &'static Network, tokens: Vec<TokenBalance>) -> Vec<TokenHolding> {
    let mut met: BTreeSet<_> = known_tokens(network).map(|(_kind, token)| token.address).collect();
    let new =
        tokens.into_iter().filter(|token| !token.amount.is_zero() && met.insert(token.address));
    new.map(|token| TokenHolding {
        kind: Kind::Foreign,
        symbol: visible(&token.symbol),
        token: Some(token.address),
        decimals: token.decimals,
        amount: Ok(Atoms(token.amount)),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};
    use bursar_chain::ports::ChainFault;
    use bursar_core::money::Usd;
    use bursar_core::networks::{ChainId, by_chain};

    fn base() -> &'static Network {
        by_chain(ChainId(8453)).unwrap()
    }

    fn holdings(native: u64, tokens: [u64; 2]) -> Holdings {
        Holdings {
            native: Ok(U256::from(native)),
            tokens: tokens.map(|amount| Ok(U256::from(amount))).to_vec(),
        }
    }

    fn token(address: Address, symbol: &str, amount: u64) -> TokenBalance {
        let amount = U256::from(amount);
        let symbol = symbol.to_owned();
        TokenBalance { address, symbol, decimals: Some(2), amount, icon: None }
    }

    #[test]
    fn amounts_are_shown_in_whole_coins_and_only_dollars_have_a_worth() {
        let funds = merge(base(), Ok(holdings(1_500_000_000_000_000_000, [12_345_678, 10])), None);
        let told: Vec<_> = funds
            .held
            .iter()
            .map(|held| (held.symbol.as_str(), held.formatted().unwrap(), held.usd()))
            .collect();
        assert_eq!(
            told,
            [
                ("ETH", "1.5".to_owned(), None),
                ("USDC", "12.345678".to_owned(), Some(Usd(12_345_678))),
                ("WETH", "0.00000000000000001".to_owned(), None),
            ]
        );
        assert!(funds.failure().is_none() && funds.incomplete.is_none());
        let zero = merge(base(), Ok(holdings(0, [0, 0])), None);
        assert!(zero.held.iter().all(|held| held.formatted().as_deref() == Some("0")));
        let mut round = zero.held[1].clone();
        (round.amount, round.decimals) = (Ok(Atoms(U256::from(100))), Some(0));
        assert_eq!(round.formatted().as_deref(), Some("100"));
        (round.amount, round.decimals) = (Ok(Atoms(U256::MAX)), Some(77));
        assert!(round.formatted().is_some_and(|digits| digits.starts_with("1.15792")));
        round.decimals = Some(6);
        assert_eq!(round.usd(), None, "more dollars than are counted");
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_only_that() {
        let mut some = holdings(7, [8, 9]);
        some.tokens[0] = Err(ReadFault::Reverted { data: alloy_primitives::Bytes::new() });
        let funds = merge(base(), Ok(some), None);
        assert_eq!(funds.held[1].amount, Err(UnknownReason::NotAToken));
        assert_eq!(funds.held[2].amount, Ok(Atoms(U256::from(9))));
        assert_eq!((funds.failure(), funds.has_any_amount()), (None, true));
        assert_eq!((funds.held[1].formatted(), funds.held[1].usd()), (None, None));

        let down = ChainFault::Unavailable { tried: Vec::new() };
        let none =
            Holdings { native: Err(down.into()), tokens: vec![Err(ReadFault::Malformed("short"))] };
        let funds = merge(base(), Ok(none), None);
        let why: Vec<_> = funds.held.iter().map(|held| held.amount.unwrap_err()).collect();
        assert_eq!(
            why,
            [UnknownReason::NoAnswer, UnknownReason::NotAToken, UnknownReason::NoAnswer]
        );
        assert_eq!(
            (funds.failure(), funds.has_any_amount()),
            (Some(UnknownReason::NoAnswer), false)
        );
        assert_eq!(
            unknown_funds(base(), UnknownReason::TooSlow).failure(),
            Some(UnknownReason::TooSlow)
        );
    }

    #[test]
    fn an_explorer_adds_what_is_in_no_table_and_changes_nothing_else() {
        let coin = base().stablecoin.address;
        let [one, two] = [Address::repeat_byte(1), Address::repeat_byte(2)];
        let found = vec![
            token(coin, "USDC", 999),
            token(one, "USDC", 100),
            token(one, "AGAIN", 100),
            token(two, "ZERO", 0),
            TokenBalance { decimals: None, ..token(two, "\x1b[2J\u{202e}", 5) },
        ];
        let funds = merge(base(), Ok(holdings(1, [2, 3])), Some(Ok(found)));
        assert_eq!(funds.held[1].amount, Ok(Atoms(U256::from(2))), "the chain's word counts");
        let strangers: Vec<_> = funds.held[3..].iter().collect();
        assert_eq!(strangers.len(), 2);
        assert!(strangers.iter().all(|held| !held.is_verified() && held.usd().is_none()));
        assert_eq!((&*strangers[0].symbol, strangers[0].token), ("USDC", Some(one)));
        assert_eq!(&*strangers[1].symbol, "\\u{1b}[2J\\u{202e}");
        assert_eq!(strangers[1].formatted(), None);
    }

    #[test]
    fn a_failed_explorer_is_reported_with_and_without_an_answer_of_the_chain() {
        for known in [Ok(holdings(0, [0, 0])), Err(UnknownReason::NoAnswer)] {
            let funds = merge(base(), known, Some(Err(DiscoveryFailure::Failed)));
            assert_eq!((funds.incomplete, funds.held.len()), (Some(NO_EXPLORER_ANSWER), 3));
        }
        let found =
            (1..=TOKENS_MAX).map(|n| token(Address::left_padding_from(&n.to_be_bytes()), "T", 1));
        let funds = merge(base(), Err(UnknownReason::NoAnswer), Some(Ok(found.collect())));
        assert_eq!((funds.incomplete, funds.has_any_amount()), (Some(TOO_MANY_TOKENS), true));
        assert_eq!(funds.failure(), Some(UnknownReason::NoAnswer));
    }

    #[test]
    fn a_500_means_unseen_only_where_that_is_known_and_nothing_is_held() {
        let quirky = by_chain(ChainId(4663)).unwrap();
        let told = |network, known| {
            merge(network, known, Some(Err(DiscoveryFailure::Status500))).incomplete
        };
        assert_eq!(told(quirky, Ok(holdings(0, [0, 0]))), None);
        for known in [holdings(1, [0, 0]), holdings(0, [1, 0]), holdings(0, [0, 1])] {
            assert_eq!(told(quirky, Ok(known)), Some(NO_EXPLORER_ANSWER));
        }
        assert_eq!(told(quirky, Err(UnknownReason::NoAnswer)), Some(NO_EXPLORER_ANSWER));
        assert_eq!(told(base(), Ok(holdings(0, [0, 0]))), Some(NO_EXPLORER_ANSWER));
    }
}
