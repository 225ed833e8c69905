//! The transactions of a trade, and their rehearsal: the whole plan is simulated from our address in the next block
//! before it is shown or executed.

use alloy_primitives::{Bytes, U256};
use bursar_chain::ports::{Chain, NextBlock, SimulationRequest};
use bursar_chain::simulate::{Simulation, Simulator};
use bursar_chain::{data_fee, revert};
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_core::text;
use bursar_domain::Refusal;
use bursar_domain::plan::{Effects, StepPurpose};
use bursar_domain::trades::Venue;
use bursar_submit::fees::{self, FeeFacts};
use bursar_submit::{Call, Fees};
use bursar_uniswap::decode::decode_call;
use bursar_uniswap::{Decoded, NativeSide, Permit, Terms, V3Swap, V4Swap, swap};

use super::effects;
use super::market::Market;
use super::permit::{Accepted, RouterRight};
use super::spec::Spec;

/// Gas limits of a rehearsal. The steps of the plan get limits from what the rehearsal used.
const SWAP_GAS: u64 = 3_000_000;
const APPROVAL_GAS: u64 = 300_000;

/// One part of a plan, with the call that the rehearsal makes for it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    pub(super) call: Call,
}

/// How a part is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// A transaction with the same call.
    Step(StepPurpose),
    /// A signature that the swap contains. It needs no transaction; the rehearsal sets the allowance directly.
    Permit(Permit),
}

/// A rehearsed plan.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// In order; the last one is the swap.
    pub(super) parts: Vec<Part>,
    pub(super) effects: Effects,
    /// The output that arrived in the rehearsal; `None` if it did not show it.
    pub(super) received: Option<Atoms>,
    /// What the parts do, decoded from their call data.
    pub(super) calls: Vec<Decoded>,
    /// The most to offer for a unit of gas, in wei.
    pub(super) ceiling: u128,
    /// The worst cost of all steps, in wei, without the value that they send.
    pub(super) cost: U256,
    /// The newest block.
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
    terms: &Accepted,
) -> Result<Plan, Refusal> {
    let facts = &market.fees;
    let fees = offer(spec, facts)?;
    let mut parts = parts(spec, market, terms)?;
    let request = request(spec, market, facts, &fees, &parts);
    let (mut simulated, mut data_fees) = simulate(chain, simulator, spec, request, &parts).await?;
    if let Some(reset) = reset(spec, market)
        && simulated.failure().is_some_and(|(at, _failed)| at == 0)
    {
        // Some tokens only change an allowance that is zero.
        parts.insert(0, reset);
        let request = self::request(spec, market, facts, &fees, &parts);
        (simulated, data_fees) = simulate(chain, simulator, spec, request, &parts).await?;
    }
    if let Some((_at, failed)) = simulated.failure() {
        let reason = text::quoted(&reason(&failed.data), 200);
        let message = format!("The trade would fail: the contract reports {reason}.");
        return Err(Refusal::because(Code::WouldFail, message));
    }
    let shown = effects::check(spec, market, terms, &simulated)?;
    let calls: Vec<Decoded> = parts.iter().map(|part| decoded(spec, part)).collect();
    // A call that the operator could not read is not executed without approval.
    let is_known = !calls.iter().any(|call| matches!(call, Decoded::Unknown { .. }));
    let effects = if is_known { shown.effects } else { Effects::Unproven };
    for (part, outcome) in parts.iter_mut().zip(&simulated.calls) {
        if let Some(used) = outcome.as_ref().and_then(|call| call.gas_used) {
            // The cost can rise in a later block.
            part.call.gas_limit = used.saturating_add(used / 2).saturating_add(30_000);
        }
    }
    let ceiling = fees.max_price().saturating_mul(2).min(spec.network.gas.ceiling);
    let cost = worst_cost(&parts, &data_fees, ceiling).ok_or_else(unavailable)?;
    let block = facts.block.unwrap_or(0);
    Ok(Plan { parts, effects, received: shown.received, calls, ceiling, cost, block })
}

/// Reads back what the call of a part does. A permit is rehearsed as the call that gives the same allowance.
fn decoded(spec: &Spec<'_>, part: &Part) -> Decoded {
    let Call { to, value, data, gas_limit: _ } = part.call.clone();
    decode_call(spec.exchange, spec.owner, &swap::Call { to, value, data })
}

fn unavailable() -> Refusal {
    Refusal::new(Code::ChainUnavailable)
}

fn offer(spec: &Spec<'_>, facts: &FeeFacts) -> Result<Fees, Refusal> {
    let gas = &spec.network.gas;
    let quote = fees::quote(gas, facts).map_err(|_unusable| unavailable())?;
    fees::within(&quote, gas.ceiling).ok_or_else(|| {
        let message = "Gas costs more than Bursar's maximum: try again when it is cheaper.";
        Refusal::because(Code::ChainUnavailable, message)
    })
}

