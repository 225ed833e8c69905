//! The offers of a 402 response and the one that the wallet paid.
//!
//! The wallet chooses. This module only checks that every payable offer is within `--max`, and that the signed
//! payment matches one of the offers.

use alloy_primitives::{Address, U256};
use bursar_core::amount::Amount;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{self, Value};
use bursar_core::limits::{BODY_VALUES_MAX, PAYMENT_HEADER_DEPTH_MAX};
use bursar_core::money::{Atoms, MoneyError, TokenAmount, parse_decimal};
use bursar_core::networks::Network;
use bursar_core::text::quoted;
use bursar_outbound::HeaderMap;
use bursar_x402::fields::Fields;
use bursar_x402::{Offer, PaymentRequired, Version, X402Error, header};

/// Number of decimals of [`PriceLimit`], more than any known token has.
const LIMIT_DECIMALS: u8 = 30;
/// Maximum number of characters of a server's text on one line.
const LINE_CHARS_MAX: usize = 80;

/// The value of `--max`: whole units of the offered token, stored in units of 10^-30.
#[derive(Debug, Clone)]
pub(crate) struct PriceLimit {
    units: U256,
    text: String,
}

impl PriceLimit {
    pub(crate) fn parse(text: &str) -> Result<Self, MoneyError> {
        Ok(Self { units: parse_decimal(text, LIMIT_DECIMALS)?, text: text.to_owned() })
    }

    fn covers(&self, amount: TokenAmount) -> bool {
        let scale = LIMIT_DECIMALS.checked_sub(amount.decimals).map(U256::from);
        let scale = scale.and_then(|digits| U256::from(10).checked_pow(digits));
        let units = scale.and_then(|scale| amount.atoms.0.checked_mul(scale));
        units.is_some_and(|units| units <= self.units)
    }
}

/// The offer as received. The wallet gets it unchanged.
pub(crate) enum RawOffer {
    Header(String),
    Body(Value),
}

pub(crate) struct Challenge {
    pub(crate) raw: RawOffer,
    required: PaymentRequired,
    /// The server's error text. After a payment it explains why the payment was not accepted.
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// Reads the version 2 offer, which takes precedence. Returns `None` if the header is missing.
    pub(crate) fn in_header(headers: &HeaderMap) -> Option<Result<Self, X402Error>> {
        let mut all = headers.get_all("payment-required").iter();
        let first = all.next()?;
        // If there were two headers, the wallet and this program could read different ones. "?" is not valid, so two
        // headers are rejected.
        let text = if all.next().is_none() { first.to_str().unwrap_or("?") } else { "?" };
        let value = header::decode(text);
        Some(value.and_then(|value| Self::read(RawOffer::Header(text.to_owned()), &value)))
    }

    /// Reads the version 1 offer, which is the body.
    pub(crate) fn in_body(body: &[u8]) -> Result<Self, X402Error> {
        let value = json::parse_few(body, PAYMENT_HEADER_DEPTH_MAX, BODY_VALUES_MAX)
            .map_err(|fault| X402Error::InvalidFormat(fault.to_string().into()))?;
        Self::read(RawOffer::Body(value.clone()), &value)
    }

