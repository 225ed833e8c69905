//! Decodes the calls of a plan, so that people see the real effect of the call data, not the plan's intention.
//!
//! A decoder accepts only call data that [`crate::swap`] encodes. Any other call data is unknown.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::networks::{Exchange, RouterCalldata};
use serde::{Deserialize, Serialize};

use crate::abi::permit2::IPermit2;
use crate::abi::router::{IUniversalRouter, v2_0, v2_1_1};
use crate::abi::token::{IErc20, IWrappedNative};
use crate::abi::v3::ISwapRouter02;
use crate::swap::Call;

/// The meaning of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decoded {
    /// Sets the allowance of a token for `spender`, in the token's smallest unit.
    Approve { token: Address, spender: Address, amount: U256 },
    /// Sets the allowance of a token at Permit2 for `spender`. A simulation replaces a permit by this call.
    Permit {
        token: Address,
        spender: Address,
        amount: U256,
        /// Unix seconds.
        until: u64,
    },
    /// Wraps the native coin, in wei.
    Wrap { amount: U256 },
    /// Unwraps the native coin, in wei.
    Unwrap { amount: U256 },
    /// Swaps an exact input through a router.
    Swap {
        router: Address,
        /// The input token. The native coin is the wrapped token at v3, and the zero address at v4.
        token_in: Address,
        token_out: Address,
        amount_in: U256,
        min_out: U256,
        /// Unix seconds of chain time.
        until: u64,
    },
    /// A call that no part of a plan makes.
    Unknown { to: Address },
}

/// Decodes a call of `owner` on the network of `exchange`.
pub fn decode_call(exchange: &Exchange, owner: Address, call: &Call) -> Decoded {
    let known = if call.to == exchange.v3.router {
        v3_swap(owner, call)
    } else if call.to == exchange.v4.router {
        v4_swap(exchange.v4.calldata, call)
    } else if call.to == exchange.permit2 {
        decode_permit2(call)
    } else if call.to == exchange.wrapped_native {
        decode_wrap(call).or_else(|| decode_approval(call))
    } else {
        decode_approval(call)
    };
    known.unwrap_or(Decoded::Unknown { to: call.to })
}

fn decode_approval(call: &Call) -> Option<Decoded> {
    let approve = IErc20::approveCall::abi_decode_validate(&call.data).ok()?;
    let decoded =
        Decoded::Approve { token: call.to, spender: approve.spender, amount: approve.value };
    call.value.is_zero().then_some(decoded)
}

fn decode_permit2(call: &Call) -> Option<Decoded> {
    let approve = IPermit2::approveCall::abi_decode_validate(&call.data).ok()?;
    let decoded = Decoded::Permit {
        token: approve.token,
        spender: approve.spender,
        amount: U256::from(approve.amount),
        until: approve.expiration.to(),
    };
    call.value.is_zero().then_some(decoded)
}

fn decode_wrap(call: &Call) -> Option<Decoded> {
    if IWrappedNative::depositCall::abi_decode_validate(&call.data).is_ok() {
        return Some(Decoded::Wrap { amount: call.value });
    }
    let withdraw = IWrappedNative::withdrawCall::abi_decode_validate(&call.data).ok()?;
    call.value.is_zero().then_some(Decoded::Unwrap { amount: withdraw.wad })
}

/// Decodes `multicall` with one swap that pays `owner`, directly or by unwrapping.
fn v3_swap(owner: Address, call: &Call) -> Option<Decoded> {
    let outer = ISwapRouter02::multicallCall::abi_decode_validate(&call.data).ok()?;
    let (swap, rest) = outer.data.split_first()?;
    let V3InnerSwap { token_in, token_out, recipient, amount_in, min_out } =
        decode_v3_inner_swap(swap)?;
    let unwraps = match rest {
        [] => false,
        // The unused input of a partial fill returns to the caller.
        [one] if ISwapRouter02::refundETHCall::abi_decode_validate(one).is_ok() => false,
        [one] => {
            let unwrap = ISwapRouter02::unwrapWETH9Call::abi_decode_validate(one).ok()?;
            if unwrap.recipient != owner || unwrap.amountMinimum != min_out {
                return None;
            }
            true
        }
        _several => return None,
    };
    // The router reads address 2 as its own address. It must receive the output itself before it can unwrap it.
    let expected = if unwraps { Address::with_last_byte(2) } else { owner };
    let sends_right_value = call.value.is_zero() || call.value == amount_in;
    let until = u64::try_from(outer.deadline).ok()?;
    let router = call.to;
    let decoded = Decoded::Swap { router, token_in, token_out, amount_in, min_out, until };
    (recipient == expected && sends_right_value).then_some(decoded)
}

