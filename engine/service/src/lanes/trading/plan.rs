//! The transactions of a trade, and their rehearsal: the whole plan is simulated from our address in the next block
//! before it is shown or executed.

use alloy_primitives::{Address, Bytes, U256};
use bursar_chain::multicall::native_balance;
use bursar_chain::ports::{
    Chain, Log, NextBlock, ReadCall, SimulatedCall, SimulationRequest, Transfer,
};
use bursar_chain::simulate::{Simulation, SimulationMethod, Simulator};
use bursar_chain::{data_fee, revert, token};
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_core::text;
use bursar_domain::Refusal;
use bursar_domain::trades::{Effects, StepPurpose, Venue};
use bursar_submit::fees::{self, FeeFacts};
use bursar_submit::{Call, Fees};
use bursar_uniswap::{NativeSide, Terms, V3Swap, V4Swap, swap};

use super::market::{Market, Spec};

/// Gas limits of a rehearsal. The steps of the plan get limits from what the rehearsal used.
const SWAP_GAS: u64 = 3_000_000;
const APPROVAL_GAS: u64 = 300_000;

/// One step that is ready to be opened.
#[derive(Debug, Clone)]
pub(super) struct ReadyStep {
    pub(super) purpose: StepPurpose,
    pub(super) call: Call,
}

/// A rehearsed plan.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// In order; the last one is the swap.
    pub(super) steps: Vec<ReadyStep>,
    pub(super) effects: Effects,
    /// The most to offer for a unit of gas, in wei.
    pub(super) ceiling: u128,
    /// The worst cost of all steps, in wei, without the value that they send.
    pub(super) cost: U256,
    /// The newest block.
    pub(super) block: u64,
}

