//! `permit2`: any ERC-20 token whose holder has approved Permit2 once. The official proxy of the scheme `exact` carries
//! out the permit, for any sender.

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
use crate::work::SettlementEvent;

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IExactProxy {
        function settle(
            ((address, uint256), uint256, uint256) permit, address owner,
            (address, uint256) witness, bytes signature
        ) external;
        function settleWithPermit(
            (uint256, uint256, bytes32, bytes32, uint8) permit2612,
            ((address, uint256), uint256, uint256) permit, address owner,
            (address, uint256) witness, bytes signature
        ) external;
    }
}

/// Type hash of `PermitWitnessTransferFrom(…)` with the witness of the exact scheme, including all referenced types.
const PERMIT_TYPE: B256 =
    b256!("0xebc156cd23678a74c94df13d772ef5478420637f0c94bd10d509e1dc98f521c7");
/// Type hash of `Witness(address to,uint256 validAfter)`.
const WITNESS_TYPE: B256 =
    b256!("0xd97b3239a7f32295517bd14cb074edfdd188dfe5eb42f802bb26d4fd1eb12c37");

/// The method `permit2`.
#[derive(Debug)]
pub struct Permit2;

impl Method for Permit2 {
    fn id(&self) -> MethodId {
        MethodId::Permit2
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
        let (terms, _witness) =
            permit2::read(payload, requirements, contracts.exact_permit2_proxy)?;
        Ok(terms)
    }

    fn moved_amount(
        &self,
        terms: &Terms,
        required: U256,
        _purpose: Purpose,
    ) -> Result<U256, Reason> {
        compare(terms.authorized_amount, required, Reason::Permit2Amount)
    }

    fn domain(&self, contracts: &Contracts) -> SigningDomain {
        SigningDomain::Known(permit2::separator(contracts))
    }

    fn struct_hash(&self, contracts: &Contracts, terms: &Terms) -> B256 {
        let witness = keccak256((WITNESS_TYPE, terms.payee, terms.valid_after).abi_encode());
        permit2::struct_hash(PERMIT_TYPE, terms, contracts.exact_permit2_proxy, witness)
    }

    fn allows_contract_payers(&self) -> bool {
        true
    }

    fn accepts_sponsoring(&self) -> bool {
        true
    }

    fn transfer(&self, contracts: &Contracts, payment: &Payment) -> ContractCall {
        let terms = &payment.terms;
        let (permit, owner) = (permit2::permit_arguments(terms), terms.payer);
        let witness = (terms.payee, terms.valid_after);
        let signature = permit2::signature(payment);
        let data = match permit2::token_permit_arguments(payment) {
            None => IExactProxy::settleCall { permit, owner, witness, signature }.abi_encode(),
            Some(permit2612) => {
                let call = IExactProxy::settleWithPermitCall {
                    permit2612,
                    permit,
                    owner,
                    witness,
                    signature,
                };
                call.abi_encode()
            }
        };
        ContractCall { to: contracts.exact_permit2_proxy, data: data.into() }
    }

    fn diagnostic_calls(&self, contracts: &Contracts, terms: &Terms) -> Vec<ContractCall> {
        permit2::diagnostic_calls(contracts, terms, contracts.exact_permit2_proxy)
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
        permit2::is_proven(
            &mined.calls(contracts),
            payment,
            mined,
            contracts.exact_permit2_proxy,
            |data| {
                let (permit, owner, (payee, valid_after)) =
                    if data.starts_with(&IExactProxy::settleWithPermitCall::SELECTOR) {
                        let call = IExactProxy::settleWithPermitCall::abi_decode(data).ok()?;
                        (call.permit, call.owner, call.witness)
                    } else {
                        let call = IExactProxy::settleCall::abi_decode(data).ok()?;
                        (call.permit, call.owner, call.witness)
                    };
                let terms = permit2::terms_of(permit, owner, payee, valid_after);
                Some(ProxyCall { amount: terms.authorized_amount, terms })
            },
        )
    }

    fn are_distinguishable(&self, one: &Payment, other: &Payment) -> bool {
        permit2::are_distinguishable(one, other)
    }

    fn settlement_event(&self, _contracts: &Contracts, terms: &Terms) -> SettlementEvent {
        permit2::settlement_event(terms)
    }

    fn gas(&self) -> u64 {
        permit2::GAS
    }
}
