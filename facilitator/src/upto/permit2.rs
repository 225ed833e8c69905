//! The method of the scheme `upto`: a permit of up to a maximum amount. The payer's witness names a facilitator, and
//! the upto proxy of x402 carries out the permit only for that sender. The facilitator is one of our accounts, or a
//! contract that our accounts can call.

use alloy_primitives::{B256, U256, b256, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::json::Object;
use bursar_x402::settlement::Requirements;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::transfer::domain::SigningDomain;
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::method::Method;
use crate::transfer::payload::ReadError;
use crate::transfer::permit2::{self, ProxyCall};
use crate::transfer::terms_check::{Purpose, compare};
use crate::upto::contract;
use crate::work::{AnswerContent, SenderRule, SettlementEvent};

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IUptoProxy {
        function settle(
            ((address, uint256), uint256, uint256) permit, uint256 amount, address owner,
            (address, address, uint256) witness, bytes signature
        ) external;
        function settleWithPermit(
            (uint256, uint256, bytes32, bytes32, uint8) permit2612,
            ((address, uint256), uint256, uint256) permit, uint256 amount, address owner,
            (address, address, uint256) witness, bytes signature
        ) external;
    }
}

/// Type hash of `PermitWitnessTransferFrom(…)` with the witness of the scheme `upto`, including all referenced types.
const PERMIT_TYPE: B256 =
    b256!("0x51dff6974ad4388c499e7fcfe838d2bd767162553a144098ce20ea661d70c2ee");
/// Type hash of `Witness(address to,address facilitator,uint256 validAfter)`.
const WITNESS_TYPE: B256 =
    b256!("0xd4171c445a74218b01d4fd8af34ff1106580ea1e36ff837e64484bfaa2253b75");

/// The account or contract that the payer names as the facilitator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Facilitator {
    Account,
    Contract,
}

/// The method `permit2` of the scheme `upto`.
#[derive(Debug)]
pub struct UptoPermit2(Facilitator);

/// The method for payers that name one of our accounts.
pub static BY_ACCOUNT: UptoPermit2 = UptoPermit2(Facilitator::Account);
/// The method for payers that name a contract of ours.
pub static BY_CONTRACT: UptoPermit2 = UptoPermit2(Facilitator::Contract);

impl Method for UptoPermit2 {
    fn id(&self) -> MethodId {
        match self.0 {
            Facilitator::Account => MethodId::UptoPermit2,
            Facilitator::Contract => MethodId::UptoPermit2ByContract,
        }
    }

    fn matches(&self, payload: &Object, _requirements: &Requirements) -> bool {
        payload.get("permit2Authorization").is_some()
    }

    fn parse_terms(
        &self,
        contracts: &Contracts,
        payload: &Object,
        requirements: &Requirements,
    ) -> Result<Terms, ReadError> {
        let (terms, witness) = permit2::read(payload, requirements, contracts.upto_permit2_proxy)?;
        Ok(Terms { facilitator: Some(witness.address("facilitator")?), ..terms })
    }

    /// Returns the required amount. To verify, it must equal the authorized amount. To settle, it may be lower.
    fn moved_amount(
        &self,
        terms: &Terms,
        required: U256,
        purpose: Purpose,
    ) -> Result<U256, Reason> {
        match purpose {
            Purpose::Verify => compare(terms.authorized_amount, required, Reason::Permit2Amount),
            Purpose::Settle if required > terms.authorized_amount => Err(Reason::UptoExceeds),
            Purpose::Settle => Ok(required),
        }
    }

    fn domain(&self, contracts: &Contracts) -> SigningDomain {
        SigningDomain::Known(permit2::separator(contracts))
    }

    fn struct_hash(&self, contracts: &Contracts, terms: &Terms) -> B256 {
        let facilitator = terms.facilitator.unwrap_or_default();
        let words = (WITNESS_TYPE, terms.payee, facilitator, terms.valid_after);
        let witness = keccak256(words.abi_encode());
        permit2::struct_hash(PERMIT_TYPE, terms, contracts.upto_permit2_proxy, witness)
    }

