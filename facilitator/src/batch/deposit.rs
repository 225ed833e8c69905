//! Deposits into a channel, by EIP-3009 or Permit2: the escrow pulls the payer's money through its collector.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_chain::ports::Log;
use bursar_core::networks::ChainId;
use bursar_x402::channel::payload::DepositAuthorization;
use bursar_x402::channel::{ChannelConfig, IBatchSettlement};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::state::ChannelState;
use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::payment::Deployment;
use crate::reason::Reason;
use crate::transfer::terms_check::check_window;
use crate::work::{Content, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IEip3009Token {
        event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    }
}

/// Gas limit of a deposit, for any token.
const GAS: u64 = 350_000;

/// A deposit that its payer signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelDeposit {
    pub chain: ChainId,
    pub config: ChannelConfig,
    pub channel: B256,
    /// In the smallest unit of the token.
    pub amount: u128,
    pub authorization: DepositAuthorization,
    /// The digest that was signed (EIP-712).
    pub digest: B256,
    /// Without its EIP-6492 wrapper.
    pub signature: Bytes,
    pub deployment: Option<Deployment>,
    /// The payer has code, or will have after its deployment.
    pub contract_payer: bool,
    /// The state of the channel when the deposit was checked.
    pub before: ChannelState,
}

/// The key of a deposit: its authorization can be used once.
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

/// The call of a deposit. The collector comes from the settings, never from a request.
pub(super) fn call_of(
    contracts: &Contracts,
    config: &ChannelConfig,
    amount: u128,
    authorization: &DepositAuthorization,
    signature: &[u8],
) -> ContractCall {
    let (collector, data) = match authorization {
        DepositAuthorization::Eip3009(signed) => {
            (contracts.erc3009_collector, signed.collector_data(signature))
        }
        DepositAuthorization::Permit2(signed) => {
            (contracts.permit2_collector, signed.collector_data(signature, None))
        }
    };
    let call = IBatchSettlement::depositCall {
        config: config.into(),
        amount,
        collector,
        collectorData: data,
    };
    ContractCall { to: contracts.escrow, data: call.abi_encode().into() }
}

impl ChannelDeposit {
    /// The validity of the authorization, in Unix seconds.
    fn window(&self) -> (U256, U256) {
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

    /// Whether a transaction used the authorization of this deposit.
    fn uses_authorization(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> bool {
        match &self.authorization {
            DepositAuthorization::Eip3009(signed) => {
                let topics = [
                    IEip3009Token::AuthorizationUsed::SIGNATURE_HASH,
                    self.config.payer.into_word(),
                    signed.nonce(self.channel),
                ];
                let mut logs = mined.logs.iter();
                logs.any(|log| log.address == self.config.token && log.topics == topics)
            }
            // Permit2 emits no event with the nonce, so the transaction must contain the call itself.
            DepositAuthorization::Permit2(_signed) => {
                let own = self.call(contracts);
                mined.calls(contracts).contains(&own)
            }
        }
    }
}

/// The validity of an authorization, in Unix seconds.
pub(super) fn window_of(authorization: &DepositAuthorization) -> (U256, U256) {
    match authorization {
        DepositAuthorization::Eip3009(signed) => (signed.valid_after, signed.valid_before),
        DepositAuthorization::Permit2(signed) => (U256::ZERO, signed.deadline),
    }
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

    fn moves(&self) -> TokenAmount {
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

    fn call(&self, contracts: &Contracts) -> ContractCall {
        call_of(contracts, &self.config, self.amount, &self.authorization, &self.signature)
    }

    fn gas(&self) -> u64 {
        GAS
    }

    fn extra_bytes(&self) -> usize {
        self.signature.len().saturating_sub(65)
    }

    fn expires(&self) -> Option<U256> {
        Some(self.window().1)
    }

    fn check_time(&self, now_seconds: u64) -> Result<(), Reason> {
        check_window(self.window(), now_seconds)
    }

    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        if !self.uses_authorization(contracts, mined) {
            return None;
        }
        let balance = mined.logs.iter().find_map(|log| self.new_balance(contracts, log))?;
        Some(Effect { amount: Some(self.amount), balance: Some(balance) })
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        SettlementEvent {
            contract: contracts.escrow,
            event: IBatchSettlement::Deposited::SIGNATURE_HASH,
            indexed: vec![self.channel],
            names_nonce: true,
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::DepositTransactionFailed
    }

    fn content(&self, effect: &Effect) -> Content {
        let balance = effect.balance.unwrap_or(self.before.balance);
        let state = ChannelState { balance, ..self.before };
        Content {
            amount: Some(U256::from(self.amount)),
            extra: Some(json!({ "channelState": state.to_json(self.channel) })),
        }
    }
}
