//! Refunds: the escrow returns the unclaimed balance of a channel to its payer, with the receiver's consent.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_core::networks::ChainId;
use bursar_x402::channel::{ChannelConfig, IBatchSettlement};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::claim::{self, BASE_GAS, ROW_GAS, Row};
use crate::batch::state::ChannelState;
use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::Deployment;
use crate::reason::Reason;
use crate::work::{AnswerContent, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

/// Gas limit of a refund without claims, for any token.
pub(super) const GAS: u64 = 200_000;

/// A refund that the receiver's authorizer signed, with claims that are recorded first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRefund {
    pub chain: ChainId,
    pub config: ChannelConfig,
    pub channel: B256,
    /// The requested amount in the smallest unit of the token.
    ///
    /// The escrow refunds less if the channel has less left.
    pub amount: u128,
    pub nonce: U256,
    pub signature: Bytes,
    /// Claims to record first; may be empty.
    pub rows: Vec<Row>,
    pub claim_signature: Bytes,
    /// The digest of the refund (EIP-712).
    pub digest: B256,
    /// Whether a payer or the authorizer has code, which runs in the transaction.
    pub runs_foreign_code: bool,
    /// The state of the channel when the refund was checked.
    ///
    /// Its pending withdrawal is removed if the refund is at least as large, because such a refund cancels it.
    pub state_before: ChannelState,
}

impl ChannelRefund {
    /// The claimed amount of the channel once the refund's own claims are recorded.
    pub(super) fn total_claimed(&self) -> u128 {
        let own = self.rows.iter().filter(|row| row.channel == self.channel);
        own.map(|row| row.claim.total_claimed).fold(self.state_before.total_claimed, u128::max)
    }

    fn refund_call(&self) -> IBatchSettlement::refundWithSignatureCall {
        IBatchSettlement::refundWithSignatureCall {
            config: (&self.config).into(),
            amount: self.amount,
            nonce: self.nonce,
            receiverAuthorizerSignature: self.signature.clone(),
        }
    }
}

impl Work for ChannelRefund {
    fn chain(&self) -> ChainId {
        self.chain
    }

    fn key(&self) -> JobKey {
        JobKey::of_refund(self.chain, self.channel, self.nonce)
    }

    fn digest(&self) -> B256 {
        let claims = self
            .rows
            .iter()
            .flat_map(|row| [row.channel, B256::from(U256::from(row.claim.total_claimed))]);
        let words: Vec<u8> = [self.digest].into_iter().chain(claims).flatten().collect();
        keccak256(words)
    }

    fn account(&self) -> Address {
        self.config.receiver_authorizer
    }

    fn payer(&self) -> Option<Address> {
        Some(self.config.payer)
    }

    fn moved_amount(&self) -> TokenAmount {
        TokenAmount { token: self.config.token, amount: U256::ZERO }
    }

    fn value(&self) -> TokenAmount {
        let left = self.state_before.balance.saturating_sub(self.total_claimed());
        TokenAmount { token: self.config.token, amount: U256::from(self.amount.min(left)) }
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
        let refund = self.refund_call().abi_encode();
        if self.rows.is_empty() {
            return ContractCall { to: contracts.escrow, data: refund.into() };
        }
        let claims = self.rows.iter().map(|row| &row.claim);
        let claims = claim::claims_call(contracts, claims, &self.claim_signature);
        let both = IBatchSettlement::multicallCall { data: vec![claims.data, refund.into()] };
        ContractCall { to: contracts.escrow, data: both.abi_encode().into() }
    }

    fn gas(&self) -> u64 {
        let rows = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        let claims = if rows == 0 { 0 } else { BASE_GAS };
        GAS.saturating_add(claims).saturating_add(ROW_GAS.saturating_mul(rows))
    }

    fn extra_bytes(&self) -> usize {
        claim::rows_bytes_max(self.rows.iter().map(|row| &row.claim))
            .saturating_add(self.claim_signature.len())
            .saturating_add(self.signature.len().saturating_sub(65))
    }