    fn read(raw: RawOffer, value: &Value) -> Result<Self, X402Error> {
        let error = value.get("error").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { raw, required: PaymentRequired::parse(value)?, error })
    }

    /// Returns the offers that the wallet may choose from.
    fn payable_offers(&self) -> impl Iterator<Item = (&Offer, &'static Network)> {
        let exact = self.required.offers.iter().filter(|offer| offer.scheme == "exact");
        exact.filter_map(|offer| offer.network.map(|network| (offer, network)))
    }

    /// Rejects the challenge if a payable offer is above `limit` or cannot be compared with it.
    pub(crate) fn check_limit(&self, limit: &PriceLimit) -> Result<(), Fault> {
        for (offer, network) in self.payable_offers() {
            let price = Price::of(offer, network);
            let refused = match price.amount() {
                Some(amount) if limit.covers(amount) => continue,
                Some(_above) => format!("the server asks for {}", price.describe()),
                None => {
                    format!(
                        "the server asks for {}, a token with unknown decimals",
                        price.describe()
                    )
                }
            };
            let message =
                format!("{refused}. --max {} forbids this price: nothing was signed.", limit.text);
            return Err(Fault::because(Code::OfferAboveMax, message));
        }
        Ok(())
    }

    pub(crate) fn describe(&self) -> String {
        let mut offers =
            self.payable_offers().map(|(offer, network)| Price::of(offer, network).describe());
        match (offers.next(), offers.count()) {
            (None, _) => "nothing that this wallet can pay".to_owned(),
            (Some(only), 0) => only,
            (Some(first), more) => format!("{first}, or {more} other offers"),
        }
    }

    /// Returns the price of the offer that a payment header pays; `None` if it matches no offer.
    pub(crate) fn offer_paid_by(&self, payment: &str) -> Option<Price> {
        let value = header::decode(payment).ok()?;
        let terms = value.get("payload")?.get("authorization")?.as_object()?;
        let terms = Fields::new(terms, "");
        let (payee, amount) = (terms.address("to").ok()?, terms.amount("value").ok()??);
        let is_meant = |offer: &Offer| match self.required.version {
            Version::V1 => value.get("network") == offer.raw.get("network"),
            Version::V2 => value.get("accepted") == Some(&offer.raw),
        };
        let mut paid = self.payable_offers().filter(|(offer, _)| {
            is_meant(offer) && offer.payee_address() == Ok(payee) && offer.amount == amount
        });
        paid.next().map(|(offer, network)| Price::of(offer, network))
    }

    pub(crate) fn version(&self) -> u64 {
        self.required.version.number()
    }
}

/// The price of one offer.
#[derive(Debug, Clone)]
pub(crate) struct Price {
    pub(crate) atoms: Atoms,
    /// Symbol and decimals from the built-in table. The server's claims about either are ignored.
    token: Option<(&'static str, u8)>,
    pub(crate) asset: String,
    pub(crate) payee: String,
    pub(crate) network: &'static Network,
}

impl Price {
    fn of(offer: &Offer, network: &'static Network) -> Self {
        let coin = &network.stablecoin;
        let known = std::iter::once((coin.address, coin.symbol, coin.decimals)).chain(
            network.tokens.iter().map(|token| (token.address, token.symbol, token.decimals)),
        );
        let token = known
            .filter(|(address, ..)| offer.asset_address() == Ok(*address))
            .map(|(_, symbol, decimals)| (symbol, decimals))
            .next();
        let address = |found: Option<Address>, written: &str| match found {
            Some(address) => address.to_checksum(None),
            None => quoted(written, LINE_CHARS_MAX),
        };
        Self {
            atoms: Atoms(offer.amount),
            token,
            asset: address(offer.asset_address().ok(), &offer.asset),
            payee: address(offer.payee_address().ok(), &offer.pay_to),
            network,
        }
    }

    /// Returns the amount in units of the token, or `None` if its decimals are unknown.
    pub(crate) fn amount(&self) -> Option<TokenAmount> {
        self.token.map(|(_, decimals)| TokenAmount { atoms: self.atoms, decimals })
    }

    /// Describes the amount, as every answer of a command does.
    pub(crate) fn described(&self) -> Amount {
        let amount = match self.token {
            Some((symbol, decimals)) => {
                Amount::new(TokenAmount { atoms: self.atoms, decimals }, symbol, None)
            }
            None => Amount::of_units(self.atoms, self.asset.clone()),
        };
        Amount { token: Some(self.asset.clone()), ..amount }
    }

    pub(crate) fn symbol(&self) -> Option<&'static str> {
        self.token.map(|(symbol, _)| symbol)
    }

