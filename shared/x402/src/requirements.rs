//! Chooses an offer, and compares its untrusted claims with the network table. This module reads no chain and sets no
//! price.

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, Network, Stablecoin};

use crate::error::X402Error;
use crate::fields::fault_of;
use crate::offer::{Extra, Offer};

/// The chosen offer, with its EVM addresses parsed.
///
/// The payee is neither the zero address nor the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    pub offer: &'a Offer,
    pub network: &'static Network,
    pub asset: Address,
    pub payee: Address,
    /// Whether the asset is the network's reference stablecoin.
    ///
    /// Only then are name, version and decimals known without the chain, and the amount is in dollars.
    pub is_reference_stablecoin: bool,
}

/// Chooses the first offer that EIP-3009 can pay in the reference stablecoin of a `usable` network.
///
/// A usable network is enabled, and allowed by the policy. If no offer qualifies, the second choice is the first offer
/// that EIP-3009 can pay in another token. The third choice is the first offer on any known network: its refusal shows
/// the agent what is wrong with it. Only offers with the scheme `exact` are chosen.
///
/// # Errors
/// - `NoExactOffer` if every offer has another scheme.
/// - `NoKnownNetwork` if no offer with scheme `exact` is on a network of the table.
/// - `InvalidPayment` if the asset or the payee of the chosen offer cannot be paid.
pub fn choose<'a>(
    offers: &'a [Offer],
    usable: impl Fn(ChainId) -> bool,
) -> Result<Choice<'a>, X402Error> {
    let exact = offers.iter().filter(|offer| offer.scheme == "exact");
    if exact.clone().next().is_none() {
        return Err(X402Error::NoExactOffer);
    }
    let known = exact.filter_map(|offer| offer.network.map(|network| (offer, network)));
    let payable = known.clone().filter(|(offer, network)| is_payable(offer, network));
    let is_usable = |network: &Network| usable(network.chain);
    let (offer, network) = payable
        .clone()
        .find(|(offer, network)| is_reference(offer, network) && is_usable(network))
        .or_else(|| payable.clone().find(|(_offer, network)| is_usable(network)))
        .or_else(|| payable.clone().next())
        .or_else(|| known.clone().next())
        .ok_or(X402Error::NoKnownNetwork)?;
    Choice::new(offer, network)
}

impl<'a> Choice<'a> {
    fn new(offer: &'a Offer, network: &'static Network) -> Result<Self, X402Error> {
        let wrong = |key: &'static str| {
            move |error| X402Error::payment(format!("{key} {}", fault_of(error)))
        };
        let asset = offer.asset_address().map_err(wrong("asset"))?;
        let payee = offer.payee_address().map_err(wrong("payTo"))?;
        reject_unspendable_payee(payee, asset)?;
        if !offer.extra.domain.is_of_token(asset, network.chain) {
            return Err(X402Error::payment(
                "extra has a verifyingContract, chainId or salt that is not the asset's: this wallet signs only \
                 transfers of the asset itself",
            ));
        }
        Ok(Self {
            offer,
            network,
            asset,
            payee,
            is_reference_stablecoin: asset == network.stablecoin.address,
        })
    }
}

/// Returns whether the wallet can sign a payment for an offer: with EIP-3009, in the domain of its asset.
fn is_payable(offer: &Offer, network: &Network) -> bool {
    let domain = &offer.extra.domain;
    offer.is_eip3009()
        && offer.asset_address().is_ok_and(|asset| domain.is_of_token(asset, network.chain))
}

fn is_reference(offer: &Offer, network: &Network) -> bool {
    offer.asset_address() == Ok(network.stablecoin.address)
}

/// Rejects payees that would lose the money: the zero address has no key, and a token contract cannot forward the
/// money.
fn reject_unspendable_payee(payee: Address, asset: Address) -> Result<(), X402Error> {
    if payee.is_zero() {
        return Err(X402Error::payment("payTo is the zero address"));
    }
    if payee == asset {
        return Err(X402Error::payment("payTo is the token contract"));
    }
    Ok(())
}

