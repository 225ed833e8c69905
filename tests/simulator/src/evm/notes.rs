//! Answers and blocks as observations in the auditor's types.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, Bytes, U256, U512};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_auditor::observations::{
    Allowances, Atoms, DeviceObservation, DeviceTradeObservation, Hop as SeenHop,
    Included as SeenIncluded, Observation, OpenAllowance, Pool, PriceRead, Quoted, Read,
    Transaction as SeenTransaction, TransferLog,
};
use bursar_chain::ports::{Log, TxStatus};
use bursar_core::networks::MULTICALL3;

use super::abi;
use super::contracts::{Contracts, id4};
use super::ledger::{Included, Ledger};
use super::machine::is_call;
use super::raw::{Hop, Transaction};
use super::routers::hops;

/// The lowest gas limit of a trade's transactions.
const WORST_GAS: u64 = 75_000;

/// The permissions with which a hook can change the amounts of a swap.
const CHANGES_AMOUNTS: u8 = 0x0c;

pub(crate) fn text(address: Address) -> String {
    format!("{address:#x}")
}

pub(crate) fn atoms(value: U256) -> Atoms {
    u128::try_from(value).unwrap_or(u128::MAX)
}

/// Returns whether a call asks for the state of a payment's authorization.
pub(crate) fn is_authorization_state(data: &[u8]) -> bool {
    is_call::<abi::Authorizations::authorizationStateCall>(data)
}

/// Returns the most that the gas of the cheapest transaction of a trade may cost now, in wei.
pub(crate) fn worst_gas(ledger: &Ledger, tip: u128) -> Atoms {
    let price = 2 * (2 * ledger.base_fee + tip);
    let data = if ledger.contracts.charges_for_data() {
        u128::from(ledger.state.data_fee) * 2 * 4_000
    } else {
        0
    };
    u128::from(WORST_GAS) * price + data
}

pub(crate) fn transaction(tx: &Transaction) -> SeenTransaction {
    SeenTransaction {
        chain: tx.chain,
        from: text(tx.from),
        nonce: tx.nonce,
        to: text(tx.to),
        value: atoms(tx.value),
        data: format!("{:#x}", tx.data),
        hash: format!("{:#x}", tx.hash),
    }
}

/// Returns the digest and the signature that a transaction of the device's address carries.
pub(crate) fn carried_observation(tx: &Transaction) -> Observation {
    let (hash, digest) = (format!("{:#x}", tx.hash), format!("{:#x}", tx.digest));
    let signature = tx.signature.clone();
    Observation::Device(DeviceObservation::Trade(DeviceTradeObservation::Carried {
        hash,
        digest,
        signature,
    }))
}

/// Returns the observation of a transaction in a block.
pub(crate) fn included(contracts: &Contracts, one: &Included) -> SeenIncluded {
    let logs = &one.receipt.logs;
    let mut transfers = Vec::new();
    let mut unwrapped = Vec::new();
    for log in logs {
        if let Some(moved) = decode::<abi::Erc20::Transfer>(log) {
            transfers.push(TransferLog {
                token: text(log.address),
                from: text(moved.from),
                to: text(moved.to),
                amount: atoms(moved.value),
            });
        }
        if log.address == contracts.weth()
            && let Some(event) = decode::<abi::Weth::Withdrawal>(log)
        {
            unwrapped.push((text(event.src), atoms(event.wad)));
        }
    }
    let sender = one.tx.from;
    let to_sender = one.transfers.iter().filter(|moved| moved.to == sender && moved.from != sender);
    let received = to_sender.fold(U256::ZERO, |sum, moved| sum + moved.value);
    SeenIncluded {
        chain: one.tx.chain,
        hash: format!("{:#x}", one.tx.hash),
        block: one.receipt.block_number,
        block_s: one.block_s,
        succeeded: one.receipt.status == TxStatus::Succeeded,
        transfers,
        unwrapped,
        native_received: atoms(received),
        pool_out: logs.iter().rev().find_map(pool_out),
        gas_paid: atoms(one.gas_paid),
    }
}

fn decode<E: SolEvent>(log: &Log) -> Option<E> {
    if log.topics.first() != Some(&E::SIGNATURE_HASH) {
        return None;
    }
    E::decode_raw_log_validate(log.topics.iter().copied(), &log.data).ok()
}

fn pool_out(log: &Log) -> Option<Atoms> {
    if let Some(swap) = decode::<abi::Pool3::Swap>(log) {
        let paid = if swap.amount0.is_negative() { swap.amount0 } else { swap.amount1 };
        return Some(atoms(paid.unsigned_abs()));
    }
    let swap = decode::<abi::Manager4::Swap>(log)?;
    Some(swap.amount0.max(swap.amount1).unsigned_abs())
}

