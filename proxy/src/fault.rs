//! Error codes of the API: stable text, status, whether a client may retry, and a message that says what to do.
//! Callers are OpenAI clients, so the format is OpenAI's.

use std::fmt;

use axum::http::StatusCode;

/// Error types as OpenAI clients name them.
const INVALID_REQUEST_TYPE: &str = "invalid_request_error";
const PAYMENT_TYPE: &str = "payment_error";
const SERVER_TYPE: &str = "api_error";

/// Properties of a code.
struct Columns {
    status: u16,
    /// The error type as OpenAI clients know it.
    kind: &'static str,
    /// Whether a client may retry on its own. `None` leaves it to the client's rules.
    retry: Option<bool>,
}

const fn at(status: u16, kind: &'static str, retry: Option<bool>) -> Columns {
    Columns { status, kind, retry }
}

bursar_core::code_table! {
    /// Every error code, in the order of the manual.
    pub enum Code of Columns;
    InvalidJson "invalid_json" "The body is not valid JSON: correct it and send it again." = at(400, INVALID_REQUEST_TYPE, None);
    InvalidRequest "invalid_request" "The request is invalid: correct it and send it again." = at(400, INVALID_REQUEST_TYPE, None);
    UnsupportedParameter "unsupported_parameter" "This parameter has no price: leave it out." = at(400, INVALID_REQUEST_TYPE, None);
    UnsupportedContent "unsupported_content" "This content has no price: send text." = at(400, INVALID_REQUEST_TYPE, None);
    ModelNotFound "model_not_found" "This model is not sold here: choose another one, for example from GET /v1/models." = at(404, INVALID_REQUEST_TYPE, None);
    TooManyTokens "context_length_exceeded" "The request is too large: send a shorter prompt, or a lower bound on the answer." = at(400, INVALID_REQUEST_TYPE, None);
    TooLarge "body_too_large" "The body is too long: send a shorter one." = at(413, INVALID_REQUEST_TYPE, None);
    HeadTooLarge "head_too_large" "The request line or the headers are too large: send shorter ones." = at(431, INVALID_REQUEST_TYPE, None);
    RequestTimeout "request_timeout" "The request did not arrive in time: send it again in one piece." = at(408, INVALID_REQUEST_TYPE, None);
    InvalidPaymentHeader "invalid_payment_header" "The payment cannot be read: send one payment header, base64 of the JSON that x402 describes." = at(400, PAYMENT_TYPE, Some(false));
    PaymentInUse "payment_in_use" "This payment is in use by a request without an answer yet: send the same request again later." = at(409, PAYMENT_TYPE, Some(false));
    PaymentSpent "payment_spent" "This payment belongs to another request: sign a new one for this." = at(409, PAYMENT_TYPE, Some(false));
    AnswerNotKept "answer_not_kept" "This payment was used, and its answer was too long to keep or is too old: sign a new payment to ask again." = at(409, PAYMENT_TYPE, Some(false));
    StreamBroken "stream_broken" "This payment bought a stream that broke after its first chunk, and is not refunded: sign a new payment to ask again." = at(409, PAYMENT_TYPE, Some(false));
    SettlementFailed "settlement_failed" "The payment was not settled for this request: see the receipt for the reason, then send the same request again or sign a new payment." = at(402, PAYMENT_TYPE, Some(false));
    SettlementUnknown "settlement_unknown" "It is not known yet whether the payment was settled: send the same request with the same payment again. It is charged only once." = at(503, PAYMENT_TYPE, Some(false));
    AnswerOwed "answer_owed" "The payment is charged, but its answer could not be delivered yet: send the same request with the same payment again. It is not charged twice." = at(503, PAYMENT_TYPE, Some(false));
    FacilitatorUnavailable "facilitator_unavailable" "Payments cannot be verified or settled now, and nothing was charged: send the same request again." = at(503, SERVER_TYPE, None);
    UpstreamUnavailable "upstream_unavailable" "The model's server cannot be reached, and nothing was charged: send the same request again." = at(502, SERVER_TYPE, None);
    UpstreamBroken "upstream_broken" "The model's server gave no complete answer, and nothing was charged: send the same request again." = at(502, SERVER_TYPE, None);
    UpstreamTimeout "upstream_timeout" "The model's server took too long, and nothing was charged: send the same request again, or a smaller one." = at(504, SERVER_TYPE, None);
    UpstreamKey "upstream_key_refused" "The model's server refuses this service, and nothing was charged: tell its operator." = at(502, SERVER_TYPE, Some(false));
    TooManyRequests "too_many_requests" "Too many requests: wait for Retry-After seconds." = at(429, SERVER_TYPE, None);
    UnpaidLimit "unpaid_limit" "Too many answers are not paid yet: send the same request, with the same payment, after Retry-After seconds. It is charged at most once." = at(429, PAYMENT_TYPE, Some(false));
    Busy "busy" "Too many requests are in flight: send the same request, with the same payment, after Retry-After seconds." = at(503, SERVER_TYPE, Some(false));
    Stopping "stopping" "This service is stopping: send the same request, with the same payment, after Retry-After seconds." = at(503, SERVER_TYPE, Some(false));
    StoreFailed "store_failed" "The payment could not be recorded: send the same request with the same payment again." = at(503, SERVER_TYPE, Some(false));
    NotFound "not_found" "There is nothing at this path: see /openapi.json." = at(404, INVALID_REQUEST_TYPE, None);
    MethodNotAllowed "method_not_allowed" "This path does not support this method: see /openapi.json." = at(405, INVALID_REQUEST_TYPE, None);
}

