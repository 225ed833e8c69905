//! Error codes of the API: stable text, status, whether a client may retry, and a message that says what to do.
//! Callers are OpenAI clients, so the format is OpenAI's.

use std::fmt;

use axum::http::StatusCode;

/// Every error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    InvalidJson,
    InvalidRequest,
    UnsupportedParameter,
    UnsupportedContent,
    ModelNotFound,
    TooManyTokens,
    TooLarge,
    InvalidPaymentHeader,
    PaymentInUse,
    PaymentSpent,
    AnswerNotKept,
    StreamBroken,
    SettlementFailed,
    SettlementUnknown,
    AnswerOwed,
    FacilitatorUnavailable,
    UpstreamUnavailable,
    UpstreamBroken,
    UpstreamTimeout,
    UpstreamKey,
    TooManyRequests,
    UnpaidLimit,
    Busy,
    Stopping,
    StoreFailed,
    NotFound,
    MethodNotAllowed,
}

/// Error types as OpenAI clients name them.
const CALLER: &str = "invalid_request_error";
const PAYMENT: &str = "payment_error";
const SERVER: &str = "api_error";

/// Properties of a code.
struct Row {
    code: Code,
    text: &'static str,
    status: u16,
    kind: &'static str,
    /// Whether a client may retry on its own. `None` leaves it to the client's rules.
    retry: Option<bool>,
    /// What happened and what to do, each in one sentence or clause.
    message: &'static str,
}

const ROWS: &[Row] = &[
    row(
        Code::InvalidJson,
        "invalid_json",
        400,
        CALLER,
        None,
        "The body is not valid JSON: correct it and send it again.",
    ),
    row(
        Code::InvalidRequest,
        "invalid_request",
        400,
        CALLER,
        None,
        "The request is invalid: correct it and send it again.",
    ),
    row(
        Code::UnsupportedParameter,
        "unsupported_parameter",
        400,
        CALLER,
        None,
        "This parameter has no price: leave it out.",
    ),
    row(
        Code::UnsupportedContent,
        "unsupported_content",
        400,
        CALLER,
        None,
        "Only text has a price: send text.",
    ),
    row(
        Code::ModelNotFound,
        "model_not_found",
        404,
        CALLER,
        None,
        "This model is not sold here: choose one of GET /v1/models.",
    ),
    row(
        Code::TooManyTokens,
        "context_length_exceeded",
        400,
        CALLER,
        None,
        "The request is too large: send a shorter prompt, or a lower bound on the answer.",
    ),
    row(
        Code::TooLarge,
        "body_too_large",
        413,
        CALLER,
        None,
        "The body is too long: send a shorter one.",
    ),
    row(
        Code::InvalidPaymentHeader,
        "invalid_payment_header",
        400,
        PAYMENT,
        Some(false),
        "The payment cannot be read: send one payment header, base64 of the JSON that x402 describes.",
    ),
    row(
        Code::PaymentInUse,
        "payment_in_use",
        409,
        PAYMENT,
        Some(false),
        "This payment is in use by a request without an answer yet: send the same request again later.",
    ),
    row(
        Code::PaymentSpent,
        "payment_spent",
        409,
        PAYMENT,
        Some(false),
        "This payment belongs to another request: sign a new one for this.",
    ),
    row(
        Code::AnswerNotKept,
        "answer_not_kept",
        409,
        PAYMENT,
        Some(false),
        "This payment was used, and its answer was too long to keep or is too old: sign a new payment to \
         ask again.",
    ),
    row(
        Code::StreamBroken,
        "stream_broken",
        409,
        PAYMENT,
        Some(false),
        "This payment bought a stream that broke after its first chunk, and is not refunded: sign a new \
         payment to ask again.",
    ),
    row(
        Code::SettlementFailed,
        "settlement_failed",
        402,
        PAYMENT,
        Some(false),
        "The payment was not settled for this request: see the receipt for the reason, then send the same request again or sign a new payment.",
    ),
    row(
        Code::SettlementUnknown,
        "settlement_unknown",
        503,
        PAYMENT,
        Some(false),
        "It is not known yet whether the payment was settled: send the same request with the same payment \
         again. It is charged only once.",
    ),
    row(
        Code::AnswerOwed,
        "answer_owed",
        503,
        PAYMENT,
        Some(false),
        "The payment is settled, but the model's server gave no answer: send the same request with the same \
         payment again. It is not charged twice.",
    ),
    row(
        Code::FacilitatorUnavailable,
        "facilitator_unavailable",
        503,
        SERVER,
        None,
        "Payments cannot be verified now, and nothing was charged: send the same request again.",
    ),
    row(
        Code::UpstreamUnavailable,
        "upstream_unavailable",
        502,
        SERVER,
        None,
        "The model's server cannot be reached, and nothing was charged: send the same request again.",
    ),
    row(
        Code::UpstreamBroken,
        "upstream_broken",
        502,
        SERVER,
        None,
        "The model's server gave no complete answer, and nothing was charged: send the same request again.",
    ),
    row(
        Code::UpstreamTimeout,
        "upstream_timeout",
        504,
        SERVER,
        None,
        "The model's server took too long, and nothing was charged: send the same request again, or a smaller one.",
    ),
    row(
        Code::UpstreamKey,
        "upstream_key_refused",
        502,
        SERVER,
        Some(false),
        "The model's server refuses this service, and nothing was charged: tell its operator.",
    ),
    row(
        Code::TooManyRequests,
        "too_many_requests",
        429,
        SERVER,
        None,
        "Too many requests: wait for Retry-After seconds.",
    ),
    row(
        Code::UnpaidLimit,
        "unpaid_limit",
        429,
        PAYMENT,
        Some(false),
        "Too many settlements are pending: send the same request, with the same payment, after Retry-After \
         seconds. It is charged at most once.",
    ),
    row(
        Code::Busy,
        "busy",
        503,
        SERVER,
        Some(false),
        "Too many requests are in flight: send the same request, with the same payment, after Retry-After seconds.",
    ),
    row(
        Code::Stopping,
        "stopping",
        503,
        SERVER,
        Some(false),
        "This service is stopping: send the same request, with the same payment, after Retry-After seconds.",
    ),
    row(
        Code::StoreFailed,
        "store_failed",
        503,
        SERVER,
        Some(false),
        "The payment could not be recorded: send the same request with the same payment again.",
    ),
    row(
        Code::NotFound,
        "not_found",
        404,
        CALLER,
        None,
        "There is nothing at this path: see /openapi.json.",
    ),
    row(
        Code::MethodNotAllowed,
        "method_not_allowed",
        405,
        CALLER,
        None,
        "This path does not support this method: see /openapi.json.",
    ),
];

