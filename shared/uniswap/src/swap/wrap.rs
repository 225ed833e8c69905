//! Wraps the native coin and unwraps it, one for one.

use alloy_primitives::U256;
use alloy_sol_types::SolCall;
use bursar_core::networks::Exchange;

use super::call::Call;
use crate::abi::token::IWrappedNative;

/// Returns the call that wraps `amount` wei of the native coin.
pub fn wrap(exchange: &Exchange, amount: U256) -> Call {
    let data = IWrappedNative::depositCall {}.abi_encode().into();
    Call { to: exchange.wrapped_native, value: amount, data }
}

/// Returns the call that unwraps `amount` wei.
pub fn unwrap(exchange: &Exchange, amount: U256) -> Call {
    let data = IWrappedNative::withdrawCall { wad: amount }.abi_encode().into();
    Call { to: exchange.wrapped_native, value: U256::ZERO, data }
}
