//! The server's report on the payment. It is only a claim: the wallet checks the chain itself.

use bursar_core::json::Value;
use bursar_core::text::quoted;
use bursar_outbound::HeaderMap;
use bursar_x402::header;

/// Maximum number of characters of a server's text that are shown.
const SHOWN_CHARS_MAX: usize = 200;
/// Maximum number of characters of a server's text that are kept for `--json`.
const STORED_CHARS_MAX: usize = 1_000;

/// The fields of a `SettlementResponse`, shortened but otherwise as the server wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) success: bool,
    pub(crate) transaction: Option<String>,
    pub(crate) network: Option<String>,
    pub(crate) payer: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

impl Receipt {
    /// Reads the version 2 header, or else the version 1 header.
    ///
    /// The error contains the reason why the header is not a valid receipt.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Result<Self, String>> {
        let named = |name: &str| headers.get(name);
        let value = named("payment-response").or_else(|| named("x-payment-response"))?;
        // Text that is not ASCII is not base64 either.
        let value = header::decode(value.to_str().unwrap_or("?"));
        Some(value.map_err(|error| error.to_string()).and_then(|value| Self::parse(&value)))
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let object = value.as_object().ok_or("it is not an object")?;
        let success = object.get("success").and_then(Value::as_bool);
        let text = |key: &str| {
            let text = object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(|text| text.chars().take(STORED_CHARS_MAX).collect::<String>())
        };
        Ok(Self {
            success: success.ok_or("it does not state whether the payment succeeded")?,
            transaction: text("transaction"),
            network: text("network"),
            payer: text("payer"),
            reason: text("errorReason"),
            message: text("errorMessage"),
        })
    }

    /// Returns the transaction that settled the payment, as the server claims.
    pub(crate) fn claimed_transaction(&self) -> Option<&str> {
        let hash = self.transaction.as_deref()?;
        let digits = hash.strip_prefix("0x")?;
        let is_hash = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        (self.success && is_hash).then_some(hash)
    }

    /// Returns the reason for the failure, in the server's words.
    pub(crate) fn failure_reason(&self) -> Option<String> {
        let words = [&self.reason, &self.message].into_iter().flatten();
        let words: Vec<String> = words.map(|text| quoted(text, SHOWN_CHARS_MAX)).collect();
        (!words.is_empty()).then(|| words.join(": "))
    }

    /// Returns the receipt as one line. Server text is quoted, so that it cannot break the line.
    pub(crate) fn describe(&self) -> String {
        let network = self.network.as_ref();
        let network = network
            .map(|name| format!(" on {}", quoted(name, SHOWN_CHARS_MAX)))
            .unwrap_or_default();
        let transaction = match (self.claimed_transaction(), &self.transaction) {
            (Some(hash), _) => format!(", transaction {hash}"),
            (None, Some(text)) => format!(", transaction {}", quoted(text, SHOWN_CHARS_MAX)),
            (None, None) => ", without a transaction".to_owned(),
        };
        let why = self.failure_reason().map(|why| format!(": {why}")).unwrap_or_default();
        let end = if self.success { "settled" } else { "not settled" };
        format!("the server reports: {end}{network}{transaction}{why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, json: &str) -> Option<Result<Receipt, String>> {
        let mut headers = HeaderMap::new();
        headers.insert(name, header::encode(json).parse().unwrap());
        Receipt::read(&headers)
    }

    #[test]
    fn receipts_are_read_from_the_two_known_headers_only() {
        let hash = format!("0x{}", "ab".repeat(32));
        let json = format!("{{\"success\":true,\"transaction\":\"{hash}\",\"network\":\"base\"}}");
        for name in ["payment-response", "x-payment-response"] {
            let receipt = read(name, &json).unwrap().unwrap();
            assert_eq!(receipt.claimed_transaction(), Some(hash.as_str()));
        }
        assert!(read("x-receipt", &json).is_none());
        for bad in ["[]", "{}", "{\"success\":\"true\"}", "nothing"] {
            assert!(read("payment-response", bad).unwrap().is_err(), "{bad}");
        }
        // A failure settles nothing, even if it names a transaction. Text that is not a hash does not settle anything
        // either.
        for (success, text) in [(false, hash.as_str()), (true, "0x12"), (true, "")] {
            let json = format!("{{\"success\":{success},\"transaction\":\"{text}\"}}");
            assert_eq!(
                read("payment-response", &json).unwrap().unwrap().claimed_transaction(),
                None
            );
        }
    }

    #[test]
    fn receipt_line_contains_no_control_characters() {
        let evil = "x\\u001b[2J\\u202e\\r\\nbursar: paid";
        let json = format!(
            "{{\"success\":false,\"transaction\":\"{evil}\",\"network\":\"{evil}\",\"payer\":\"{evil}\",\
             \"errorReason\":\"{evil}\",\"errorMessage\":\"{evil}\"}}"
        );
        let told = read("payment-response", &json).unwrap().unwrap().describe();
        assert!(!told.chars().any(|c| c.is_control() || c == '\u{202e}'), "{told:?}");
        assert!(
            told.contains("\\u{1b}[2J") && told.starts_with("the server reports: not settled"),
            "{told}"
        );
    }
}
