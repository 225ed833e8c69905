//! The codes of errors without a verdict: the member `code` next to `error`.

use axum::http::StatusCode;
use bursar_serve::http::Refusal;

bursar_core::code_table! {
    /// A stable code for a request that gets no verdict.
    pub enum ErrorCode of u16;
    InvalidPayload "invalid_payload" "The body is not a valid request: correct it and send it again." = 400;
    InvalidRequest "invalid_request" "The request is not valid: correct it and send it again." = 400;
    ApiKeyRequired "api_key_required" "Send an API key of this facilitator, as Authorization: Bearer or as X-API-Key." = 401;
    NotFound "not_found" "There is nothing at this path: see /openapi.json." = 404;
    ChannelNotFound "channel_not_found" "This network has no channel with that id: check the id and the network." = 404;
    MethodNotAllowed "method_not_allowed" "This path does not support this method: see /openapi.json." = 405;
    RequestTimeout "request_timeout" "The request did not arrive in time: send it again in one piece." = 408;
    BodyTooLarge "body_too_large" "The body is too long: send a shorter one." = 413;
    TooManyRequests "too_many_requests" "Too many requests: wait for Retry-After seconds." = 429;
    HeadTooLarge "head_too_large" "The request line or the headers are too large: send shorter ones." = 431;
    Busy "busy" "The server has no room for this request now: send it again after Retry-After seconds." = 503;
    Stopping "stopping" "This facilitator is stopping: try again, here or at another one." = 503;
    Unavailable "unexpected_verify_error" "The network's nodes or the disk do not answer: try again." = 503;
}

impl ErrorCode {
    /// Returns the HTTP status.
    pub(super) fn status(self) -> StatusCode {
        StatusCode::from_u16(self.columns()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Refusal> for ErrorCode {
    fn from(why: Refusal) -> Self {
        match why {
            Refusal::Malformed | Refusal::Target | Refusal::Length => Self::InvalidRequest,
            Refusal::HeadTooLarge => Self::HeadTooLarge,
            Refusal::BodyTooLarge => Self::BodyTooLarge,
            Refusal::Timeout => Self::RequestTimeout,
            Refusal::Busy => Self::Busy,
        }
    }
}

/// Returns the manual's table, as Markdown.
pub fn reference() -> String {
    let row = |code: &ErrorCode| {
        format!("| `{}` | {} | {} |\n", code.text(), code.columns(), code.sentence())
    };
    let rows: String = ErrorCode::ALL.iter().map(row).collect();
    format!("| Code | Status | What happened, and what to do |\n|---|---|---|\n{rows}")
}