/// Returns the allowances of an address that are above zero.
pub(crate) fn allowances(ledger: &Ledger, owner: Address) -> Allowances {
    let mut open = Vec::new();
    for (token, one) in &ledger.state.tokens {
        let given = one.allowances.iter().filter(|((from, _), _)| *from == owner);
        for ((_owner, spender), amount) in given.filter(|(_, amount)| !amount.is_zero()) {
            open.push(OpenAllowance {
                token: text(*token),
                spender: text(*spender),
                permit2: false,
                amount: atoms(*amount),
            });
        }
    }
    for ((from, token, spender), right) in &ledger.state.rights {
        if *from == owner && !right.amount.is_zero() {
            open.push(OpenAllowance {
                token: text(*token),
                spender: text(*spender),
                permit2: true,
                amount: atoms(right.amount),
            });
        }
    }
    let chain = ledger.contracts.network.chain.0;
    Allowances { chain, block: ledger.head, owner: text(owner), open }
}

/// One read-only call, and its answer if it did not revert.
pub(super) struct ReadAnswer {
    pub(super) to: Address,
    pub(super) data: Bytes,
    pub(super) answer: Option<Bytes>,
}

/// Returns the observations in the answer of a read-only call.
pub(crate) fn reads(
    ledger: &Ledger,
    to: Address,
    data: &Bytes,
    answer: &Bytes,
) -> Vec<Observation> {
    let each = read_answers(to, data, answer);
    let mut notes: Vec<Observation> = each.iter().filter_map(|one| read(ledger, one)).collect();
    notes.extend(quotes(ledger, &each));
    notes
}

pub(super) fn read_answers(to: Address, data: &Bytes, answer: &Bytes) -> Vec<ReadAnswer> {
    let calls = abi::Many::aggregate3Call::abi_decode_validate(data);
    let outcomes = abi::Many::aggregate3Call::abi_decode_returns_validate(answer);
    if to == MULTICALL3
        && let (Ok(calls), Ok(outcomes)) = (calls, outcomes)
    {
        let pairs = calls.calls.into_iter().zip(outcomes);
        let one = |(call, outcome): (abi::Many::One, abi::Many::Outcome)| ReadAnswer {
            to: call.target,
            data: call.callData,
            answer: outcome.success.then_some(outcome.returnData),
        };
        return pairs.map(one).collect();
    }
    vec![ReadAnswer { to, data: data.clone(), answer: Some(answer.clone()) }]
}

fn read(ledger: &Ledger, one: &ReadAnswer) -> Option<Observation> {
    let (chain, block) = (ledger.contracts.network.chain.0, ledger.head);
    let exchange = ledger.contracts.exchange;
    let amount = one.answer.as_ref().and_then(|answer| answer.first_chunk::<32>());
    let amount = amount.map(|word| atoms(U256::from_be_bytes(*word)));
    let balance = |owner: Address, token: Address| {
        let (owner, token) = (text(owner), text(token));
        Observation::Read(Read::Balance { chain, block, owner, token, amount })
    };
    let allowance = |owner: Address, token: Address, spender: Address, permit2, amount| {
        let (owner, token, spender) = (text(owner), text(token), text(spender));
        Observation::Read(Read::Allowance { chain, block, owner, token, spender, permit2, amount })
    };
    if let Ok(call) = abi::Erc20::balanceOfCall::abi_decode_validate(&one.data) {
        return Some(balance(call.owner, one.to));
    }
    if one.to == MULTICALL3
        && let Ok(call) = abi::Many::getEthBalanceCall::abi_decode_validate(&one.data)
    {
        return Some(balance(call.addr, Address::ZERO));
    }
    if let Ok(call) = abi::Erc20::allowanceCall::abi_decode_validate(&one.data) {
        // Report the allowance on the chain, even if a planted bug makes nodes report another one.
        let held = ledger.state.allowance(one.to, call.owner, call.spender);
        let amount = amount.map(|_any| atoms(held));
        return Some(allowance(call.owner, one.to, call.spender, false, amount));
    }
    if one.to == exchange.permit2
        && let Ok(call) = abi::Permit2::allowanceCall::abi_decode_validate(&one.data)
    {
        return Some(allowance(call.user, call.token, call.spender, true, amount));
    }
    let feed = exchange.native_feed?;
    if one.to != feed.address || !is_call::<abi::Feed::latestRoundDataCall>(&one.data) {
        return None;
    }
    let round = one.answer.as_ref().and_then(|answer| {
        abi::Feed::latestRoundDataCall::abi_decode_returns_validate(answer).ok()
    });
    let scale = U256::from(10).pow(U256::from(feed.decimals));
    let micros = round.as_ref().map(|round| {
        let scaled = round.answer.into_raw() * U256::from(1_000_000);
        u64::try_from(scaled.div_ceil(scale)).unwrap_or(0)
    });
    let updated = round.map_or(0, |round| u64::try_from(round.updatedAt).unwrap_or(0));
    Some(Observation::PriceRead(PriceRead::Feed { chain, micros, updated_s: updated }))
}