/// Rejects a payment to the payer itself.
///
/// Such a payment buys nothing, and would use up the agent's allowance.
///
/// # Errors
/// `InvalidPayment` if payer and payee are the same.
pub fn reject_own_payee(payer: Address, payee: Address) -> Result<(), X402Error> {
    if payer == payee {
        return Err(X402Error::payment("payTo is the paying address itself"));
    }
    Ok(())
}

/// How an offer's claims about a token's EIP-712 domain compare with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainClaim {
    /// Every claim matches the table, or there is no claim.
    Agrees,
    /// The offer claims another name or version.
    ///
    /// The wallet signs the table's values in any case. The caller decides whether to refuse or hold the offer, or to
    /// ask the token's own `DOMAIN_SEPARATOR()`.
    Contradicts,
}

/// Compares the claims with the table byte for byte, so that a name that only looks alike does not match.
pub fn domain_claim(extra: &Extra, coin: &Stablecoin) -> DomainClaim {
    let agrees = |claim: &Option<String>, known| claim.as_deref().is_none_or(|text| text == known);
    if agrees(&extra.name, coin.domain_name) && agrees(&extra.version, coin.domain_version) {
        DomainClaim::Agrees
    } else {
        DomainClaim::Contradicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::required::PaymentRequired;
    use bursar_core::json;
    use bursar_core::networks::by_chain;

    const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    const USDC_BASE: &str = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
    const USDG: &str = "0x5FC5360D0400A0FD4F2AF552ADD042D716F1D168";
    const OTHER: &str = "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2";

    /// Returns offers from rows of scheme, network, asset, payee and transfer method. The amount is the row's index.
    fn offers(list: &[(&str, &str, &str, &str, &str)]) -> Vec<Offer> {
        let rows =
            list.iter().enumerate().map(|(place, (scheme, network, asset, pay_to, method))| {
                let method = match *method {
                    "" => String::new(),
                    method => format!(",\"extra\":{{\"assetTransferMethod\":\"{method}\"}}"),
                };
                format!(
                    "{{\"scheme\":\"{scheme}\",\"network\":\"{network}\",\"amount\":\"{place}\",\
                 \"asset\":\"{asset}\",\"payTo\":\"{pay_to}\"{method}}}"
                )
            });
        let text =
            format!("{{\"x402Version\":2,\"accepts\":[{}]}}", rows.collect::<Vec<_>>().join(","));
        PaymentRequired::parse(&json::parse(text.as_bytes(), 32).unwrap()).unwrap().offers
    }

    /// Returns the index of the chosen offer, and whether its asset is a reference stablecoin.
    fn chosen_index_and_reference(offers: &[Offer], usable: &[u64]) -> (u64, bool) {
        let choice = choose(offers, |chain| usable.contains(&chain.0)).unwrap();
        assert_eq!(choice.offer.network, Some(choice.network));
        assert_eq!(Ok(choice.asset), choice.offer.asset_address());
        assert_eq!(choice.payee.to_string(), PAY_TO);
        (choice.offer.amount.to(), choice.is_reference_stablecoin)
    }

    #[test]
    fn the_first_reference_stablecoin_on_a_usable_network_is_taken() {
        let list = offers(&[
            ("upto", "eip155:8453", USDC_BASE, PAY_TO, ""),
            ("exact", "eip155:99999", USDC_BASE, PAY_TO, ""),
            ("exact", "eip155:8453", OTHER, PAY_TO, ""),
            ("exact", "eip155:8453", USDC_BASE, PAY_TO, "permit2"),
            ("exact", "rhc", USDG, PAY_TO, "eip3009"),
            ("exact", "eip155:8453", USDC_BASE, PAY_TO, ""),
        ]);
        assert_eq!(chosen_index_and_reference(&list, &[8453, 4663]), (4, true));
        assert_eq!(chosen_index_and_reference(&list, &[8453]), (5, true));
        assert_eq!(chosen_index_and_reference(&list, &[4663]), (4, true));
        // Without a usable network, the first offer on a known network is chosen, for the refusal.
        assert_eq!(chosen_index_and_reference(&list, &[]), (2, false));
        assert_eq!(chosen_index_and_reference(&list[4..], &[]), (4, true));
        assert_eq!(chosen_index_and_reference(&list[3..4], &[8453]), (3, true));
    }

    #[test]
    fn a_stablecoin_counts_on_its_own_network_only() {
        let list = offers(&[("exact", "eip155:84532", USDC_BASE, PAY_TO, "")]);
        assert_eq!(chosen_index_and_reference(&list, &[84532]), (0, false));
    }

    #[test]
    fn without_scheme_exact_on_a_known_network_there_is_no_offer() {
        let list = offers(&[
            ("upto", "eip155:8453", USDC_BASE, PAY_TO, ""),
            ("EXACT", "eip155:8453", USDC_BASE, PAY_TO, ""),
            ("exact", "solana:mainnet", USDC_BASE, PAY_TO, ""),
        ]);
        assert_eq!(choose(&list, |_| true), Err(X402Error::NoKnownNetwork));
        assert_eq!(choose(&list[..2], |_| true), Err(X402Error::NoExactOffer));
        assert_eq!(choose(&[], |_| true), Err(X402Error::NoExactOffer));
    }

    #[test]
    fn an_invalid_payee_or_asset_is_refused() {
        let zero = "0x0000000000000000000000000000000000000000";
        for (asset, pay_to, reason) in [
            (USDC_BASE, zero, "payTo is the zero address"),
            (USDC_BASE, USDC_BASE, "payTo is the token contract"),
            (OTHER, OTHER, "payTo is the token contract"),
            (USDC_BASE, PAY_TO.trim_start_matches("0x"), "payTo is not 0x and 40 hex digits"),
            (
                USDC_BASE,
                "0X209693Bc6afc0C5328bA36FaF03C514EF312287C",
                "payTo is not 0x and 40 hex digits",
            ),
            (USDC_BASE, PAY_TO.trim_end_matches('C'), "payTo is not 0x and 40 hex digits"),
            (USDC_BASE, "merchant.eth", "payTo is not 0x and 40 hex digits"),
            (USDC_BASE, "", "payTo is not 0x and 40 hex digits"),
            ("USD", PAY_TO, "asset is not 0x and 40 hex digits"),
        ] {
            let list = offers(&[("exact", "eip155:8453", asset, pay_to, "")]);
            let refused = choose(&list, |_| true);
            assert_eq!(refused, Err(X402Error::payment(reason)), "{asset} {pay_to}");
        }
        let (payer, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        assert!(reject_own_payee(payer, other).is_ok());
        let reason = X402Error::payment("payTo is the paying address itself");
        assert_eq!(reject_own_payee(payer, payer), Err(reason));
    }

    /// Returns offers of version 1 or 2 from rows of an asset and `extra` members. The amount is the row's index.
    fn offers_with_extra(version: u8, list: &[(&str, &str)]) -> Vec<Offer> {
        let amount = if version == 1 { "maxAmountRequired" } else { "amount" };
        let rows = list.iter().enumerate().map(|(place, (asset, extra))| {
            format!(
                "{{\"scheme\":\"exact\",\"network\":\"base\",\"{amount}\":\"{place}\",\
                 \"asset\":\"{asset}\",\"payTo\":\"{PAY_TO}\",\"extra\":{{{extra}}}}}"
            )
        });
        let rows = rows.collect::<Vec<_>>().join(",");
        let text = format!("{{\"x402Version\":{version},\"accepts\":[{rows}]}}");
        PaymentRequired::parse(&json::parse(text.as_bytes(), 32).unwrap()).unwrap().offers
    }

    #[test]
    fn an_offer_for_another_domain_is_skipped_at_any_position() {
        let gateway = "\"name\":\"GatewayWalletBatched\",\"version\":\"1\",\
             \"verifyingContract\":\"0x77777777Dcc4d5A8B6E418Fd04D8997ef11000eE\"";
        let own =
            format!("\"verifyingContract\":\"{}\"", USDC_BASE.to_uppercase().replace('X', "x"));
        for other in [
            gateway,
            "\"verifyingContract\":\"0x77777777dcc4d5a8b6e418fd04d8997ef11000ee\"",
            "\"verifyingContract\":\"\"",
            "\"verifyingContract\":7",
            "\"verifyingContract\":{}",
            "\"chainId\":1",
            "\"chainId\":\"0x2105\"",
            "\"chainId\":8453.5",
            "\"salt\":\"0x00\"",
            // The digits are right, but the checksum is wrong.
            "\"verifyingContract\":\"0x833589fcD6eDb6E08f4c7C32D4f71b54bdA02913\"",
        ] {
            for version in [1, 2] {
                let payable = |list: &[(&str, &str)]| {
                    chosen_index_and_reference(&offers_with_extra(version, list), &[8453])
                };
                assert_eq!(payable(&[(USDC_BASE, other), (USDC_BASE, &own)]), (1, true), "{other}");
                assert_eq!(payable(&[(USDC_BASE, ""), (USDC_BASE, other)]), (0, true), "{other}");
                // A payable offer in another token is preferred to an offer that cannot be paid.
                assert_eq!(payable(&[(USDC_BASE, other), (OTHER, "")]), (1, false), "{other}");
                let alone = offers_with_extra(version, &[(USDC_BASE, other)]);
                let Err(X402Error::InvalidPayment(why)) = choose(&alone, |_| true) else {
                    panic!("{other} is refused")
                };
                assert!(why.contains("verifyingContract"), "{why}");
            }
        }
        for same in [own.as_str(), "\"chainId\":8453", "\"chainId\":\"8453\"", "\"salt\":null"] {
            let list = offers_with_extra(2, &[(USDC_BASE, same), (USDC_BASE, "")]);
            assert_eq!(chosen_index_and_reference(&list, &[8453]), (0, true), "{same}");
        }
    }

    #[test]
    fn an_offer_with_a_wrong_checksum_is_never_paid() {
        let checksummed = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
        let wrong = checksummed.replace("fCD6", "fcD6");
        let upper = checksummed.to_uppercase().replace('X', "x");
        for right in [checksummed, USDC_BASE, &upper] {
            let list = offers_with_extra(2, &[(&wrong, ""), (right, "")]);
            assert_eq!(chosen_index_and_reference(&list, &[8453]), (1, true), "{right}");
        }
        let payee = PAY_TO.replace("Bc6", "bc6");
        for (asset, pay_to, key) in [(&*wrong, PAY_TO, "asset"), (USDC_BASE, &*payee, "payTo")] {
            let list = offers(&[("exact", "eip155:8453", asset, pay_to, "")]);
            let reason =
                format!("{key} has a wrong checksum (EIP-55): one of its digits may be wrong");
            assert_eq!(choose(&list, |_| true), Err(X402Error::payment(reason)));
        }
    }

    #[test]
    fn a_claimed_domain_agrees_byte_for_byte_or_contradicts() {
        let coin = by_chain(ChainId(8453)).unwrap().stablecoin;
        let claim = |name: Option<&str>, version: Option<&str>| {
            let extra = Extra {
                name: name.map(str::to_owned),
                version: version.map(str::to_owned),
                ..Extra::default()
            };
            domain_claim(&extra, &coin)
        };
        for (name, version) in [
            (None, None),
            (Some("USD Coin"), None),
            (None, Some("2")),
            (Some("USD Coin"), Some("2")),
        ] {
            assert_eq!(claim(name, version), DomainClaim::Agrees, "{name:?} {version:?}");
        }
        // The name contains the Cyrillic letter of the case `conf-name-nfc`.
        for (name, version) in [
            (Some("USDC"), Some("2")),
            (Some("USD Сoin"), Some("2")),
            (Some(""), None),
            (Some("usd coin"), None),
            (Some("USD Coin"), Some("1")),
            (None, Some("2 ")),
            (None, Some("")),
        ] {
            assert_eq!(claim(name, version), DomainClaim::Contradicts, "{name:?} {version:?}");
        }
    }
}