    pub(crate) fn describe(&self) -> String {
        let what = match (self.amount(), self.symbol()) {
            (Some(amount), Some(symbol)) => format!("{} {symbol}", amount.plain()),
            _unknown => format!("{} smallest units of the token {}", self.atoms, self.asset),
        };
        format!("{what} on {}, to {}", self.network.title, self.payee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::by_id_or_v1_name;

    const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

    /// Builds version 1 offers, in the network's stablecoin unless an asset is given.
    fn challenge(offers: &[(&str, &str, Option<&str>)]) -> Challenge {
        let offers: Vec<String> = offers
            .iter()
            .map(|(network, amount, asset)| {
                let coin = by_id_or_v1_name(network).map(|row| row.stablecoin.address.to_string());
                let asset = asset.map(str::to_owned).or(coin).unwrap_or_default();
                format!(
                    "{{\"scheme\":\"exact\",\"network\":\"{network}\",\"maxAmountRequired\":\"{amount}\",\
                     \"asset\":\"{asset}\",\"payTo\":\"{PAY_TO}\"}}"
                )
            })
            .collect();
        let text = format!("{{\"x402Version\":1,\"accepts\":[{}]}}", offers.join(","));
        Challenge::in_body(text.as_bytes()).unwrap()
    }

    #[test]
    fn max_price_is_exact_and_applies_to_every_payable_offer() {
        let within = |offers: &[_], limit: &str| {
            challenge(offers)
                .check_limit(&PriceLimit::parse(limit).unwrap())
                .map_err(|fault| fault.code)
        };
        let above = Err(Code::OfferAboveMax);
        assert_eq!(within(&[("base", "10000", None)], "0.01"), Ok(()));
        assert_eq!(within(&[("base", "10001", None)], "0.01"), above);
        assert_eq!(within(&[("base", "1", None)], "0.0000009"), above);
        assert_eq!(within(&[("base", "0", None)], "0"), Ok(()));
        // The highest price is compared with the limit, because the wallet chooses the offer.
        assert_eq!(within(&[("base", "1", None), ("ethereum", "2000000", None)], "1"), above);
        // An offer that the wallet cannot pay is ignored.
        assert_eq!(within(&[("base", "1", None), ("solana", "2000000", Some("x"))], "1"), Ok(()));
        // An amount with unknown decimals cannot be compared.
        assert_eq!(within(&[("base", "1", Some(PAY_TO))], "1000"), above);
        let huge = U256::MAX.to_string();
        assert_eq!(within(&[("base", &huge, None)], "9999999999999999999999999999999"), above);
        for bad in ["", "-1", "1e3", ".5", "1,5", "many"] {
            assert!(PriceLimit::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn payment_with_other_terms_matches_no_offer() {
        let asked = challenge(&[("base", "10000", None), ("ethereum", "20000", None)]);
        let paid = |network: &str, to: &str, value: &str| {
            asked.offer_paid_by(&header::encode(&format!(
                "{{\"x402Version\":1,\"scheme\":\"exact\",\"network\":\"{network}\",\"payload\":\
                 {{\"authorization\":{{\"to\":\"{to}\",\"value\":\"{value}\"}}}}}}"
            )))
        };
        assert_eq!(paid("base", PAY_TO, "10000").unwrap().amount().unwrap().plain(), "0.01");
        assert!(paid("base", PAY_TO, "20000").is_none(), "the other network's price");
        assert!(paid("ethereum", PAY_TO, "10000").is_none());
        let other = PAY_TO.replace("0x20", "0x21");
        assert!(paid("base", &other, "10000").is_none());
        assert!(asked.offer_paid_by("nonsense").is_none());
    }

    #[test]
    fn text_of_an_offer_is_quoted() {
        let told = challenge(&[("base", "1", Some("a\\u001b[2J"))]).describe();
        assert!(told.contains("\"a\\u{1b}[2J\""), "{told}");
    }
}
