//! A payment as a job of the settlement.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use bursar_x402::sponsoring::Eip2612Permit;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{Deployment, Payment, Sponsoring};
use crate::reason::Reason;
use crate::transfer::registry;
use crate::transfer::terms_check;
use crate::work::{AnswerContent, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

impl Payment {
    /// The approval that is broadcast before the payment.
    pub(crate) fn approval(&self) -> Option<&Bytes> {
        self.sponsoring.as_ref()?.approval()
    }

    /// The EIP-2612 permit that the payment's transaction redeems.
    pub(crate) fn permit(&self) -> Option<&Eip2612Permit> {
        self.sponsoring.as_ref()?.permit()
    }

    /// Whether the events of one transaction show which of two payments it carried out.
    pub fn is_distinguishable_from(&self, other: &Self) -> bool {
        registry::method(self.method).are_distinguishable(self, other)
            && registry::method(other.method).are_distinguishable(self, other)
    }
}

impl Work for Payment {
    fn chain(&self) -> ChainId {
        self.chain
    }

    fn key(&self) -> JobKey {
        JobKey::of(self.chain, self.method, &self.terms)
    }

    fn digest(&self) -> B256 {
        if self.amount == self.terms.authorized_amount {
            return self.digest;
        }
        // The signed digest does not cover a smaller amount.
        keccak256([self.digest.0, self.amount.to_be_bytes()].concat())
    }

    fn account(&self) -> Address {
        self.terms.payer
    }

    fn payer(&self) -> Option<Address> {
        Some(self.terms.payer)
    }

    fn moved_amount(&self) -> TokenAmount {
        TokenAmount { token: self.terms.token, amount: self.amount }
    }

    fn sender(&self) -> SenderRule {
        registry::method(self.method).sender(&self.terms)
    }

    fn runs_foreign_code(&self) -> bool {
        self.is_contract_payer
    }

    fn deployment(&self) -> Option<&Deployment> {
        self.deployment.as_ref()
    }

    fn sponsoring(&self) -> Option<&Sponsoring> {
        self.sponsoring.as_ref()
    }

    fn call(&self, contracts: &Contracts) -> ContractCall {
        registry::method(self.method).transfer(contracts, self)
    }

    fn gas(&self) -> u64 {
        let sponsoring = self.sponsoring.as_ref().map_or(0, Sponsoring::gas);
        registry::method(self.method).gas().saturating_add(sponsoring)
    }

    fn extra_bytes(&self) -> usize {
        let sponsoring = self.sponsoring.as_ref().map_or(0, Sponsoring::call_bytes);
        self.signature.len().saturating_sub(65).saturating_add(sponsoring)
    }

    fn expires(&self) -> Option<U256> {
        Some(self.terms.valid_before)
    }

    fn check_time(&self, now_seconds: u64) -> Result<(), Reason> {
        terms_check::check_time(&self.terms, now_seconds)
    }

    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        let is_proven = registry::method(self.method).is_proven(contracts, self, mined);
        is_proven.then(Effect::default)
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        registry::method(self.method).settlement_event(contracts, &self.terms)
    }

    fn failed_reason(&self) -> Reason {
        registry::method(self.method).failed_reason()
    }

    fn content(&self, _effect: &Effect) -> AnswerContent {
        registry::method(self.method).content(self)
    }
}