const fn row(
    code: Code,
    text: &'static str,
    status: u16,
    kind: &'static str,
    retry: Option<bool>,
    message: &'static str,
) -> Row {
    Row { code, text, status, kind, retry, message }
}

impl Code {
    /// Returns every code, in the order of the manual.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.code)
    }

    fn row(self) -> &'static Row {
        // A test checks that every code has a row.
        ROWS.iter().find(|row| row.code == self).unwrap_or(&ROWS[0])
    }

    /// Returns the stable text of the code.
    pub fn text(self) -> &'static str {
        self.row().text
    }

    /// Returns the HTTP status.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the error type as OpenAI clients know it.
    pub fn kind(self) -> &'static str {
        self.row().kind
    }

    /// Returns whether a client may retry on its own. `None` leaves it to the client's rules.
    pub fn retry(self) -> Option<bool> {
        self.row().retry
    }

    /// Returns the message: what happened and what to do.
    pub fn message(self) -> &'static str {
        self.row().message
    }

    /// Returns the seconds after which a repeat may succeed, if that is known.
    pub fn retry_after(self) -> Option<&'static str> {
        match self {
            Self::TooManyRequests | Self::PaymentInUse | Self::Busy | Self::Stopping => Some("2"),
            // The interval at which pending settlements are looked up.
            Self::UnpaidLimit => Some("5"),
            _other => None,
        }
    }
}

/// A refusal of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    /// Details of this refusal, without text from third parties.
    pub detail: Option<String>,
    /// The member of the request that is wrong.
    pub param: Option<String>,
}

impl Fault {
    /// Creates a refusal without details.
    pub fn of(code: Code) -> Self {
        Self { code, detail: None, param: None }
    }

    /// Sets the details.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Names the member that is wrong.
    #[must_use]
    pub fn with_param(mut self, param: &str) -> Self {
        self.param = Some(param.to_owned());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.message())?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

/// Returns the error table of the manual as Markdown.
pub fn reference() -> String {
    let mut page = String::from("| Code | Status | Retry | Message |\n|---|---|---|---|\n");
    for row in ROWS {
        let retry = match row.retry {
            Some(true) => "yes",
            Some(false) => "no",
            None => "up to the client",
        };
        page.push_str(&format!(
            "| `{}` | {} | {retry} | {} |\n",
            row.text, row.status, row.message
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_proxy_error_code_has_a_row_and_a_unique_text() {
        let texts: BTreeSet<_> = Code::all().map(Code::text).collect();
        assert_eq!(texts.len(), ROWS.len());
        for row in ROWS {
            assert_eq!(row.code.row().text, row.text);
            assert!(row.message.ends_with('.'), "{}", row.text);
            assert!(StatusCode::from_u16(row.status).is_ok());
        }
        let last = Code::MethodNotAllowed as usize;
        assert_eq!(last + 1, ROWS.len(), "a code without a row");
    }

    /// docs/proxy.md lists these.
    #[test]
    fn retry_after_matches_the_manual() {
        let named: Vec<_> =
            Code::all().filter_map(|code| Some((code.text(), code.retry_after()?))).collect();
        let expected = [
            ("payment_in_use", "2"),
            ("too_many_requests", "2"),
            ("unpaid_limit", "5"),
            ("busy", "2"),
            ("stopping", "2"),
        ];
        assert_eq!(named, expected);
    }

    /// These codes are also returned during or after a settle request.
    #[test]
    fn codes_of_possibly_charged_payments_do_not_claim_no_charge() {
        for code in [
            Code::PaymentInUse,
            Code::AnswerNotKept,
            Code::StreamBroken,
            Code::SettlementFailed,
            Code::SettlementUnknown,
            Code::AnswerOwed,
            Code::UnpaidLimit,
            Code::Busy,
            Code::Stopping,
            Code::StoreFailed,
        ] {
            assert!(!code.message().contains("nothing was charged"), "{}", code.text());
        }
    }

    /// OpenAI clients retry 409 and 5xx on their own. Some sign a new payment for each request.
    #[test]
    fn clients_must_not_retry_possibly_charged_requests() {
        for row in ROWS {
            let harmless = row.message.contains("nothing was charged") || row.kind == CALLER;
            let limits = matches!(row.code, Code::TooManyRequests);
            assert!(harmless || limits || row.retry == Some(false), "{}", row.text);
        }
    }
}
