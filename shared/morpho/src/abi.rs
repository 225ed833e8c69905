//! ABI bindings of Morpho's contracts, one file per contract family, and the strict decoding of what they return.
//! The tests compare each selector and topic with the one that the deployed contract has.

use alloy_primitives::{B256, Bytes};
use alloy_sol_types::{SolCall, SolEvent};

pub mod adapter;
pub mod blue;
pub mod errors;
#[expect(clippy::too_many_arguments, reason = "the event has eight fields")]
pub mod factory;
pub mod token;
pub mod vault;

/// Returns the call data of `call`.
pub(crate) fn encode(call: &impl SolCall) -> Bytes {
    call.abi_encode().into()
}

/// Decodes an answer of `C`; `None` unless it is exactly what the contract's encoder writes.
///
/// Decoders skip surplus bytes and follow odd offsets. Another contract than the expected one may write either.
pub(crate) fn decode<C: SolCall>(answer: &[u8]) -> Option<C::Return> {
    let value = C::abi_decode_returns_validate(answer).ok()?;
    (C::abi_encode_returns(&value) == answer).then_some(value)
}

/// Decodes call data of `C`; `None` unless it is exactly what the contract's encoder writes.
pub(crate) fn decode_call_data<C: SolCall>(data: &[u8]) -> Option<C> {
    let call = C::abi_decode_validate(data).ok()?;
    (call.abi_encode() == data).then_some(call)
}

/// Decodes an event of `E`; `None` unless topics and data are exactly what the contract's encoder writes.
pub(crate) fn decode_event<E: SolEvent>(topics: &[B256], data: &[u8]) -> Option<E> {
    let event = E::decode_raw_log_validate(topics.iter().copied(), data).ok()?;
    let same_topics = event.encode_topics().iter().map(|topic| topic.0).eq(topics.iter().copied());
    (same_topics && event.encode_data() == data).then_some(event)
}

#[cfg(test)]
mod tests;