/// The route of a quote: its input token and its pools.
type RouteKey = (Address, Vec<Hop>);

/// The inputs of a route's quotes, each with its output.
type RouteQuotes = Vec<(U256, Option<U256>)>;

fn quotes(ledger: &Ledger, each: &[ReadAnswer]) -> Vec<Observation> {
    let mut routes: BTreeMap<String, (RouteKey, RouteQuotes)> = BTreeMap::new();
    let mut priced: BTreeSet<String> = BTreeSet::new();
    for one in each {
        if let Some((key, amount, out)) = quote(ledger, one) {
            let slot = routes.entry(format!("{key:?}")).or_insert_with(|| (key, Vec::new()));
            slot.1.push((amount, out));
        }
        priced.extend(priced_pool(ledger, one));
    }
    let main = !priced.is_empty();
    let each = routes.into_values().filter_map(|(key, amounts)| {
        let (amount, out) = amounts.iter().copied().max_by_key(|(amount, _out)| *amount)?;
        // Routes other than the trade's own count only if they have a quote.
        (main || out.is_some()).then(|| {
            Observation::Quoted(Box::new(quote_observation(
                ledger, &priced, &key, amount, out, &amounts,
            )))
        })
    });
    each.collect()
}

fn quote_observation(
    ledger: &Ledger,
    priced: &BTreeSet<String>,
    (token_in, hops): &RouteKey,
    amount: U256,
    out: Option<U256>,
    amounts: &[(U256, Option<U256>)],
) -> Quoted {
    let known =
        hops.iter().zip(inputs(*token_in, hops)).map(|(hop, input)| pool_id(ledger, input, hop));
    let read = known.into_iter().all(|pool| priced.contains(&pool));
    let ideal = read.then(|| ideal_output(ledger, *token_in, hops, amount)).flatten();
    Quoted {
        chain: ledger.contracts.network.chain.0,
        block: ledger.head,
        block_s: ledger.time,
        token_in: text(*token_in),
        amount_in: atoms(amount),
        hops: hops.iter().map(seen_hop).collect(),
        amount_out: out.map(atoms),
        slot0_ideal: ideal.map(atoms),
        dust_ideal: out.and_then(|out| dust_ideal(amount, out, amounts)).map(atoms),
        fee_ppm: fee(hops),
    }
}

/// Returns the ideal output at the rate of the smallest quote that is not distorted by rounding.
fn dust_ideal(amount: U256, out: U256, amounts: &[(U256, Option<U256>)]) -> Option<U256> {
    let units = U256::from(10_000);
    if out.is_zero() {
        return None;
    }
    let least = (units * amount).div_ceil(out).max(units);
    let most = amount / U256::from(100);
    let fits = amounts.iter().filter(|(part, _out)| *part >= least && *part <= most);
    let (part, dust) = fits.min_by_key(|(part, _out)| *part)?;
    let ideal = U512::from((*dust)?) * U512::from(amount) / U512::from(*part);
    U256::checked_from_limbs_slice(ideal.as_limbs())
}

fn fee(hops: &[Hop]) -> Option<u32> {
    hops.iter().try_fold(0, |sum, hop| match hop {
        Hop::V3 { fee, .. } => Some(sum + fee),
        Hop::V4 { fee, hooks, .. } => {
            let changes = hooks[19] & CHANGES_AMOUNTS != 0;
            (!changes && *fee <= 1_000_000).then_some(sum + fee)
        }
    })
}

pub(crate) fn seen_hop(hop: &Hop) -> SeenHop {
    match hop {
        Hop::V3 { fee, output } => {
            SeenHop { pool: Pool::V3 { fee: *fee }, token_out: text(*output) }
        }
        Hop::V4 { fee, spacing, hooks, output, .. } => SeenHop {
            pool: Pool::V4 { fee: *fee, tick_spacing: *spacing, hooks: text(*hooks) },
            token_out: text(*output),
        },
    }
}

/// Returns the token that enters each pool.
fn inputs(token_in: Address, hops: &[Hop]) -> Vec<Address> {
    let outputs = hops.iter().map(|hop| match hop {
        Hop::V3 { output, .. } | Hop::V4 { output, .. } => *output,
    });
    std::iter::once(token_in).chain(outputs).take(hops.len()).collect()
}

