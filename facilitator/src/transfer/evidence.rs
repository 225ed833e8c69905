//! The facts that a node returned about a payment.

use alloy_primitives::{Bytes, U256};

use crate::payment::Payment;

/// The facts that a node returned about a payment.
///
/// A fact is `None` if its call failed.
#[derive(Debug)]
pub struct NodeEvidence<'a> {
    /// The payer's balance of the token.
    pub balance: Option<U256>,
    /// The answers to `Method::diagnostic_calls`.
    pub facts: &'a [Option<Bytes>],
    /// The revert data of the transfer; empty if there is none.
    pub revert: &'a Bytes,
}

impl NodeEvidence<'_> {
    /// A fact that is a number; `None` if it is missing or does not have 32 bytes.
    pub fn number(&self, index: usize) -> Option<U256> {
        let word = self.facts.get(index)?.as_ref()?;
        (word.len() == 32).then(|| U256::from_be_slice(word))
    }

    /// Whether the payer's balance is below the amount.
    pub fn is_underfunded(&self, payment: &Payment) -> bool {
        self.balance.is_some_and(|balance| balance < payment.amount)
    }
}
