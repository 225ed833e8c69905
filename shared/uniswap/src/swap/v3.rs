//! Swaps of v3 through SwapRouter02.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::Exchange;

use super::call::{Call, SwapFault, Terms};
use crate::abi::v3::ISwapRouter02;
use crate::route::V3Path;

/// The recipient that SwapRouter02 replaces by the caller. `unwrapWETH9` does not replace it: it would burn the coins
/// by sending them to this address.
const CALLER_RECIPIENT: Address = Address::with_last_byte(1);

/// The recipient that SwapRouter02 replaces by its own address.
const ROUTER_RECIPIENT: Address = Address::with_last_byte(2);

/// Which side of a v3 swap is the native coin instead of its wrapped token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeSide {
    /// Both sides are tokens.
    Neither,
    /// The call pays the native coin; the router wraps it.
    Input,
    /// The router unwraps the output.
    Output,
}

/// A v3 swap of an exact input.
#[derive(Debug, Clone, Copy)]
pub struct V3Swap<'a> {
    /// The path, with the wrapped token in place of the native coin.
    pub path: &'a V3Path,
    /// Which side is the native coin.
    pub native: NativeSide,
    /// Amounts and deadline.
    pub terms: Terms,
    /// The wallet itself, which sends the call and receives the output.
    pub owner: Address,
}

/// Returns the call of SwapRouter02's `multicall` with the swap in it, because the swap alone has no deadline.
///
/// # Errors
/// An amount is zero, the native side is not an end of the path, or `owner` is not a valid recipient.
pub fn v3_exact_input(exchange: &Exchange, swap: &V3Swap<'_>) -> Result<Call, SwapFault> {
    check(exchange, swap)?;
    let Terms { amount_in, min_out, deadline } = swap.terms;
    let mut calls = Vec::with_capacity(2);
    let value = match swap.native {
        NativeSide::Neither => {
            calls.push(exact_input(swap, swap.owner));
            U256::ZERO
        }
        NativeSide::Input => {
            calls.push(exact_input(swap, swap.owner));
            // The unused input of a partial fill would remain in the router, where any caller can take it.
            calls.push(ISwapRouter02::refundETHCall {}.abi_encode().into());
            amount_in
        }
        NativeSide::Output => {
            calls.push(exact_input(swap, ROUTER_RECIPIENT));
            let unwrap =
                ISwapRouter02::unwrapWETH9Call { amountMinimum: min_out, recipient: swap.owner };
            calls.push(unwrap.abi_encode().into());
            U256::ZERO
        }
    };
    let multicall = ISwapRouter02::multicallCall { deadline: U256::from(deadline), data: calls };
    Ok(Call { to: exchange.v3.router, value, data: multicall.abi_encode().into() })
}

fn check(exchange: &Exchange, swap: &V3Swap<'_>) -> Result<(), SwapFault> {
    swap.terms.check()?;
    let router = exchange.v3.router;
    if [Address::ZERO, CALLER_RECIPIENT, ROUTER_RECIPIENT, router].contains(&swap.owner) {
        return Err(SwapFault::Recipient);
    }
    let native = exchange.wrapped_native;
    let fits = match swap.native {
        NativeSide::Neither => true,
        NativeSide::Input => swap.path.input() == native,
        NativeSide::Output => swap.path.output() == native,
    };
    if fits { Ok(()) } else { Err(SwapFault::NotNative) }
}

fn exact_input(swap: &V3Swap<'_>, recipient: Address) -> Bytes {
    let Terms { amount_in, min_out, deadline: _ } = swap.terms;
    if let [hop] = swap.path.hops() {
        let params = ISwapRouter02::ExactInputSingleParams {
            tokenIn: swap.path.input(),
            tokenOut: swap.path.output(),
            fee: hop.pool.abi_fee(),
            recipient,
            amountIn: amount_in,
            amountOutMinimum: min_out,
            sqrtPriceLimitX96: U160::ZERO,
        };
        return ISwapRouter02::exactInputSingleCall { params }.abi_encode().into();
    }
    let params = ISwapRouter02::ExactInputParams {
        path: swap.path.encode(),
        recipient,
        amountIn: amount_in,
        amountOutMinimum: min_out,
    };
    ISwapRouter02::exactInputCall { params }.abi_encode().into()
}
