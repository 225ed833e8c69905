//! Sweeps: the escrow pays out everything that a receiver has claimed in a token.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_core::networks::ChainId;
use bursar_x402::channel::IBatchSettlement;
use serde::{Deserialize, Serialize};

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::Deployment;
use crate::reason::Reason;
use crate::work::{AnswerContent, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

/// Gas limit of a payout, for any token.
pub(super) const GAS: u64 = 180_000;

/// A payout to a receiver, which any account may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSweep {
    pub chain: ChainId,
    pub receiver: Address,
    pub token: Address,
    /// The total amount that the receiver had claimed when the payout was checked.
    pub claimed: u128,
    /// The part of `claimed` that had already been paid out when the payout was checked.
    pub paid_out: u128,
}

impl Work for ChannelSweep {
    fn chain(&self) -> ChainId {
        self.chain
    }

    fn key(&self) -> JobKey {
        JobKey::of_sweep(self.chain, self.receiver, self.token, self.claimed)
    }

    fn digest(&self) -> B256 {
        keccak256(self.key().0)
    }

    fn account(&self) -> Address {
        self.receiver
    }

    fn payer(&self) -> Option<Address> {
        None
    }

    fn moved_amount(&self) -> TokenAmount {
        TokenAmount { token: self.token, amount: U256::ZERO }
    }

    fn value(&self) -> TokenAmount {
        let amount = U256::from(self.claimed.saturating_sub(self.paid_out));
        TokenAmount { token: self.token, amount }
    }

    fn sender(&self) -> SenderRule {
        SenderRule::Any
    }

    fn is_purchase(&self) -> bool {
        false
    }

    fn runs_foreign_code(&self) -> bool {
        false
    }

    fn deployment(&self) -> Option<&Deployment> {
        None
    }

    fn call(&self, contracts: &Contracts) -> ContractCall {
        let call = IBatchSettlement::settleCall { receiver: self.receiver, token: self.token };
        ContractCall { to: contracts.escrow, data: call.abi_encode().into() }
    }

    fn gas(&self) -> u64 {
        GAS
    }

    fn extra_bytes(&self) -> usize {
        0
    }

    fn expires(&self) -> Option<U256> {
        None
    }

    fn check_time(&self, _now_seconds: u64) -> Result<(), Reason> {
        Ok(())
    }

    /// Any payout to the receiver counts, even one from another sender.
    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        let event = self.settlement_event(contracts);
        mined.logs.iter().find_map(|log| {
            let is_own = log.address == event.contract
                && log.topics.first() == Some(&event.event)
                && log.topics.get(1..3) == Some(event.indexed.as_slice());
            let topics = log.topics.iter().copied();
            let settled = is_own.then(|| {
                IBatchSettlement::Settled::decode_raw_log_validate(topics, &log.data).ok()
            });
            Some(Effect { amount: Some(settled??.amount), balance: None })
        })
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        SettlementEvent {
            contract: contracts.escrow,
            event: IBatchSettlement::Settled::SIGNATURE_HASH,
            indexed: vec![self.receiver.into_word(), self.token.into_word()],
            // An earlier payout emits the same event. So the search runs only once the money is known to be paid out.
            is_rare: false,
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::SweepSimulation
    }

    fn content(&self, effect: &Effect) -> AnswerContent {
        AnswerContent { amount: effect.amount.map(U256::from), extra: None }
    }
}
