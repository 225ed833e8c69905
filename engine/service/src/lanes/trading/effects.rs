//! The effects of a rehearsed plan: exactly the input leaves, at least the floor arrives, and no other balance or
//! allowance of ours changes.

use alloy_primitives::{Address, U256};
use bursar_chain::multicall::native_balance;
use bursar_chain::ports::{Log, ReadCall, SimulatedCall, Transfer};
use bursar_chain::simulate::{Simulation, SimulationMethod};
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_domain::Refusal;
use bursar_domain::effects::Effects;
use bursar_uniswap::fill;
use bursar_uniswap::read::decode_permit2_allowance;

use super::market::Market;
use super::permit::{RouterRight, SwapTerms};
use super::spec::Spec;

/// The result of simulating a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimulationResult {
    pub(super) effects: Effects,
    /// The output that arrived; `None` if the simulation did not show it.
    pub(super) received: Option<Atoms>,
}

impl SimulationResult {
    const NOTHING: Self = Self { effects: Effects::Unproven, received: None };
}

/// Returns the reads after the plan: the balances of both tokens, the input token's allowance, and the allowance
/// within Permit2.
pub(super) fn reads(spec: &Spec<'_>) -> Vec<ReadCall> {
    let balance = |token: Option<Address>| match token {
        Some(to) => ReadCall { to, data: token::balance_call(spec.owner) },
        None => native_balance(spec.owner),
    };
    let mut reads = vec![balance(spec.token_in.address), balance(spec.token_out.address)];
    reads.extend(
        spec.token_in
            .address
            .zip(spec.spender())
            .map(|(to, spender)| ReadCall { to, data: token::allowance_call(spec.owner, spender) }),
    );
    reads.extend(spec.router_allowance().map(|data| ReadCall { to: spec.exchange.permit2, data }));
    reads
}

/// Checks the simulated effects of a plan.
///
/// # Errors
/// `WOULD_FAIL` if another amount moves than expected, if another token or allowance of ours changes, or if an
/// allowance remains.
pub(super) fn check(
    spec: &Spec<'_>,
    market: &Market,
    terms: &SwapTerms,
    simulated: &Simulation,
) -> Result<SimulationResult, Refusal> {
    let wrong = |what: &str| {
        let message = format!("The trade would have unexpected effects: {what}.");
        Err(Refusal::because(Code::WouldFail, message))
    };
    let Some(reads) = &simulated.reads else { return Ok(SimulationResult::NOTHING) };
    // Balances of the native coin also change by gas; its transfers are checked below.
    if spec.token_in.address.is_some() {
        let left = market.balance_in.checked_sub(spec.amount_in.0);
        if number(reads, 0) != left {
            return wrong("the input token does not move exactly the requested amount");
        }
    }
    let gained = number(reads, 1).and_then(|after| after.checked_sub(market.balance_out));
    let arrives = gained.is_some_and(|gained| gained >= terms.floor.0);
    if spec.token_out.address.is_some() && !arrives {
        return wrong("less than the minimum arrives at the paying address");
    }
    if let Err(what) = check_allowances(spec, market, terms, reads) {
        return wrong(what);
    }
    // Gas changes balances of the native coin too.
    let received = gained.map(Atoms).filter(|_any| spec.token_out.address.is_some());
    if simulated.method != SimulationMethod::SimulateV1 {
        return Ok(SimulationResult { received, ..SimulationResult::NOTHING });
    }
    let calls: Vec<&SimulatedCall> = simulated.calls.iter().flatten().collect();
    if calls.iter().flat_map(|call| &call.logs).any(|log| is_foreign(spec, log)) {
        return wrong("another token or allowance of the paying address changes");
    }
    // The routers compare the floor with the amount that the pool pays, not with the amount that arrives.
    if spec.token_out.address.is_some()
        && let Some(paid) = paid_by_pool(spec, &calls)
        && gained.is_none_or(|gained| gained < paid)
    {
        return wrong("the output token keeps a part of each transfer");
    }
    match check_native(spec, terms.floor, &calls) {
        Ok(back) => {
            let native = spec.token_out.address.is_none().then_some(Atoms(back));
            Ok(SimulationResult { effects: Effects::Proven, received: received.or(native) })
        }
        Err(what) => wrong(what),
    }
}

