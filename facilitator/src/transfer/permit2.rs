//! The parts of a Permit2 transfer that all x402 proxies share. The payer signs a transfer with a witness that names
//! the payee. The proxy is the spender of that transfer and carries it out.

use alloy_primitives::{Address, B256, Bytes, U256, b256, keccak256};
use alloy_sol_types::{SolCall, SolEvent, SolValue, sol};
use bursar_chain::ports::Log;
use bursar_core::json::Object;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Requirements;
use bursar_x402::sponsoring::Eip2612Permit;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{Payment, Terms};
use crate::reason::{Reason, Rejection};
use crate::signature;
use crate::transfer::erc20::{IErc20, is_transfer_of};
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::payload::ReadError;
use crate::work::SettlementEvent;

sol! {
    #[derive(Debug)]
    interface IProxy {
        event Settled();
        event SettledWithPermit();
        function PERMIT2() external view returns (address);
    }

    #[derive(Debug)]
    interface IPermit2 {
        function nonceBitmap(address owner, uint256 word) external view returns (uint256);
    }
}

/// Type hash of `EIP712Domain(string name,uint256 chainId,address verifyingContract)`.
const DOMAIN_TYPE: B256 =
    b256!("0x8cad95687ba82c2ce50e74f7b754645e5117c3a5bec8151c0726d5857980a866");
/// Type hash of `TokenPermissions(address token,uint256 amount)`.
const PERMITTED_TYPE: B256 =
    b256!("0x618358ac3db8dc274f0cd8829da7e234bd48cd73c4a740aede1adec9846d06a1");

/// Gas limit of one transfer, for any token.
pub(crate) const GAS: u64 = 180_000;

/// Reads the terms of a permit, and rejects terms that differ from the requirements. The permit must name `spender`,
/// the proxy. Also returns the members of the witness.
pub(crate) fn read<'a>(
    payload: &'a Object,
    requirements: &Requirements,
    spender: Address,
) -> Result<(Terms, Fields<'a>), ReadError> {
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
        authorized_amount: permitted.required("amount", permitted.amount("amount")?)?,
        nonce: B256::new(nonce.to_be_bytes()),
        valid_after: witness.required("validAfter", witness.amount("validAfter")?)?,
        valid_before: signed.required("deadline", signed.amount("deadline")?)?,
        facilitator: None,
    };
    let reject = |reason: Reason| Rejection::from(reason).for_payer(terms.payer);
    if signed.address("spender")? != spender {
        return Err(reject(Reason::Permit2Spender).into());
    }
    if terms.payee != requirements.pay_to {
        return Err(reject(Reason::Permit2Recipient).into());
    }
    if terms.token != requirements.asset {
        return Err(reject(Reason::Permit2Token).into());
    }
    Ok((terms, witness))
}

/// The separator of Permit2's EIP-712 domain.
pub(crate) fn separator(contracts: &Contracts) -> B256 {
    let words =
        (DOMAIN_TYPE, keccak256("Permit2"), U256::from(contracts.chain.0), contracts.permit2);
    keccak256(words.abi_encode())
}

/// The EIP-712 hash of a permit. `kind` is the type hash of `PermitWitnessTransferFrom(…)` with the type of the
/// witness, and `witness` the hash of the witness.
pub(crate) fn struct_hash(kind: B256, terms: &Terms, spender: Address, witness: B256) -> B256 {
    let permitted = keccak256((PERMITTED_TYPE, terms.token, terms.authorized_amount).abi_encode());
    let words = (kind, permitted, spender, terms.nonce, terms.valid_before, witness);
    keccak256(words.abi_encode())
}

/// A permit in the form of the proxies: token and amount, nonce, deadline.
pub(crate) type PermitArguments = ((Address, U256), U256, U256);

/// An EIP-2612 permit in the form of the proxies: value, deadline, r, s, v.
pub(crate) type TokenPermitArguments = (U256, U256, B256, B256, u8);

/// Returns the EIP-2612 permit of a payment in the form of the proxies.
pub(crate) fn token_permit_arguments(payment: &Payment) -> Option<TokenPermitArguments> {
    let Eip2612Permit { value, deadline, v, r, s } = *payment.permit()?;
    Some((value, deadline, r, s, v))
}

/// Returns the permit in the form of the proxies.
pub(crate) fn permit_arguments(terms: &Terms) -> PermitArguments {
    let nonce = U256::from_be_bytes(terms.nonce.0);
    ((terms.token, terms.authorized_amount), nonce, terms.valid_before)
}

/// Returns the call that reads one word of the payer's nonce bitmap. Permit2 marks used nonces in it.
pub(crate) fn nonce_call(contracts: &Contracts, payer: Address, nonce: U256) -> ContractCall {
    let used = IPermit2::nonceBitmapCall { owner: payer, word: nonce >> 8 };
    ContractCall { to: contracts.permit2, data: used.abi_encode().into() }
}

/// Whether a nonce is marked as used in the answer to a [`nonce_call`].
pub(crate) fn is_nonce_used(bitmap: U256, nonce: U256) -> bool {
    bitmap.bit(usize::from(nonce.byte(0)))
}

/// The calls whose answers explain why a transfer would fail, in the order that [`diagnose`] expects.
pub(crate) fn diagnostic_calls(
    contracts: &Contracts,
    terms: &Terms,
    proxy: Address,
) -> Vec<ContractCall> {
    let nonce = U256::from_be_bytes(terms.nonce.0);
    let allowance = IErc20::allowanceCall { owner: terms.payer, spender: contracts.permit2 };
    vec![
        nonce_call(contracts, terms.payer, nonce),
        ContractCall { to: terms.token, data: allowance.abi_encode().into() },
        ContractCall { to: proxy, data: IProxy::PERMIT2Call {}.abi_encode().into() },
    ]
}

