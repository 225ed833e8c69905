//! Deposits into a channel, by EIP-3009 or Permit2: the escrow pulls the payer's money through its collector.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent, SolValue};
use bursar_chain::ports::Log;
use bursar_core::networks::ChainId;
use bursar_x402::channel::payload::{DepositAuthorization, SignedVoucher};
use bursar_x402::channel::{ChannelConfig, IBatchSettlement};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::state::ChannelState;
use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{Deployment, Sponsoring};
use crate::reason::Reason;
use crate::transfer::eip3009::IEip3009;
use crate::transfer::erc20::IErc20;
use crate::transfer::terms_check::TimeWindow;
use crate::work::{AnswerContent, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

/// Gas limit of a deposit, for any token.
const GAS: u64 = 350_000;

/// A deposit that its payer signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelDeposit {
    pub chain: ChainId,
    pub config: ChannelConfig,
    pub channel: B256,
    /// The amount in the smallest unit of the token.
    pub amount: u128,
    pub authorization: DepositAuthorization,
    /// The voucher that came with the deposit.
    pub voucher: SignedVoucher,
    /// The digest that was signed (EIP-712).
    pub digest: B256,
    /// The signature without its EIP-6492 wrapper.
    pub signature: Bytes,
    pub deployment: Option<Deployment>,
    /// Whether the payer has code, or will have code after its deployment.
    pub contract_payer: bool,
    /// The state of the channel when the deposit was checked.
    pub state_before: ChannelState,
    /// Present only in deposits by Permit2.
    pub sponsoring: Option<Sponsoring>,
}

/// The key of a deposit. It is unique, because an authorization can be used only once.
pub(super) fn key_of(
    chain: ChainId,
    config: &ChannelConfig,
    channel: B256,
    authorization: &DepositAuthorization,
) -> JobKey {
    match authorization {
        DepositAuthorization::Eip3009(signed) => {
            JobKey::of_eip3009(chain, config.token, config.payer, signed.nonce(channel))
        }
        DepositAuthorization::Permit2(signed) => {
            JobKey::of_permit2(chain, config.payer, B256::from(signed.nonce))
        }
    }
}

impl ChannelDeposit {
    /// The validity of the authorization, in Unix seconds.
    fn window(&self) -> TimeWindow {
        window_of(&self.authorization)
    }

    /// Whether an event is the escrow's report of a deposit of this amount into this channel. Returns the new balance.
    fn new_balance(&self, contracts: &Contracts, log: &Log) -> Option<u128> {
        let is_own = log.address == contracts.escrow
            && log.topics.first() == Some(&IBatchSettlement::Deposited::SIGNATURE_HASH)
            && log.topics.get(1) == Some(&self.channel);
        if !is_own {
            return None;
        }
        let topics = log.topics.iter().copied();
        let event = IBatchSettlement::Deposited::decode_raw_log_validate(topics, &log.data).ok()?;
        (event.amount == self.amount).then_some(event.newBalance)
    }

    /// Returns the events of a transaction that can belong to this deposit, or `None` if the transaction did not use
    /// its authorization.
    fn own_logs<'a>(
        &self,
        contracts: &Contracts,
        mined: &MinedTransaction<'a>,
    ) -> Option<&'a [Log]> {
        match &self.authorization {
            DepositAuthorization::Eip3009(signed) => {
                // The token emits `AuthorizationUsed`, then `Transfer` to the collector; the escrow's event follows.
                let event = IEip3009::AuthorizationUsed::SIGNATURE_HASH;
                let own = [event, self.config.payer.into_word(), signed.nonce(self.channel)];
                let is_use = |log: &Log| {
                    log.address == self.config.token && log.topics.first() == Some(&event)
                };
                let is_own = |log: &Log| is_use(log) && log.topics == own;
                let (_before, after) = mined.logs.split_at(mined.logs.iter().position(is_own)?);
                let after = after.get(1..)?;
                let until = after.iter().position(is_use).unwrap_or(after.len());
                let own_logs = after.get(..until)?;
                let paid = own_logs.iter().find(|log| self.is_from_payer(log))?;
                let to = contracts.erc3009_collector.into_word();
                let is_paid = paid.topics.get(2) == Some(&to)
                    && paid.data.as_ref() == U256::from(self.amount).to_be_bytes::<32>();
                is_paid.then_some(own_logs)
            }
            // Permit2 emits no event with the nonce, so the transaction must contain a call with this authorization.
            DepositAuthorization::Permit2(_signed) => {
                let calls = mined.calls(contracts);
                let is_own = |call: &ContractCall| self.is_own_call(contracts, call);
                if !calls.iter().any(is_own) {
                    return None;
                }
                // Another sender may mix in calls that fail. So its transaction counts only if each call is a deposit
                // that succeeded.
                let is_deposit = |call: &ContractCall| {
                    call.to == contracts.escrow
                        && call.data.starts_with(&IBatchSettlement::depositCall::SELECTOR)
                };
                let is_event = |log: &&Log| {
                    log.address == contracts.escrow
                        && log.topics.first() == Some(&IBatchSettlement::Deposited::SIGNATURE_HASH)
                };
                let succeeded = mined.logs.iter().filter(is_event).count();
                let is_plain = calls.iter().all(is_deposit) && succeeded == calls.len();
                (mined.sent_by_us || is_plain).then_some(mined.logs)
            }
        }
    }

    /// Whether an event is a transfer of the token from the payer.
    fn is_from_payer(&self, log: &Log) -> bool {
        log.address == self.config.token
            && log.topics.first() == Some(&IErc20::Transfer::SIGNATURE_HASH)
            && log.topics.get(1) == Some(&self.config.payer.into_word())
    }

    /// Whether a call deposits with this authorization, regardless of the signature.
    fn is_own_call(&self, contracts: &Contracts, call: &ContractCall) -> bool {
        let read = |data: &[u8]| -> Option<(IBatchSettlement::depositCall, U256, U256)> {
            let call = IBatchSettlement::depositCall::abi_decode(data).ok()?;
            let (nonce, deadline, _signature, _permit) =
                <(U256, U256, Bytes, Bytes)>::abi_decode_params(&call.collectorData).ok()?;
            Some((call, nonce, deadline))
        };
        let own = self.call(contracts);
        let (Some((own, nonce, deadline)), Some((other, its_nonce, its_deadline))) =
            (read(&own.data), read(&call.data))
        else {
            return false;
        };
        call.to == contracts.escrow
            && (own.config, own.amount, own.collector)
                == (other.config, other.amount, other.collector)
            && (nonce, deadline) == (its_nonce, its_deadline)
    }
}

