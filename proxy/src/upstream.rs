//! The client of the model's server. Its key never appears in a log, an answer, a stream or an error.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_outbound::{
    Answered, Asked, Bytes, Client, HeaderMap, HeaderValue, Method, Target, Unanswered,
};
use secrecy::SecretString;

use crate::fault::{Code, Fault};
use crate::redact::{Redactor, StreamFilter};
use crate::usage::{self, Event};
use crate::wait::within;

/// Maximum size of an error or a list of models that is passed on. Also bounds a stream before its first event ends.
const SIDE_BYTES_MAX: usize = 4 << 20;
/// Timeout of a request for the list of models.
const MODELS_MS: u64 = 15_000;

/// The client of the model's server.
#[derive(Debug)]
pub struct Upstream {
    client: Client,
    base: Target,
    /// Removes the key from everything that is passed on.
    redactor: Redactor,
    /// The key as a header.
    bearer: Option<HeaderValue>,
    clock: Arc<dyn Clock>,
    /// Time from the request to the end of an answer, or to the first event of a stream.
    answer_ms: u64,
    /// Time between two chunks.
    idle_ms: u64,
}

/// A small response that is passed on unpaid: an error, or the list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub status: u16,
    pub content_type: Option<String>,
    pub retry_after: Option<String>,
    pub body: Bytes,
}

/// The head of a successful response, with the first part of a stream.
#[derive(Debug)]
pub struct Begun {
    pub status: u16,
    pub content_type: Option<String>,
    pub request_id: Option<String>,
    /// Whether the body is a stream of events.
    pub is_stream: bool,
    /// The bytes received so far: at least the first event of a stream, otherwise empty.
    pub first: Bytes,
    pub rest: Answered,
    /// Deadline of an answer that is not a stream, on the monotonic clock.
    until_ms: u64,
}

/// The upstream's reply to a chat request.
#[derive(Debug)]
pub enum Said {
    Success(Box<Begun>),
    Refusal(Side),
}

impl Upstream {
    /// Creates a client.
    ///
    /// The key comes as a secret and as a header. The timeouts, in milliseconds, are for an answer and between two
    /// chunks.
    pub fn new(
        client: Client,
        base: Target,
        (key, bearer): (Option<SecretString>, Option<HeaderValue>),
        clock: Arc<dyn Clock>,
        (answer_ms, idle_ms): (u64, u64),
    ) -> Self {
        let redactor = Redactor::new(key);
        Self { client, base, redactor, bearer, clock, answer_ms, idle_ms }
    }

    /// Returns a filter that removes the key from one stream.
    pub fn filter(&self) -> StreamFilter {
        self.redactor.stream()
    }

    /// Returns the name of the upstream for logs: scheme, host and port.
    pub fn label(&self) -> &str {
        self.base.label().as_str()
    }

    /// Requests a completion and waits for the start of the answer.
    ///
    /// That is the head of a whole answer, or the first event of a stream.
    ///
    /// # Errors
    /// A [`Fault`]: there is no answer, and nothing was charged.
    pub async fn chat(&self, body: Bytes, stream: bool) -> Result<Said, Fault> {
        let target = self.base.below(&["chat", "completions"]);
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let asked =
            Asked { method: Method::POST, target: &target, headers: self.headers(accept), body };
        let until_ms = self.clock.mono_ms().saturating_add(self.answer_ms);
        let exchange = async {
            let mut rest = self.client.open(asked).await.map_err(unanswered)?;
            let status = rest.status.as_u16();
            if rest.status.is_redirection() || rest.status.is_informational() {
                return Err(Fault::of(Code::UpstreamBroken).because(format!("HTTP {status}")));
            }
            if status >= 400 {
                return Ok(Said::Refusal(self.side(rest).await?));
            }
            let content_type = self.text(&rest.headers, "content-type");
            let request_id = self.text(&rest.headers, "x-request-id");
            let is_stream = is_event_stream(content_type.as_deref().unwrap_or_default());
            let first = if is_stream { first_event(&mut rest).await? } else { Bytes::new() };
            let begun =
                Begun { status, content_type, request_id, is_stream, first, rest, until_ms };
            Ok(Said::Success(Box::new(begun)))
        };
        within(&*self.clock, self.answer_ms, exchange).await.unwrap_or_else(too_late)
    }