fn parts(spec: &Spec<'_>, market: &Market, terms: &Accepted) -> Result<Vec<Part>, Refusal> {
    let mut parts = Vec::with_capacity(4);
    parts.extend(approval(spec, market));
    if let RouterRight::Missing(permit) = &terms.right {
        parts.push(permit_part(spec, permit)?);
    }
    let swap = PartKind::Step(StepPurpose::Swap);
    parts.push(Part { kind: swap, call: swap_call(spec, terms)? });
    Ok(parts)
}

/// Returns what a unit of gas costs now, in wei.
///
/// # Errors
/// `CHAIN_UNAVAILABLE`, also if gas costs more than Bursar's maximum.
pub(super) fn gas_price(spec: &Spec<'_>, facts: &FeeFacts) -> Result<u128, Refusal> {
    Ok(expected_price(facts, &offer(spec, facts)?))
}

fn expected_price(facts: &FeeFacts, fees: &Fees) -> u128 {
    match *fees {
        Fees::Legacy { gas_price } => gas_price,
        Fees::Dynamic { max_fee, tip } => {
            max_fee.min(facts.base_fee.unwrap_or(0).saturating_add(tip))
        }
    }
}

/// Returns the step that lets the venue's contract take exactly the input; `None` if it may already.
fn approval(spec: &Spec<'_>, market: &Market) -> Option<Part> {
    let (token, spender) = (spec.token_in.address?, spec.spender()?);
    if market.allowance >= spec.amount_in.0 {
        return None;
    }
    let call = with_gas(swap::approve(token, spender, spec.amount_in.0), APPROVAL_GAS);
    Some(Part { kind: PartKind::Step(StepPurpose::Allowance), call })
}

/// Returns the step that sets an allowance to zero before it is changed; `None` if it is zero, or enough.
fn reset(spec: &Spec<'_>, market: &Market) -> Option<Part> {
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

/// Returns the call that takes back what a plan leaves; `None` if the venue takes no allowance.
pub(super) fn revocation(spec: &Spec<'_>) -> Option<Call> {
    let (token, spender) = (spec.token_in.address?, spec.spender()?);
    Some(with_gas(swap::approve(token, spender, U256::ZERO), APPROVAL_GAS))
}

fn with_gas(call: swap::Call, gas_limit: u64) -> Call {
    Call { to: call.to, value: call.value, data: call.data, gas_limit }
}

fn swap_call(spec: &Spec<'_>, accepted: &Accepted) -> Result<Call, Refusal> {
    let Accepted { floor, deadline, right } = accepted;
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
            // The path of one pool has no other price limit than the terms.
            let swap = V4Swap { path: &path, terms, hop_prices: &[], permit };
            swap::v4_exact_input(spec.exchange, &swap)
        }
    };
    Ok(with_gas(call.map_err(|fault| unsendable(&fault))?, SWAP_GAS))
}

fn unsendable(fault: &dyn std::error::Error) -> Refusal {
    Refusal::because(Code::QuoteFailed, format!("This trade cannot be sent: {fault}."))
}

fn request(
    spec: &Spec<'_>,
    market: &Market,
    facts: &FeeFacts,
    fees: &Fees,
    parts: &[Part],
) -> SimulationRequest {
    let gas_price = expected_price(facts, fees);
    let next = facts.block.map(|block| NextBlock {
        number: block.saturating_add(1),
        timestamp: market.block_time.saturating_add(1),
        base_fee: facts.base_fee,
        gas_price,
    });
    SimulationRequest {
        from: spec.owner,
        calls: parts.iter().map(|part| part.call.clone()).collect(),
        reads: effects::reads(spec),
        block: next,
    }
}

/// Simulates the parts and asks for the data fee of each, at once.
async fn simulate(
    chain: &dyn Chain,
    simulator: &Simulator,
    spec: &Spec<'_>,
    request: SimulationRequest,
    parts: &[Part],
) -> Result<(Simulation, Vec<U256>), Refusal> {
    let fees = parts.iter().map(|part| {
        let fields = match part.kind {
            // The signature and the other fields of any such transaction.
            PartKind::Step(_) => 200,
            // In the swap, a permit takes more room than the call of its rehearsal.
            PartKind::Permit(_) => 400,
        };
        let bytes = part.call.data.len().saturating_add(fields);
        data_fee::upper_bound(chain, &spec.network.gas, bytes)
    });
    let simulated = simulator.run(chain, request);
    let fees = futures::future::try_join_all(fees);
    let both = futures::future::try_join(simulated, fees).await;
    both.map_err(|_fault| unavailable())
}

/// Returns the worst cost of all parts, in wei; `None` on overflow.
fn worst_cost(parts: &[Part], data_fees: &[U256], ceiling: u128) -> Option<U256> {
    parts.iter().zip(data_fees).try_fold(U256::ZERO, |cost, (part, data_fee)| {
        let gas = U256::from(part.call.gas_limit).checked_mul(U256::from(ceiling))?;
        cost.checked_add(gas)?.checked_add(*data_fee)
    })
}

/// Returns the reason of a revert: that of the exchange's contracts, or the text of any contract.
fn reason(data: &Bytes) -> String {
    let known = bursar_uniswap::errors::reason(data);
    if known.is_empty() { revert::reason(data) } else { known }
}
