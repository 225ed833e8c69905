//! Changes call data of swaps, loans and approvals, for planted bugs.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};

use super::abi;
use super::contracts::Contracts;
use super::machine::is_call;

/// Functions that replace the minimum and the deadline of a swap.
pub(crate) struct ForgedTerms<'a> {
    pub(crate) least: &'a dyn Fn(U256) -> U256,
    pub(crate) deadline: &'a dyn Fn(U256) -> U256,
}

/// Returns the call data with another minimum and deadline; unchanged if this is not a swap through a pool.
pub(crate) fn swap(
    contracts: &Contracts,
    to: Address,
    data: &Bytes,
    forged: &ForgedTerms<'_>,
) -> Bytes {
    let changed = if to == contracts.exchange.v3.router {
        swap3(data, forged)
    } else if to == contracts.exchange.v4.router {
        swap4(data, forged)
    } else {
        None
    };
    changed.unwrap_or_else(|| data.clone())
}

fn swap3(data: &Bytes, forged: &ForgedTerms<'_>) -> Option<Bytes> {
    let mut call = abi::Router3::multicallCall::abi_decode_validate(data).ok()?;
    call.deadline = (forged.deadline)(call.deadline);
    for one in &mut call.data {
        if is_call::<abi::Router3::exactInputSingleCall>(one) {
            let mut inner = abi::Router3::exactInputSingleCall::abi_decode_validate(one).ok()?;
            let params = &mut inner.params;
            params.amountOutMinimum = (forged.least)(params.amountOutMinimum);
            *one = inner.abi_encode().into();
        } else if is_call::<abi::Router3::exactInputCall>(one) {
            let mut inner = abi::Router3::exactInputCall::abi_decode_validate(one).ok()?;
            let params = &mut inner.params;
            params.amountOutMinimum = (forged.least)(params.amountOutMinimum);
            *one = inner.abi_encode().into();
        } else if is_call::<abi::Router3::unwrapWETH9Call>(one) {
            let mut inner = abi::Router3::unwrapWETH9Call::abi_decode_validate(one).ok()?;
            inner.amountMinimum = (forged.least)(inner.amountMinimum);
            *one = inner.abi_encode().into();
        }
    }
    Some(call.abi_encode().into())
}

fn swap4(data: &Bytes, forged: &ForgedTerms<'_>) -> Option<Bytes> {
    let mut call = abi::Universal::executeCall::abi_decode_validate(data).ok()?;
    call.deadline = (forged.deadline)(call.deadline);
    let at = call.commands.iter().position(|command| *command == 0x10)?;
    let input = call.inputs.get_mut(at)?;
    let decoded = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(input);
    let (actions, mut params) = decoded.ok()?;
    let mut swap = abi::Swap4::abi_decode_validate(params.first()?).ok()?;
    let least = (forged.least)(U256::from(swap.amountOutMinimum));
    swap.amountOutMinimum = u128::try_from(least).ok()?;
    let scale = U256::from(10).pow(U256::from(36));
    let amount = U256::from(swap.amountIn).max(U256::ONE);
    swap.minHopPriceX36 = least.checked_mul(scale)? / amount;
    *params.first_mut()? = swap.abi_encode().into();
    let take = params.last_mut()?;
    let (currency, _least) = <(Address, U256)>::abi_decode_params_validate(take).ok()?;
    *take = (currency, least).abi_encode_params().into();
    *input = (actions, params).abi_encode_params().into();
    Some(call.abi_encode().into())
}

/// Returns the call data of an approval with another amount.
pub(crate) fn approval_of(data: &Bytes, amount: U256) -> Bytes {
    let Ok(mut call) = abi::Erc20::approveCall::abi_decode_validate(data) else {
        return data.clone();
    };
    call.value = amount;
    call.abi_encode().into()
}

/// Returns the call data of an approval with another spender.
pub(crate) fn approval_to(data: &Bytes, spender: Address) -> Bytes {
    let Ok(mut call) = abi::Erc20::approveCall::abi_decode_validate(data) else {
        return data.clone();
    };
    call.spender = spender;
    call.abi_encode().into()
}

/// Returns the call data of a withdrawal by shares as a withdrawal by assets.
pub(crate) fn exit_by_assets(data: &Bytes, assets: U256) -> Bytes {
    if let Ok(call) = abi::Vault::redeemCall::abi_decode_validate(data) {
        let (receiver, on_behalf) = (call.receiver, call.onBehalf);
        let changed = abi::Vault::withdrawCall { assets, receiver, onBehalf: on_behalf };
        return changed.abi_encode().into();
    }
    let Ok(mut call) = abi::Blue::withdrawCall::abi_decode_validate(data) else {
        return data.clone();
    };
    (call.assets, call.shares) = (assets, U256::ZERO);
    call.abi_encode().into()
}
