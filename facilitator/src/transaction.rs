//! The transaction that carries payments out: what it calls, and with how much gas. Follows from the payments
//! alone, so that it is the same after a restart.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_submit::Call;
use bursar_submit::fees::batch_gas;

use crate::exact::{self, ContractCall, Place};
use crate::payment::Payment;

/// What a transaction takes before its call begins, its data included, with room.
const BASE_GAS: u64 = 60_000;
/// Data of one payment among others, rounded up.
const SHARED_BYTES: u64 = 800;
/// Gas for a factory to deploy a wallet: the largest that are known take half of it.
const DEPLOYMENT_GAS: u64 = 800_000;

/// What a byte of data takes at most where the data is all that there is (EIP-7623); else less.
const BYTE_GAS: u64 = 40;
/// The most that a transaction may ask for (EIP-7825).
pub const GAS_MAX: u64 = 1 << 24;

/// Whether a payment can share a transaction: one that fails, or wastes gas, must not spoil the others. That
/// goes for the payer's code and for the token's: only tokens that are known run among others.
pub fn can_share(payment: &Payment, is_known: impl Fn(Address) -> bool) -> bool {
    exact::method(payment.method).takes_any_caller()
        && !payment.contract_payer
        && payment.deployment.is_none()
        && is_known(payment.terms.token)
}

/// Whether two payments that can share a transaction may share the same one: its events must tell them apart.
pub fn tells_apart(one: &Payment, other: &Payment) -> bool {
    let apart = |method, one: &Payment, other: &Payment| {
        exact::method(method).tells_apart(&one.terms, &other.terms)
    };
    apart(one.method, one, other) && apart(other.method, one, other)
}

/// Gas for what these payments do. Never by `eth_estimateGas`, which is satisfied when the outer call
/// succeeds. `None` where it is more than a transaction may ask for.
pub fn gas(place: &Place, payments: &[&Payment], cap_contract: u64) -> Option<u64> {
    let work = match payments {
        [only] if only.deployment.is_some() => {
            BASE_GAS.checked_add(DEPLOYMENT_GAS)?.checked_add(cap_contract)?
        }
        [only] if only.contract_payer => BASE_GAS.checked_add(cap_contract)?,
        [only] => BASE_GAS.checked_add(exact::method(only.method).gas())?,
        several => {
            // The rule for batches adds half of it again.
            let used = |payment: &&Payment| {
                let most = exact::method(payment.method).gas();
                most.saturating_sub(most / 3)
            };
            batch_gas(&several.iter().map(used).collect::<Vec<_>>())?
        }
    };
    let bytes = u64::try_from(call(place, payments, 0).data.len()).ok()?;
    let all = work.checked_add(bytes.checked_mul(BYTE_GAS)?)?;
    (all <= GAS_MAX).then_some(all)
}

/// What a payment adds to the gas of a transaction that it shares.
pub fn share(payment: &Payment) -> u64 {
    let most = exact::method(payment.method).gas();
    most.saturating_add(most / 63).saturating_add(SHARED_BYTES.saturating_mul(BYTE_GAS))
}

/// What the transaction calls: the one contract for one payment, Multicall3 for several, and for a wallet
/// that is deployed first, for nobody's own account may call what a payer names.
pub fn call(place: &Place, payments: &[&Payment], gas_limit: u64) -> Call {
    let transfer = |payment: &Payment| exact::method(payment.method).transfer(place, payment);
    let ContractCall { to, data } = match payments {
        [only] => match &only.deployment {
            None => transfer(only),
            Some(deployment) => {
                let deploys =
                    ContractCall { to: deployment.factory, data: deployment.data.clone() };
                // It may be there already; the transfer decides.
                together(place, [(deploys, true), (transfer(only), false)])
            }
        },
        several => together(place, several.iter().map(|payment| (transfer(payment), true))),
    };
    Call { to, value: U256::ZERO, data, gas_limit }
}

fn together(place: &Place, calls: impl IntoIterator<Item = (ContractCall, bool)>) -> ContractCall {
    let each = calls.into_iter().map(|(call, may_fail)| IMulticall3::Call3 {
        target: call.to,
        allowFailure: may_fail,
        callData: call.data,
    });
    let data = IMulticall3::aggregate3Call { calls: each.collect() }.abi_encode();
    ContractCall { to: place.multicall3, data: Bytes::from(data) }
}
