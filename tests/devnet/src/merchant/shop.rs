//! The state that all of a merchant's requests share.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_core::networks::Network;

use super::book::Book;
use super::settling::SettlementMethod;
use super::version::Version;

/// The price of a resource and its x402 version.
#[derive(Debug, Clone, Copy)]
pub struct PricedResource {
    /// The price in smallest units of the network's stablecoin.
    pub price: U256,
    pub version: Version,
}

/// The state that all requests share.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) url: String,
    pub(super) network: &'static Network,
    pub(super) pay_to: Address,
    pub(super) goods: BTreeMap<String, PricedResource>,
    pub(super) settle: Option<SettlementMethod>,
    pub(super) max_timeout_s: u64,
    pub(super) book: Book,
}
