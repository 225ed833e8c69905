//! The trait of payment methods.

use std::fmt::Debug;

use alloy_primitives::{Address, B256, U256};
use bursar_core::json::Object;
use bursar_x402::settlement::Requirements;

use crate::exact::contract_call::ContractCall;
use crate::exact::contracts::Contracts;
use crate::exact::domain::Domain;
use crate::exact::evidence::Evidence;
use crate::exact::mined_transaction::MinedTransaction;
use crate::exact::payload::ReadError;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;

/// A way to move a token by a signature. Pure: facts from the chain arrive as [`Evidence`].
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

    /// The EIP-712 domain of the method's signatures.
    fn domain(&self, contracts: &Contracts) -> Domain;

    /// The EIP-712 hash of the terms, without their domain.
    fn struct_hash(&self, contracts: &Contracts, terms: &Terms) -> B256;

    /// Whether contract wallets can pay by this method (EIP-1271, EIP-6492).
    fn allows_contract_payers(&self) -> bool;

    /// Whether any account may send the transaction. Only then can a payment share a transaction.
    fn allows_any_sender(&self) -> bool;

    /// The call that moves the money.
    fn transfer(&self, contracts: &Contracts, payment: &Payment) -> ContractCall;

    /// Further calls, whose answers explain why a transfer would fail.
    fn facts(&self, contracts: &Contracts, terms: &Terms) -> Vec<ContractCall>;

    /// The reason if a contract that the method needs is missing on the network. Successful transfers are checked too,
    /// because a call of an address without code always succeeds.
    fn missing_contract(&self, evidence: &Evidence<'_>) -> Option<Reason>;

    /// The amount that the payee receives.
    fn amount_received(&self, terms: &Terms, evidence: &Evidence<'_>) -> U256;

    /// Why the transfer would fail.
    fn diagnose(&self, terms: &Terms, evidence: &Evidence<'_>) -> Reason;

    /// Whether a mined transaction proves that this payment moved the money. Its events must show the transfer, and its
    /// call data must contain this authorization.
    fn is_proven(&self, contracts: &Contracts, terms: &Terms, mined: &MinedTransaction<'_>)
    -> bool;

    /// Whether the events of one transaction distinguish two payments by this method.
    fn are_distinguishable(&self, one: &Terms, other: &Terms) -> bool;

    /// The event that the payment emits, no matter which account sends the transaction.
    fn settlement_event(&self, contracts: &Contracts, terms: &Terms) -> SettlementEvent;

    /// Gas limit of one transfer, for any token.
    fn gas(&self) -> u64;
}

/// An event to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlementEvent {
    pub contract: Address,
    pub event: B256,
    pub indexed: Vec<B256>,
    /// Whether the event names the nonce. Such an event is rare, so a search for it is cheap.
    pub names_nonce: bool,
}
