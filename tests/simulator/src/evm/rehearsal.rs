//! Simulations of a plan, and the effects that they prove.

use std::collections::BTreeMap;

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_auditor::observations::{Observation, Rehearsal, Rehearsed};
use bursar_chain::ports::{Log, SimulatedBlock, SimulatedCall, SimulationRequest, Transfer};
use bursar_submit::Call;

use super::abi;
use super::ledger::Ledger;
use super::loan_notes::SimulatedLoan as RehearsedLoan;
use super::loan_terms::loan_terms;
use super::machine::{Env, Machine, Reverted, word};
use super::notes;
use super::raw::{Hop, SwapTerms, swap_terms};
use super::state::State;

const PLAIN_GAS: u64 = 21_000;

/// Returns the gas of a transaction with this call.
pub(crate) fn gas_of(data: &[u8], used: u64) -> u64 {
    PLAIN_GAS + used + 16 * u64::try_from(data.len()).unwrap_or(0)
}

/// Simulates a whole plan. With `ignores_failures`, a failing plan appears to have the effects that it promises.
pub(crate) fn simulate_plan(
    ledger: &Ledger,
    request: &SimulationRequest,
    ignores_failures: bool,
) -> (SimulatedBlock, Vec<Observation>) {
    let time = request.block.map_or(ledger.time, |block| block.timestamp);
    let env = Env { time, ..ledger.env() };
    let before = &ledger.shown_state();
    let mut state = before.clone();
    let mut calls = Vec::with_capacity(request.calls.len());
    for call in &request.calls {
        let mut machine = Machine::new(env, &mut state);
        let done = machine.run(request.from, call.to, call.value, &call.data);
        calls.push(SimulatedCall {
            ok: done.is_ok(),
            data: done.unwrap_or_else(|data| data),
            gas_used: Some(gas_of(&call.data, machine.gas)),
            logs: machine.logs,
            native_transfers: machine.transfers,
        });
    }
    let reads = request.reads.iter().map(|read| {
        let done = Machine::new(env, &mut state.clone()).run(
            request.from,
            read.to,
            U256::ZERO,
            &read.data,
        );
        SimulatedCall::without_details(done.is_ok(), done.unwrap_or_else(|data| data))
    });
    let reads: Vec<SimulatedCall> = reads.collect();
    let terms = request
        .calls
        .last()
        .and_then(|call| swap_terms(&ledger.contracts, call.to, call.value, &call.data));
    let Some(terms) = terms else {
        let succeeded = calls.iter().all(|call| call.ok);
        let loan = RehearsedLoan {
            contracts: &ledger.contracts,
            before,
            after: &state,
            owner: request.from,
            time,
            calls: &request.calls,
            succeeded,
        };
        let notes = loan.notes();
        return (SimulatedBlock { calls, reads }, notes);
    };
    let proved = calls.iter().all(|call| call.ok)
        && keeps_promise(ledger, before, &state, request.from, &terms, &calls);
    let outcome = if proved { Rehearsal::Proved } else { Rehearsal::Failed };
    let note = note(ledger, request.from, &terms, outcome);
    if ignores_failures && !proved {
        return (promised_outcome(ledger, request, &terms), vec![note]);
    }
    (SimulatedBlock { calls, reads }, vec![note])
}

/// Planted bug: rehearsals of plans with an approval, reused for the plan's last call once the approval is mined.
#[derive(Debug, Default)]
pub(crate) struct ReusedRehearsals(BTreeMap<(Address, Address, Bytes), SimulatedBlock>);

impl ReusedRehearsals {
    /// Returns the earlier rehearsal if the plan's approval is mined. Otherwise stores and returns this one.
    pub(crate) fn replace(
        &mut self,
        request: &SimulationRequest,
        block: SimulatedBlock,
    ) -> SimulatedBlock {
        let Some(last) = request.calls.last() else { return block };
        let key = (request.from, last.to, last.data.clone());
        if request.calls.len() > 1 {
            self.0.insert(key, block.clone());
            return block;
        }
        match self.0.get(&key) {
            Some(earlier) if earlier.reads.len() == block.reads.len() => {
                let calls = earlier.calls.last().cloned().into_iter().collect();
                SimulatedBlock { calls, reads: earlier.reads.clone() }
            }
            _none => block,
        }
    }
}

