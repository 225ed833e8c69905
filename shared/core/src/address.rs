//! Addresses as people, agents and servers write them.

use alloy_primitives::Address;

/// Why a text is not the address of an account or contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("an address must be 0x and 40 hex digits")]
    Form,
    #[error("the checksum of this address is wrong: copy it again")]
    Checksum,
    #[error("the zero address belongs to no account")]
    Zero,
}

/// Parses an address that a person, an agent or a server wrote; all such text is parsed here.
///
/// The hex digits must be of one case, or of mixed case with a valid EIP-55 checksum, which detects a wrong digit.
///
/// # Errors
/// The form or the checksum is wrong.
pub fn read(text: &str) -> Result<Address, AddressError> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40);
    let digits = digits.ok_or(AddressError::Form)?;
    let parsed: Address = digits.parse().map_err(|_hex| AddressError::Form)?;
    let has = |one: fn(&u8) -> bool| digits.as_bytes().iter().any(one);
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    if mixed && parsed.to_checksum(None) != text { Err(AddressError::Checksum) } else { Ok(parsed) }
}

/// Parses an address as [`read`] does, but rejects the zero address.
///
/// # Errors
/// The form or the checksum is wrong, or the address is zero.
pub fn parse(text: &str) -> Result<Address, AddressError> {
    let parsed = read(text)?;
    if parsed.is_zero() { Err(AddressError::Zero) } else { Ok(parsed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

    #[test]
    fn one_case_or_the_checksum_is_accepted() {
        let upper = USDC.to_uppercase().replace('X', "x");
        for text in [USDC, &USDC.to_lowercase(), &upper] {
            assert_eq!(parse(text).unwrap().to_checksum(None), USDC);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let swapped = USDC.replace("fCD6", "fcD6");
        let zero = format!("0x{}", "0".repeat(40));
        let cases = [
            ("USDC", AddressError::Form),
            ("0x", AddressError::Form),
            (USDC.trim_start_matches("0x"), AddressError::Form),
            (USDC.trim_end_matches('3'), AddressError::Form),
            ("0xg33589fcd6edb6e08f4c7c32d4f71b54bda02913", AddressError::Form),
            (&swapped, AddressError::Checksum),
            (&zero, AddressError::Zero),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert_eq!(read(&zero), Ok(Address::ZERO));
        assert_eq!(read(&swapped), Err(AddressError::Checksum));
    }
}
