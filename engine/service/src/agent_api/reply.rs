//! Answers as HTTP: JSON bodies, the headers of every answer, and the forms of errors.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::Object;
use bursar_core::limits::RATE_WINDOW_MS;
use bursar_domain::Request;

use super::rate::WaitMs;

/// An answer before its conversion to HTTP.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Object,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The code in the body, for the log.
    pub code: Option<Code>,
    pub outcome: Outcome,
}

/// The outcome of a call. `/status` shows how many calls of `/sign` were done or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The answer contains the result that the agent asked for.
    Done,
    /// The answer contains an id to poll.
    InProgress,
    Refused,
}

impl Answer {
    /// Creates an answer. Its outcome is `Refused` from status 400 on.
    pub fn new(status: u16, body: Object) -> Self {
        let outcome = if status >= 400 { Outcome::Refused } else { Outcome::Done };
        Self { status, body, headers: Vec::new(), code: None, outcome }
    }

    /// Sets the code that the body contains, for the log.
    #[must_use]
    pub(super) fn with_code(self, code: Code) -> Self {
        Self { code: Some(code), ..self }
    }

    #[must_use]
    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    #[must_use]
    pub(super) fn with_outcome(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    /// Adds a header, unless `value` contains characters that a header cannot have.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Creates a refusal in the form of the original wallet.
    pub fn refusal(fault: &Fault) -> Self {
        if fault.code == Code::RateLimitExceeded {
            // The guard replaces this answer by an answer with the exact wait.
            return Self::too_many(RATE_WINDOW_MS);
        }
        let body = Object::new()
            .with("status", "error")
            .with("error", fault.message.as_str())
            .with("code", fault.code.text());
        let answer =
            Self::new(fault.code.http(), body).with_code(fault.code).with_outcome(Outcome::Refused);
        let answer = match retry_after(fault.code) {
            Some(seconds) => answer.retry_after(seconds),
            None => answer,
        };
        // These codes are returned before a request is recorded, or instead of recording it.
        match fault.code {
            Code::Busy | Code::ChainUnavailable | Code::DiskFull => answer.mark_unrecorded(),
            _other => answer,
        }
    }

    /// Adds the name of the identity by which a repeat of this request is recognised.
    #[must_use]
    pub(super) fn with_identity_of(mut self, record: &Request) -> Self {
        self.body.insert("identity", record.identity.name());
        self
    }

    /// States that the call recorded nothing, so repeating it cannot create a second request.
    #[must_use]
    pub(super) fn mark_unrecorded(mut self) -> Self {
        self.body.insert("recorded", false);
        self
    }

    /// Creates the answer of the rate limit. The answer has no `status`, as in the original wallet.
    pub(super) fn too_many(wait: WaitMs) -> Self {
        let code = Code::RateLimitExceeded;
        let body = Object::new().with("error", code.sentence()).with("code", code.text());
        Self::new(code.http(), body).with_code(code).retry_after(wait.div_ceil(1_000))
    }

    /// Creates the answer to a wrong method on a known path, in the form of the original wallet. `allowed` lists the
    /// methods, separated by a comma and a space.
    pub fn wrong_method(allowed: &str) -> Self {
        let code = Code::MethodNotAllowed;
        let methods: Vec<bursar_core::json::Value> =
            allowed.split(", ").map(bursar_core::json::Value::from).collect();
        let body = Object::new()
            .with("error", code.sentence())
            .with("code", code.text())
            .with("allowed_methods", methods);
        Self::new(code.http(), body).with_code(code).with_header(header::ALLOW, allowed)
    }

    /// Adds the seconds after which the same call may succeed, as a header and in the body.
    #[must_use]
    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.body.insert("retry_after", seconds);
        self.with_header(header::RETRY_AFTER, &seconds.to_string())
    }

    /// Converts the answer to HTTP, with its code as an extension.
    pub fn into_http(self) -> Response<Body> {
        let mut response = response(self.status, self.body.to_compact(), "application/json");
        response.headers_mut().extend(self.headers);
        if let Some(code) = self.code {
            response.extensions_mut().insert(code);
        }
        response
    }
}

/// Creates an answer other than an endpoint's JSON: a text, a script, a page or the API description.
pub(super) fn text(status: u16, kind: &'static str, text: String) -> Response<Body> {
    let mut response = response(status, text, kind);
    lock_down(&mut response);
    response
}

/// Creates an HTML page. Its content security policy forbids it to load or run anything.
pub(super) fn page(status: u16, html: &str) -> Response<Body> {
    text(status, "text/html; charset=utf-8", html.to_owned())
}

fn lock_down(response: &mut Response<Body>) {
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
}

fn response(status: u16, body: String, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl From<Fault> for Answer {
    fn from(fault: Fault) -> Self {
        if let Some(detail) = &fault.detail {
            tracing::debug!(code = %fault.code, detail, "refused");
        }
        Self::refusal(&fault)
    }
}

/// Returns the seconds after which the same call may succeed.
fn retry_after(code: Code) -> Option<u64> {
    let passes = matches!(
        code,
        Code::WalletLocked
            | Code::Busy
            | Code::JournalFailed
            | Code::DiskFull
            | Code::ChainUnavailable
    );
    passes.then_some(5)
}