/// The fields of one v3 swap within a `multicall`.
struct V3InnerSwap {
    token_in: Address,
    token_out: Address,
    recipient: Address,
    amount_in: U256,
    min_out: U256,
}

fn decode_v3_inner_swap(data: &Bytes) -> Option<V3InnerSwap> {
    if let Ok(single) = ISwapRouter02::exactInputSingleCall::abi_decode_validate(data) {
        let params = single.params;
        return Some(V3InnerSwap {
            token_in: params.tokenIn,
            token_out: params.tokenOut,
            recipient: params.recipient,
            amount_in: params.amountIn,
            min_out: params.amountOutMinimum,
        });
    }
    let params = ISwapRouter02::exactInputCall::abi_decode_validate(data).ok()?.params;
    Some(V3InnerSwap {
        token_in: Address::from_slice(params.path.get(..20)?),
        token_out: Address::from_slice(params.path.last_chunk::<20>()?),
        recipient: params.recipient,
        amount_in: params.amountIn,
        min_out: params.amountOutMinimum,
    })
}

/// Decodes `execute` with one swap of v4 that pays the caller.
fn v4_swap(layout: RouterCalldata, call: &Call) -> Option<Decoded> {
    let outer = IUniversalRouter::executeCall::abi_decode_validate(&call.data).ok()?;
    let input = match (outer.commands.as_ref(), outer.inputs.as_slice()) {
        ([0x10], [plan]) | ([0x8a, 0x10], [_, plan]) if call.value.is_zero() => plan,
        // The sweep returns the unused input of a partial fill to the caller.
        ([0x10, 0x04], [plan, sweep])
            if !call.value.is_zero()
                && <(Address, Address, U256)>::abi_decode_params_validate(sweep).ok()?
                    == (Address::ZERO, Address::with_last_byte(1), U256::ZERO) =>
        {
            plan
        }
        _other => return None,
    };
    let (actions, params) = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(input).ok()?;
    let ([0x06, 0x0c, 0x0f], [single, settle, take]) = (actions.as_ref(), params.as_slice()) else {
        return None;
    };
    let (amount_in, min_out) = decode_v4_single_swap(layout, single)?;
    let (token_in, most) = <(Address, U256)>::abi_decode_params_validate(settle).ok()?;
    let (token_out, least) = <(Address, U256)>::abi_decode_params_validate(take).ok()?;
    let sends_right_value = call.value.is_zero() || call.value == amount_in;
    let until = u64::try_from(outer.deadline).ok()?;
    let router = call.to;
    let decoded = Decoded::Swap { router, token_in, token_out, amount_in, min_out, until };
    (sends_right_value && most == amount_in && least == min_out).then_some(decoded)
}

