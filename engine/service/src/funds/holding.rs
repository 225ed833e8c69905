//! The balances of an address, as plain values.

use alloy_primitives::Address;
use bursar_chain::multicall::ReadFault;
use bursar_core::amount::Amount;
use bursar_core::money::{Atoms, Round, TokenAmount, Usd};
use bursar_core::networks::Network;

/// The holdings of an address on one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFunds {
    pub network: &'static Network,
    /// The native coin, the dollar token, the other tokens of our table, then tokens that the explorer lists.
    pub held: Vec<TokenHolding>,
    /// The reason why tokens may be missing from the list.
    pub incomplete: Option<&'static str>,
}

/// The holding of one coin or token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolding {
    pub kind: Kind,
    /// Safe to show: hidden characters of a token's own symbol are escaped.
    pub symbol: String,
    /// `None` for the native coin.
    pub token: Option<Address>,
    pub decimals: Option<u8>,
    pub amount: Result<Atoms, UnknownReason>,
}

/// The source of a token's symbol, which decides whether the symbol can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Native,
    /// The network's dollar token. Its value is one dollar for each whole token.
    Dollar,
    /// A token of our table.
    Known,
    /// A token that only an explorer lists. Its symbol is chosen by its author.
    Foreign,
}

/// The reason why an amount is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownReason {
    NoEndpoint,
    NoAnswer,
    TooSlow,
    NotAToken,
}

impl UnknownReason {
    /// A fixed sentence; it never repeats text of a node.
    pub fn text(self) -> &'static str {
        match self {
            UnknownReason::NoEndpoint => "No endpoint is set for this network.",
            UnknownReason::NoAnswer => "No endpoint of the network gave a valid answer.",
            UnknownReason::TooSlow => "The network did not answer in time.",
            UnknownReason::NotAToken => "The token's contract gave no valid balance.",
        }
    }
}

impl NetworkFunds {
    /// Returns why all amounts of the native coin and of our table's tokens are unknown; `None` if one is known.
    pub fn failure(&self) -> Option<UnknownReason> {
        let known = || self.held.iter().filter(|held| held.kind != Kind::Foreign);
        if known().any(|held| held.amount.is_ok()) {
            return None;
        }
        known().find_map(|held| held.amount.err())
    }

    /// Whether any amount is known.
    pub fn has_any_amount(&self) -> bool {
        self.held.iter().any(|held| held.amount.is_ok())
    }
}

impl TokenHolding {
    /// Whether the symbol comes from our table.
    pub fn is_verified(&self) -> bool {
        self.kind != Kind::Foreign
    }

    /// The amount in whole coins, without trailing zeros; `None` if amount or decimals are unknown.
    pub fn formatted(&self) -> Option<String> {
        let amount = TokenAmount { atoms: self.amount.ok()?, decimals: self.decimals? };
        Some(amount.plain())
    }

    /// Describes the amount; `None` if it is unknown.
    pub fn described(&self) -> Option<Amount> {
        let atoms = self.amount.ok()?;
        let token = self.token.unwrap_or_default();
        let amount = match self.decimals.filter(|_decimals| self.is_verified()) {
            Some(decimals) => {
                Amount::new(TokenAmount { atoms, decimals }, &self.symbol, Some(token))
            }
            None => Amount::of_foreign(atoms, self.decimals, &self.symbol, token),
        };
        Some(Amount { coins: self.formatted(), ..amount })
    }

    /// The reason why [`formatted`](Self::formatted) is `None`.
    pub fn unknown_reason(&self) -> Option<&'static str> {
        match (self.amount, self.decimals) {
            (Err(why), _) => Some(why.text()),
            (Ok(_units), None) => Some("The token does not report its decimals."),
            (Ok(_units), Some(_decimals)) => None,
        }
    }

    /// The value in dollars, rounded down; `None` for everything but the dollar token.
    pub fn usd(&self) -> Option<Usd> {
        match self.kind {
            Kind::Dollar => self.amount.ok()?.to_usd(self.decimals?, Round::Down).ok(),
            Kind::Native | Kind::Known | Kind::Foreign => None,
        }
    }
}

/// The reason why an explorer gave no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscoveryFailure {
    Failed,
    /// Status 500: some explorers answer so for an address without transactions.
    Status500,
}

impl From<&ReadFault> for UnknownReason {
    fn from(failure: &ReadFault) -> Self {
        match failure {
            ReadFault::Chain(_) | ReadFault::Malformed(_) => UnknownReason::NoAnswer,
            ReadFault::Reverted { .. } => UnknownReason::NotAToken,
        }
    }
}
