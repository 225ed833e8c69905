//! The shared state of a merchant's requests.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_core::networks::Network;

use super::book::Book;
use super::settling::Settling;
use super::version::Version;

/// What a path costs, and in which version of x402 it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ware {
    /// In smallest units of the network's stablecoin.
    pub price: U256,
    pub version: Version,
}

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) url: String,
    pub(super) network: &'static Network,
    pub(super) pay_to: Address,
    pub(super) goods: BTreeMap<String, Ware>,
    pub(super) settle: Option<Settling>,
    pub(super) max_timeout_s: u64,
    pub(super) book: Book,
}