fn note(ledger: &Ledger, from: Address, terms: &SwapTerms, outcome: Rehearsal) -> Observation {
    Observation::Rehearsed(Rehearsed {
        chain: ledger.contracts.network.chain.0,
        from: notes::text(from),
        token_in: notes::text(terms.token_in),
        token_out: notes::text(terms.token_out),
        amount_in: notes::atoms(terms.amount_in),
        outcome,
    })
}

/// Returns whether exactly the input leaves, at least the minimum and the pool's output arrives, and no allowance
/// remains.
fn keeps_promise(
    ledger: &Ledger,
    before: &State,
    after: &State,
    owner: Address,
    terms: &SwapTerms,
    calls: &[SimulatedCall],
) -> bool {
    let left =
        before.balance(terms.token_in, owner).checked_sub(after.balance(terms.token_in, owner));
    let gained =
        after.balance(terms.token_out, owner).checked_sub(before.balance(terms.token_out, owner));
    let arrives = gained.is_some_and(|gained| gained >= terms.least_out);
    let exchange = ledger.contracts.exchange;
    let router_paid = calls.iter().flat_map(|call| &call.logs).filter_map(reported_output).last();
    let whole = terms.token_out.is_zero()
        || changes_amounts(terms)
        || router_paid.is_none_or(|paid| gained.is_some_and(|gained| gained >= paid));
    let spenders = [exchange.v3.router, exchange.permit2];
    let returned = spenders.iter().all(|spender| {
        let had = before.allowance(terms.token_in, owner, *spender);
        let has = after.allowance(terms.token_in, owner, *spender);
        has.is_zero() || has == had || (had >= terms.amount_in && has == had - terms.amount_in)
    });
    left == Some(terms.amount_in) && arrives && whole && returned
}

fn changes_amounts(terms: &SwapTerms) -> bool {
    terms.hops.iter().any(|hop| matches!(hop, Hop::V4 { hooks, .. } if hooks[19] & 0x0c != 0))
}

/// Returns the output that a pool reports in its event.
fn reported_output(log: &Log) -> Option<U256> {
    let topics = || log.topics.iter().copied();
    if log.topics.first() == Some(&abi::Pool3::Swap::SIGNATURE_HASH) {
        let swap = abi::Pool3::Swap::decode_raw_log_validate(topics(), &log.data).ok()?;
        let paid = if swap.amount0.is_negative() { swap.amount0 } else { swap.amount1 };
        return Some(paid.unsigned_abs());
    }
    if log.topics.first() == Some(&abi::Manager4::Swap::SIGNATURE_HASH) {
        let swap = abi::Manager4::Swap::decode_raw_log_validate(topics(), &log.data).ok()?;
        return Some(U256::from(swap.amount0.max(swap.amount1).unsigned_abs()));
    }
    None
}

/// Planted bug: returns the outcome that the plan promises.
fn promised_outcome(
    ledger: &Ledger,
    request: &SimulationRequest,
    terms: &SwapTerms,
) -> SimulatedBlock {
    let (state, owner) = (&ledger.state, request.from);
    let calls = request.calls.iter().enumerate().map(|(at, call)| {
        let is_last = at + 1 == request.calls.len();
        let moved = |from, to, value| Transfer { from, to, value };
        let mut native_transfers = Vec::new();
        if is_last && terms.token_in.is_zero() {
            native_transfers.push(moved(owner, call.to, terms.amount_in));
        }
        if is_last && terms.token_out.is_zero() {
            native_transfers.push(moved(call.to, owner, terms.least_out));
        }
        SimulatedCall {
            ok: true,
            data: Bytes::new(),
            gas_used: Some(250_000),
            logs: Vec::new(),
            native_transfers,
        }
    });
    let used = |had: U256| had.checked_sub(terms.amount_in).unwrap_or_default();
    let reads = request.reads.iter().map(|read| {
        let value = if let Ok(asked) = abi::Erc20::balanceOfCall::abi_decode_validate(&read.data) {
            let had = state.balance(read.to, asked.owner);
            if read.to == terms.token_in { used(had) } else { had + terms.least_out }
        } else if let Ok(asked) = abi::Erc20::allowanceCall::abi_decode_validate(&read.data) {
            used(state.allowance(read.to, asked.owner, asked.spender))
        } else if let Ok(asked) = abi::Permit2::allowanceCall::abi_decode_validate(&read.data) {
            let right = state.right(asked.user, asked.token, asked.spender);
            let data = (used(right.amount), U256::from(right.expiration), U256::from(right.nonce));
            let data = alloy_sol_types::SolValue::abi_encode(&data).into();
            return SimulatedCall::without_details(true, data);
        } else {
            state.native_of(owner)
        };
        SimulatedCall::without_details(true, word(value))
    });
    SimulatedBlock { calls: calls.collect(), reads: reads.collect() }
}