/// The payer's allowance for Permit2, from the answers to [`facts`].
pub(crate) fn allowance(facts: &[Option<Bytes>]) -> Option<U256> {
    let word = facts.get(1)?.as_ref()?;
    (word.len() == 32).then(|| U256::from_be_slice(word))
}

/// The reason if the proxy is missing on the network.
pub(crate) fn missing_contract(evidence: &NodeEvidence<'_>) -> Option<Reason> {
    evidence.number(2).is_none().then_some(Reason::Permit2Proxy)
}

/// Returns the reason why the transfer would fail.
pub(crate) fn diagnose(payment: &Payment, evidence: &NodeEvidence<'_>) -> Reason {
    let nonce = U256::from_be_bytes(payment.terms.nonce.0);
    match (evidence.number(0), evidence.number(1)) {
        (Some(bitmap), _any) if is_nonce_used(bitmap, nonce) => Reason::Permit2Nonce,
        _any if evidence.is_underfunded(payment) => Reason::InsufficientBalance,
        (_any, Some(allowance)) if allowance < payment.amount => Reason::Permit2Allowance,
        // Permit2 is missing: a call of an address without code returns no number.
        (None, _any) => Reason::Permit2Proxy,
        _none_of_these => Reason::Permit2Simulation,
    }
}

/// A call of a proxy: the signed terms, and the amount that it moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyCall {
    pub(crate) terms: Terms,
    pub(crate) amount: U256,
}

/// The terms of a call of a proxy, from its arguments.
pub(crate) fn terms_of(
    ((token, authorized), nonce, valid_before): PermitArguments,
    payer: Address,
    payee: Address,
    valid_after: U256,
) -> Terms {
    let nonce = B256::from(nonce);
    Terms {
        token,
        payer,
        payee,
        authorized_amount: authorized,
        nonce,
        valid_after,
        valid_before,
        facilitator: None,
    }
}

/// Whether a mined transaction carried out a payment through `proxy`. `calls` are the transaction's calls, and `read`
/// reads a call of the proxy.
///
/// The proxy's event contains no terms, and the token's event contains no nonce. So the call data shows which permits
/// were tried, and the events show whether this permit succeeded.
///
/// In a transaction of ours, each success is a transfer followed by the proxy's event, and no two payments are alike.
/// Another sender may mix in calls that fail and transfers of the same amount. So that transaction counts only if it
/// calls nothing but the proxy and each of its calls succeeded.
pub(crate) fn is_proven(
    calls: &[ContractCall],
    payment: &Payment,
    mined: &MinedTransaction<'_>,
    proxy: Address,
    read: impl Fn(&[u8]) -> Option<ProxyCall>,
) -> bool {
    let of_proxy = calls.iter().filter(|call| call.to == proxy);
    let tried: Vec<_> = of_proxy.filter_map(|call| read(&call.data)).collect();
    let is_own = |call: &ProxyCall| call.terms == payment.terms && call.amount == payment.amount;
    if !tried.iter().any(is_own) {
        return false;
    }
    if mined.sent_by_us {
        return has_settled_transfer(proxy, payment, mined.logs);
    }
    let settled = mined.logs.iter().filter(|log| is_settled_event(proxy, log)).count();
    let moved = mined.logs.iter().any(|log| is_transfer_of(payment, log));
    moved && tried.len() == calls.len() && settled == calls.len()
}

/// Whether the events of one transaction show which of two payments it carried out. Permit2 emits no event with the
/// nonce, so only the transfer can differ.
pub(crate) fn are_distinguishable(one: &Payment, other: &Payment) -> bool {
    let movement = |payment: &Payment| {
        (payment.terms.token, payment.terms.payer, payment.terms.payee, payment.amount)
    };
    movement(one) != movement(other)
}

/// The token's transfer event.
pub(crate) fn settlement_event(terms: &Terms) -> SettlementEvent {
    SettlementEvent {
        contract: terms.token,
        event: IErc20::Transfer::SIGNATURE_HASH,
        indexed: vec![terms.payer.into_word(), terms.payee.into_word()],
        is_rare: false,
    }
}

/// Returns the signature as Permit2 requires it: in the 65 bytes of a key's signature, the last byte is 27 or 28. A
/// contract wallet's signature is unchanged.
pub(crate) fn signature(payment: &Payment) -> Bytes {
    if payment.is_contract_payer {
        return payment.signature.clone();
    }
    signature::with_contract_v(&payment.signature)
}

/// Whether an event is the proxy's report that it has settled a permit.
fn is_settled_event(proxy: Address, log: &Log) -> bool {
    let settled_events =
        [IProxy::Settled::SIGNATURE_HASH, IProxy::SettledWithPermit::SIGNATURE_HASH];
    log.address == proxy && log.topics.first().is_some_and(|event| settled_events.contains(event))
}

/// Whether an event of the proxy follows a transfer of this payment, with no other transfer between them.
fn has_settled_transfer(proxy: Address, payment: &Payment, logs: &[Log]) -> bool {
    let mut last = None;
    for log in logs {
        if is_settled_event(proxy, log) {
            if last.take().is_some_and(|moved| is_transfer_of(payment, moved)) {
                return true;
            }
        } else if log.topics.first() == Some(&IErc20::Transfer::SIGNATURE_HASH) {
            last = Some(log);
        }
    }
    false
}
