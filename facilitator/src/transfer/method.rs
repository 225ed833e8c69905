//! The trait of payment methods.

use std::fmt::Debug;

use alloy_primitives::{B256, U256};
use bursar_core::json::Object;
use bursar_x402::settlement::Requirements;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::transfer::domain::SigningDomain;
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::payload::ReadError;
use crate::transfer::terms_check::Purpose;
use crate::work::{AnswerContent, SenderRule, SettlementEvent};

/// A way to move a token by a signature.
///
/// Its methods are pure: facts from the chain arrive as [`NodeEvidence`].
pub trait Method: Send + Sync + Debug {
    /// The id of the method.
    fn id(&self) -> MethodId;

    /// Whether a payload belongs to this method. The first method that accepts it is used.
    fn matches(&self, payload: &Object, requirements: &Requirements) -> bool;

    /// Reads the signed terms, and rejects terms that differ from the requirements.
    ///
    /// # Errors
    /// The payload cannot be read, or is rejected.
    fn parse_terms(
        &self,
        contracts: &Contracts,
        payload: &Object,
        requirements: &Requirements,
    ) -> Result<Terms, ReadError>;

    /// The amount to move, in the smallest unit of the token.
    ///
    /// # Errors
    /// The signed amount does not match the required one.
    fn moved_amount(&self, terms: &Terms, required: U256, purpose: Purpose)
    -> Result<U256, Reason>;

    /// The EIP-712 domain of the method's signatures.
    fn domain(&self, contracts: &Contracts) -> SigningDomain;

    /// The EIP-712 hash of the terms, without their domain.
    fn struct_hash(&self, contracts: &Contracts, terms: &Terms) -> B256;

    /// Whether contract wallets can pay by this method (EIP-1271, EIP-6492).
    fn allows_contract_payers(&self) -> bool;

    /// Whether a payment can bring the allowance that it needs: an EIP-2612 permit or a signed approval.
    fn accepts_sponsoring(&self) -> bool {
        false
    }

    /// Returns which accounts may send the transaction.
    ///
    /// A payment that only one account may send cannot share a transaction.
    fn sender(&self, _terms: &Terms) -> SenderRule {
        SenderRule::Any
    }

    /// The call that moves the money.
    fn transfer(&self, contracts: &Contracts, payment: &Payment) -> ContractCall;

    /// Further calls, whose answers explain why a transfer would fail.
    fn diagnostic_calls(&self, contracts: &Contracts, terms: &Terms) -> Vec<ContractCall>;

    /// Returns the reason if a contract that the method needs is missing on the network.
    ///
    /// It is also checked after a successful transfer, because a call of an address without code always succeeds.
    fn missing_contract(&self, evidence: &NodeEvidence<'_>) -> Option<Reason>;

    /// The amount that the payee receives.
    fn amount_received(&self, payment: &Payment, _evidence: &NodeEvidence<'_>) -> U256 {
        payment.amount
    }

    /// Returns the reason why the transfer would fail.
    fn diagnose(&self, payment: &Payment, evidence: &NodeEvidence<'_>) -> Reason;

    /// Whether a mined transaction proves that this payment moved the money.
    ///
    /// The events must show the transfer, and the call data must contain this authorization.
    fn is_proven(
        &self,
        contracts: &Contracts,
        payment: &Payment,
        mined: &MinedTransaction<'_>,
    ) -> bool;

    /// Whether the events of one transaction show which of two payments by this method it carried out.
    fn are_distinguishable(&self, one: &Payment, other: &Payment) -> bool;

    /// The event that the payment emits, no matter which account sends the transaction.
    fn settlement_event(&self, contracts: &Contracts, terms: &Terms) -> SettlementEvent;

    /// Gas limit of one transfer, for any token.
    fn gas(&self) -> u64;

    /// The reason of a payment that failed in a mined transaction.
    fn failed_reason(&self) -> Reason {
        Reason::TransactionFailed
    }

    /// The content of the answer once the payment is settled.
    fn content(&self, _payment: &Payment) -> AnswerContent {
        AnswerContent::default()
    }
}
