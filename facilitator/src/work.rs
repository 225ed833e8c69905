//! The properties of a job that its settlement needs, for every kind of job. Pure.

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{Deployment, Sponsoring};
use crate::reason::Reason;

/// Which of our accounts may send a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderRule {
    /// Any account, even one that is not ours.
    Any,
    /// The first signer of the settings.
    FirstSigner,
    /// Only this account.
    Only(Address),
    /// The accounts that can call this contract, which makes the job's call.
    ThroughContract(Address),
}

/// An amount of a token, in its smallest unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenAmount {
    pub token: Address,
    pub amount: U256,
}

/// An event to search for in order to find a job's transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlementEvent {
    pub contract: Address,
    pub event: B256,
    pub indexed: Vec<B256>,
    /// Whether few events match, because they name a nonce or a channel.
    ///
    /// A search for such an event is cheap.
    pub is_rare: bool,
}

/// The facts about a job's effect on the chain that only the events of its transaction show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The amount that moved, in the smallest unit of the token.
    pub amount: Option<u128>,
    /// The balance of the job's channel after the job.
    pub balance: Option<u128>,
}

/// The content of the answer to a settled job, in addition to its transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerContent {
    /// The member `amount`: the amount that moved, in the smallest unit of the token.
    pub amount: Option<U256>,
    /// The member `extra`.
    pub extra: Option<serde_json::Value>,
}

/// One kind of job, as the settlement sees it.
pub trait Work {
    /// The network.
    fn chain(&self) -> ChainId;

    /// The key of the job.
    fn key(&self) -> JobKey;

    /// Distinguishes jobs with the same key.
    ///
    /// Two jobs have the same digest only if they have the same effect.
    fn digest(&self) -> B256;

    /// The account whose jobs in flight are limited together.
    ///
    /// It is the account that signed the job, or the receiver if the job needs no signature.
    fn account(&self) -> Address;

    /// The payer that answers name.
    fn payer(&self) -> Option<Address>;

    /// The amount that the job takes from the account's balance.
    fn moved_amount(&self) -> TokenAmount;

    /// The worth of the job to its parties, which limits the cost of its gas.
    fn value(&self) -> TokenAmount {
        self.moved_amount()
    }

    /// The accounts that may send the job.
    fn sender(&self) -> SenderRule;

    /// Whether the job runs the code of an account that signed.
    ///
    /// That code decides which signatures are valid and how much gas the job uses.
    fn runs_foreign_code(&self) -> bool;

    /// Whether merchants deliver when the job succeeds.
    ///
    /// Claims, payouts and refunds only move money that was earned or deposited before.
    fn is_purchase(&self) -> bool {
        true
    }

    /// How the payer's wallet is deployed before the job (EIP-6492).
    fn deployment(&self) -> Option<&Deployment>;

    /// How Permit2 receives the allowance that the job needs, if the payer sent a permit or an approval.
    fn sponsoring(&self) -> Option<&Sponsoring> {
        None
    }

    /// The call that carries out the job, without the deployment.
    fn call(&self, contracts: &Contracts) -> ContractCall;

    /// Gas limit of the call, if no payer's code runs.
    fn gas(&self) -> u64;

    /// Number of bytes by which the call's data exceeds that of a call signed by a key.
    fn extra_bytes(&self) -> usize;

    /// When the job expires, in Unix seconds; `None` if it never does.
    fn expires(&self) -> Option<U256>;

    /// Checks that the job is valid now and for a few seconds more.
    ///
    /// # Errors
    /// [`Reason::Expired`], [`Reason::NotYetValid`].
    fn check_time(&self, now_seconds: u64) -> Result<(), Reason>;

    /// The effect of the job in a mined transaction; `None` unless the transaction proves that it carried out this job.
    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect>;

    /// The event that the job emits, no matter which account sends the transaction.
    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent;

    /// The reason of a job that failed in a mined transaction.
    fn failed_reason(&self) -> Reason;

    /// The content of the answer once the job is settled with this effect.
    fn content(&self, effect: &Effect) -> AnswerContent;
}
