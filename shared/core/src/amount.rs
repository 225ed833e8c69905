//! Amounts of tokens in the answers of commands.

use alloy_primitives::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::money::{Atoms, TokenAmount};

/// An amount of a coin or token; every answer of a command that has one uses this shape.
///
/// Scripts compute with `atoms`; `text` is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// In the token's smallest unit, decimal digits; with `-` in front if it is negative.
    pub atoms: String,
    /// The decimals of the token; `None` if they are unknown.
    pub decimals: Option<u8>,
    /// In whole coins, like `1.500000`; `None` if the decimals are unknown.
    pub coins: Option<String>,
    /// With the symbol, like `1.500000 USDC`.
    pub text: String,
    /// The contract, EIP-55: the zero address is the native coin. `None` for shares that are not a token.
    pub token: Option<String>,
}

impl Amount {
    /// Describes an amount with known decimals.
    ///
    /// `symbol` is as people read it: see [`text::symbol`](crate::text::symbol).
    pub fn new(amount: TokenAmount, symbol: &str, token: Option<Address>) -> Self {
        let coins = amount.to_column_text();
        Self {
            atoms: amount.atoms.to_string(),
            decimals: Some(amount.decimals),
            text: format!("{coins} {symbol}"),
            coins: Some(coins),
            token: Some(token.unwrap_or_default().to_checksum(None)),
        }
    }

    /// Describes an amount of a token whose decimals are unknown.
    pub fn of_units(atoms: Atoms, token: Address) -> Self {
        let token = token.to_checksum(None);
        Self {
            atoms: atoms.to_string(),
            decimals: None,
            coins: None,
            text: format!("{atoms} units of {token}"),
            token: Some(token),
        }
    }

    /// Describes shares of a market, which are no token.
    pub fn of_shares(atoms: Atoms) -> Self {
        Self {
            atoms: atoms.to_string(),
            decimals: None,
            coins: None,
            text: format!("{atoms} shares"),
            token: None,
        }
    }

    /// Returns the amount with the text `text`.
    pub fn with_text(self, text: String) -> Self {
        Self { text, ..self }
    }

    /// Returns the negative of an amount that is not negative.
    pub fn negated(self) -> Self {
        Self {
            atoms: format!("-{}", self.atoms),
            coins: self.coins.map(|coins| format!("-{coins}")),
            text: format!("-{}", self.text),
            ..self
        }
    }
}
