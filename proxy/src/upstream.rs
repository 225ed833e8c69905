//! The client of the model's server. Its key never appears in a log, an answer, a stream or an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bursar_chain::ports::Clock;
use bursar_outbound::{
    Bytes, Client, HeaderMap, HeaderValue, Method, OutboundRequest, ReplyStream, SendFailure,
    Target,
};
use bursar_serve::wait::with_timeout;
use secrecy::SecretString;

use crate::answer::{EventKind, StreamStart};
use crate::answer_memory::{ANSWER_BYTES_MAX, AnswerReservation};
use crate::fault::{Code, Fault};
use crate::redact::{Redactor, StreamFilter};
use crate::user_agent::USER_AGENT;

/// Maximum size of an error or a list of models that is passed on.
const PASSTHROUGH_BYTES_MAX: usize = 4 << 20;
/// Maximum size of a stream's beginning that is held back: comments and events without content, and the first event
/// with content.
const HELD_BACK_BYTES_MAX: usize = 1 << 20;
/// Timeout of a request for the list of models.
const MODELS_TIMEOUT_MS: u64 = 15_000;

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
    timeouts: UpstreamTimeouts,
    /// The arrival of the last answer plus one millisecond, on the monotonic clock; 0 before the first answer.
    last_answer_ms: AtomicU64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    pub fault: Fault,
    /// Whether a request can cause this failure.
    ///
    /// A request causes it by asking for an answer that is too long or takes too long. All other failures are the
    /// upstream's.
    pub may_be_caused_by_request: bool,
}

/// A small response that is passed on unpaid: an error, or the list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passthrough {
    pub status: u16,
    pub content_type: Option<String>,
    pub retry_after: Option<String>,
    pub body: Bytes,
}

/// The head of a successful response, and the beginning of its stream.
#[derive(Debug)]
pub struct UpstreamResponse {
    pub status: u16,
    pub content_type: Option<String>,
    pub request_id: Option<String>,
    /// Whether the body is a stream of events.
    pub is_stream: bool,
    /// For a stream, the bytes up to the first event with content.
    ///
    /// Otherwise it is empty.
    pub stream_start: Bytes,
    pub rest: ReplyStream,
    /// Memory for a whole answer. It is already freed if the answer is a stream.
    room: AnswerReservation,
    /// Deadline of an answer that is not a stream, on the monotonic clock.
    deadline_ms: u64,
}

/// The upstream's reply to a chat request.
#[derive(Debug)]
pub enum UpstreamReply {
    Success(Box<UpstreamResponse>),
    Refusal(Passthrough),
}

/// The key of the upstream, if it needs one.
#[derive(Debug)]
pub struct UpstreamKey {
    /// The key, which is removed from all texts.
    pub secret: Option<SecretString>,
    /// The header with the key.
    pub bearer: Option<HeaderValue>,
}

/// Timeouts of the upstream, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamTimeouts {
    /// From the request to the end of an answer, or to a stream's first event with content.
    pub answer_ms: u64,
    /// Between two chunks of an answer.
    pub idle_ms: u64,
}

impl Upstream {
    /// Creates a client.
    pub fn new(
        client: Client,
        base: Target,
        key: UpstreamKey,
        clock: Arc<dyn Clock>,
        timeouts: UpstreamTimeouts,
    ) -> Self {
        let UpstreamKey { secret, bearer } = key;
        let redactor = Redactor::new(secret);
        let answered_ms = AtomicU64::new(0);
        Self { client, base, redactor, bearer, clock, timeouts, last_answer_ms: answered_ms }
    }

    /// Returns a filter that removes the key from one stream.
    pub fn filter(&self) -> StreamFilter {
        self.redactor.stream_filter()
    }

    /// Returns the name of the upstream for logs: scheme, host and port.
    pub fn label(&self) -> &str {
        self.base.label().as_str()
    }

