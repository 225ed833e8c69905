//! Decodes signed transactions, and the terms of a swap in call data.

use alloy_consensus::transaction::RlpEcdsaDecodableTx;
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_x402::signature::{Signature65, recover};

use super::abi;
use super::contracts::Contracts;
use super::machine::is_call;
use super::routers::hops;

/// A type 2 transaction, with its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) hash: B256,
    /// The digest that was signed.
    pub(crate) digest: B256,
    /// The signature, as hexadecimal digits of `r`, `s` and `v`.
    pub(crate) signature: String,
    pub(crate) chain: u64,
    pub(crate) from: Address,
    pub(crate) nonce: u64,
    pub(crate) to: Address,
    pub(crate) value: U256,
    pub(crate) data: Bytes,
    pub(crate) gas_limit: u64,
    pub(crate) max_fee: u128,
    pub(crate) tip: u128,
}

/// Decodes a signed transaction; `None` if it is not of type 2 or its signature is invalid.
pub(crate) fn decode(raw: &[u8]) -> Option<Transaction> {
    let (kind, mut fields) = raw.split_first()?;
    if *kind != 2 {
        return None;
    }
    let (tx, signature) = TxEip1559::rlp_decode_with_signature(&mut fields).ok()?;
    let digest = tx.signature_hash();
    let (r, s) = (B256::from(signature.r()), B256::from(signature.s()));
    let signature = Signature65::new(r, s, u8::from(signature.v())).ok()?;
    let from = recover(digest, &signature).ok()?;
    let TxKind::Call(to) = tx.to else { return None };
    Some(Transaction {
        hash: keccak256(raw),
        digest,
        signature: format!("0x{}", hex::encode(signature.to_bytes())),
        chain: tx.chain_id,
        from,
        nonce: tx.nonce,
        to,
        value: tx.value,
        data: tx.input,
        gas_limit: tx.gas_limit,
        max_fee: tx.max_fee_per_gas,
        tip: tx.max_priority_fee_per_gas,
    })
}

/// The terms of a swap in its call data. The zero address is the native coin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwapTerms {
    pub(crate) token_in: Address,
    pub(crate) token_out: Address,
    pub(crate) amount_in: U256,
    pub(crate) least_out: U256,
    /// The pools in order, each with its output token.
    pub(crate) hops: Vec<Hop>,
}

/// A pool, and its output token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hop {
    V3 { fee: u32, output: Address },
    V4 { fee: u32, spacing: i32, hooks: Address, id: B256, output: Address },
}

/// Decodes the terms of a swap; `None` if the call is not a swap.
pub(crate) fn swap_terms(
    contracts: &Contracts,
    to: Address,
    value: U256,
    data: &[u8],
) -> Option<SwapTerms> {
    let weth = contracts.weth();
    if to == weth && is_call::<abi::Weth::depositCall>(data) {
        let sides = (Address::ZERO, weth);
        return Some(one_to_one(sides, value));
    }
    if to == weth && is_call::<abi::Weth::withdrawCall>(data) {
        let wad = abi::Weth::withdrawCall::abi_decode_validate(data).ok()?.wad;
        return Some(one_to_one((weth, Address::ZERO), wad));
    }
    if to == contracts.exchange.v3.router {
        return terms3(weth, value, data);
    }
    if to == contracts.exchange.v4.router { terms4(data) } else { None }
}

fn one_to_one((token_in, token_out): (Address, Address), amount: U256) -> SwapTerms {
    SwapTerms { token_in, token_out, amount_in: amount, least_out: amount, hops: Vec::new() }
}

fn terms3(weth: Address, value: U256, data: &[u8]) -> Option<SwapTerms> {
    let calls = abi::Router3::multicallCall::abi_decode_validate(data).ok()?.data;
    let first = calls.first()?;
    let (path, amount_in, least_out) = if is_call::<abi::Router3::exactInputSingleCall>(first) {
        let one = abi::Router3::exactInputSingleCall::abi_decode_validate(first).ok()?.params;
        let path = vec![(one.tokenIn, one.tokenOut, one.fee.to())];
        (path, one.amountIn, one.amountOutMinimum)
    } else {
        let one = abi::Router3::exactInputCall::abi_decode_validate(first).ok()?.params;
        (hops(&one.path)?, one.amountIn, one.amountOutMinimum)
    };
    let unwraps = calls.iter().any(|one| is_call::<abi::Router3::unwrapWETH9Call>(one));
    let (token_in, _to, _fee) = *path.first()?;
    let (_from, token_out, _fee) = *path.last()?;
    let native_in = !value.is_zero() && token_in == weth;
    Some(SwapTerms {
        token_in: if native_in { Address::ZERO } else { token_in },
        token_out: if unwraps { Address::ZERO } else { token_out },
        amount_in,
        least_out,
        hops: path.into_iter().map(|(_from, output, fee)| Hop::V3 { fee, output }).collect(),
    })
}

fn terms4(data: &[u8]) -> Option<SwapTerms> {
    let call = abi::Universal::executeCall::abi_decode_validate(data).ok()?;
    let mut commands = call.commands.iter().zip(&call.inputs);
    let (_command, input) = commands.find(|(command, _input)| **command & 0x7f == 0x10)?;
    let (actions, params) = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(input).ok()?;
    if *actions.first()? != 0x06 {
        return None;
    }
    let swap = abi::Swap4::abi_decode_validate(params.first()?).ok()?;
    let (currency0, currency1) = (swap.key.currency0, swap.key.currency1);
    let (token_in, token_out) =
        if swap.zeroForOne { (currency0, currency1) } else { (currency1, currency0) };
    let hop = Hop::V4 {
        fee: swap.key.fee.to(),
        spacing: swap.key.tickSpacing.as_i32(),
        hooks: swap.key.hooks,
        id: super::contracts::id4(&swap.key),
        output: token_out,
    };
    Some(SwapTerms {
        token_in,
        token_out,
        amount_in: U256::from(swap.amountIn),
        least_out: U256::from(swap.amountOutMinimum),
        hops: vec![hop],
    })
}
