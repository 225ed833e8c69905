//! Texts for the operator: the calls of a plan, and its progress.

use alloy_primitives::{Address, U256};
use bursar_core::money::Atoms;
use bursar_core::networks::{Exchange, by_chain};
use bursar_uniswap::Decoded;

use crate::loan_text;
use crate::plan::{Execution, Quote, StepPurpose};
use crate::requests::Request;
use crate::state::State;
use crate::trades::{TradeAsk, TradeQuote, TradeToken};

/// Describes the calls of a quote's plan in their order, like `approve exactly 30.000000 USDC for SwapRouter02`.
pub fn calls(trade: &TradeAsk, quote: &TradeQuote) -> Vec<String> {
    quote.calls.iter().map(|call| call_text(trade, quote.block_time, call)).collect()
}

/// Returns the number of transactions that a quote's plan sends.
pub fn transactions(quote: &TradeQuote) -> usize {
    purposes(quote).count()
}

/// Returns the purpose of each transaction of a quote's plan.
fn purposes_of(quote: &Quote) -> Vec<StepPurpose> {
    match quote {
        Quote::Trade(quote) => purposes(quote).collect(),
        Quote::Loan(quote) => loan_text::purposes(quote).collect(),
    }
}

/// Returns the purpose of each transaction of a trade's plan. A permit is a signature, not a transaction.
fn purposes(quote: &TradeQuote) -> impl Iterator<Item = StepPurpose> {
    quote.calls.iter().filter_map(|call| match call {
        Decoded::Approve { amount, .. } if amount.is_zero() => Some(StepPurpose::AllowanceReset),
        Decoded::Approve { .. } => Some(StepPurpose::Allowance),
        Decoded::Permit { .. } => None,
        Decoded::Wrap { .. }
        | Decoded::Unwrap { .. }
        | Decoded::Swap { .. }
        | Decoded::Unknown { .. } => Some(StepPurpose::Swap),
    })
}

fn call_text(trade: &TradeAsk, now: u64, call: &Decoded) -> String {
    let exchange = by_chain(trade.chain).and_then(|network| network.exchange);
    let amount = |token, atoms| amount_text(trade, exchange, token, atoms);
    let name = |contract| contract_name(exchange, contract);
    let within = |until: u64| format!("within {} s", until.saturating_sub(now));
    let native = |atoms| amount(Address::ZERO, atoms);
    match *call {
        Decoded::Approve { token, spender, amount: atoms } if atoms.is_zero() => {
            let what = symbol_text(trade, exchange, token);
            format!("take back the approval of {what} for {}", name(spender))
        }
        Decoded::Approve { token, spender, amount: atoms } => {
            format!("approve exactly {} for {}", amount(token, atoms), name(spender))
        }
        Decoded::Permit { token, spender, amount: atoms, until } => format!(
            "sign a Permit2 permit of exactly {} for {}, to use {}",
            amount(token, atoms),
            name(spender),
            within(until)
        ),
        Decoded::Wrap { amount: atoms } => format!("wrap exactly {}", native(atoms)),
        Decoded::Unwrap { amount: atoms } => format!("unwrap exactly {}", native(atoms)),
        Decoded::Swap { router, token_in, token_out, amount_in, min_out, until } => format!(
            "swap exactly {} for at least {} through {}, {}",
            amount(token_in, amount_in),
            amount(token_out, min_out),
            name(router),
            within(until)
        ),
        Decoded::Unknown { to } => format!("UNKNOWN call of {}", to.to_checksum(None)),
    }
}

/// Returns the side of the trade that a call names. Calls of v3 name the wrapped token in place of the native coin.
fn side<'a>(
    trade: &'a TradeAsk,
    exchange: Option<&Exchange>,
    token: Address,
) -> Option<&'a TradeToken> {
    let wrapped = exchange.map(|exchange| exchange.wrapped_native);
    let sides = [&trade.token_in, &trade.token_out];
    let exact = sides.into_iter().find(|side| side.address.unwrap_or_default() == token);
    let native = sides.into_iter().find(|side| side.address.is_none());
    exact.or(native.filter(|_native| wrapped == Some(token)))
}

fn amount_text(
    trade: &TradeAsk,
    exchange: Option<&Exchange>,
    token: Address,
    atoms: U256,
) -> String {
    match side(trade, exchange, token) {
        Some(side) => trade.amount_text(side, Atoms(atoms)),
        None => format!("{atoms} units of {}", token.to_checksum(None)),
    }
}