/// Runs Multicall3's code at the address of the account itself.
pub(crate) fn as_account(
    ledger: &Ledger,
    account: Address,
    call: &Call,
) -> (Result<Bytes, Reverted>, Vec<Observation>) {
    let calls = abi::Many::aggregate3ValueCall::abi_decode_validate(&call.data);
    let calls = calls.map(|decoded| decoded.calls).unwrap_or_default();
    let answer = || ledger.try_out(|machine| machine.multicall_as(account, &call.data));
    let step = |one: &abi::Many::OneWithValue| Call {
        to: one.target,
        value: one.value,
        data: one.callData.clone(),
        gas_limit: 0,
    };
    let swap = calls.iter().rposition(|one| {
        swap_terms(&ledger.contracts, one.target, one.value, &one.callData).is_some()
    });
    let Some(swap) = swap else {
        let loan = calls.iter().rposition(|one| {
            loan_terms(&ledger.contracts, &ledger.state, one.target, &one.callData).is_some()
        });
        let steps: Vec<Call> = calls.iter().take(loan.map_or(0, |at| at + 1)).map(step).collect();
        return (answer(), loan_notes(ledger, account, steps));
    };
    let one = &calls[swap];
    let terms = swap_terms(&ledger.contracts, one.target, one.value, &one.callData);
    let steps = calls[..=swap].iter().map(step);
    let request = SimulationRequest::of(account, steps.collect());
    let (_block, notes) = simulate_plan(ledger, &request, false);
    let failed = notes.iter().any(|note| {
        matches!(note, Observation::Rehearsed(Rehearsed { outcome: Rehearsal::Failed, .. }))
    });
    let outcome = if failed { Rehearsal::Failed } else { Rehearsal::Unavailable };
    let note = terms.map(|terms| self::note(ledger, account, &terms, outcome));
    (answer(), note.into_iter().collect())
}

/// Returns the observations of a loan's steps when their effects are not reported.
fn loan_notes(ledger: &Ledger, owner: Address, steps: Vec<Call>) -> Vec<Observation> {
    let (_block, mut notes) = simulate_plan(ledger, &SimulationRequest::of(owner, steps), false);
    for note in &mut notes {
        if let Observation::LoanRehearsed(loan) = note
            && loan.outcome == Rehearsal::Proved
        {
            loan.outcome = Rehearsal::Unavailable;
        }
    }
    notes
}

/// Returns the observations of a single call of a plan, on the newest block.
pub(crate) fn simulate_single(
    ledger: &Ledger,
    from: Address,
    call: &Call,
    ok: bool,
) -> Vec<Observation> {
    let Some(terms) = swap_terms(&ledger.contracts, call.to, call.value, &call.data) else {
        return loan_notes(ledger, from, vec![call.clone()]);
    };
    let exchange = ledger.contracts.exchange;
    let v4 = terms.hops.iter().any(|hop| matches!(hop, Hop::V4 { .. }));
    let spender = if v4 { exchange.permit2 } else { exchange.v3.router };
    let needs_none = terms.token_in.is_zero() || terms.hops.is_empty();
    let allowed = ledger.state.allowance(terms.token_in, from, spender) >= terms.amount_in;
    let right = ledger.state.right(from, terms.token_in, exchange.v4.router);
    let alone = needs_none || (allowed && (!v4 || right.amount >= terms.amount_in));
    let outcome = if !ok && alone { Rehearsal::Failed } else { Rehearsal::Unavailable };
    vec![note(ledger, from, &terms, outcome)]
}
