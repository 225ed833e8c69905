//! Decodes the reason of a revert into text.

use alloy_primitives::{Bytes, hex};
use alloy_sol_types::{Panic, Revert, SolError};

/// Longest reason that is returned, in characters.
const REASON_CHARS_MAX: usize = 200;

/// Returns the reason of a revert as text.
///
/// It decodes `Error(string)` and `Panic(uint256)`, and otherwise shows the selector of the custom error. The text is
/// untrusted; only its length is bounded.
pub fn reason(data: &Bytes) -> String {
    if let Ok(revert) = Revert::abi_decode_validate(data) {
        return revert.reason.chars().take(REASON_CHARS_MAX).collect();
    }
    if let Ok(panic) = Panic::abi_decode_validate(data) {
        return format!("panic 0x{:x}", panic.code);
    }
    match data.first_chunk::<4>() {
        Some(selector) => format!("error {}", hex::encode_prefixed(selector)),
        None => "no reason given".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    #[test]
    fn revert_reasons_are_decoded_in_every_form_and_bounded() {
        let plain = Revert::from("ERC20: transfer amount exceeds balance").abi_encode();
        assert_eq!(reason(&plain.into()), "ERC20: transfer amount exceeds balance");
        let long = Revert::from("x".repeat(10_000)).abi_encode();
        assert_eq!(reason(&long.into()).len(), 200);
        let panic = Panic { code: U256::from(0x11) }.abi_encode();
        assert_eq!(reason(&panic.into()), "panic 0x11");
        assert_eq!(reason(&Bytes::from_static(&hex!("8b063d7300"))), "error 0x8b063d73");
        assert_eq!(reason(&Bytes::new()), "no reason given");
    }
}