    /// Requests a completion and waits for the start of the answer.
    ///
    /// The start is the head of a whole answer, or everything up to a stream's first event with content. `room` is the
    /// memory of a whole answer.
    ///
    /// # Errors
    /// [`NoAnswer`], also for a stream that ends without content. It is returned for any success other than 200, too:
    /// the customer did not pay for a partial answer (206) or for one that comes later (202).
    pub async fn chat(
        &self,
        body: Bytes,
        stream: bool,
        mut room: AnswerReservation,
    ) -> Result<UpstreamReply, NoAnswer> {
        let target = self.base.with_segments(&["chat", "completions"]);
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let request = OutboundRequest {
            method: Method::POST,
            target: &target,
            headers: self.headers(accept),
            body,
        };
        let deadline_ms = self.clock.mono_ms().saturating_add(self.timeouts.answer_ms);
        let opening = async { self.client.open(request).await.map_err(fault_of_no_reply) };
        let mut rest = self.with_deadline(deadline_ms, opening).await?;
        let status = rest.status.as_u16();
        if status >= 400 {
            let head = self.passthrough_head(&rest)?;
            let most = PASSTHROUGH_BYTES_MAX;
            let body = self.read_into(&mut room, rest, most, deadline_ms).await;
            // The payer does not control the length of an error, so a long error is not `may_be_caused_by_request`.
            let body = body.map_err(|none| NoAnswer::from(none.fault))?;
            let body = room.hold(self.redactor.redact(body));
            return Ok(UpstreamReply::Refusal(Passthrough { body, ..head }));
        }
        if status != 200 {
            tracing::warn!(status, "an upstream's answer with this status is not sold");
            return Err(Fault::of(Code::UpstreamBroken)
                .with_detail(format!("HTTP {status}"))
                .into());
        }
        let content_type = self.passthrough_header(&rest.headers, "content-type");
        let request_id = self.passthrough_header(&rest.headers, "x-request-id");
        let is_stream = is_event_stream(content_type.as_deref().unwrap_or_default());
        let mut first = Bytes::new();
        if is_stream {
            room.shrink(0);
            first = self.with_deadline(deadline_ms, read_until_content(&mut rest)).await?;
            self.set_answered();
        }
        Ok(UpstreamReply::Success(Box::new(UpstreamResponse {
            status,
            content_type,
            request_id,
            is_stream,
            stream_start: first,
            rest,
            room,
            deadline_ms,
        })))
    }

    /// Waits for a step of an answer until the deadline.
    async fn with_deadline<T>(
        &self,
        deadline_ms: u64,
        step: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, NoAnswer> {
        let left = deadline_ms.saturating_sub(self.clock.mono_ms());
        match with_timeout(&*self.clock, left, step).await {
            Some(result) => Ok(result?),
            None => Err(NoAnswer {
                fault: Fault::of(Code::UpstreamTimeout),
                may_be_caused_by_request: true,
            }),
        }
    }

    /// Whether an answer to any request has arrived since this monotonic time, which shows that the upstream works.
    pub fn has_answered_since(&self, ms: u64) -> bool {
        self.last_answer_ms.load(Ordering::Acquire) > ms
    }

    /// Records that an answer has arrived.
    pub fn set_answered(&self) {
        self.last_answer_ms.fetch_max(self.clock.mono_ms().saturating_add(1), Ordering::AcqRel);
    }

    /// Returns the next chunk of a stream, or `None` at its end.
    ///
    /// # Errors
    /// The stream broke, or no chunk came in time.
    pub async fn next_chunk(&self, rest: &mut ReplyStream) -> Result<Option<Bytes>, Fault> {
        with_timeout(&*self.clock, self.timeouts.idle_ms, async {
            rest.chunk().await.map_err(broken_answer_fault)
        })
        .await
        .unwrap_or_else(|| Err(Fault::of(Code::UpstreamTimeout)))
    }

    /// Returns the body of an answer that is not a stream, without the key.
    ///
    /// The body keeps its memory reserved.
    ///
    /// # Errors
    /// [`NoAnswer`]: the body ended early, took too long, is longer than [`ANSWER_BYTES_MAX`], or got no memory in
    /// time.
    pub async fn read_body(&self, response: UpstreamResponse) -> Result<Bytes, NoAnswer> {
        let UpstreamResponse { rest, mut room, deadline_ms, .. } = response;
        let body = self.read_into(&mut room, rest, ANSWER_BYTES_MAX, deadline_ms).await?;
        Ok(room.hold(self.redactor.redact(body)))
    }

    /// Reads a body, and reserves more memory if it is long. Does not read on until there is room.
    async fn read_into(
        &self,
        room: &mut AnswerReservation,
        mut rest: ReplyStream,
        bytes_max: usize,
        deadline_ms: u64,
    ) -> Result<Vec<u8>, NoAnswer> {
        let mut body = Vec::new();
        while let Some(chunk) = self.with_deadline(deadline_ms, self.next_chunk(&mut rest)).await? {
            let length = chunk.len().saturating_add(body.len());
            if length > bytes_max {
                let fault =
                    broken_answer_fault(format!("the answer is longer than {bytes_max} bytes"));
                return Err(NoAnswer { fault, may_be_caused_by_request: true });
            }
            if length > room.bytes() {
                let left = deadline_ms.saturating_sub(self.clock.mono_ms());
                if with_timeout(&*self.clock, left, room.extend()).await.is_none() {
                    // The payer has not caused this, because other answers hold the memory.
                    return Err(Fault::of(Code::Busy).into());
                }
                // If the buffer grew step by step, it would need the memory twice.
                body.reserve_exact(bytes_max.saturating_sub(body.len()));
            }
            body.extend_from_slice(&chunk);
        }
        body.shrink_to_fit();
        Ok(body)
    }

    /// Returns the upstream's list of models, or its error.
    ///
    /// # Errors
    /// A [`Fault`]: there is no response, or the upstream refuses our key.
    pub async fn models(&self) -> Result<Passthrough, Fault> {
        let target = self.base.with_segments(&["models"]);
        let headers = self.headers("application/json");
        let request =
            OutboundRequest { method: Method::GET, target: &target, headers, body: Bytes::new() };
        let exchange = async {
            let response = self.client.open(request).await.map_err(fault_of_no_reply)?;
            let status = response.status.as_u16();
            if status != 200 && status < 400 {
                return Err(Fault::of(Code::UpstreamBroken).with_detail(format!("HTTP {status}")));
            }
            let head = self.passthrough_head(&response)?;
            let body =
                response.read_to_end(PASSTHROUGH_BYTES_MAX).await.map_err(broken_answer_fault)?;
            Ok(Passthrough { body: self.redactor.redact(body).into(), ..head })
        };
        with_timeout(&*self.clock, MODELS_TIMEOUT_MS, exchange)
            .await
            .unwrap_or_else(|| Err(Fault::of(Code::UpstreamTimeout)))
    }

    /// Returns the head of a response that is passed on.
    ///
    /// # Errors
    /// The upstream refuses our key.
    fn passthrough_head(&self, response: &ReplyStream) -> Result<Passthrough, Fault> {
        let status = response.status.as_u16();
        // These statuses concern our key or our credit, not the request.
        if matches!(status, 401..=403) {
            tracing::error!(status, "the upstream refuses this service");
            return Err(Fault::of(Code::UpstreamKey));
        }
        let content_type = self.passthrough_header(&response.headers, "content-type");
        let retry_after = self.passthrough_header(&response.headers, "retry-after");
        Ok(Passthrough { status, content_type, retry_after, body: Bytes::new() })
    }

    /// Returns a header that is passed on, unless it contains the key.
    fn passthrough_header(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let text = headers.get(name)?.to_str().ok()?;
        (!self.redactor.occurs_in(text.as_bytes())).then(|| text.to_owned())
    }

    /// Returns the request headers. No header of the customer is forwarded. Compression is refused, because chunks
    /// are filtered and passed on as they arrive.
    fn headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static(accept));
        headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        headers.insert("user-agent", HeaderValue::from_static(USER_AGENT));
        if let Some(bearer) = &self.bearer {
            headers.insert("authorization", bearer.clone());
        }
        headers
    }
}

