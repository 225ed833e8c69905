//! The text form of x402 headers: base64 of JSON. This module does not interpret the JSON.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bursar_core::json::{self, Value};
use bursar_core::limits::{BODY_VALUES_MAX, PAYMENT_HEADER_BYTES_MAX, PAYMENT_HEADER_DEPTH_MAX};

use crate::error::X402Error;

/// Length of the base64 text of [`PAYMENT_HEADER_BYTES_MAX`] bytes, with padding.
pub const BASE64_BYTES_MAX: usize = PAYMENT_HEADER_BYTES_MAX.div_ceil(3) * 4;

/// Base64 with the standard alphabet (RFC 4648 section 4), which every x402 SDK writes.
///
/// Padding may be missing, because the SDKs' own readers allow that. The URL-safe alphabet, white space and stray bits
/// in the last character are rejected. So two accepted texts of one challenge differ only in their padding.
const CODEC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads the value of a `PAYMENT-REQUIRED` header.
///
/// # Errors
/// `InvalidHeader` if the text is not base64 of JSON or exceeds a bound. The length is checked before decoding.
pub fn decode(text: &str) -> Result<Value, X402Error> {
    const TOO_LONG: &str = "it is longer than 64 KiB";
    if text.len() > BASE64_BYTES_MAX {
        return Err(X402Error::header(TOO_LONG));
    }
    let bytes = CODEC.decode(text).map_err(|_base64| X402Error::header("it is not base64"))?;
    // The limit of the text length alone would admit up to two more bytes, because base64 encodes groups of three.
    if bytes.len() > PAYMENT_HEADER_BYTES_MAX {
        return Err(X402Error::header(TOO_LONG));
    }
    json::parse_few(&bytes, PAYMENT_HEADER_DEPTH_MAX, BODY_VALUES_MAX)
        .map_err(|fault| X402Error::header(fault.to_string()))
}

/// Encodes JSON text as a header value: base64 with the standard alphabet and padding, in one line.
pub fn encode(json: &str) -> String {
    CODEC.encode(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_reason(text: &str) -> String {
        match decode(text) {
            Err(X402Error::InvalidHeader(reason)) => reason.into_owned(),
            other => panic!("{text:.40}: {other:?}"),
        }
    }

    #[test]
    fn padding_may_be_missing_and_nothing_else_may_differ() {
        let whole = encode("{\"a\":\"??>>>\"}");
        assert!(whole.ends_with("==") && whole.contains(['+', '/']), "{whole}");
        let value = decode(&whole).unwrap();
        assert_eq!(value.get("a").and_then(Value::as_str), Some("??>>>"));
        assert_eq!(decode(whole.trim_end_matches('=')).unwrap(), value);

        let url_safe = whole.replace('+', "-").replace('/', "_");
        let (spaced, broken) = (format!(" {whole}"), format!("{whole}\n"));
        let (over, inner) = (format!("{whole}="), format!("{whole}{whole}"));
        for bad in ["====", "e", "e30=e30=", "e30*", &url_safe, &spaced, &broken, &over, &inner] {
            assert_eq!(refusal_reason(bad), "it is not base64", "{bad}");
        }
        // `e30` decodes to `{}`. `e31` differs only in bits that belong to no byte.
        assert!(decode("e30").is_ok() && decode("e31").is_err());
    }

    #[test]
    fn invalid_json_is_refused_with_its_byte_offset() {
        for (json, reason) in [
            ("", "the text ends too early (byte 0)"),
            ("{\"a\":1,\"a\":2}", "duplicate key (byte 7)"),
            ("{\"a\":NaN}", "not JSON (byte 5)"),
            ("{} {}", "more text after the value (byte 3)"),
        ] {
            assert_eq!(refusal_reason(&encode(json)), reason, "{json}");
        }
        assert_eq!(refusal_reason(&CODEC.encode([b'"', 0xff, b'"'])), "not UTF-8 (byte 1)");
    }

    #[test]
    fn sixty_four_kibibytes_are_read_and_one_byte_more_is_not() {
        let filled = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
        assert!(decode(&encode(&filled(PAYMENT_HEADER_BYTES_MAX))).is_ok());
        assert_eq!(encode(&filled(PAYMENT_HEADER_BYTES_MAX)).len(), BASE64_BYTES_MAX);
        // Both texts have the maximum length, but the bytes of the second exceed their limit.
        let above = encode(&filled(PAYMENT_HEADER_BYTES_MAX + 1));
        assert_eq!(
            (above.len(), refusal_reason(&above).as_str()),
            (BASE64_BYTES_MAX, "it is longer than 64 KiB")
        );
        assert_eq!(refusal_reason(&"A".repeat(BASE64_BYTES_MAX + 1)), "it is longer than 64 KiB");
    }

    #[test]
    fn thirty_two_levels_are_read_and_one_more_is_not() {
        let nested = |levels: usize| encode(&("[".repeat(levels) + &"]".repeat(levels)));
        assert!(decode(&nested(32)).is_ok());
        assert_eq!(refusal_reason(&nested(33)), "nested too deep (byte 32)");
        assert_eq!(refusal_reason(&nested(20_000)), "nested too deep (byte 32)");
    }
}
