//! `permit2`: any ERC-20 token whose holder has approved Permit2 once. The payer signs a transfer with a witness that
//! names the payee. The exact proxy of x402 carries it out, for any sender.

use alloy_primitives::{B256, U256, b256, keccak256};
use alloy_sol_types::{SolCall, SolEvent, SolValue};
use bursar_chain::ports::Log;
use bursar_core::json::Object;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Requirements;

use crate::exact::contract_call::ContractCall;
use crate::exact::contracts::Contracts;
use crate::exact::domain::Domain;
use crate::exact::erc20::{IErc20, is_transfer_of};
use crate::exact::evidence::Evidence;
use crate::exact::method::{Method, SettlementEvent};
use crate::exact::mined_transaction::MinedTransaction;
use crate::exact::payload::ReadError;
use crate::exact::terms_check::compare;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::{Reason, Rejection};

alloy_sol_types::sol! {
    #[derive(Debug)]
    struct Permitted {
        address token;
        uint256 amount;
    }

    #[derive(Debug)]
    struct Permit {
        Permitted permitted;
        uint256 nonce;
        uint256 deadline;
    }

    #[derive(Debug)]
    struct Witness {
        address to;
        uint256 validAfter;
    }

    #[derive(Debug)]
    interface IExactProxy {
        event Settled();
        event SettledWithPermit();
        function PERMIT2() external view returns (address);
        function settle(Permit permit, address owner, Witness witness, bytes signature) external;
    }

    #[derive(Debug)]
    interface IPermit2 {
        function nonceBitmap(address owner, uint256 word) external view returns (uint256);
    }
}

/// Type hash of `EIP712Domain(string name,uint256 chainId,address verifyingContract)`.
const DOMAIN_TYPE: B256 =
    b256!("0x8cad95687ba82c2ce50e74f7b754645e5117c3a5bec8151c0726d5857980a866");
/// Type hash of `PermitWitnessTransferFrom(…)` with the witness of the exact scheme, including all referenced types.
const PERMIT_TYPE: B256 =
    b256!("0xebc156cd23678a74c94df13d772ef5478420637f0c94bd10d509e1dc98f521c7");
