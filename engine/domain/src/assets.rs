//! Payments in tokens outside our table: the facts that the chain confirmed about a token, and the cost of an amount.

use alloy_primitives::{Address, U256};
use bursar_core::amount::Amount;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::trades::Venue;

/// Longest name or version of a token's domain that is stored, in bytes.
///
/// The bound is needed because the offer chooses the text.
pub const DOMAIN_TEXT_BYTES_MAX: usize = 128;

/// How the amount of a payment is converted to dollars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Price {
    /// One to one, because the asset is the network's reference stablecoin.
    Reference,
    /// The asset is another token.
    Foreign(Box<ForeignAsset>),
}

/// The facts that a node reported about a token outside our table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ForeignAsset {
    /// The name and version that the offer claims; `None` if one of them is missing or too long.
    pub claimed_domain: Option<DomainText>,
    /// The token's answer about the claim.
    ///
    /// Nothing is signed unless the token confirmed it.
    pub domain: DomainCheck,
    /// `None` if the contract does not describe itself like a token.
    pub text: Option<TokenText>,
    /// `None` if no pool sells the amount, or if no node answered in time.
    pub quote: Option<AssetQuote>,
}

/// The name and the version of an EIP-712 domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainText {
    pub name: String,
    pub version: String,
}

/// How a token answered an offer's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DomainCheck {
    /// No node answered.
    #[default]
    Unknown,
    /// The token takes EIP-3009 authorizations, and its `DOMAIN_SEPARATOR()` is that of the claim.
    Confirmed,
    /// The token has another domain or none, or takes no authorizations.
    Unconfirmed,
}

/// A token's own description: untrusted text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenText {
    pub symbol: String,
    pub decimals: u8,
}

/// The cost of a payment's amount in the network's reference stablecoin.
///
/// Amounts are in the stablecoin's smallest unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetQuote {
    /// Time of the measurement.
    pub at: Utc,
    /// Cost of buying the amount on the most expensive route that can deliver it.
    pub cost: Atoms,
    /// `cost` in dollars, rounded up.
    pub usd: Usd,
    /// The route whose price is `cost`.
    pub route: Venue,
    /// Proceeds of selling the amount on the worst route that can take it; `None` if there is no such route.
    pub sale_proceeds: Option<Atoms>,
    /// Cost of ten times the amount on `route`; `None` if the route cannot deliver so much.
    pub tenfold_cost: Option<Atoms>,
    /// Deviation of the price of the route's pools from their ten-minute average; `None` if they keep no average.
    pub average_deviation: Option<Bps>,
}

impl ForeignAsset {
    /// Returns an asset of which only the offer's claim is known.
    pub fn from_claim(name: Option<&str>, version: Option<&str>) -> Self {
        let short = |text: &str| text.len() <= DOMAIN_TEXT_BYTES_MAX;
        let claim = name.zip(version).filter(|(name, version)| short(name) && short(version));
        let text = |(name, version): (&str, &str)| DomainText {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        Self { claimed_domain: claim.map(text), ..Self::default() }
    }

    /// Returns the claim, if the token confirmed it.
    pub fn confirmed_domain(&self) -> Option<&DomainText> {
        self.claimed_domain.as_ref().filter(|_claim| self.domain == DomainCheck::Confirmed)
    }

    /// Refuses an approval if the measurement `now` shows that the token cannot be paid.
    ///
    /// # Errors
    /// `UNSUPPORTED_ASSET` or `UNPRICED`
    pub fn check_payable(&self, now: &Self) -> Result<(), Refusal> {
        if now.domain == DomainCheck::Unconfirmed || now.claimed_domain != self.claimed_domain {
            return Err(Refusal::because(
                Code::UnsupportedAsset,
                "The token did not confirm the offer's name and version, or takes no authorizations \
                 (EIP-3009), so nothing can be signed: deny the request.",
            ));
        }
        if now.confirmed_domain().is_none() || now.quote.is_none() {
            return Err(Refusal::new(Code::Unpriced));
        }
        Ok(())
    }

    /// Returns the value in dollars; zero if there is no quote.
    pub fn usd(&self) -> Usd {
        self.quote.as_ref().map_or(Usd::ZERO, |quote| quote.usd)
    }
}

/// Returns whether a price moved by more than one percent, in either direction.
pub fn has_moved(from: U256, to: U256) -> bool {
    from.abs_diff(to).checked_mul(U256::from(100)).is_none_or(|moved| moved > from)
}

impl TokenText {
    /// Describes an amount, with the token's symbol or its address as text: see [`bursar_core::text::symbol`].
    pub fn amount(&self, atoms: Atoms, token: Address) -> Amount {
        Amount::of_foreign(atoms, Some(self.decimals), &self.symbol, token)
    }

    /// Describes an amount, with the token's address behind its symbol in the text.
    pub fn amount_with_address(&self, atoms: Atoms, token: Address) -> Amount {
        let (amount, address) = (self.amount(atoms, token), token.to_checksum(None));
        if amount.text.ends_with(&address) {
            return amount;
        }
        let with_address = format!("{} ({address})", amount.text);
        amount.with_text(with_address)
    }
}