/// Makes and rehearses the transactions of a trade that accepts `floor` or more.
///
/// # Errors
/// The trade would fail or do something else than swap, gas is too expensive, or no node answers.
pub(super) async fn rehearse(
    chain: &dyn Chain,
    simulator: &Simulator,
    spec: &Spec<'_>,
    market: &Market,
    floor: Atoms,
    deadline: u64,
) -> Result<Plan, Refusal> {
    let facts = chain.fee_facts().await.map_err(|_fault| unavailable())?;
    let fees = offer(spec, &facts)?;
    let mut steps = Vec::with_capacity(2);
    if let Some(approval) = approval(spec, market) {
        steps.push(approval);
    }
    steps.push(ReadyStep { purpose: StepPurpose::Swap, call: swap_call(spec, floor, deadline)? });
    let request = request(spec, market, &facts, &fees, &steps);
    let simulated = simulator.run(chain, request).await.map_err(|_fault| unavailable())?;
    if let Some((_at, failed)) = simulated.failure() {
        let reason = text::quoted(&reason(&failed.data), 200);
        let message = format!("The trade would fail: the contract reports {reason}.");
        return Err(Refusal::because(Code::WouldFail, message));
    }
    let effects = effects(spec, market, floor, &simulated)?;
    for (step, outcome) in steps.iter_mut().zip(&simulated.calls) {
        if let Some(used) = outcome.as_ref().and_then(|call| call.gas_used) {
            // The cost can rise in a later block.
            step.call.gas_limit = used.saturating_add(used / 2).saturating_add(30_000);
        }
    }
    let ceiling = fees.max_price().saturating_mul(2).min(spec.network.gas.ceiling);
    let cost = worst_cost(chain, spec, &steps, ceiling).await?;
    Ok(Plan { steps, effects, ceiling, cost, block: facts.block.unwrap_or(0) })
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

/// Returns the step that lets the venue's contract take exactly the input; `None` if it may already.
fn approval(spec: &Spec<'_>, market: &Market) -> Option<ReadyStep> {
    let (token, spender) = (spec.token_in.address?, spec.spender()?);
    if market.allowance >= spec.amount_in.0 {
        return None;
    }
    let call = swap::approve(token, spender, spec.amount_in.0);
    Some(ReadyStep { purpose: StepPurpose::Allowance, call: with_gas(call, APPROVAL_GAS) })
}

/// Returns the call that takes back what a plan leaves; `None` if the venue takes no allowance.
pub(super) fn revocation(spec: &Spec<'_>) -> Option<Call> {
    let (token, spender) = (spec.token_in.address?, spec.spender()?);
    Some(with_gas(swap::approve(token, spender, U256::ZERO), APPROVAL_GAS))
}

fn with_gas(call: swap::Call, gas_limit: u64) -> Call {
    Call { to: call.to, value: call.value, data: call.data, gas_limit }
}

fn swap_call(spec: &Spec<'_>, floor: Atoms, deadline: u64) -> Result<Call, Refusal> {
    let terms = Terms { amount_in: spec.amount_in.0, min_out: floor.0, deadline };
    let call = match spec.venue {
        Venue::Wrap => Ok(swap::wrap(spec.exchange, spec.amount_in.0)),
        Venue::Unwrap => Ok(swap::unwrap(spec.exchange, spec.amount_in.0)),
        Venue::V3 { .. } => {
            let (_pool, path) = spec.v3_path().ok_or_else(|| Refusal::new(Code::NoPool))?;
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
            let swap = V4Swap { path: &path, terms, hop_prices: &[], permit: None };
            swap::v4_exact_input(spec.exchange, &swap)
        }
    };
    let call = call.map_err(|fault| {
        Refusal::because(Code::QuoteFailed, format!("This trade cannot be sent: {fault}."))
    })?;
    Ok(with_gas(call, SWAP_GAS))
}

fn request(
    spec: &Spec<'_>,
    market: &Market,
    facts: &FeeFacts,
    fees: &Fees,
    steps: &[ReadyStep],
) -> SimulationRequest {
    let gas_price = match *fees {
        Fees::Legacy { gas_price } => gas_price,
        Fees::Dynamic { max_fee, tip } => {
            max_fee.min(facts.base_fee.unwrap_or(0).saturating_add(tip))
        }
    };
    let next = facts.block.map(|block| NextBlock {
        number: block.saturating_add(1),
        timestamp: market.block_time.saturating_add(1),
        base_fee: facts.base_fee,
        gas_price,
    });
    SimulationRequest {
        from: spec.owner,
        calls: steps.iter().map(|step| step.call.clone()).collect(),
        reads: reads(spec),
        block: next,
    }
}

/// Returns the reads after the plan: the balance of each side, and the allowance.
fn reads(spec: &Spec<'_>) -> Vec<ReadCall> {
    let balance = |token: Option<Address>| match token {
        Some(to) => ReadCall { to, data: token::balance_call(spec.owner) },
        None => native_balance(spec.owner),
    };
    let mut reads = vec![balance(spec.token_in.address), balance(spec.token_out.address)];
    reads.extend(
        spec.token_in
            .address
            .zip(spec.spender())
            .map(|(to, spender)| ReadCall { to, data: token::allowance(spec.owner, spender) }),
    );
    reads
}

/// Checks that the plan does what is expected.
///
/// # Errors
/// `WOULD_FAIL` if another amount moves than expected, if another token or allowance of ours changes, or if an
/// allowance remains.
fn effects(
    spec: &Spec<'_>,
    market: &Market,
    floor: Atoms,
    simulated: &Simulation,
) -> Result<Effects, Refusal> {
    let wrong = |what: &str| {
        let message = format!("The trade would do something else than swap: {what}.");
        Err(Refusal::because(Code::WouldFail, message))
    };
    let Some(reads) = &simulated.reads else { return Ok(Effects::Unproven) };
    let number = |at: usize| {
        let read = reads.get(at).filter(|read: &&SimulatedCall| read.ok && read.data.len() == 32);
        read.map(|read| U256::from_be_slice(&read.data))
    };
    // Balances of the native coin also change by gas; its transfers are checked below.
    if spec.token_in.address.is_some() {
        let left = market.balance_in.checked_sub(spec.amount_in.0);
        if number(0) != left {
            return wrong("the input token does not move exactly the requested amount");
        }
    }
    if spec.token_out.address.is_some() {
        let gained = number(1).and_then(|after| after.checked_sub(market.balance_out));
        if gained.is_none_or(|gained| gained < floor.0) {
            return wrong("less than the minimum arrives at the paying address");
        }
    }
    if spec.spender().is_some() {
        let before = market.allowance;
        let expected = if before >= spec.amount_in.0 {
            [before.saturating_sub(spec.amount_in.0), before]
        } else {
            [U256::ZERO, U256::ZERO]
        };
        if !number(2).is_some_and(|after| expected.contains(&after)) {
            return wrong("an allowance remains");
        }
    }
    if simulated.method != SimulationMethod::SimulateV1 {
        return Ok(Effects::Unproven);
    }
    let calls: Vec<&SimulatedCall> = simulated.calls.iter().flatten().collect();
    if calls.iter().flat_map(|call| &call.logs).any(|log| is_foreign(spec, log)) {
        return wrong("another token or allowance of the paying address changes");
    }
    check_native(spec, floor, &calls).map_or_else(wrong, |()| Ok(Effects::Proven))
}

/// Checks the transfers of the native coin: exactly the input leaves, or at least the floor arrives.
fn check_native(
    spec: &Spec<'_>,
    floor: Atoms,
    calls: &[&SimulatedCall],
) -> Result<(), &'static str> {
    let sum = |which: &dyn Fn(&Transfer) -> bool| {
        let each = calls.iter().flat_map(|call| &call.native_transfers);
        each.filter(|transfer| which(transfer))
            .try_fold(U256::ZERO, |sum, transfer| sum.checked_add(transfer.value))
    };
    let out = sum(&|transfer| transfer.from == spec.owner && transfer.to != spec.owner);
    let back = sum(&|transfer| transfer.to == spec.owner && transfer.from != spec.owner);
    let (Some(out), Some(back)) = (out, back) else { return Err("its native transfers overflow") };
    let (expected_out, least_back) = match (spec.token_in.address, spec.token_out.address) {
        (None, _) => (spec.amount_in.0, U256::ZERO),
        (_, None) => (U256::ZERO, floor.0),
        (Some(_), Some(_)) => (U256::ZERO, U256::ZERO),
    };
    let exact_back = spec.token_out.address.is_some();
    if out != expected_out || back < least_back || (exact_back && !back.is_zero()) {
        return Err("the native coin does not move as expected");
    }
    Ok(())
}