fn pool_id(ledger: &Ledger, input: Address, hop: &Hop) -> String {
    match hop {
        Hop::V3 { fee, output } => text(ledger.contracts.pool3(input, *output, *fee)),
        Hop::V4 { id, .. } => format!("{id:#x}"),
    }
}

/// Returns the pool whose price a call reads.
fn priced_pool(ledger: &Ledger, one: &ReadAnswer) -> Option<String> {
    one.answer.as_ref()?;
    if is_call::<abi::Pool3::slot0Call>(&one.data) {
        return Some(text(one.to));
    }
    if one.to != ledger.contracts.exchange.v4.state_view {
        return None;
    }
    let call = abi::View4::getSlot0Call::abi_decode_validate(&one.data).ok()?;
    Some(format!("{:#x}", call.id))
}

/// Returns the output at the current prices of the pools, rounded up.
fn ideal_output(ledger: &Ledger, token_in: Address, hops: &[Hop], amount: U256) -> Option<U256> {
    let mut amount = amount;
    for (hop, input) in hops.iter().zip(inputs(token_in, hops)) {
        let (price, zero_for_one) = match hop {
            Hop::V3 { fee, output } => {
                let pool = ledger.contracts.pool3(input, *output, *fee);
                (ledger.state.price3(pool)?, input < *output)
            }
            Hop::V4 { id, output, .. } => (ledger.state.price4(*id)?, input < *output),
        };
        let square = U512::from(price) * U512::from(price);
        let whole = U512::from(1) << 192;
        let (above, below) = if zero_for_one { (square, whole) } else { (whole, square) };
        let (out, rest) = (U512::from(amount) * above).div_rem(below);
        let out = if rest.is_zero() { out } else { out + U512::from(1) };
        amount = U256::checked_from_limbs_slice(out.as_limbs())?;
    }
    Some(amount)
}

fn quote(ledger: &Ledger, one: &ReadAnswer) -> Option<(RouteKey, U256, Option<U256>)> {
    let exchange = ledger.contracts.exchange;
    let answer = one.answer.as_ref();
    if one.to == exchange.v3.quoter {
        if let Ok(call) = abi::Quoter3::quoteExactInputSingleCall::abi_decode_validate(&one.data) {
            let params = call.params;
            let hop = Hop::V3 { fee: params.fee.to(), output: params.tokenOut };
            let out = answer.and_then(|answer| {
                let quote =
                    abi::Quoter3::quoteExactInputSingleCall::abi_decode_returns_validate(answer);
                quote.ok().filter(|quote| is_inside(U256::from(quote.after_)))
            });
            let out = out.map(|quote| quote.amountOut);
            return Some(((params.tokenIn, vec![hop]), params.amountIn, out));
        }
        let call = abi::Quoter3::quoteExactInputCall::abi_decode_validate(&one.data).ok()?;
        let path = hops(&call.path)?;
        let (token_in, _to, _fee) = *path.first()?;
        let hops = path.into_iter().map(|(_from, output, fee)| Hop::V3 { fee, output });
        let out = answer.and_then(|answer| {
            let quote = abi::Quoter3::quoteExactInputCall::abi_decode_returns_validate(answer);
            quote.ok().filter(|quote| quote.after_.iter().all(|end| is_inside(U256::from(*end))))
        });
        let out = out.map(|quote| quote.amountOut);
        return Some(((token_in, hops.collect()), call.amountIn, out));
    }
    if one.to != exchange.v4.quoter {
        return None;
    }
    let call = abi::Quoter4::quoteExactInputSingleCall::abi_decode_validate(&one.data).ok()?;
    let (key, id) = (&call.params.key, id4(&call.params.key));
    let sides = (key.currency0, key.currency1);
    let (token_in, output) = if call.params.zeroForOne { sides } else { (sides.1, sides.0) };
    let (fee, spacing, hooks) = (key.fee.to(), key.tickSpacing.as_i32(), key.hooks);
    let hop = Hop::V4 { fee, spacing, hooks, id, output };
    let out = answer.and_then(|answer| {
        abi::Quoter4::quoteExactInputSingleCall::abi_decode_returns_validate(answer).ok()
    });
    let amount = U256::from(call.params.exactAmount);
    Some(((token_in, vec![hop]), amount, out.map(|quote| quote.amountOut)))
}

/// Returns whether a price is inside the scale. A pool that ran out of liquidity has a price next to one of its ends.
fn is_inside(price: U256) -> bool {
    use super::math::{SQRT_MAX, SQRT_MIN};
    price > SQRT_MIN + U256::ONE && price < SQRT_MAX - U256::ONE
}
