//! The transactions of a trade, and their rehearsal: the whole plan is simulated from our address in the next block
//! before it is shown or executed.

use alloy_primitives::{Bytes, U256};
use bursar_chain::ports::Chain;
use bursar_chain::revert;
use bursar_chain::simulate::Simulator;
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_core::text;
use bursar_domain::Refusal;
use bursar_domain::effects::Effects;
use bursar_domain::plan::StepPurpose;
use bursar_domain::trades::Venue;
use bursar_submit::Call;
use bursar_uniswap::decode::decode_call;
use bursar_uniswap::{Decoded, NativeSide, Permit, Terms, V3Swap, V4Swap, swap};

use super::effects;
use super::market::Market;
use super::permit::{RouterRight, SwapTerms};
use super::spec::Spec;
use crate::lanes::rehearsal::{APPROVAL_GAS, Part, PartKind, Sender};

/// The gas limit of a swap in a rehearsal. The executed step gets a limit from the gas that the rehearsal used.
const SWAP_GAS: u64 = 3_000_000;

/// A rehearsed plan.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The steps in their order; the last one is the swap.
    pub(super) parts: Vec<Part>,
    pub(super) effects: Effects,
    /// The output that arrived in the rehearsal; `None` if the rehearsal did not show it.
    pub(super) received: Option<Atoms>,
    /// The calls of the parts, decoded from their call data.
    pub(super) calls: Vec<Decoded>,
    /// Maximum price to offer for a unit of gas, in wei.
    pub(super) gas_price_max: u128,
    /// The highest possible cost of all steps, in wei, without the value that they send.
    pub(super) cost: U256,
    /// The number of the newest block.
    pub(super) block: u64,
}

/// Makes and rehearses the transactions of a trade with these terms.
///
/// # Errors
/// The trade would fail or do something else than swap, gas is too expensive, or no node answers.
pub(super) async fn rehearse(
    chain: &dyn Chain,
    simulator: &Simulator,
    spec: &Spec<'_>,
    market: &Market,
    terms: &SwapTerms,
) -> Result<Plan, Refusal> {
    let sender = sender(spec, market);
    let fees = sender.offer()?;
    let mut parts = parts(spec, market, terms)?;
    let reads = effects::reads(spec);
    let mut rehearsed = sender.rehearse(chain, simulator, &fees, &parts, reads.clone()).await?;
    if let Some(reset) = reset_part(spec, market)
        && rehearsed.simulated.failure().is_some_and(|(at, _failed)| at == 0)
    {
        // Some tokens refuse to change an allowance that is not zero.
        parts.insert(0, reset);
        rehearsed = sender.rehearse(chain, simulator, &fees, &parts, reads).await?;
    }
    if let Some((_at, failed)) = rehearsed.simulated.failure() {
        let reason = text::quoted(&revert_reason(&failed.data), 200);
        let message = format!("The trade would fail: the contract reports {reason}.");
        return Err(Refusal::because(Code::WouldFail, message));
    }
    let shown = effects::check(spec, market, terms, &rehearsed.simulated)?;
    let calls: Vec<Decoded> = parts.iter().map(|part| decode_part(spec, part)).collect();
    // A call that the operator could not read is not executed without approval.
    let is_known = !calls.iter().any(|call| matches!(call, Decoded::Unknown { .. }));
    let effects = if is_known { shown.effects } else { Effects::Unproven };
    rehearsed.set_gas_limits(&mut parts);
    let ceiling = sender.gas_price_max(&fees);
    let cost = rehearsed.worst_cost(&parts, ceiling)?;
    let block = market.fees.block.unwrap_or(0);
    Ok(Plan {
        parts,
        effects,
        received: shown.received,
        calls,
        gas_price_max: ceiling,
        cost,
        block,
    })
}

/// Returns the sender of the plan, with the chain state that the fees depend on.
pub(super) fn sender<'a>(spec: &'a Spec<'_>, market: &'a Market) -> Sender<'a> {
    Sender {
        owner: spec.owner,
        gas: &spec.network.gas,
        facts: &market.fees,
        block_time: market.block_time,
        native: market.native_balance,
    }
}

/// Decodes the call of a part. For a permit, this is the call that gives the same allowance.
fn decode_part(spec: &Spec<'_>, part: &Part) -> Decoded {
    let Call { to, value, data, gas_limit: _ } = part.call.clone();
    decode_call(spec.exchange, spec.owner, &swap::Call { to, value, data })
}

