//! Responses that the edge itself sends in place of a route.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::to_bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};

/// Maximum length of a refusal's body.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// The reason why the edge responds in place of a route.
///
/// The connection ends after the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request is not valid HTTP/1 or is incomplete, or two parsers could read it in two ways.
    Malformed,
    /// The target of the request line is not a valid URI. hyper would answer without a body.
    Target,
    /// `Content-Length` is not one plain number, or is next to `Transfer-Encoding`.
    Length,
    HeadTooLarge,
    BodyTooLarge,
    /// The head or the body did not arrive in time.
    Timeout,
    /// There is no slot or no memory for the request, or the route did not respond in time.
    Busy,
}

impl Refusal {
    /// Returns the status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed | Self::Target | Self::Length => StatusCode::BAD_REQUEST,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns what happened and what to do, for the caller's developer.
    pub fn text(self) -> &'static str {
        match self {
            Self::Malformed => {
                "The request is not valid HTTP/1.1, or it can be read in two ways. Send CRLF line ends, \
                 no folded lines, no chunk extensions, no trailers and no body with GET."
            }
            Self::Target => {
                "The target in the request line is not a valid URI. Send a path that begins with / and \
                 is percent-encoded."
            }
            Self::Length => {
                "Content-Length is not one plain number, or it is sent together with Transfer-Encoding. Send only one of them."
            }
            Self::HeadTooLarge => {
                "The request line or the headers are too large. Send shorter ones."
            }
            Self::BodyTooLarge => "The body is too large. Send a shorter one.",
            Self::Timeout => "The request did not arrive in time. Send it again in one piece.",
            Self::Busy => {
                "The server has no room for this request now. Try again in a few seconds."
            }
        }
    }
}

/// A request that is refused.
#[derive(Debug)]
pub struct RefusedRequest<'a> {
    pub why: Refusal,
    /// `None` until the head is complete.
    pub method: Option<&'a Method>,
    /// The header `Origin`; `None` until the head is complete.
    pub origin: Option<&'a HeaderValue>,
    pub peer: IpAddr,
    /// Milliseconds since the first byte.
    pub took_ms: u64,
}

/// Writes the response of a refusal in the server's own format.
#[derive(Clone)]
pub struct RefusalWriter(Arc<dyn Fn(&RefusedRequest<'_>) -> Response + Send + Sync>);

impl RefusalWriter {
    /// Wraps the function that writes the response.
    pub fn new(write: impl Fn(&RefusedRequest<'_>) -> Response + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(super) fn response(&self, refused: &RefusedRequest<'_>) -> Response {
        let mut response = (self.0)(refused);
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        response
    }
}

impl fmt::Debug for RefusalWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefusalWriter")
    }
}

/// Returns a writer of plain-text refusals.
pub fn plain_refusal() -> RefusalWriter {
    RefusalWriter::new(|refused| (refused.why.status(), refused.why.text()).into_response())
}

/// Encodes a response for a connection that hyper does not serve, or no longer serves.
pub(super) async fn encode(response: Response) -> Vec<u8> {
    let (parts, body) = response.into_parts();
    // Our refusals are short texts. A body over the limit would be replaced by an empty one.
    let body = to_bytes(body, REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let reason = parts.status.canonical_reason().unwrap_or_default();
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", parts.status.as_u16()).into_bytes();
    for (name, value) in &parts.headers {
        if name != header::CONTENT_LENGTH {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }
    out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    out.extend_from_slice(&body);
    out
}