/// Checks that none of the allowances that the plan gave remains.
fn check_allowances(
    spec: &Spec<'_>,
    market: &Market,
    terms: &SwapTerms,
    reads: &[SimulatedCall],
) -> Result<(), &'static str> {
    if spec.spender().is_some() {
        let before = market.allowance;
        let expected = if before >= spec.amount_in.0 {
            [before.saturating_sub(spec.amount_in.0), before]
        } else {
            [U256::ZERO, U256::ZERO]
        };
        let after = number(reads, 2);
        if !after.is_some_and(|after| expected.contains(&after)) {
            return Err("an allowance remains");
        }
    }
    if spec.router_allowance().is_some() {
        let left = reads.get(3).filter(|read| read.ok);
        let left = left.and_then(|read| decode_permit2_allowance(&read.data).ok());
        let expected = match &terms.right {
            RouterRight::NotNeeded => None,
            RouterRight::Allowed(before) => before.after_use(spec.amount_in.0),
            RouterRight::Signed(_) | RouterRight::Missing(_) => Some(U256::ZERO),
        };
        if left.map(|left| left.amount) != expected {
            return Err("an allowance of Permit2 remains");
        }
    }
    Ok(())
}

/// Returns the answer to one of [`reads`], if it is a number.
fn number(reads: &[SimulatedCall], at: usize) -> Option<U256> {
    let read = reads.get(at).filter(|read| read.ok && read.data.len() == 32);
    read.map(|read| U256::from_be_slice(&read.data))
}

/// Returns the output that the last pool's event reports; `None` if there is no such event, or if a hook may change the
/// amount.
fn paid_by_pool(spec: &Spec<'_>, calls: &[&SimulatedCall]) -> Option<U256> {
    let logs = calls.iter().flat_map(|call| &call.logs);
    let logs: Vec<fill::Log> = logs.cloned().map(fill_log).collect();
    fill::net_received(&spec.pool_output()?, &logs)
}

/// Converts an event for `bursar_uniswap`.
pub(super) fn fill_log(log: Log) -> fill::Log {
    fill::Log { address: log.address, topics: log.topics, data: log.data }
}

/// Checks the transfers of the native coin: exactly the input leaves, or at least the floor arrives. Returns the amount
/// that arrives, in wei.
fn check_native(
    spec: &Spec<'_>,
    floor: Atoms,
    calls: &[&SimulatedCall],
) -> Result<U256, &'static str> {
    let sum = |which: &dyn Fn(&Transfer) -> bool| {
        let each = calls.iter().flat_map(|call| &call.native_transfers);
        each.filter(|transfer| which(transfer))
            .try_fold(U256::ZERO, |sum, transfer| sum.checked_add(transfer.value))
    };
    let out = sum(&|transfer| transfer.from == spec.owner && transfer.to != spec.owner);
    let back = sum(&|transfer| transfer.to == spec.owner && transfer.from != spec.owner);
    let (Some(out), Some(back)) = (out, back) else {
        return Err("the sum of its native transfers overflows");
    };
    let (expected_out, least_back) = match (spec.token_in.address, spec.token_out.address) {
        (None, _) => (spec.amount_in.0, U256::ZERO),
        (_, None) => (U256::ZERO, floor.0),
        (Some(_), Some(_)) => (U256::ZERO, U256::ZERO),
    };
    let exact_back = spec.token_out.address.is_some();
    if out != expected_out || back < least_back || (exact_back && !back.is_zero()) {
        return Err("the native coin does not move as expected");
    }
    Ok(back)
}

/// Returns whether an event changes a balance or allowance of the paying address that a swap must not change.
fn is_foreign(spec: &Spec<'_>, log: &Log) -> bool {
    if let Some(moved) = token::transfer_of(log) {
        let ours = moved.from == spec.owner || moved.to == spec.owner;
        let wrapped = spec.exchange.wrapped_native;
        let sides = [spec.token_in.address, spec.token_out.address];
        // Some versions of the wrapped coin report wrapping as a transfer.
        return ours && !sides.contains(&Some(log.address)) && log.address != wrapped;
    }
    if log.address == spec.exchange.permit2 && log.topics.get(1) == Some(&spec.owner.into_word()) {
        let [_event, _owner, token, spender] = log.topics[..] else { return true };
        let router = spec.exchange.v4.router.into_word();
        let input = spec.token_in.address.map(|token| token.into_word());
        return spec.router_allowance().is_none() || input != Some(token) || spender != router;
    }
    token::approval_of(log).is_some_and(|approval| {
        approval.owner == spec.owner
            && (Some(log.address) != spec.token_in.address
                || Some(approval.spender) != spec.spender())
    })
}