/// Returns the time window in which an authorization is valid.
pub(super) fn window_of(authorization: &DepositAuthorization) -> TimeWindow {
    let (valid_after, valid_before) = match authorization {
        DepositAuthorization::Eip3009(signed) => (signed.valid_after, signed.valid_before),
        DepositAuthorization::Permit2(signed) => (U256::ZERO, signed.deadline),
    };
    TimeWindow { valid_after, valid_before }
}

impl Work for ChannelDeposit {
    fn chain(&self) -> ChainId {
        self.chain
    }

    fn key(&self) -> JobKey {
        key_of(self.chain, &self.config, self.channel, &self.authorization)
    }

    fn digest(&self) -> B256 {
        self.digest
    }

    fn account(&self) -> Address {
        self.config.payer
    }

    fn payer(&self) -> Option<Address> {
        Some(self.config.payer)
    }

    fn moved_amount(&self) -> TokenAmount {
        TokenAmount { token: self.config.token, amount: U256::from(self.amount) }
    }

    fn sender(&self) -> SenderRule {
        SenderRule::Any
    }

    fn runs_foreign_code(&self) -> bool {
        self.contract_payer
    }

    fn deployment(&self) -> Option<&Deployment> {
        self.deployment.as_ref()
    }

    fn sponsoring(&self) -> Option<&Sponsoring> {
        self.sponsoring.as_ref()
    }

    fn call(&self, contracts: &Contracts) -> ContractCall {
        // The collector comes from the settings, never from a request.
        let (collector, data) = match &self.authorization {
            DepositAuthorization::Eip3009(signed) => {
                (contracts.erc3009_collector, signed.collector_data(&self.signature))
            }
            DepositAuthorization::Permit2(signed) => {
                let permit = self.sponsoring.as_ref().and_then(Sponsoring::permit);
                let data = signed.collector_data(&self.signature, permit);
                (contracts.permit2_collector, data)
            }
        };
        let call = IBatchSettlement::depositCall {
            config: (&self.config).into(),
            amount: self.amount,
            collector,
            collectorData: data,
        };
        ContractCall { to: contracts.escrow, data: call.abi_encode().into() }
    }

    fn gas(&self) -> u64 {
        GAS.saturating_add(self.sponsoring.as_ref().map_or(0, Sponsoring::gas))
    }

    fn extra_bytes(&self) -> usize {
        let sponsoring = self.sponsoring.as_ref().map_or(0, Sponsoring::call_bytes);
        self.signature.len().saturating_sub(65).saturating_add(sponsoring)
    }

    fn expires(&self) -> Option<U256> {
        Some(self.window().valid_before)
    }

    fn check_time(&self, now_seconds: u64) -> Result<(), Reason> {
        self.window().check(now_seconds)
    }

    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        let logs = self.own_logs(contracts, mined)?;
        let balance = logs.iter().find_map(|log| self.new_balance(contracts, log))?;
        Some(Effect { amount: Some(self.amount), balance: Some(balance) })
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        SettlementEvent {
            contract: contracts.escrow,
            event: IBatchSettlement::Deposited::SIGNATURE_HASH,
            indexed: vec![self.channel],
            is_rare: true,
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::DepositTransactionFailed
    }

    fn content(&self, effect: &Effect) -> AnswerContent {
        let balance = effect.balance.unwrap_or(self.state_before.balance);
        let state = ChannelState { balance, ..self.state_before };
        AnswerContent {
            amount: Some(U256::from(self.amount)),
            extra: Some(json!({ "channelState": state.to_json(self.channel) })),
        }
    }
}