/// Returns whether an event shows a change of ours that a swap does not make.
fn is_foreign(spec: &Spec<'_>, log: &Log) -> bool {
    if let Some(moved) = token::transfer_of(log) {
        let ours = moved.from == spec.owner || moved.to == spec.owner;
        let wrapped = spec.exchange.wrapped_native;
        let sides = [spec.token_in.address, spec.token_out.address];
        // Some versions of the wrapped coin report wrapping as a transfer.
        return ours && !sides.contains(&Some(log.address)) && log.address != wrapped;
    }
    token::approval_of(log).is_some_and(|approval| {
        approval.owner == spec.owner
            && (Some(log.address) != spec.token_in.address
                || Some(approval.spender) != spec.spender())
    })
}

async fn worst_cost(
    chain: &dyn Chain,
    spec: &Spec<'_>,
    steps: &[ReadyStep],
    ceiling: u128,
) -> Result<U256, Refusal> {
    let mut cost = U256::ZERO;
    for step in steps {
        // 200 bytes cover the signature and the other fields of any such transaction.
        let bytes = step.call.data.len().saturating_add(200);
        let data = data_fee::upper_bound(chain, &spec.network.gas, bytes).await;
        let data = data.map_err(|_fault| unavailable())?;
        let gas = U256::from(step.call.gas_limit).checked_mul(U256::from(ceiling));
        let sum = gas.and_then(|gas| cost.checked_add(gas)).and_then(|sum| sum.checked_add(data));
        cost = sum.ok_or_else(unavailable)?;
    }
    Ok(cost)
}

/// Returns the reason of a revert: that of the exchange's contracts, or the text of any contract.
fn reason(data: &Bytes) -> String {
    let known = bursar_uniswap::errors::reason(data);
    if known.is_empty() { revert::reason(data) } else { known }
}