    fn expires(&self) -> Option<U256> {
        None
    }

    fn check_time(&self, _now_seconds: u64) -> Result<(), Reason> {
        Ok(())
    }

    /// The escrow's event has no nonce, so the call data must contain this refund.
    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        let delay = self.config.withdraw_delay.seconds();
        let signed = [
            B256::from(U256::from(delay)),
            self.config.salt,
            B256::from(U256::from(self.amount)),
            B256::from(self.nonce),
        ];
        if !mined.input_contains(&signed) {
            return None;
        }
        // Another sender can send a refund without the claims that belong to it.
        let mut adding = self.rows.iter().filter(|row| row.raises_claimed());
        if !mined.sent_by_us && !adding.all(|row| claim::is_claimed(contracts, row, mined)) {
            return None;
        }
        let amount = mined.logs.iter().find_map(|log| {
            let is_own = log.address == contracts.escrow
                && log.topics.first() == Some(&IBatchSettlement::Refunded::SIGNATURE_HASH)
                && log.topics.get(1) == Some(&self.channel);
            let topics = log.topics.iter().copied();
            let event = is_own.then(|| {
                IBatchSettlement::Refunded::decode_raw_log_validate(topics, &log.data).ok()
            });
            Some(event??.amount)
        })?;
        let balance = self.state_before.balance.saturating_sub(amount);
        Some(Effect { amount: Some(amount), balance: Some(balance) })
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        SettlementEvent {
            contract: contracts.escrow,
            event: IBatchSettlement::Refunded::SIGNATURE_HASH,
            indexed: vec![self.channel],
            is_rare: true,
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::RefundTransactionFailed
    }

    /// Returns the state before the refund, less the refunded amount. A simultaneous deposit, claim or withdrawal
    /// appears only in the next verdict. If a deposit came first, the computed balance can be below the claimed amount,
    /// which is impossible on the chain; so it is raised to that amount.
    fn content(&self, effect: &Effect) -> AnswerContent {
        let total_claimed = self.total_claimed();
        let state = ChannelState {
            balance: effect.balance.unwrap_or(self.state_before.balance).max(total_claimed),
            total_claimed,
            refund_nonce: self.nonce.saturating_add(U256::from(1)),
            ..self.state_before
        };
        AnswerContent {
            amount: effect.amount.map(U256::from),
            extra: Some(json!({ "channelState": state.to_json(self.channel) })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_x402::channel::WithdrawDelay;

    #[test]
    fn balance_is_at_least_what_is_claimed_after_a_simultaneous_deposit() {
        let refund = ChannelRefund {
            chain: ChainId(8453),
            config: ChannelConfig {
                payer: Address::repeat_byte(1),
                payer_authorizer: Address::repeat_byte(1),
                receiver: Address::repeat_byte(2),
                receiver_authorizer: Address::repeat_byte(3),
                token: Address::repeat_byte(4),
                withdraw_delay: WithdrawDelay::try_from(900).unwrap(),
                salt: B256::ZERO,
            },
            channel: B256::repeat_byte(5),
            amount: u128::MAX,
            nonce: U256::ZERO,
            signature: Bytes::new(),
            rows: Vec::new(),
            claim_signature: Bytes::new(),
            digest: B256::ZERO,
            runs_foreign_code: false,
            state_before: ChannelState { balance: 47, total_claimed: 5, ..ChannelState::default() },
        };
        let shown = |refunded: u128| {
            let balance = Some(refund.state_before.balance.saturating_sub(refunded));
            let content = refund.content(&Effect { amount: Some(refunded), balance });
            content.extra.unwrap()["channelState"]["balance"].clone()
        };
        assert_eq!(shown(2), "45");
        assert_eq!(shown(42), "5");
        // A deposit of 500 came before the refund.
        assert_eq!(shown(542), "5");
    }
}
