//! Parses the two JSON-RPC encodings QUANTITY and DATA. The parsers are as strict as the specification, because a
//! lying node could exploit a lenient parser.

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Why a result is unusable: a fixed text, which never quotes the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unusable(pub(super) &'static str);

/// Parses a result into the given type.
pub(super) fn decode_as<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Unusable> {
    serde_json::from_str(raw.get()).map_err(|_quotes| Unusable("the result has an unexpected form"))
}

pub(super) fn u256_of(text: &str) -> Result<U256, Unusable> {
    U256::from_str_radix(quantity_digits(text)?, 16)
        .map_err(|_kind| Unusable("a quantity is above 256 bits"))
}

pub(super) fn u64_of(text: &str) -> Result<u64, Unusable> {
    u64::from_str_radix(quantity_digits(text)?, 16)
        .map_err(|_kind| Unusable("a quantity is above 64 bits"))
}

pub(super) fn bytes_of(text: &str) -> Result<Bytes, Unusable> {
    let digits = hex_digits(text)?;
    hex::decode(digits)
        .map(Bytes::from)
        .map_err(|_kind| Unusable("data has an odd number of hex digits"))
}

pub(super) fn hash_of(text: &str) -> Result<B256, Unusable> {
    B256::try_from(bytes_of(text)?.as_ref()).map_err(|_kind| Unusable("a hash is not 32 bytes"))
}

pub(super) fn address_of(text: &str) -> Result<Address, Unusable> {
    Address::try_from(bytes_of(text)?.as_ref())
        .map_err(|_kind| Unusable("an address is not 20 bytes"))
}

pub(super) fn quantity(value: u64) -> String {
    format!("{value:#x}")
}

fn quantity_digits(text: &str) -> Result<&str, Unusable> {
    let digits = hex_digits(text)?;
    if digits.is_empty() {
        return Err(Unusable("a quantity is empty"));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(Unusable("a quantity has leading zeros"));
    }
    Ok(digits)
}

fn hex_digits(text: &str) -> Result<&str, Unusable> {
    let digits = text.strip_prefix("0x").ok_or(Unusable("a value does not begin with 0x"))?;
    // Checked here because the decoders are lenient: they accept signs, underscores and a second 0x.
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(digits)
    } else {
        Err(Unusable("a value contains something other than hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_strictly() {
        assert_eq!(u64_of("0x0"), Ok(0));
        assert_eq!(u64_of("0xffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(u64_of("0x2A"), Ok(42));
        assert_eq!(u256_of(&format!("0x{}", "f".repeat(64))), Ok(U256::MAX));
        for bad in [
            "",
            "0x",
            "0",
            "1",
            "0x00",
            "0x01",
            "0X1",
            "-0x1",
            "0x-1",
            "0x+1",
            "0x1_0",
            "0x0x1",
            " 0x1",
            "0x1 ",
            "0xg",
            "0x1.0",
            "1e3",
            "0x\u{ff11}",
        ] {
            assert!(u64_of(bad).is_err() && u256_of(bad).is_err(), "{bad:?}");
        }
        assert!(u64_of("0x10000000000000000").is_err());
        assert!(u256_of(&format!("0x1{}", "0".repeat(64))).is_err());
        for value in [0, 1, 255, u64::MAX] {
            assert_eq!(u64_of(&quantity(value)), Ok(value));
        }
    }

    #[test]
    fn data_is_whole_bytes_of_the_right_length() {
        assert_eq!(bytes_of("0x"), Ok(Bytes::new()));
        assert_eq!(bytes_of("0x00Ff"), Ok(Bytes::from_static(&[0, 255])));
        for bad in ["", "00", "0x0", "0x0x00", "0x 0", "0xzz"] {
            assert!(bytes_of(bad).is_err(), "{bad:?}");
        }
        assert!(hash_of(&format!("0x{}", "ab".repeat(32))).is_ok());
        assert!(hash_of(&format!("0x{}", "ab".repeat(31))).is_err());
        assert!(address_of(&format!("0x{}", "ab".repeat(20))).is_ok());
        assert!(address_of(&format!("0x{}", "ab".repeat(32))).is_err());
    }
}
