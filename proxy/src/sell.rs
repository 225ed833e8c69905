//! The sale of one answer: take the payment, verify it, call the upstream, settle, and only then deliver. The
//! record is on disk before each settle request and before delivery. A sale continues if its customer leaves. The
//! answer is then stored for a repeat of the request, unless it is a stream that is too long.

mod budget;
mod settle;
mod stream;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bursar_chain::failpoints::Failpoints;
use bursar_chain::ports::Clock;
use bursar_outbound::Bytes;
use bursar_serve::wait::with_timeout;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use crate::answer::{self, WholeAnswerKind};
use crate::answer_memory::{AnswerMemory, AnswerReservation};
use crate::book::ledger::{ClaimResult, Ledger, PaymentGuard};
use crate::book::store::StoreError;
use crate::book::{Digest, NextStep, PaymentId, Record, SaleKey, Settlement, Stage, StoredAnswer};
use crate::facilitator::{Facilitator, SaleContext, Verdict};
use crate::fault::{Code, Fault};
use crate::metrics::Metrics;
use crate::node::Nodes;
use crate::payment::{Payment, PaymentIdentity, Rejection};
use crate::penalties::PayerPenalties;
use crate::pricing::Quote;
use crate::unpaid::{self, Dollars, UnpaidGuard, UnpaidSales};
use crate::upstream::{NoAnswer, Passthrough, Upstream, UpstreamReply, UpstreamResponse};
use crate::usage;
pub(crate) use budget::CUSTOMER_READ_MS_MAX;
pub use budget::StreamBudget;

/// Maximum size of an answer that is stored after delivery.
pub const STORED_ANSWER_BYTES_MAX: usize = 1 << 20;

/// Sells answers; clones share the state.
#[derive(Debug, Clone)]
pub struct Seller(Arc<SellerDeps>);

/// Dependencies of a sale.
#[derive(Debug)]
pub struct SellerDeps {
    pub ledger: Ledger,
    pub facilitator: Facilitator,
    /// Nodes that must know the transaction of a pending settlement.
    pub nodes: Nodes,
    /// Sales that are not settled: in progress, or delivered with a pending settlement.
    pub unpaid: UnpaidSales,
    pub upstream: Upstream,
    pub metrics: Arc<Metrics>,
    pub clock: Arc<dyn Clock>,
    pub failpoints: Arc<dyn Failpoints>,
    /// How long an identical request waits for the one in progress, in milliseconds.
    pub repeat_wait_ms: u64,
    pub budget: StreamBudget,
    /// Memory for answers that are not streams.
    pub answers: AnswerMemory,
    /// Permits for sales in progress, each held from the verified payment to the end of the answer.
    pub sale_permits: Arc<Semaphore>,
    pub penalties: PayerPenalties,
    /// Tasks of sales and streams, which continue without their customers; a stopping service waits for them.
    pub tasks: TaskTracker,
}

/// A request body and the payment for it.
#[derive(Debug, Clone)]
pub struct Order {
    pub quote: Quote,
    pub identity: PaymentIdentity,
    /// The payment for this body at current prices; `None` for a repeat, which only receives a paid answer.
    pub payment: Option<Payment>,
}

/// Result of a sale for the customer.
#[derive(Debug)]
pub enum SaleOutcome {
    Whole {
        head: AnswerHead,
        body: Bytes,
        /// Set if the answer is too long to store after delivery. [`Seller::delete_sent_answer`] is then called before
        /// the last byte is sent.
        delete_when_sent: Option<PaymentId>,
    },
    Stream(PaidStream),
    /// The upstream refused the request. Nothing was charged.
    UpstreamRefusal(Passthrough),
    /// The payment was rejected. The customer is asked for another one.
    PaymentRejected(Rejection),
    Refused(PaymentRefusal),
}

/// Head of a paid answer.
#[derive(Debug)]
pub struct AnswerHead {
    pub status: u16,
    pub content_type: Option<String>,
    /// The upstream's request id.
    pub request_id: Option<String>,
    pub receipt: String,
    /// The price in dollars.
    pub usd: String,
}

impl AnswerHead {
    fn of(
        record: &Record,
        status: u16,
        content_type: Option<String>,
        request_id: Option<String>,
    ) -> Self {
        let receipt = record.settlement.receipt().unwrap_or_default().to_owned();
        Self { status, content_type, request_id, receipt, usd: record.usd.clone() }
    }
}