    fn allows_contract_payers(&self) -> bool {
        true
    }

    fn accepts_sponsoring(&self) -> bool {
        true
    }

    fn sender(&self, terms: &Terms) -> SenderRule {
        // If the terms name no facilitator, no account may send the payment: the zero address is not one of ours.
        let facilitator = terms.facilitator.unwrap_or_default();
        match self.0 {
            Facilitator::Account => SenderRule::Only(facilitator),
            Facilitator::Contract => SenderRule::ThroughContract(facilitator),
        }
    }

    fn transfer(&self, contracts: &Contracts, payment: &Payment) -> ContractCall {
        let terms = &payment.terms;
        let (permit, amount, owner) =
            (permit2::permit_arguments(terms), payment.amount, terms.payer);
        let witness = (terms.payee, terms.facilitator.unwrap_or_default(), terms.valid_after);
        let signature = permit2::signature(payment);
        let data = match permit2::token_permit_arguments(payment) {
            None => {
                IUptoProxy::settleCall { permit, amount, owner, witness, signature }.abi_encode()
            }
            Some(permit2612) => {
                let call = IUptoProxy::settleWithPermitCall {
                    permit2612,
                    permit,
                    amount,
                    owner,
                    witness,
                    signature,
                };
                call.abi_encode()
            }
        };
        ContractCall { to: contracts.upto_permit2_proxy, data: data.into() }
    }

    fn diagnostic_calls(&self, contracts: &Contracts, terms: &Terms) -> Vec<ContractCall> {
        permit2::diagnostic_calls(contracts, terms, contracts.upto_permit2_proxy)
    }

    fn missing_contract(&self, evidence: &NodeEvidence<'_>) -> Option<Reason> {
        permit2::missing_contract(evidence)
    }

    fn diagnose(&self, payment: &Payment, evidence: &NodeEvidence<'_>) -> Reason {
        permit2::diagnose(payment, evidence)
    }

    fn is_proven(
        &self,
        contracts: &Contracts,
        payment: &Payment,
        mined: &MinedTransaction<'_>,
    ) -> bool {
        let proxy = contracts.upto_permit2_proxy;
        let calls = match self.0 {
            Facilitator::Account => mined.calls(contracts),
            Facilitator::Contract if mined.to == payment.terms.facilitator => {
                contract::settlements(proxy, mined.input)
            }
            // Only our accounts can call the contract, and they call it directly.
            Facilitator::Contract => Vec::new(),
        };
        permit2::is_proven(&calls, payment, mined, proxy, |data| {
            let (permit, amount, owner, (payee, facilitator, valid_after)) =
                if data.starts_with(&IUptoProxy::settleWithPermitCall::SELECTOR) {
                    let call = IUptoProxy::settleWithPermitCall::abi_decode(data).ok()?;
                    (call.permit, call.amount, call.owner, call.witness)
                } else {
                    let call = IUptoProxy::settleCall::abi_decode(data).ok()?;
                    (call.permit, call.amount, call.owner, call.witness)
                };
            let terms = permit2::terms_of(permit, owner, payee, valid_after);
            Some(ProxyCall { terms: Terms { facilitator: Some(facilitator), ..terms }, amount })
        })
    }

    fn are_distinguishable(&self, one: &Payment, other: &Payment) -> bool {
        permit2::are_distinguishable(one, other)
    }

    fn settlement_event(&self, _contracts: &Contracts, terms: &Terms) -> SettlementEvent {
        permit2::settlement_event(terms)
    }

    fn gas(&self) -> u64 {
        match self.0 {
            Facilitator::Account => permit2::GAS,
            Facilitator::Contract => permit2::GAS.saturating_add(contract::GAS),
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::UptoTransactionFailed
    }

    fn content(&self, payment: &Payment) -> AnswerContent {
        AnswerContent { amount: Some(payment.amount), extra: None }
    }
}