fn symbol_text(trade: &TradeAsk, exchange: Option<&Exchange>, token: Address) -> String {
    let known = side(trade, exchange, token).map(|side| trade.symbol_text(side));
    known.unwrap_or_else(|| token.to_checksum(None))
}

fn contract_name(exchange: Option<&Exchange>, contract: Address) -> String {
    let named = exchange.and_then(|exchange| match contract {
        router if router == exchange.v3.router => Some("SwapRouter02"),
        permit2 if permit2 == exchange.permit2 => Some("Permit2"),
        router if router == exchange.v4.router => Some("the Universal Router"),
        _other => None,
    });
    named.map_or_else(|| contract.to_checksum(None), str::to_owned)
}

/// Describes the step that a plan takes now, like `1/2 token approval`; `None` if it has nothing left to do.
pub fn progress(execution: &Execution) -> Option<String> {
    let opened = execution.steps.len();
    let revokes = execution.leaves_allowance()
        || execution.open_step().is_some_and(|step| step.purpose == StepPurpose::Revocation);
    if execution.end.is_some() {
        return revokes.then(|| StepPurpose::Revocation.text().to_owned());
    }
    let last = execution.steps.last().map(|step| step.purpose);
    let rest = unopened_purposes(execution);
    let of = opened.saturating_add(rest.len());
    let (at, purpose) = match execution.open_step() {
        Some(step) => (opened, step.purpose),
        None => match rest.first() {
            Some(next) => (opened.saturating_add(1), *next),
            // The main transaction is mined, and its receipt will end the request.
            None => (opened, last?),
        },
    };
    Some(format!("{at}/{of} {}", purpose.text()))
}

/// Describes the signature that a plan needs now from a device, like `2/3 permit`; `None` if it needs none.
pub fn device_signature_text(state: &State, request: &Request) -> Option<String> {
    let execution = request.execution()?;
    if state.awaits_empty_transaction(request) {
        return Some("empty transaction".to_owned());
    }
    if execution.end.is_some() {
        return progress(execution);
    }
    let signed = execution.permit.as_ref().is_some_and(|permit| permit.signature.is_some());
    let has_permit = execution
        .quote
        .trade()
        .is_some_and(|quote| quote.calls.iter().any(|call| matches!(call, Decoded::Permit { .. })));
    let mut rest: Vec<&str> = Vec::new();
    for purpose in unopened_purposes(execution) {
        // The permit comes before the swap, which contains it.
        if purpose.is_main() && has_permit && !signed {
            rest.push("permit");
        }
        rest.push(purpose.text());
    }
    let before = execution.steps.len().saturating_add(usize::from(signed));
    let of = before.saturating_add(rest.len());
    match execution.open_step() {
        Some(step) => Some(format!("{before}/{of} {}", step.purpose.text())),
        None => rest.first().map(|next| format!("{}/{of} {next}", before.saturating_add(1))),
    }
}

/// Returns the purposes of the transactions that the plan has not opened yet.
fn unopened_purposes(execution: &Execution) -> Vec<StepPurpose> {
    let last = execution.steps.last().map(|step| step.purpose);
    // The newest quote may be older or newer than the last step, so purposes up to the rank of that step are skipped.
    let after = |one: &StepPurpose| last.is_none_or(|last| rank(*one) > rank(last));
    purposes_of(&execution.quote).into_iter().filter(after).collect()
}

/// Describes a step that an entry of the journal opened, like `1/2 token approval`.
///
/// `before` is the number of steps that were opened before it.
pub fn step_text(purpose: StepPurpose, before: usize, quote: &Quote) -> String {
    if purpose == StepPurpose::Revocation {
        return purpose.text().to_owned();
    }
    let rest = purposes_of(quote).into_iter().filter(|one| rank(*one) > rank(purpose)).count();
    let at = before.saturating_add(1);
    format!("{at}/{} {}", at.saturating_add(rest), purpose.text())
}

/// Returns the position of a purpose in the order of a plan.
fn rank(purpose: StepPurpose) -> u8 {
    match purpose {
        StepPurpose::AllowanceReset => 0,
        StepPurpose::Allowance => 1,
        StepPurpose::Swap | StepPurpose::Supply | StepPurpose::Withdrawal => 2,
        StepPurpose::Revocation => 3,
    }
}