impl SaleOutcome {
    fn whole(record: &Record, answer: StoredAnswer, request_id: Option<String>) -> Self {
        let StoredAnswer { status, content_type, body } = answer;
        let delete_when_sent = (body.len() > STORED_ANSWER_BYTES_MAX).then_some(record.id);
        let head = AnswerHead::of(record, status, content_type, request_id);
        Self::Whole { head, body, delete_when_sent }
    }
}

/// Head of a paid stream, and its chunks as they arrive.
#[derive(Debug)]
pub struct PaidStream {
    pub head: AnswerHead,
    pub chunks: mpsc::Receiver<Bytes>,
    /// Whether the answer is complete when the chunks end; if not, the connection is cut.
    pub complete: Arc<AtomicBool>,
}

/// A refusal of a request with a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRefusal {
    pub fault: Fault,
    pub charged: ChargeStatus,
    /// The facilitator's receipt, as JSON.
    pub receipt: Option<String>,
}

/// Whether the payment was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeStatus {
    No,
    Yes,
    Unknown,
}

impl ChargeStatus {
    /// Returns the JSON value of the member `charged`.
    pub fn text(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
            Self::Unknown => "unknown",
        }
    }
}

impl PaymentRefusal {
    fn uncharged(fault: Fault) -> Self {
        Self { fault, charged: ChargeStatus::No, receipt: None }
    }

    fn uncertain(code: Code) -> Self {
        Self { fault: Fault::of(code), charged: ChargeStatus::Unknown, receipt: None }
    }

    /// A refusal for lack of room. A paid answer remains owed.
    fn busy(record: &Record) -> Self {
        let paid = record.settlement.allows_delivery();
        Self::of(if paid { Code::AnswerOwed } else { Code::Busy }, record)
    }

    /// A refusal for a stored payment. Its settlement determines whether it was charged.
    fn of(code: Code, record: &Record) -> Self {
        let charged = match &record.settlement {
            Settlement::Settled { .. } | Settlement::Pending { .. } => ChargeStatus::Yes,
            Settlement::Open | Settlement::Failed { .. } => ChargeStatus::No,
            Settlement::Requested => ChargeStatus::Unknown,
        };
        let receipt = record.settlement.receipt().map(str::to_owned);
        Self { fault: Fault::of(code), charged, receipt }
    }
}

