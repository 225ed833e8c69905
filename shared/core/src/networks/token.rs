//! A token in the table of networks.

use alloy_primitives::Address;

/// A verified token other than the network's stablecoin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub symbol: &'static str,
    pub address: Address,
    pub decimals: u8,
}
