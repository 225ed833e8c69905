//! Sends many requests in one exchange (JSON-RPC 2.0, section 6). If a node refuses a batch, smaller batches follow,
//! and finally single requests. For some minutes that node then receives no batch above the size that it accepted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use serde_json::value::RawValue;
use tracing::warn;

use crate::ports::{BoxFuture, ChainFault};
use crate::rpc::endpoint::Endpoint;
use crate::rpc::envelope::{self, Call, Content, MethodKind, WireError};
use crate::rpc::quantity::{Unusable, decode_as};
use crate::rpc::setback::Setback;
use crate::rpc::{RpcChain, refusal};

/// The batch size that is tried after a node refused a larger batch. Public nodes with a limit accept at least this
/// size.
const SMALL_BATCH: usize = 10;

/// Maximum number of concurrent exchanges that replace one batch: public nodes limit the rate of requests.
const CONCURRENT_EXCHANGES_MAX: usize = 4;

/// JSON-RPC 2.0: the request is not valid. Some nodes that refuse a batch return this code for each of its requests.
const INVALID_REQUEST: i64 = -32600;

/// The outcomes of several requests, in their order.
type Outcomes<T> = Vec<Result<T, Setback>>;

/// The outcome of one exchange.
enum BatchOutcome<T> {
    Answered(Outcomes<T>),
    /// The node refuses this batch.
    Refused(BatchRefusal),
}

/// A node's message about a batch that it refuses.
struct BatchRefusal {
    code: Option<i64>,
    message: String,
}