impl From<PaymentRefusal> for SaleOutcome {
    fn from(refusal: PaymentRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The result of a step. An error ends the sale early and contains the outcome for the customer.
type SaleStep<T> = Result<T, Box<SaleOutcome>>;

fn end_sale<T>(outcome: impl Into<SaleOutcome>) -> SaleStep<T> {
    Err(Box::new(outcome.into()))
}

impl Seller {
    /// Creates a seller.
    pub fn new(deps: SellerDeps) -> Self {
        Self(Arc::new(deps))
    }

    /// Returns the dependencies.
    pub fn deps(&self) -> &SellerDeps {
        &self.0
    }

    /// Returns the record if the payment was already used with this body and may have been charged.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find_charged_repeat(
        &self,
        identity: PaymentIdentity,
        body: &Digest,
    ) -> Result<Option<Record>, StoreError> {
        let record = self.0.ledger.find(identity.id).await?;
        Ok(record.filter(|record| {
            record.stage != Stage::Taken
                && record.next_step(body, &identity.digest) != NextStep::Spent
        }))
    }

    /// Sells an answer: once per payment, however often it is requested.
    pub async fn sell(&self, order: Order) -> SaleOutcome {
        let id = order.identity.id;
        let started_ms = self.0.clock.mono_ms();
        loop {
            match self.0.ledger.claim(id, &order.quote.digest) {
                ClaimResult::Held(guard) => {
                    let outcome = self.continue_sale(&order, guard).await;
                    return outcome.unwrap_or_else(|ended| *ended);
                }
                ClaimResult::OtherBody => {
                    return PaymentRefusal::uncharged(Fault::of(Code::PaymentSpent)).into();
                }
                ClaimResult::SameBody(mut done) => {
                    let waited = self.0.clock.mono_ms().saturating_sub(started_ms);
                    let left = self.0.repeat_wait_ms.saturating_sub(waited);
                    // Nothing is sent on the channel; it only closes.
                    if with_timeout(&*self.0.clock, left, done.changed()).await.is_none() {
                        return PaymentRefusal::uncertain(Code::PaymentInUse).into();
                    }
                }
            }
        }
    }

    /// Deletes a long answer of which only the last byte remains to be sent.
    pub async fn delete_sent_answer(&self, id: PaymentId) {
        let ledger = &self.0.ledger;
        let Ok(Some(record)) = ledger.find(id).await else { return };
        // If another task holds the payment, it may need the answer. The sweep then deletes the answer later.
        let ClaimResult::Held(_held) = ledger.claim(id, &record.body) else { return };
        let Ok(Some(mut record)) = ledger.find(id).await else { return };
        record.answer_stored = false;
        if let Err(fault) = ledger.put(&record, None).await {
            tracing::warn!(%fault, "a long answer could not be deleted");
        }
    }

    /// Continues a sale whose payment this task holds.
    async fn continue_sale(&self, order: &Order, guard: PaymentGuard) -> SaleStep<SaleOutcome> {
        let id = order.identity.id;
        let known = self.or_store_fault(self.0.ledger.find(id).await)?;
        let Some(record) = known else { return self.sell_new(order, None, guard).await };
        match record.next_step(&order.quote.digest, &order.identity.digest) {
            NextStep::Serve => self.sell_new(order, record.key, guard).await,
            NextStep::Settle => {
                let answer = self.stored_answer(&record).await?;
                // Without room in the unpaid limits, only a final settlement delivers the answer, not a pending one.
                let unpaid = self.reserve_unpaid(&record).ok();
                self.settle_whole(record, answer, None, unpaid).await
            }
            NextStep::Stream => self.resume_stream(order, record, guard).await,
            NextStep::Replay => {
                let answer = self.stored_answer(&record).await?;
                self.0.metrics.count_chat("replayed");
                Ok(SaleOutcome::whole(&record, answer, None))
            }
            // A refusal for another request must not reveal the payment's state.
            NextStep::Spent => end_sale(PaymentRefusal::uncharged(Fault::of(Code::PaymentSpent))),
            NextStep::AnswerDeleted => end_sale(PaymentRefusal::of(Code::AnswerNotKept, &record)),
            NextStep::Broken => end_sale(PaymentRefusal::of(Code::StreamBroken, &record)),
        }
    }

    /// Sells for a payment that is new or has bought nothing so far.
    async fn sell_new(
        &self,
        order: &Order,
        key: Option<SaleKey>,
        guard: PaymentGuard,
    ) -> SaleStep<SaleOutcome> {
        let Some(payment) = &order.payment else {
            return end_sale(PaymentRefusal::uncharged(Fault::of(Code::AnswerNotKept)));
        };
        if let Some(rejection) = &payment.rejection {
            return end_sale(SaleOutcome::PaymentRejected(rejection.clone()));
        }
        if let Some(ms) = self.0.penalties.lockout_ms(payment.payer, self.0.clock.mono_ms()) {
            let fault = Fault::of(Code::TooManyRequests)
                .with_detail("too many requests of this payer failed")
                .with_retry_after(ms.div_ceil(1_000));
            return end_sale(PaymentRefusal::uncharged(fault));
        }
        if self.0.sale_permits.available_permits() == 0 {
            return end_sale(PaymentRefusal::uncharged(Fault::of(Code::Busy)));
        }
        let Some(room) = self.0.answers.try_reserve() else {
            return end_sale(PaymentRefusal::uncharged(Fault::of(Code::Busy)));
        };
        let mut record = self.record_of(&order.quote, payment, self.key_or_new(key)?);
        // The key is on disk before it is sent in a request.
        self.or_store_fault(self.0.ledger.put(&record, None).await)?;
        self.0.failpoints.pass("taken");
        let (permit, unpaid) = match self.admit(&record, payment).await {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.delete_uncharged(&record).await;
                return Err(refused);
            }
        };
        let started_ms = self.0.clock.mono_ms();
        let reply = match self.call_upstream(order, room).await {
            Ok(reply) => reply,
            Err(none) => return self.end_unanswered(&record, none, started_ms).await,
        };
        match reply {
            UpstreamReply::Refusal(response) => {
                self.delete_uncharged(&record).await;
                self.0.metrics.count_chat("refused_upstream");
                Ok(SaleOutcome::UpstreamRefusal(response))
            }
            UpstreamReply::Success(response) if response.is_stream => {
                record.stage = Stage::Owed;
                self.settle_stream(&mut record, Some(unpaid)).await?;
                self.start_stream(order, record, *response, (guard, permit)).await
            }
            UpstreamReply::Success(response) => {
                let request_id = response.request_id.clone();
                let answer = match self.read_whole(*response).await {
                    Ok(answer) => answer,
                    Err(none) => return self.end_unanswered(&record, none, started_ms).await,
                };
                self.set_answered(order, &mut record, &answer);
                self.settle_whole(record, answer, request_id, Some(unpaid)).await
            }
        }
    }

