//! Amounts of tokens in the answers of commands.

use alloy_primitives::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::money::{Atoms, TokenAmount};
use crate::networks::Stablecoin;
use crate::text;

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
    /// The contract, EIP-55; the zero address is the native coin, and `None` stands for units that are not a token.
    pub token: Option<String>,
}

impl Amount {
    /// Describes an amount with known decimals.
    ///
    /// `symbol` is as people read it: see [`text::symbol`].
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

    /// Describes an amount of a network's stablecoin.
    pub fn of_stablecoin(atoms: Atoms, coin: &Stablecoin) -> Self {
        let amount = TokenAmount { atoms, decimals: coin.decimals };
        Self::new(amount, coin.symbol, Some(coin.address))
    }

    /// Describes an amount of a token outside our table.
    ///
    /// `symbol` is the token's own text. Without decimals the amount is in the smallest unit.
    pub fn of_foreign(atoms: Atoms, decimals: Option<u8>, symbol: &str, token: Address) -> Self {
        let address = token.to_checksum(None);
        match decimals {
            Some(decimals) => {
                let symbol = text::symbol(symbol, &address);
                Self::new(TokenAmount { atoms, decimals }, &symbol, Some(token))
            }
            None => Self::of_units(atoms, address),
        }
    }

    /// Describes an amount of a token whose decimals are unknown.
    pub fn of_units(atoms: Atoms, token: String) -> Self {
        let amount = Self::without_token(atoms, &format!("units of {token}"));
        Self { token: Some(token), ..amount }
    }

    /// Describes a number of units that are not a token, such as the shares of a market.
    pub fn without_token(atoms: Atoms, unit: &str) -> Self {
        Self {
            atoms: atoms.to_string(),
            decimals: None,
            coins: None,
            text: format!("{atoms} {unit}"),
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
