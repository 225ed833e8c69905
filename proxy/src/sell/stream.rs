//! Streams. Chunks are passed on as they arrive. A copy is stored for repeats of the request, unless it is too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar_outbound::Bytes;
use bursar_serve::wait::with_timeout;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::budget::{CUSTOMER_READ_MS_MAX, StreamBudget};
use super::{
    AnswerHead, Order, PaidStream, STORED_ANSWER_BYTES_MAX, SaleOutcome, SaleStep, Seller,
};
use crate::answer;
use crate::book::ledger::PaymentGuard;
use crate::book::{Record, Stage, StoredAnswer};
use crate::fault::{Code, Fault};
use crate::upstream::UpstreamResponse;
use crate::usage;

/// Chunks buffered for a slow customer. When the buffer is full, reading from the upstream pauses.
const BUFFERED_CHUNKS_MAX: usize = 8;
/// Number of bytes stored from the end of a stream that is too long to store. They contain the usage.
const STORED_TAIL_BYTES: usize = 8 << 10;

/// The exclusive right to the payment, and the sale permit.
pub(super) type SaleGuards = (PaymentGuard, OwnedSemaphorePermit);

/// The sending side of a customer's stream.
struct ChunkSender {
    chunks: mpsc::Sender<Bytes>,
    /// Set once the answer has ended. If the channel closes before that, the connection is cut.
    complete: Arc<AtomicBool>,
}

/// A copy of a stream.
struct StreamCopy {
    budget: StreamBudget,
    reserved: usize,
    bytes: Vec<u8>,
    /// Whether `bytes` is the whole stream so far, not only its end.
    is_whole: bool,
}

impl StreamCopy {
    fn new(budget: StreamBudget) -> Self {
        Self { budget, reserved: 0, bytes: Vec::new(), is_whole: true }
    }

    fn add(&mut self, chunk: &[u8]) {
        if self.is_whole {
            let fits = self.bytes.len().saturating_add(chunk.len()) <= STORED_ANSWER_BYTES_MAX;
            if fits && self.budget.reserve(chunk.len()) {
                self.reserved = self.reserved.saturating_add(chunk.len());
            } else {
                self.is_whole = false;
            }
        }
        self.bytes.extend_from_slice(chunk);
        if !self.is_whole && self.bytes.len() > STORED_TAIL_BYTES.saturating_mul(2) {
            let cut = self.bytes.len().saturating_sub(STORED_TAIL_BYTES);
            self.bytes.drain(..cut);
            self.bytes.shrink_to(STORED_TAIL_BYTES.saturating_mul(2));
        }
    }
}

impl Drop for StreamCopy {
    fn drop(&mut self) {
        self.budget.release(self.reserved);
    }
}

/// How a stream ended.
enum StreamEnd {
    Complete,
    Broken(Fault),
    /// The customer has left, and the stream cannot be stored.
    Abandoned,
}

impl Seller {
    /// Starts a task that sends the stream.
    pub(super) async fn start_stream(
        &self,
        order: &Order,
        mut record: Record,
        response: UpstreamResponse,
        guards: SaleGuards,
    ) -> SaleStep<SaleOutcome> {
        record.stage = Stage::Streaming;
        self.or_store_fault(self.0.ledger.put(&record, None).await)?;
        self.0.failpoints.pass("streaming");
        let (chunks, pieces) = mpsc::channel(BUFFERED_CHUNKS_MAX);
        let complete = Arc::new(AtomicBool::new(false));
        let sender = ChunkSender { chunks, complete: Arc::clone(&complete) };
        let stream = PaidStream {
            head: AnswerHead::of(
                &record,
                response.status,
                response.content_type.clone(),
                response.request_id.clone(),
            ),
            chunks: pieces,
            complete,
        };
        let (seller, order) = (self.clone(), order.clone());
        let tasks = self.0.tasks.clone();
        tasks.spawn(async move { seller.forward(&order, record, response, guards, sender).await });
        Ok(SaleOutcome::Stream(stream))
    }

    async fn forward(
        &self,
        order: &Order,
        mut record: Record,
        mut response: UpstreamResponse,
        guards: SaleGuards,
        sender: ChunkSender,
    ) {
        let mut copy = StreamCopy::new(self.0.budget.clone());
        let mut customer = Some(sender);
        let end = self.forward_chunks(&mut response, &mut copy, &mut customer).await;
        let quote = &order.quote;
        let prompt = quote.estimate.prompt_tokens;
        record.usage = usage::usage_of_stream(&copy.bytes, copy.is_whole, prompt, quote.vocabulary);
        self.count_usage(order, &record);
        let answer =
            self.end_stream(&mut record, end, &mut copy, response, customer.as_ref()).await;
        record.answer_stored = answer.is_some();
        if let Err(fault) = self.0.ledger.put(&record, answer).await {
            tracing::error!(%fault, "the end of a stream could not be stored");
        }
        // The customer sees the end only after it is on disk, so a repeat of the request receives the same
        // answer.
        if let Some(sender) = customer {
            sender.complete.store(true, Ordering::Release);
        }
        drop(guards);
    }