impl RpcChain {
    /// Sends all requests, if possible in one exchange. Returns one answer for each request, in the order of the
    /// requests. If one request fails, all of them fail. `decode` receives the index of the request.
    pub(super) async fn ask_all<T: Send>(
        &self,
        calls: Vec<Call>,
        decode: impl Fn(usize, &RawValue) -> Result<T, Unusable> + Send + Sync,
    ) -> Result<Vec<T>, ChainFault> {
        let job = Arc::new((calls, decode));
        let step = |endpoint| -> BoxFuture<'_, Result<Vec<T>, Setback>> {
            let job = Arc::clone(&job);
            Box::pin(async move {
                self.ensure_identity(endpoint).await?;
                let outcomes = self.exchange_many(endpoint, &job.0, &job.1).await?;
                outcomes.into_iter().collect()
            })
        };
        self.run_in_order(&step).await
    }

    /// Sends all requests, if possible in one exchange. Each request has its own answer or error.
    pub(super) async fn ask_each<T: Send>(
        &self,
        calls: Vec<Call>,
        decode: impl Fn(&RawValue) -> Result<T, Unusable> + Send + Sync,
    ) -> Result<Vec<Result<T, ChainFault>>, ChainFault> {
        let job = Arc::new((calls, move |_at: usize, raw: &RawValue| decode(raw)));
        let step = |endpoint| -> BoxFuture<'_, Result<Vec<Result<T, ChainFault>>, Setback>> {
            let job = Arc::clone(&job);
            Box::pin(async move {
                self.ensure_identity(endpoint).await?;
                let outcomes = self.exchange_many(endpoint, &job.0, &job.1).await?;
                let own = |outcome| match outcome {
                    Ok(answer) => Ok(Ok(answer)),
                    Err(Setback::Final(fault)) => Ok(Err(fault)),
                    Err(Setback::Rejected { code, message }) => {
                        Ok(Err(ChainFault::Rejected { code, message }))
                    }
                    Err(setback) => Err(setback),
                };
                outcomes.into_iter().map(own).collect()
            })
        };
        self.run_in_order(&step).await
    }

    /// Returns a node's message if it refuses a batch of this many requests, and `None` if it accepts one.
    pub(super) async fn batch_refusal_of(
        &self,
        count: usize,
    ) -> Result<Option<String>, ChainFault> {
        let step = |endpoint| -> BoxFuture<'_, Result<Option<String>, Setback>> {
            Box::pin(async move {
                self.ensure_identity(endpoint).await?;
                let call =
                    || Call { method: "eth_chainId", params: json!([]), kind: MethodKind::Read };
                let calls: Vec<Call> = std::iter::repeat_with(call).take(count).collect();
                let decode = |_at: usize, raw: &RawValue| decode_as::<String>(raw);
                match self.exchange_batch(endpoint, &calls, 0, &decode).await? {
                    BatchOutcome::Answered(outcomes) => {
                        // A partly answered batch is useless.
                        outcomes.into_iter().collect::<Result<Vec<_>, _>>().map(|_all| None)
                    }
                    BatchOutcome::Refused(refused) => Ok(Some(refused.message)),
                }
            })
        };
        self.run_in_order(&step).await
    }

    /// Sends all requests to one endpoint, in as few exchanges as the endpoint permits.
    async fn exchange_many<T>(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
        decode: &(impl Fn(usize, &RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<Outcomes<T>, Setback> {
        let mut size = endpoint.batch_max(self.mono_ms()).min(calls.len()).max(1);
        let mut refused: Option<BatchRefusal> = None;
        loop {
            match self
                .exchange_in_batches_of(endpoint, calls, size, refused.as_ref(), decode)
                .await?
            {
                BatchOutcome::Answered(outcomes) => {
                    // Record the limit only now: the answer to a smaller batch proves that the size was the reason.
                    if let Some(BatchRefusal { message: said, .. }) = refused
                        && endpoint.learn_batch_max(size, self.mono_ms())
                    {
                        let endpoint = endpoint.label();
                        warn!(%endpoint, size, said, "the endpoint accepts only smaller batches of requests");
                    }
                    return Ok(outcomes);
                }
                BatchOutcome::Refused(now) => {
                    size = if size > SMALL_BATCH { SMALL_BATCH } else { 1 };
                    refused = Some(now);
                }
            }
        }
    }

    /// Sends all requests in exchanges of this size. The first exchange goes alone; if it is refused, the remaining
    /// exchanges are not sent.
    async fn exchange_in_batches_of<T>(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
        size: usize,
        before: Option<&BatchRefusal>,
        decode: &(impl Fn(usize, &RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<BatchOutcome<T>, Setback> {
        let mut parts = calls.chunks(size).zip((0..).step_by(size));
        let Some((first, at)) = parts.next() else { return Ok(BatchOutcome::Answered(Vec::new())) };
        let mut outcomes = match self.exchange_part(endpoint, first, at, decode).await? {
            BatchOutcome::Answered(outcomes) => outcomes,
            refused @ BatchOutcome::Refused(_) => return Ok(refused),
        };
        // If a node refuses a single request with the same code as the batch before, the size is not the reason. The
        // node then refuses every request, for example because of a rate limit.
        if let [Err(Setback::Rejected { code, .. })] = outcomes.as_slice()
            && before.is_some_and(|before| before.code == Some(*code))
            && let Some(Err(setback)) = outcomes.pop()
        {
            return Err(setback);
        }
        let rest: Vec<_> =
            parts.map(|(part, at)| self.exchange_part(endpoint, part, at, decode)).collect();
        let mut rest = stream::iter(rest).buffered(CONCURRENT_EXCHANGES_MAX);
        while let Some(part) = rest.try_next().await? {
            match part {
                BatchOutcome::Answered(more) => outcomes.extend(more),
                refused @ BatchOutcome::Refused(_) => return Ok(refused),
            }
        }
        Ok(BatchOutcome::Answered(outcomes))
    }

    /// Sends some requests in one exchange; the first request has the index `at`. A single request is sent without a
    /// batch.
    async fn exchange_part<T>(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
        at: usize,
        decode: &(impl Fn(usize, &RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<BatchOutcome<T>, Setback> {
        let [call] = calls else { return self.exchange_batch(endpoint, calls, at, decode).await };
        match self.exchange(endpoint, call, &|raw: &RawValue| decode(at, raw)).await {
            Err(setback) if !setback.is_about_the_request() => Err(setback),
            outcome => Ok(BatchOutcome::Answered(vec![outcome])),
        }
    }

    async fn exchange_batch<T>(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
        at: usize,
        decode: &(impl Fn(usize, &RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<BatchOutcome<T>, Setback> {
        let count = u64::try_from(calls.len()).unwrap_or(u64::MAX);
        let first = self.next_id.fetch_add(count, Ordering::Relaxed);
        let requests = envelope::batch_request(first, calls).map_err(malformed)?;
        let bytes_max = self.config.limits.reply_bytes_max;
        let reply = self.client.post(endpoint.target(), requests, bytes_max).await;
        let reply = reply.map_err(Setback::Unreachable)?;
        let scrub = |text: &str| endpoint.target().scrub(text);
        let refused = |why: String| {
            BatchOutcome::Refused(match envelope::batch_error(&reply.body) {
                Some(WireError { code, message, .. }) => BatchRefusal {
                    code: Some(code),
                    message: format!("{} (code {code})", scrub(&message)),
                },
                None => BatchRefusal { code: None, message: why },
            })
        };
        let status = reply.status.as_u16();
        match status {
            200..=299 => {}
            // These statuses are about the caller, not about the batch: the node would refuse every request.
            401 | 408 | 429 => return Err(Setback::Unreachable(format!("HTTP {status}"))),
            400..=499 => return Ok(refused(format!("HTTP {status}"))),
            _other if envelope::batch_error(&reply.body).is_some() => {
                return Ok(refused(String::new()));
            }
            _other => return Err(Setback::Unreachable(format!("HTTP {status}"))),
        }
        let answers = match envelope::answers(&reply.body, first, calls.len()) {
            Ok(answers) => answers,
            Err(why) => return Ok(refused(why.0.to_owned())),
        };
        let is_refusal = |answer: &Content<'_>| match answer {
            Content::Error(error) => error.code == INVALID_REQUEST,
            Content::Result(_) => false,
        };
        if answers.iter().all(is_refusal) {
            return Ok(refused("every request is invalid".to_owned()));
        }
        let each = calls.iter().zip(answers).zip(at..);
        let outcomes = each.map(|((call, content), at)| match content {
            Content::Result(raw) => decode(at, raw).map(Ok).map_err(malformed),
            Content::Error(error) => Ok(Err(refusal::classify(call.kind, error, scrub))),
        });
        outcomes.collect::<Result<_, Setback>>().map(BatchOutcome::Answered)
    }
}

fn malformed(why: Unusable) -> Setback {
    Setback::Malformed(why.0.to_owned())
}