/// Type hash of `TokenPermissions(address token,uint256 amount)`.
const PERMITTED_TYPE: B256 =
    b256!("0x618358ac3db8dc274f0cd8829da7e234bd48cd73c4a740aede1adec9846d06a1");
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
        let at = "paymentPayload.payload.permit2Authorization.";
        let fields = Fields::new(payload, "paymentPayload.payload.");
        let inner = fields.object("permit2Authorization")?;
        let signed = Fields::new(fields.required("permit2Authorization", inner)?, at);
        let permitted = signed.required("permitted", signed.object("permitted")?)?;
        let permitted = Fields::new(permitted, "permit2Authorization.permitted.");
        let witness = signed.required("witness", signed.object("witness")?)?;
        let witness = Fields::new(witness, "permit2Authorization.witness.");
        let nonce = signed.required("nonce", signed.amount("nonce")?)?;
        let terms = Terms {
            token: permitted.address("token")?,
            payer: signed.address("from")?,
            payee: witness.address("to")?,
            amount: permitted.required("amount", permitted.amount("amount")?)?,
            nonce: B256::new(nonce.to_be_bytes()),
            valid_after: witness.required("validAfter", witness.amount("validAfter")?)?,
            valid_before: signed.required("deadline", signed.amount("deadline")?)?,
        };
        let reject = |reason: Reason| Rejection::from(reason).for_payer(terms.payer);
        if signed.address("spender")? != contracts.exact_permit2_proxy {
            return Err(reject(Reason::Permit2Spender).into());
        }
        if terms.payee != requirements.pay_to {
            return Err(reject(Reason::Permit2Recipient).into());
        }
        compare(terms.amount, requirements.amount, Reason::Permit2Amount).map_err(reject)?;
        if terms.token != requirements.asset {
            return Err(reject(Reason::Permit2Token).into());
        }
        Ok(terms)
    }

    fn domain(&self, contracts: &Contracts) -> Domain {
        let words =
            (DOMAIN_TYPE, keccak256("Permit2"), U256::from(contracts.chain.0), contracts.permit2);
        Domain::Known(keccak256(words.abi_encode()))
    }

    fn struct_hash(&self, contracts: &Contracts, terms: &Terms) -> B256 {
        let permitted = keccak256((PERMITTED_TYPE, terms.token, terms.amount).abi_encode());
        let witness = keccak256((WITNESS_TYPE, terms.payee, terms.valid_after).abi_encode());
        let words = (
            PERMIT_TYPE,
            permitted,
            contracts.exact_permit2_proxy,
            terms.nonce,
            terms.valid_before,
            witness,
        );
        keccak256(words.abi_encode())
    }

    fn allows_contract_payers(&self) -> bool {
        true
    }

    fn allows_any_sender(&self) -> bool {
        true
    }

    fn transfer(&self, contracts: &Contracts, payment: &Payment) -> ContractCall {
        let terms = &payment.terms;
        let data = IExactProxy::settleCall {
            permit: Permit {
                permitted: Permitted { token: terms.token, amount: terms.amount },
                nonce: U256::from_be_bytes(terms.nonce.0),
                deadline: terms.valid_before,
            },
            owner: terms.payer,
            witness: Witness { to: terms.payee, validAfter: terms.valid_after },
            signature: permit2_signature(payment),
        };
        ContractCall { to: contracts.exact_permit2_proxy, data: data.abi_encode().into() }
    }

    fn facts(&self, contracts: &Contracts, terms: &Terms) -> Vec<ContractCall> {
        let nonce = U256::from_be_bytes(terms.nonce.0);
        let used = IPermit2::nonceBitmapCall { owner: terms.payer, word: nonce >> 8 };
        let allowance = IErc20::allowanceCall { owner: terms.payer, spender: contracts.permit2 };
        vec![
            ContractCall { to: contracts.permit2, data: used.abi_encode().into() },
            ContractCall { to: terms.token, data: allowance.abi_encode().into() },
            ContractCall {
                to: contracts.exact_permit2_proxy,
                data: IExactProxy::PERMIT2Call {}.abi_encode().into(),
            },
        ]
    }

    fn missing_contract(&self, evidence: &Evidence<'_>) -> Option<Reason> {
        evidence.number(2).is_none().then_some(Reason::Permit2Proxy)
    }

    fn amount_received(&self, terms: &Terms, _evidence: &Evidence<'_>) -> U256 {
        terms.amount
    }

    fn diagnose(&self, terms: &Terms, evidence: &Evidence<'_>) -> Reason {
        let bit = usize::from(terms.nonce.0.last().copied().unwrap_or_default());
        match (evidence.number(0), evidence.number(1)) {
            (Some(bitmap), _any) if bitmap.bit(bit) => Reason::Permit2Nonce,
            _any if evidence.is_underfunded(terms) => Reason::InsufficientBalance,
            (_any, Some(allowance)) if allowance < terms.amount => Reason::Permit2Allowance,
            // Permit2 is missing: a call of an address without code returns no number.
            (None, _any) => Reason::Permit2Proxy,
            _none_of_these => Reason::Permit2Simulation,
        }
    }

    /// The proxy's event contains no terms, and the token's event contains no nonce. So the call data shows which
    /// permits were tried, and the events show whether this permit succeeded.
    ///
    /// In a transaction of ours, each success is a transfer followed by the proxy's event, and no two payments are
    /// alike. Another sender may mix in calls that fail and transfers of the same amount. So that transaction counts
    /// only if it calls nothing but the proxy and each of its calls succeeded.
    fn is_proven(
        &self,
        contracts: &Contracts,
        terms: &Terms,
        mined: &MinedTransaction<'_>,
    ) -> bool {
        let calls = mined.calls(contracts);
        let tried: Vec<_> = calls.iter().filter_map(|call| permit_of(contracts, call)).collect();
        if !tried.iter().any(|permit| permit == terms) {
            return false;
        }
        if mined.sent_by_us {
            return has_settled_transfer(contracts, terms, mined.logs);
        }
        let settled = mined.logs.iter().filter(|log| is_settled_event(contracts, log)).count();
        let moved = mined.logs.iter().any(|log| is_transfer_of(terms, log));
        moved && tried.len() == calls.len() && settled == calls.len()
    }

    fn are_distinguishable(&self, one: &Terms, other: &Terms) -> bool {
        // Permit2 emits no event with the nonce, so only the transfer distinguishes them.
        let movement = |terms: &Terms| (terms.token, terms.payer, terms.payee, terms.amount);
        movement(one) != movement(other)
    }

    fn settlement_event(&self, _contracts: &Contracts, terms: &Terms) -> SettlementEvent {
        SettlementEvent {
            contract: terms.token,
            event: IErc20::Transfer::SIGNATURE_HASH,
            indexed: vec![terms.payer.into_word(), terms.payee.into_word()],
            names_nonce: false,
        }
    }

    fn gas(&self) -> u64 {
        180_000
    }
}

/// The terms of a call of the proxy.
fn permit_of(contracts: &Contracts, call: &ContractCall) -> Option<Terms> {
    if call.to != contracts.exact_permit2_proxy {
        return None;
    }
    let IExactProxy::settleCall { permit, owner, witness, .. } =
        IExactProxy::settleCall::abi_decode(&call.data).ok()?;
    Some(Terms {
        token: permit.permitted.token,
        payer: owner,
        payee: witness.to,
        amount: permit.permitted.amount,
        nonce: B256::from(permit.nonce),
        valid_after: witness.validAfter,
        valid_before: permit.deadline,
    })
}

/// Whether an event is the proxy's report that a permit was settled.
fn is_settled_event(contracts: &Contracts, log: &Log) -> bool {
    let settled_events =
        [IExactProxy::Settled::SIGNATURE_HASH, IExactProxy::SettledWithPermit::SIGNATURE_HASH];
    log.address == contracts.exact_permit2_proxy
        && log.topics.first().is_some_and(|event| settled_events.contains(event))
}

/// Whether a transfer of these terms is the last one before an event of the proxy.
fn has_settled_transfer(contracts: &Contracts, terms: &Terms, logs: &[Log]) -> bool {
    let mut last = None;
    for log in logs {
        if is_settled_event(contracts, log) {
            if last.take().is_some_and(|moved| is_transfer_of(terms, moved)) {
                return true;
            }
        } else if log.topics.first() == Some(&IErc20::Transfer::SIGNATURE_HASH) {
            last = Some(log);
        }
    }
    false
}

/// The signature as Permit2 requires it: the last of a key's 65 bytes is 27 or 28. A contract wallet's signature is
/// unchanged.
fn permit2_signature(payment: &Payment) -> alloy_primitives::Bytes {
    if payment.contract_payer {
        return payment.signature.clone();
    }
    match crate::signature::split(&payment.signature) {
        Some((v, r, s)) => [r.as_slice(), s.as_slice(), &[v]].concat().into(),
        None => payment.signature.clone(),
    }
}