    /// Passes chunks to the customer and the copy until the stream ends. `customer` becomes `None` when the customer
    /// leaves or stops reading.
    async fn forward_chunks(
        &self,
        response: &mut UpstreamResponse,
        copy: &mut StreamCopy,
        customer: &mut Option<ChunkSender>,
    ) -> StreamEnd {
        let mut filter = self.0.upstream.filter();
        let mut next = filter.filter_chunk(&std::mem::take(&mut response.stream_start));
        let mut ended = None;
        loop {
            copy.add(&next);
            // `next` may be empty, because the filter may hold back a whole chunk that could be the start of the
            // upstream's key.
            if let Some(sender) = &customer
                && !next.is_empty()
                && !matches!(
                    with_timeout(&*self.0.clock, CUSTOMER_READ_MS_MAX, sender.chunks.send(next))
                        .await,
                    Some(Ok(()))
                )
            {
                self.0.metrics.streams_abandoned.inc();
                *customer = None;
            }
            if customer.is_none() && !copy.is_whole {
                return StreamEnd::Abandoned;
            }
            if let Some(end) = ended {
                return end;
            }
            next = match self.0.upstream.next_chunk(&mut response.rest).await {
                Ok(Some(chunk)) => filter.filter_chunk(&chunk),
                Ok(None) => {
                    ended = Some(StreamEnd::Complete);
                    filter.end()
                }
                Err(fault) => {
                    ended = Some(StreamEnd::Broken(fault));
                    filter.end()
                }
            };
            self.0.failpoints.pass("chunk");
        }
    }

    /// Sets the record's stage. If the copy is whole, returns the answer to store.
    async fn end_stream(
        &self,
        record: &mut Record,
        end: StreamEnd,
        copy: &mut StreamCopy,
        response: UpstreamResponse,
        customer: Option<&ChunkSender>,
    ) -> Option<StoredAnswer> {
        record.stage = Stage::Paid;
        match end {
            // The upstream reported an error within the stream.
            StreamEnd::Complete if answer::has_error(&copy.bytes) => {
                record.stage = Stage::Broken;
                self.record_broken_stream(record, "upstream_error");
                None
            }
            StreamEnd::Complete if copy.is_whole => {
                let body = std::mem::take(&mut copy.bytes).into();
                let (status, content_type) = (response.status, response.content_type);
                Some(StoredAnswer { status, content_type, body })
            }
            StreamEnd::Complete | StreamEnd::Abandoned => None,
            StreamEnd::Broken(fault) => {
                record.stage = Stage::Broken;
                self.record_broken_stream(record, fault.code.text());
                if let Some(sender) = customer {
                    let send = sender.chunks.send(broken_frame());
                    let _left = with_timeout(&*self.0.clock, CUSTOMER_READ_MS_MAX, send).await;
                }
                None
            }
        }
    }

    fn record_broken_stream(&self, record: &Record, code: &'static str) {
        self.0.metrics.streams_broken.inc();
        tracing::warn!(
            payer = %record.payer, amount = %record.amount, code,
            "a stream broke after its first chunk and is not refunded"
        );
    }
}

/// Formats an error as OpenAI clients read it within a stream. The last frame may be cut, so blank lines come first.
fn broken_frame() -> Bytes {
    let code = Code::StreamBroken;
    let frame = json!({
        "error": {
            "message": code.sentence(), "type": code.kind(), "param": null, "code": code.text(),
        },
    });
    Bytes::from(format!("\n\ndata: {frame}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_copy_is_whole_or_an_end_and_releases_its_budget() {
        let budget = StreamBudget::of(STORED_ANSWER_BYTES_MAX + 100);
        let mut first = StreamCopy::new(budget.clone());
        first.add(&vec![1; STORED_ANSWER_BYTES_MAX]);
        assert!(first.is_whole && first.bytes.len() == STORED_ANSWER_BYTES_MAX);
        // The second copy exceeds the budget by one byte.
        let mut second = StreamCopy::new(budget.clone());
        second.add(&[2; 100]);
        assert!(second.is_whole);
        second.add(&[3; 1]);
        assert!(!second.is_whole, "no room is left");
        first.add(&[1; 1]);
        assert!(!first.is_whole && first.bytes.len() <= 2 * STORED_TAIL_BYTES);
        for _more in 0..100 {
            first.add(&[4; 1_000]);
            assert!(first.bytes.len() <= 2 * STORED_TAIL_BYTES + 1_000);
        }
        assert!(first.bytes.ends_with(&[4; 1_000]));
        drop((first, second));
        // The end is cut only when it is longer than twice its limit.
        let mut third = StreamCopy::new(StreamBudget::of(0));
        third.add(&vec![5; 2 * STORED_TAIL_BYTES]);
        assert_eq!(third.bytes.len(), 2 * STORED_TAIL_BYTES);
        third.add(&[6; 1]);
        assert_eq!(third.bytes.len(), STORED_TAIL_BYTES);
        assert!(budget.reserve(STORED_ANSWER_BYTES_MAX + 100) && !budget.reserve(1));
    }
}
