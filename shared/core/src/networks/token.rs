//! A token in the table of networks.

use alloy_primitives::Address;

/// A verified token other than the network's stablecoin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub symbol: &'static str,
    pub address: Address,
    pub decimals: u8,
}

/// A coin or token of the table, whatever its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownToken {
    pub symbol: &'static str,
    /// `None` for the native coin.
    pub address: Option<Address>,
    pub decimals: u8,
}

impl From<Token> for KnownToken {
    fn from(token: Token) -> Self {
        let Token { symbol, address, decimals } = token;
        Self { symbol, address: Some(address), decimals }
    }
}