fn parts(spec: &Spec<'_>, market: &Market, terms: &SwapTerms) -> Result<Vec<Part>, Refusal> {
    let mut parts = Vec::with_capacity(4);
    parts.extend(approval_part(spec, market));
    if let RouterRight::Missing(permit) = &terms.right {
        parts.push(permit_part(spec, permit)?);
    }
    let swap = PartKind::Step(StepPurpose::Swap);
    parts.push(Part { kind: swap, call: swap_call(spec, terms)? });
    Ok(parts)
}

/// Returns the step that lets the venue's contract take exactly the input; `None` if the contract may take it
/// already.
fn approval_part(spec: &Spec<'_>, market: &Market) -> Option<Part> {
    let (token, spender) = (spec.token_in.address?, spec.spender()?);
    if market.allowance >= spec.amount_in.0 {
        return None;
    }
    let call = with_gas(swap::approve(token, spender, spec.amount_in.0), APPROVAL_GAS);
    Some(Part { kind: PartKind::Step(StepPurpose::Allowance), call })
}

/// Returns the step that sets an allowance to zero before it is changed; `None` if the allowance is zero or
/// sufficient.
fn reset_part(spec: &Spec<'_>, market: &Market) -> Option<Part> {
    if market.allowance.is_zero() || market.allowance >= spec.amount_in.0 {
        return None;
    }
    let call = revocation(spec)?;
    Some(Part { kind: PartKind::Step(StepPurpose::AllowanceReset), call })
}

/// Returns a permit, rehearsed as the call that gives the same allowance.
fn permit_part(spec: &Spec<'_>, permit: &Permit) -> Result<Part, Refusal> {
    let call = swap::permit2_approve(
        spec.exchange.permit2,
        permit.token,
        permit.spender,
        permit.amount,
        permit.expiration,
    );
    let call = call.map_err(|fault| unsendable(&fault))?;
    Ok(Part { kind: PartKind::Permit(*permit), call: with_gas(call, APPROVAL_GAS) })
}

/// Returns the call that revokes the allowance that a plan leaves; `None` if the venue needs no allowance.
pub(super) fn revocation(spec: &Spec<'_>) -> Option<Call> {
    let (token, spender) = (spec.token_in.address?, spec.spender()?);
    Some(with_gas(swap::approve(token, spender, U256::ZERO), APPROVAL_GAS))
}

fn with_gas(call: swap::Call, gas_limit: u64) -> Call {
    Call { to: call.to, value: call.value, data: call.data, gas_limit }
}

fn swap_call(spec: &Spec<'_>, accepted: &SwapTerms) -> Result<Call, Refusal> {
    let SwapTerms { floor, deadline, right } = accepted;
    let terms = Terms { amount_in: spec.amount_in.0, min_out: floor.0, deadline: *deadline };
    let call = match spec.venue {
        Venue::Wrap => Ok(swap::wrap(spec.exchange, spec.amount_in.0)),
        Venue::Unwrap => Ok(swap::unwrap(spec.exchange, spec.amount_in.0)),
        Venue::V3 { .. } | Venue::V3Path { .. } => {
            let path = spec.v3_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
            let native = match (spec.token_in.address, spec.token_out.address) {
                (None, _) => NativeSide::Input,
                (_, None) => NativeSide::Output,
                (Some(_), Some(_)) => NativeSide::Neither,
            };
            let swap = V3Swap { path: &path, native, terms, owner: spec.owner };
            swap::v3_exact_input(spec.exchange, &swap)
        }
        Venue::V4 { .. } => {
            let (_pool, path) = spec.v4_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
            let permit = match right {
                RouterRight::Signed(permit) => Some(permit),
                RouterRight::NotNeeded | RouterRight::Allowed(_) | RouterRight::Missing(_) => None,
            };
            // With a single pool, the terms already limit the price, so no limit per hop is needed.
            let swap = V4Swap { path: &path, terms, hop_prices: &[], permit };
            swap::v4_exact_input(spec.exchange, &swap)
        }
    };
    Ok(with_gas(call.map_err(|fault| unsendable(&fault))?, SWAP_GAS))
}

fn unsendable(fault: &dyn std::error::Error) -> Refusal {
    Refusal::because(Code::QuoteFailed, format!("This trade cannot be sent: {fault}."))
}

/// Returns the reason of a revert: a known error of the exchange's contracts, otherwise the standard revert reason.
fn revert_reason(data: &Bytes) -> String {
    let known = bursar_uniswap::errors::reason(data);
    if known.is_empty() { revert::reason(data) } else { known }
}
