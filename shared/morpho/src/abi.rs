//! ABI bindings of Morpho's contracts, one file per contract family, and the strict decoding of their answers.
//! The tests compare each selector and topic with that of the deployed contract.

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

/// Decodes an answer to the call `C`; `None` if the contract's encoder would not write exactly these bytes.
///
/// Without this check the decoder would accept surplus bytes and odd offsets, which an unexpected contract may write.
pub(crate) fn decode<C: SolCall>(answer: &[u8]) -> Option<C::Return> {
    let value = C::abi_decode_returns_validate(answer).ok()?;
    (C::abi_encode_returns(&value) == answer).then_some(value)
}

/// Decodes call data of `C`; `None` if the contract's encoder would not write exactly these bytes.
pub(crate) fn decode_call_data<C: SolCall>(data: &[u8]) -> Option<C> {
    let call = C::abi_decode_validate(data).ok()?;
    (call.abi_encode() == data).then_some(call)
}

/// Decodes an event `E`; `None` if the contract's encoder would not write exactly these topics and data.
pub(crate) fn decode_event<E: SolEvent>(topics: &[B256], data: &[u8]) -> Option<E> {
    let event = E::decode_raw_log_validate(topics.iter().copied(), data).ok()?;
    let same_topics = event.encode_topics().iter().map(|topic| topic.0).eq(topics.iter().copied());
    (same_topics && event.encode_data() == data).then_some(event)
}

#[cfg(test)]
mod tests;
