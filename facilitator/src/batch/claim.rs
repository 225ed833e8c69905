//! Claims: the escrow records the amounts that receivers have earned by vouchers.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_core::networks::ChainId;
use bursar_x402::channel::IBatchSettlement;
use bursar_x402::channel::payload::ClaimRow;
use serde::{Deserialize, Serialize};

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::Deployment;
use crate::reason::Reason;
use crate::work::{AnswerContent, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

/// Gas limit of a batch without its rows.
pub(super) const BASE_GAS: u64 = 60_000;
/// Gas limit of a row whose payer runs no code.
pub(super) const ROW_GAS: u64 = 80_000;
/// Upper bound of a row's call data in bytes, with the longest padding and without the signature. With the 65-byte
/// signature of a key, the bound is 480.
const ROW_BYTES_MAX: usize = 415;
/// Bytes of rows and signatures for which every job already reserves data. A batch with one plain claim has fewer.
const RESERVED_ROW_BYTES: usize = 700;

/// A batch of claims whose receivers have one authorizer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelClaim {
    pub chain: ChainId,
    pub rows: Vec<Row>,
    /// The digest of the batch (EIP-712), which the authorizer signed.
    pub digest: B256,
    pub signature: Bytes,
    /// Whether a payer or the authorizer has code, which runs in the transaction.
    pub runs_foreign_code: bool,
}

/// A claim of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub channel: B256,
    pub claim: ClaimRow,
    /// The amount that was claimed from the channel when the batch was checked.
    pub claimed_before: u128,
}

impl Row {
    /// Whether the row raises the claimed amount. The escrow skips all other rows.
    pub(super) fn raises_claimed(&self) -> bool {
        self.claim.total_claimed > self.claimed_before
    }
}

/// The call of a batch of claims.
pub(super) fn claims_call<'a>(
    contracts: &Contracts,
    rows: impl Iterator<Item = &'a ClaimRow>,
    signature: &Bytes,
) -> ContractCall {
    let call = IBatchSettlement::claimWithSignatureCall {
        voucherClaims: rows.map(Into::into).collect(),
        authorizerSignature: signature.clone(),
    };
    ContractCall { to: contracts.escrow, data: call.abi_encode().into() }
}

/// Upper bound of the call data that rows take, in bytes.
pub(super) fn rows_bytes_max<'a>(rows: impl Iterator<Item = &'a ClaimRow>) -> usize {
    let each = rows.map(|row| row.signature.len().saturating_add(ROW_BYTES_MAX));
    each.fold(0, usize::saturating_add)
}

/// Whether the events of a transaction show that a row was claimed.
pub(super) fn is_claimed(contracts: &Contracts, row: &Row, mined: &MinedTransaction<'_>) -> bool {
    mined.logs.iter().any(|log| {
        let is_own = log.address == contracts.escrow
            && log.topics.first() == Some(&IBatchSettlement::Claimed::SIGNATURE_HASH)
            && log.topics.get(1) == Some(&row.channel);
        let topics = log.topics.iter().copied();
        is_own
            && IBatchSettlement::Claimed::decode_raw_log_validate(topics, &log.data)
                .is_ok_and(|event| event.newTotalClaimed >= row.claim.total_claimed)
    })
}

impl ChannelClaim {
    fn first(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.raises_claimed()).or(self.rows.first())
    }
}

impl Work for ChannelClaim {
    fn chain(&self) -> ChainId {
        self.chain
    }

    fn key(&self) -> JobKey {
        JobKey::of_claim(self.chain, self.digest)
    }

    fn digest(&self) -> B256 {
        self.digest
    }

    fn account(&self) -> Address {
        self.first().map(|row| row.claim.channel.receiver_authorizer).unwrap_or_default()
    }

    fn payer(&self) -> Option<Address> {
        None
    }

    /// The amount is zero: a claim moves nothing out of its account, the authorizer.
    fn moved_amount(&self) -> TokenAmount {
        TokenAmount { amount: U256::ZERO, ..self.value() }
    }

    /// Returns the sum of the amounts that the rows claim in the first row's token.
    fn value(&self) -> TokenAmount {
        let token = self.first().map(|row| row.claim.channel.token).unwrap_or_default();
        let of_token = self.rows.iter().filter(|row| row.claim.channel.token == token);
        let added = of_token.map(|row| row.claim.total_claimed.saturating_sub(row.claimed_before));
        let amount = added.fold(U256::ZERO, |sum, one| sum.saturating_add(U256::from(one)));
        TokenAmount { token, amount }
    }

    fn sender(&self) -> SenderRule {
        SenderRule::Any
    }

    fn is_purchase(&self) -> bool {
        false
    }

    fn runs_foreign_code(&self) -> bool {
        self.runs_foreign_code
    }

    fn deployment(&self) -> Option<&Deployment> {
        None
    }

    fn call(&self, contracts: &Contracts) -> ContractCall {
        claims_call(contracts, self.rows.iter().map(|row| &row.claim), &self.signature)
    }

    fn gas(&self) -> u64 {
        let rows = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        BASE_GAS.saturating_add(ROW_GAS.saturating_mul(rows))
    }

    fn extra_bytes(&self) -> usize {
        let rows = rows_bytes_max(self.rows.iter().map(|row| &row.claim));
        rows.saturating_add(self.signature.len()).saturating_sub(RESERVED_ROW_BYTES)
    }

    fn expires(&self) -> Option<U256> {
        None
    }

    fn check_time(&self, _now_seconds: u64) -> Result<(), Reason> {
        Ok(())
    }

    /// A claim's transaction can succeed without claiming anything, so each row that raises the claimed amount must
    /// have its event.
    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        let mut adding = self.rows.iter().filter(|row| row.raises_claimed()).peekable();
        adding.peek()?;
        adding.all(|row| is_claimed(contracts, row, mined)).then(Effect::default)
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        SettlementEvent {
            contract: contracts.escrow,
            event: IBatchSettlement::Claimed::SIGNATURE_HASH,
            indexed: self.first().map(|row| row.channel).into_iter().collect(),
            is_rare: true,
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::ClaimTransactionFailed
    }

    fn content(&self, _effect: &Effect) -> AnswerContent {
        AnswerContent::default()
    }
}
