//! Swaps of v4 through the Universal Router, in the layout of the router's version.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::networks::{Exchange, RouterCalldata};

use super::call::{Call, SwapFault, Terms};
use crate::abi::router::{IUniversalRouter, v2_0, v2_1_1};
use crate::permit::SignedPermit;
use crate::price::min_hop_price_x36;
use crate::route::V4Path;

/// The command `PERMIT2_PERMIT`, with the flag that lets the transaction continue if the command reverts.
///
/// Another sender may have used the permit already. In that case the command reverts, but the allowance exists.
const PERMIT_MAY_REVERT: u8 = 0x8a;
const V4_SWAP: u8 = 0x10;
const SWEEP: u8 = 0x04;

const SWAP_EXACT_IN_SINGLE: u8 = 0x06;
const SWAP_EXACT_IN: u8 = 0x07;
const SETTLE_ALL: u8 = 0x0c;
const TAKE_ALL: u8 = 0x0f;

/// The recipient that the Universal Router replaces by the caller.
const CALLER_RECIPIENT: Address = Address::with_last_byte(1);

/// A v4 swap of an exact input.
///
/// The router takes the input from its caller and pays the output to its caller.
#[derive(Debug, Clone, Copy)]
pub struct V4Swap<'a> {
    /// The path of the swap.
    ///
    /// If it names the native coin, the swap sells or buys the native coin itself, not the wrapped token.
    pub path: &'a V4Path,
    /// Amounts and deadline.
    pub terms: Terms,
    /// The minimum price of each pool of a longer path, from [`min_hop_price_x36`]; empty for no minimum.
    ///
    /// It is empty for a path of one pool, whose minimum price follows from the terms.
    pub hop_prices: &'a [U256],
    /// A permit that replaces an earlier Permit2 allowance for the router.
    pub permit: Option<&'a SignedPermit>,
}

/// Returns the call of the Universal Router.
///
/// # Errors
/// An amount is zero or exceeds 127 bits, the minimum prices do not fit the path, or the permit does not fit the swap.
pub fn v4_exact_input(exchange: &Exchange, swap: &V4Swap<'_>) -> Result<Call, SwapFault> {
    swap.terms.check()?;
    let native = swap.path.input().is_native();
    let mut commands = Vec::with_capacity(3);
    let mut inputs = Vec::with_capacity(3);
    if let Some(permit) = swap.permit {
        check_permit(exchange, swap, permit)?;
        commands.push(PERMIT_MAY_REVERT);
        inputs.push(permit.router_input()?);
    }
    commands.push(V4_SWAP);
    inputs.push(v4_swap_input(exchange.v4.calldata, swap)?);
    if native {
        // The unused input of a partial fill would remain in the router, where any caller can take it.
        commands.push(SWEEP);
        inputs.push((Address::ZERO, CALLER_RECIPIENT, U256::ZERO).abi_encode_params().into());
    }
    let call = IUniversalRouter::executeCall {
        commands: commands.into(),
        inputs,
        deadline: U256::from(swap.terms.deadline),
    };
    let value = if native { swap.terms.amount_in } else { U256::ZERO };
    Ok(Call { to: exchange.v4.router, value, data: call.abi_encode().into() })
}

fn check_permit(
    exchange: &Exchange,
    swap: &V4Swap<'_>,
    signed: &SignedPermit,
) -> Result<(), SwapFault> {
    let Terms { amount_in, min_out: _, deadline } = swap.terms;
    let permit = &signed.permit;
    let fits = !swap.path.input().is_native()
        && permit.token == swap.path.input().address()
        && permit.spender == exchange.v4.router
        && permit.amount >= amount_in
        && permit.expiration >= deadline
        && permit.signature_deadline >= deadline;
    if fits { Ok(()) } else { Err(SwapFault::PermitMismatch) }
}

/// Returns the input of `V4_SWAP` with three actions: swap, pay the input, take the output.
fn v4_swap_input(layout: RouterCalldata, swap: &V4Swap<'_>) -> Result<Bytes, SwapFault> {
    let Terms { amount_in, min_out, deadline: _ } = swap.terms;
    let (action, params) = match swap.path.hops() {
        [_] => (SWAP_EXACT_IN_SINGLE, single_hop_params(layout, swap)?),
        _ => (SWAP_EXACT_IN, multi_hop_params(layout, swap)?),
    };
    let actions = Bytes::from(vec![action, SETTLE_ALL, TAKE_ALL]);
    let settle = (swap.path.input().address(), amount_in).abi_encode_params();
    let take = (swap.path.output().address(), min_out).abi_encode_params();
    let params: Vec<Bytes> = vec![params.into(), settle.into(), take.into()];
    Ok((actions, params).abi_encode_params().into())
}

fn single_hop_params(layout: RouterCalldata, swap: &V4Swap<'_>) -> Result<Vec<u8>, SwapFault> {
    let [hop] = swap.path.hops() else { return Err(SwapFault::HopPrices) };
    if !swap.hop_prices.is_empty() {
        return Err(SwapFault::HopPrices);
    }
    let Terms { amount_in, min_out, deadline: _ } = swap.terms;
    let (pool_key, zero_for_one) = (hop.pool.to_abi(), hop.zero_for_one);
    let (in_128, out_128) = (signed_amount(amount_in)?, signed_amount(min_out)?);
    Ok(match layout {
        RouterCalldata::V2_0 => v2_0::ExactInputSingleParams {
            poolKey: pool_key,
            zeroForOne: zero_for_one,
            amountIn: in_128,
            amountOutMinimum: out_128,
            hookData: Bytes::new(),
        }
        .abi_encode(),
        RouterCalldata::V2_1_1 => v2_1_1::ExactInputSingleParams {
            poolKey: pool_key,
            zeroForOne: zero_for_one,
            amountIn: in_128,
            amountOutMinimum: out_128,
            minHopPriceX36: min_hop_price_x36(amount_in, min_out).ok_or(SwapFault::TooLarge)?,
            hookData: Bytes::new(),
        }
        .abi_encode(),
    })
}

fn multi_hop_params(layout: RouterCalldata, swap: &V4Swap<'_>) -> Result<Vec<u8>, SwapFault> {
    let prices = swap.hop_prices;
    if !prices.is_empty() && prices.len() != swap.path.hops().len() {
        return Err(SwapFault::HopPrices);
    }
    let currency_in = swap.path.input().address();
    let (in_128, out_128) =
        (signed_amount(swap.terms.amount_in)?, signed_amount(swap.terms.min_out)?);
    Ok(match layout {
        RouterCalldata::V2_0 if !prices.is_empty() => return Err(SwapFault::HopPrices),
        RouterCalldata::V2_0 => v2_0::ExactInputParams {
            currencyIn: currency_in,
            path: swap.path.to_abi(),
            amountIn: in_128,
            amountOutMinimum: out_128,
        }
        .abi_encode(),
        RouterCalldata::V2_1_1 => v2_1_1::ExactInputParams {
            currencyIn: currency_in,
            path: swap.path.to_abi(),
            minHopPriceX36: prices.to_vec(),
            amountIn: in_128,
            amountOutMinimum: out_128,
        }
        .abi_encode(),
    })
}

/// Checks that an amount fits into 127 bits, because pools count amounts as signed numbers of 128 bits.
fn signed_amount(amount: U256) -> Result<u128, SwapFault> {
    i128::try_from(amount).map(i128::unsigned_abs).map_err(|_large| SwapFault::TooLarge)
}