/// Returns the input and the minimum output of a swap through one pool of v4.
fn decode_v4_single_swap(layout: RouterCalldata, data: &Bytes) -> Option<(U256, U256)> {
    Some(match layout {
        RouterCalldata::V2_0 => {
            let params = v2_0::ExactInputSingleParams::abi_decode_validate(data).ok()?;
            (U256::from(params.amountIn), U256::from(params.amountOutMinimum))
        }
        RouterCalldata::V2_1_1 => {
            let params = v2_1_1::ExactInputSingleParams::abi_decode_validate(data).ok()?;
            (U256::from(params.amountIn), U256::from(params.amountOutMinimum))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use bursar_core::networks::by_id_name_or_title;

    use crate::currency::Currency;
    use crate::permit::{Permit, SignedPermit};
    use crate::pool::{PoolKey, V3Pool};
    use crate::route::{V3Path, V4Path};
    use crate::swap::{self, NativeSide, Terms, V3Swap, V4Swap};

    const OWNER: Address = Address::repeat_byte(0x19);
    const OTHER: Address = Address::repeat_byte(0x20);

    fn exchange() -> &'static Exchange {
        by_id_name_or_title("base").unwrap().exchange.unwrap()
    }

    fn terms() -> Terms {
        Terms { amount_in: U256::from(30_000_000), min_out: U256::from(9_900), deadline: 1_767_225 }
    }

    fn expected(router: Address, (token_in, token_out): (Address, Address)) -> Decoded {
        let Terms { amount_in, min_out, deadline: until } = terms();
        Decoded::Swap { router, token_in, token_out, amount_in, min_out, until }
    }

    fn v3(native: NativeSide, pools: &[V3Pool], input: Address) -> Call {
        let path = V3Path::new(input, pools).unwrap();
        let swap = V3Swap { path: &path, native, terms: terms(), owner: OWNER };
        swap::v3_exact_input(exchange(), &swap).unwrap()
    }

    fn v4(input: Currency, permit: Option<&SignedPermit>) -> Call {
        let dollars = Currency::Token(by_id_name_or_title("base").unwrap().stablecoin.address);
        let pool = PoolKey::new(Currency::Native, dollars, 500, 10, Address::ZERO).unwrap();
        let path = V4Path::new(input, &[pool]).unwrap();
        let swap = V4Swap { path: &path, terms: terms(), hop_prices: &[], permit };
        swap::v4_exact_input(exchange(), &swap).unwrap()
    }

    #[test]
    fn swaps_are_decoded_as_they_were_encoded() {
        let weth = exchange().wrapped_native;
        let dollars = by_id_name_or_title("base").unwrap().stablecoin.address;
        let pool = V3Pool::new(weth, dollars, 500).unwrap();
        let second = V3Pool::new(weth, OTHER, 3_000).unwrap();
        let router = exchange().v3.router;
        for (call, tokens) in [
            (v3(NativeSide::Neither, &[pool], dollars), (dollars, weth)),
            (v3(NativeSide::Input, &[pool], weth), (weth, dollars)),
            (v3(NativeSide::Output, &[pool], dollars), (dollars, weth)),
            (v3(NativeSide::Neither, &[pool, second], dollars), (dollars, OTHER)),
        ] {
            assert_eq!(decode_call(exchange(), OWNER, &call), expected(router, tokens));
            // The call pays another address than the sender.
            assert_eq!(decode_call(exchange(), OTHER, &call), Decoded::Unknown { to: router });
        }
        let router = exchange().v4.router;
        let permit = Permit {
            token: dollars,
            amount: terms().amount_in,
            expiration: terms().deadline,
            nonce: 0,
            spender: router,
            signature_deadline: terms().deadline,
        };
        let signed = SignedPermit { permit, signature: vec![1; 65].into() };
        let (zero, token) = (Address::ZERO, Currency::Token(dollars));
        for (call, tokens) in [
            (v4(Currency::Native, None), (zero, dollars)),
            (v4(token, None), (dollars, zero)),
            (v4(token, Some(&signed)), (dollars, zero)),
        ] {
            assert_eq!(decode_call(exchange(), OWNER, &call), expected(router, tokens));
        }
    }

    #[test]
    fn approvals_and_wrapping_are_decoded() {
        let (amount, permit2) = (U256::from(7), exchange().permit2);
        let decode = |call: &Call| decode_call(exchange(), OWNER, call);
        let (token, spender) = (OTHER, exchange().v3.router);
        assert_eq!(
            decode(&swap::approve(token, spender, amount)),
            Decoded::Approve { token, spender, amount }
        );
        let weth = exchange().wrapped_native;
        assert_eq!(
            decode(&swap::approve(weth, spender, amount)),
            Decoded::Approve { token: weth, spender, amount }
        );
        assert_eq!(
            decode(&swap::permit2_approve(permit2, token, spender, amount, 9).unwrap()),
            Decoded::Permit { token, spender, amount, until: 9 }
        );
        assert_eq!(decode(&swap::wrap(exchange(), amount)), Decoded::Wrap { amount });
        assert_eq!(decode(&swap::unwrap(exchange(), amount)), Decoded::Unwrap { amount });
    }

    /// Call data is unknown if the decoder does not understand every part of it.
    #[test]
    fn changed_call_data_is_unknown() {
        let dollars = by_id_name_or_title("base").unwrap().stablecoin.address;
        let pool = V3Pool::new(exchange().wrapped_native, dollars, 500).unwrap();
        let native = v4(Currency::Native, None);
        let output = v3(NativeSide::Output, &[pool], dollars);
        for call in [native, output] {
            let unknown = Decoded::Unknown { to: call.to };
            let more = Call { value: call.value + U256::from(1), ..call.clone() };
            assert_eq!(decode_call(exchange(), OWNER, &more), unknown);
            let cut = Call { data: call.data.slice(..call.data.len() - 32), ..call.clone() };
            assert_eq!(decode_call(exchange(), OWNER, &cut), unknown);
            let none = Call { data: B256::ZERO.into(), ..call };
            assert_eq!(decode_call(exchange(), OWNER, &none), unknown);
        }
        let paid = Call { value: U256::from(1), ..swap::approve(OTHER, OWNER, U256::from(7)) };
        assert_eq!(decode_call(exchange(), OWNER, &paid), Decoded::Unknown { to: OTHER });
    }
}