impl Code {
    /// Returns the HTTP status.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.columns().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the error type as OpenAI clients know it.
    pub fn kind(self) -> &'static str {
        self.columns().kind
    }

    /// Returns whether a client may retry automatically.
    ///
    /// `None` leaves it to the client's rules.
    pub fn retry(self) -> Option<bool> {
        self.columns().retry
    }

    /// Returns the seconds after which a repeat may succeed, if that is known.
    pub fn retry_after(self) -> Option<u64> {
        match self {
            Self::PaymentInUse | Self::Busy | Self::Stopping => Some(2),
            // The interval between lookups of pending settlements.
            Self::UnpaidLimit => Some(5),
            _other => None,
        }
    }
}

/// A refusal of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    /// Details of this refusal.
    ///
    /// They contain no text from third parties.
    pub detail: Option<String>,
    /// The member of the request that is wrong.
    pub param: Option<String>,
    /// Seconds after which a repeat may succeed, if they differ from those of the code.
    pub retry_after: Option<u64>,
}

impl Fault {
    /// Creates a refusal without details.
    pub fn of(code: Code) -> Self {
        Self { code, detail: None, param: None, retry_after: None }
    }

    /// Sets the details.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Sets how long a repeat must wait, in seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the seconds after which a repeat may succeed, if that is known.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after.or_else(|| self.code.retry_after())
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
        f.write_str(self.code.sentence())?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

/// Returns the error table of the manual as Markdown.
pub fn reference() -> String {
    let mut page = String::from("| Code | Status | Retry | Message |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let retry = match code.retry() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "up to the client",
        };
        page.push_str(&format!(
            "| `{}` | {} | {retry} | {} |\n",
            code.text(),
            code.columns().status,
            code.sentence()
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_proxy_error_code_has_a_unique_text_and_a_valid_status() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.sentence().ends_with('.'), "{code}");
            assert!(StatusCode::from_u16(code.columns().status).is_ok());
        }
    }

    /// The manual in docs/proxy.md lists these values.
    #[test]
    fn retry_after_matches_the_manual() {
        let named: Vec<_> =
            Code::ALL.iter().filter_map(|code| Some((code.text(), code.retry_after()?))).collect();
        let expected = [("payment_in_use", 2), ("unpaid_limit", 5), ("busy", 2), ("stopping", 2)];
        assert_eq!(named, expected);
    }

    /// These codes are also returned during or after a settle request, when the payment may be charged.
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
            assert!(!code.sentence().contains("nothing was charged"), "{}", code.text());
        }
    }

    /// OpenAI clients retry 409 and 5xx on their own. Some sign a new payment for each request.
    #[test]
    fn clients_must_not_retry_possibly_charged_requests() {
        for code in Code::ALL {
            let harmless = code.sentence().contains("nothing was charged")
                || code.kind() == INVALID_REQUEST_TYPE;
            let limits = matches!(code, Code::TooManyRequests);
            assert!(harmless || limits || code.retry() == Some(false), "{code}");
        }
    }
}