    /// Returns the next chunk of a stream, or `None` at its end.
    ///
    /// # Errors
    /// The stream broke, or no chunk came in time.
    pub async fn next(&self, rest: &mut Answered) -> Result<Option<Bytes>, Fault> {
        within(&*self.clock, self.idle_ms, async { rest.chunk().await.map_err(broken) })
            .await
            .unwrap_or_else(too_late)
    }

    /// Returns the body of an answer that is not a stream, without the key.
    ///
    /// # Errors
    /// The answer broke off, took too long, or exceeds `bytes_max`.
    pub async fn whole(&self, begun: Begun, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        let Begun { mut rest, until_ms, .. } = begun;
        let left = until_ms.saturating_sub(self.clock.mono_ms());
        let read = async {
            let mut body = Vec::new();
            while let Some(chunk) = self.next(&mut rest).await? {
                if chunk.len() > bytes_max.saturating_sub(body.len()) {
                    return Err(broken(format!("the answer is longer than {bytes_max} bytes")));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        };
        let body = within(&*self.clock, left, read).await.unwrap_or_else(too_late)?;
        Ok(self.redactor.whole(body))
    }

    /// Returns the upstream's list of models, or its error.
    ///
    /// # Errors
    /// A [`Fault`]: there is no response, or the upstream refuses our key.
    pub async fn models(&self) -> Result<Side, Fault> {
        let target = self.base.below(&["models"]);
        let headers = self.headers("application/json");
        let asked = Asked { method: Method::GET, target: &target, headers, body: Bytes::new() };
        let exchange = async {
            let answered = self.client.open(asked).await.map_err(unanswered)?;
            if answered.status.is_redirection() {
                return Err(Fault::of(Code::UpstreamBroken).because(answered.status));
            }
            self.side(answered).await
        };
        within(&*self.clock, MODELS_MS, exchange).await.unwrap_or_else(too_late)
    }

    async fn side(&self, answered: Answered) -> Result<Side, Fault> {
        let status = answered.status.as_u16();
        // These statuses concern us: our key or our credit.
        if matches!(status, 401..=403) {
            tracing::error!(status, "the upstream refuses this service");
            return Err(Fault::of(Code::UpstreamKey));
        }
        let content_type = self.text(&answered.headers, "content-type");
        let retry_after = self.text(&answered.headers, "retry-after");
        let body = answered.whole(SIDE_BYTES_MAX).await.map_err(broken)?;
        let body = Bytes::from(self.redactor.whole(body));
        Ok(Side { status, content_type, retry_after, body })
    }

    /// Returns a header that is passed on, unless it contains the key.
    fn text(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let text = headers.get(name)?.to_str().ok()?;
        (!self.redactor.is_in(text.as_bytes())).then(|| text.to_owned())
    }

    /// Returns the request headers. No header of the customer is forwarded. Compression is refused, because chunks
    /// are filtered and passed on as they arrive.
    fn headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static(accept));
        headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        if let Some(bearer) = &self.bearer {
            headers.insert("authorization", bearer.clone());
        }
        headers
    }
}

/// Reads until the first event is complete. Nothing is sold before it, because it may be an error. Comments that keep
/// the connection open are held until then.
async fn first_event(rest: &mut Answered) -> Result<Bytes, Fault> {
    let mut frames = Vec::new();
    loop {
        let Some(chunk) = rest.chunk().await.map_err(broken)? else {
            return Err(broken("a stream without an event".to_owned()));
        };
        let alone = frames.is_empty();
        frames.extend_from_slice(&chunk);
        match usage::first_event(&frames) {
            Some(Event::Error) => {
                return Err(broken("a stream that begins with an error".to_owned()));
            }
            Some(Event::Piece) if alone => return Ok(chunk),
            Some(Event::Piece) => return Ok(frames.into()),
            None if frames.len() > SIDE_BYTES_MAX => {
                return Err(broken("a stream whose first event has no end".to_owned()));
            }
            None => {}
        }
    }
}

fn is_event_stream(kind: &str) -> bool {
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn unanswered(fault: Unanswered) -> Fault {
    let code = match fault {
        Unanswered::Unreached(_) => Code::UpstreamUnavailable,
        Unanswered::Lost(_) => Code::UpstreamBroken,
    };
    tracing::warn!(%fault, "the upstream gave no answer");
    Fault::of(code)
}

fn broken(why: String) -> Fault {
    tracing::warn!(%why, "the upstream's answer was cut off");
    Fault::of(Code::UpstreamBroken)
}

fn too_late<T>() -> Result<T, Fault> {
    Err(Fault::of(Code::UpstreamTimeout))
}