impl From<Fault> for NoAnswer {
    fn from(fault: Fault) -> Self {
        Self { fault, may_be_caused_by_request: false }
    }
}

/// Reads until an event has content. Nothing is sold before that event: the stream may end, or report an error.
async fn read_until_content(rest: &mut ReplyStream) -> Result<Bytes, Fault> {
    let mut start = StreamStart::default();
    loop {
        let Some(chunk) = rest.chunk().await.map_err(broken_answer_fault)? else {
            return Err(broken_answer_fault("the stream ended without content".to_owned()));
        };
        if chunk.len() > HELD_BACK_BYTES_MAX.saturating_sub(start.len()) {
            return Err(broken_answer_fault(
                "the stream has no content at its beginning".to_owned(),
            ));
        }
        let is_first = start.is_empty();
        match start.add(&chunk) {
            Some(EventKind::Content) if is_first => return Ok(chunk),
            Some(EventKind::Content) => return Ok(start.into_bytes().into()),
            Some(EventKind::Error) => {
                return Err(broken_answer_fault("the stream begins with an error".to_owned()));
            }
            Some(EventKind::Done) => {
                return Err(broken_answer_fault("the stream ended without content".to_owned()));
            }
            Some(EventKind::Empty) | None => {}
        }
    }
}

fn is_event_stream(kind: &str) -> bool {
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn fault_of_no_reply(fault: SendFailure) -> Fault {
    let code = match fault {
        SendFailure::NotSent(_) => Code::UpstreamUnavailable,
        SendFailure::Lost(_) => Code::UpstreamBroken,
    };
    tracing::warn!(%fault, "the upstream gave no answer");
    Fault::of(code)
}

fn broken_answer_fault(why: String) -> Fault {
    tracing::warn!(%why, "the upstream's answer is unusable");
    Fault::of(Code::UpstreamBroken)
}
