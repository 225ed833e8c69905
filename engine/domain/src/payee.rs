//! The payee of a payment.

use alloy_primitives::Address;
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

use crate::requests::PaymentAsk;

/// One address on one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Payee {
    pub chain: ChainId,
    pub address: Address,
}

impl Payee {
    /// Returns the payee of a payment.
    pub fn of(payment: &PaymentAsk) -> Self {
        Self { chain: payment.chain, address: payment.payee }
    }
}
