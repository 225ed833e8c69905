//! Many requests in one exchange (JSON-RPC 2.0, section 6). Callers fall back to single requests if a node
//! accepts no batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;

use crate::ports::{BoxFuture, ChainFault};
use crate::rpc::endpoint::Endpoint;
use crate::rpc::envelope::{self, Call, Content};
use crate::rpc::quantity::Unusable;
use crate::rpc::setback::Setback;
use crate::rpc::{RpcChain, refusal};

impl RpcChain {
    /// Sends all requests as one batch. Returns one answer for each, in their order; one error fails the whole
    /// batch. `decode` receives the index of the request.
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
                self.exchange_all(endpoint, &job.0, &job.1).await
            })
        };
        self.in_order(&step).await
    }

    /// Sends all requests as one batch. Each has its own answer or error.
    pub(super) async fn ask_each<T: Send>(
        &self,
        calls: Vec<Call>,
        decode: impl Fn(&RawValue) -> Result<T, Unusable> + Send + Sync,
    ) -> Result<Vec<Result<T, ChainFault>>, ChainFault> {
        let job = Arc::new((calls, decode));
        let step = |endpoint| -> BoxFuture<'_, Result<Vec<Result<T, ChainFault>>, Setback>> {
            let job = Arc::clone(&job);
            Box::pin(async move {
                self.ensure_identity(endpoint).await?;
                self.exchange_each(endpoint, &job.0, &job.1).await
            })
        };
        self.in_order(&step).await
    }

    async fn exchange_each<T>(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
        decode: &(impl Fn(&RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<Vec<Result<T, ChainFault>>, Setback> {
        let (first, body) = self.post_batch(endpoint, calls).await?;
        let answers = envelope::answers(&body, first, calls.len()).map_err(malformed)?;
        let scrub = |text: &str| endpoint.target().scrub(text);
        let mut results = Vec::with_capacity(calls.len());
        for (call, content) in calls.iter().zip(answers) {
            results.push(match content {
                Content::Result(raw) => Ok(decode(raw).map_err(malformed)?),
                Content::Error(error) => match refusal::classify(call.kind, error, scrub) {
                    Setback::Final(fault) => Err(fault),
                    Setback::Rejected { code, message } => {
                        Err(ChainFault::Rejected { code, message })
                    }
                    setback => return Err(setback),
                },
            });
        }
        Ok(results)
    }

    /// Sends the requests; returns the first of their ids and the response body.
    async fn post_batch(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
    ) -> Result<(u64, Vec<u8>), Setback> {
        let count = u64::try_from(calls.len()).unwrap_or(u64::MAX);
        let first = self.next_id.fetch_add(count, Ordering::Relaxed);
        let requests = envelope::batch_request(first, calls).map_err(malformed)?;
        let bytes_max = self.config.limits.reply_bytes_max;
        let reply = self.client.post(endpoint.target(), requests, bytes_max).await;
        let reply = reply.map_err(Setback::Unreachable)?;
        if !reply.status.is_success() {
            return Err(Setback::Unreachable(format!("HTTP {}", reply.status)));
        }
        Ok((first, reply.body))
    }

    async fn exchange_all<T>(
        &self,
        endpoint: &Endpoint,
        calls: &[Call],
        decode: &(impl Fn(usize, &RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<Vec<T>, Setback> {
        let (first, body) = self.post_batch(endpoint, calls).await?;
        let answers = envelope::answers(&body, first, calls.len()).map_err(malformed)?;
        let mut decoded = Vec::with_capacity(calls.len());
        for (at, (call, content)) in calls.iter().zip(answers).enumerate() {
            match content {
                Content::Result(raw) => decoded.push(decode(at, raw).map_err(malformed)?),
                Content::Error(error) => {
                    let scrub = |text: &str| endpoint.target().scrub(text);
                    return Err(refusal::classify(call.kind, error, scrub));
                }
            }
        }
        Ok(decoded)
    }
}

fn malformed(why: Unusable) -> Setback {
    Setback::Malformed(why.0.to_owned())
}