    /// Verifies a payment, then reserves a permit and room within the unpaid limits. Only a verified payment counts
    /// against its payer.
    async fn admit(
        &self,
        record: &Record,
        payment: &Payment,
    ) -> SaleStep<(OwnedSemaphorePermit, UnpaidGuard)> {
        self.verify(record, payment).await?;
        let Some(permit) = self.try_permit() else {
            return end_sale(PaymentRefusal::uncharged(Fault::of(Code::Busy)));
        };
        Ok((permit, self.reserve_unpaid(record)?))
    }

    /// Loads a stored answer once there is room for it.
    async fn stored_answer(&self, record: &Record) -> SaleStep<StoredAnswer> {
        let answers = &self.0.answers;
        let room =
            with_timeout(&*self.0.clock, self.0.repeat_wait_ms, answers.reserve_longest()).await;
        let Some(room) = room else { return end_sale(PaymentRefusal::busy(record)) };
        match self.or_store_fault(self.0.ledger.answer(record.id).await)? {
            Some(answer) => Ok(StoredAnswer { body: room.hold(answer.body), ..answer }),
            None => end_sale(PaymentRefusal::of(Code::AnswerNotKept, record)),
        }
    }

    /// Counts a sale as unpaid.
    fn reserve_unpaid(&self, record: &Record) -> SaleStep<UnpaidGuard> {
        let amount = unpaid::price_of(record).unwrap_or(Dollars::MAX);
        self.0.unpaid.reserve(record.id, record.payer, amount).or_else(|over| {
            tracing::warn!(payer = %record.payer, limit = over.setting(), "a sale is refused: too much is unpaid");
            end_sale(PaymentRefusal::of(Code::UnpaidLimit, record))
        })
    }

    /// Returns the sale's known key, or a new one. A key never changes.
    fn key_or_new(&self, known: Option<SaleKey>) -> SaleStep<SaleKey> {
        known.map_or_else(SaleKey::random, Ok).or_else(|fault| {
            tracing::error!(%fault, "this machine provides no random bytes");
            end_sale(PaymentRefusal::uncharged(Fault::of(Code::StoreFailed)))
        })
    }

    /// Ends an uncharged sale without an answer, and releases the payment.
    ///
    /// Adds a penalty if the request is the cause: it asked for too much, and the upstream answered other requests
    /// meanwhile.
    async fn end_unanswered<T>(
        &self,
        record: &Record,
        none: NoAnswer,
        started_ms: u64,
    ) -> SaleStep<T> {
        if none.may_be_caused_by_request && self.0.upstream.has_answered_since(started_ms) {
            self.0.penalties.add(record.payer, self.0.clock.mono_ms());
        }
        self.delete_uncharged(record).await;
        end_sale(PaymentRefusal::uncharged(none.fault))
    }

    fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.sale_permits).try_acquire_owned().ok()
    }

    /// Streams an owed answer, or one whose stream was cut by the end of the process.
    ///
    /// Settles first if necessary, then streams from the start.
    async fn resume_stream(
        &self,
        order: &Order,
        mut record: Record,
        guard: PaymentGuard,
    ) -> SaleStep<SaleOutcome> {
        let Some(permit) = self.try_permit() else {
            return end_sale(PaymentRefusal::busy(&record));
        };
        if !record.settlement.allows_delivery() {
            let unpaid = self.reserve_unpaid(&record).ok();
            self.settle_stream(&mut record, unpaid).await?;
        }
        // The sale is paid from here on, so after a failure the record must remain for a retry.
        let owed = |record: &Record| PaymentRefusal::of(Code::AnswerOwed, record);
        let room =
            with_timeout(&*self.0.clock, self.0.repeat_wait_ms, self.0.answers.reserve()).await;
        let Some(room) = room else { return end_sale(owed(&record)) };
        let Ok(UpstreamReply::Success(response)) = self.call_upstream(order, room).await else {
            return end_sale(owed(&record));
        };
        if response.is_stream {
            return self.start_stream(order, record, *response, (guard, permit)).await;
        }
        let request_id = response.request_id.clone();
        let Ok(answer) = self.read_whole(*response).await else { return end_sale(owed(&record)) };
        self.set_answered(order, &mut record, &answer);
        self.settle_whole(record, answer, request_id, None).await
    }

    async fn verify(&self, record: &Record, payment: &Payment) -> SaleStep<()> {
        let context = SaleContext {
            network: payment.offer.terms.network,
            payer: payment.payer,
            key: record.key,
        };
        match self.0.facilitator.verify(&payment.facilitator_request, context).await {
            Verdict::Valid => Ok(()),
            Verdict::Invalid { reason, message } => {
                end_sale(SaleOutcome::PaymentRejected(Rejection { reason, message }))
            }
            Verdict::Unavailable(why) => {
                tracing::warn!(facilitator = self.0.facilitator.label(), %why, "the facilitator gave no verdict");
                end_sale(PaymentRefusal::uncharged(Fault::of(Code::FacilitatorUnavailable)))
            }
        }
    }

    async fn call_upstream(
        &self,
        order: &Order,
        room: AnswerReservation,
    ) -> Result<UpstreamReply, NoAnswer> {
        let started_ms = self.0.clock.mono_ms();
        let (body, stream) = (order.quote.upstream_body.clone(), order.quote.stream);
        let reply = self.0.upstream.chat(body, stream, room).await;
        let took_ms = self.0.clock.mono_ms().saturating_sub(started_ms);
        let result = match &reply {
            Ok(UpstreamReply::Success(_)) => "good",
            Ok(UpstreamReply::Refusal(_)) => "refused",
            Err(none) => none.fault.code.text(),
        };
        self.0.metrics.count_upstream_call(result, took_ms);
        reply
    }

    async fn read_whole(&self, response: UpstreamResponse) -> Result<StoredAnswer, NoAnswer> {
        let (status, content_type) = (response.status, response.content_type.clone());
        let body = self.0.upstream.read_body(response).await?;
        let why = match answer::classify_whole(&body) {
            WholeAnswerKind::Sold => {
                self.0.upstream.set_answered();
                return Ok(StoredAnswer { status, content_type, body });
            }
            WholeAnswerKind::Empty => "it has no choices",
            WholeAnswerKind::Invalid => "it is an error or not a JSON object",
        };
        tracing::warn!(status, why, "the upstream's answer is not sold");
        Err(Fault::of(Code::UpstreamBroken).into())
    }

    fn set_answered(&self, order: &Order, record: &mut Record, answer: &StoredAnswer) {
        let quote = &order.quote;
        record.stage = Stage::Answered;
        let prompt = quote.estimate.prompt_tokens;
        record.usage = usage::usage_of_whole_answer(&answer.body, prompt, quote.vocabulary);
        self.count_usage(order, record);
    }

    fn count_usage(&self, order: &Order, record: &Record) {
        if let Some(usage) = record.usage {
            let model =
                order.quote.estimate.model.as_deref().filter(|_name| order.quote.is_model_in_table);
            self.0.metrics.add_tokens(model, usage);
        }
    }

    fn record_of(&self, quote: &Quote, payment: &Payment, key: SaleKey) -> Record {
        Record {
            id: payment.id,
            body: quote.digest,
            payment: payment.digest,
            taken_at_ms: self.0.clock.utc().0,
            expires_at: payment.expires_at,
            stage: Stage::Taken,
            settlement: Settlement::Open,
            facilitator_request: payment.facilitator_request.clone(),
            model: quote.estimate.model.clone(),
            amount: payment.offer.amount.to_string(),
            usd: payment.offer.usd(),
            network: payment.offer.terms.network.chain.0,
            asset: payment.offer.terms.asset,
            payer: payment.payer,
            usage: None,
            answer_stored: false,
            key: Some(key),
            answer_tokens_max: quote.answer_tokens_max,
        }
    }

    /// Deletes an uncharged payment, so that it can be used again. If the record remains, the next start deletes it.
    async fn delete_uncharged(&self, record: &Record) {
        if let Err(fault) = self.0.ledger.delete(record.id).await {
            tracing::error!(%fault, "a payment that bought nothing could not be released");
        }
    }

    fn or_store_fault<T>(&self, outcome: Result<T, StoreError>) -> SaleStep<T> {
        outcome.or_else(|fault| {
            tracing::error!(%fault, "the store failed");
            end_sale(PaymentRefusal::uncertain(Code::StoreFailed))
        })
    }
}
