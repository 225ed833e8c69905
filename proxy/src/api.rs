//! The HTTP API for customers.

mod cors;
mod responses;

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bursar_chain::ports::Clock;
use bursar_serve::access::{Access, AccessRefusal};
use bursar_serve::http::{RefusalWriter, openmetrics};
use bursar_serve::wait::with_timeout;
use bursar_x402::Version;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::book::{Record, Stage};
use crate::clock_watch::ClockReport;
use crate::config::CorsOrigins;
use crate::fault::{Code, Fault};
use crate::metrics::Metrics;
use crate::models_list::ModelsList;
use crate::offer::Challenge;
use crate::payment::{Payment, PaymentError, PaymentIdentity, Rejection};
use crate::pricing::{Pricing, Quote};
use crate::sell::{Order, SaleOutcome, Seller};

/// Seconds for which a payment must remain valid after the longest answer: for settlement and clock differences.
const PAYMENT_MARGIN_SECONDS: u64 = 30;
/// How long a body may take to arrive.
const BODY_ARRIVAL_MS_MAX: u64 = 60_000;
/// Maximum time until a payment's expiry.
const EXPIRY_AHEAD_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Number of permits for requests with a payment, per sale permit. Some of these requests wait for verification or for
/// an identical request.
const PAYMENT_PERMITS_PER_SALE: usize = 4;
/// Number of long bodies per core that may be in memory for pricing.
const LONG_BODIES_PER_CORE: usize = 32;
/// Maximum length of a body that is priced without queueing.
const SHORT_BODY_BYTES_MAX: usize = 16 << 10;
/// Number of callers that may wait for the list of models.
const MODELS_CALLERS_MAX: usize = 256;

/// State shared by all requests.
#[derive(Debug)]
pub struct Api {
    pub pricing: Pricing,
    pub seller: Seller,
    pub metrics: Arc<Metrics>,
    pub access: Access,
    pub clock: Arc<dyn Clock>,
    /// Permits for requests with a payment.
    ///
    /// There are more than sales in progress, because repeats wait for the first request.
    pub payment_permits: Arc<Semaphore>,
    /// Permits for pricing long bodies.
    pub pricing_permits: Semaphore,
    /// Permits for long bodies that are priced or queued.
    ///
    /// Each body is in memory.
    pub long_body_permits: Semaphore,
    pub models: ModelsList,
    pub models_permits: Semaphore,
    /// The last comparison of our clock with others.
    pub clocks: Arc<ClockReport>,
    pub stopping: CancellationToken,
}

impl Api {
    /// Creates the state.
    ///
    /// The bounds follow from the settings and the number of cores.
    pub fn new(
        pricing: Pricing,
        seller: Seller,
        access: Access,
        clocks: Arc<ClockReport>,
        stopping: CancellationToken,
    ) -> Self {
        let deps = seller.deps();
        let (metrics, clock) = (Arc::clone(&deps.metrics), Arc::clone(&deps.clock));
        let models = ModelsList::new(Arc::clone(&clock), deps.tasks.clone());
        let payment_permits = pricing.config().in_flight.saturating_mul(PAYMENT_PERMITS_PER_SALE);
        let payment_permits = Arc::new(Semaphore::new(payment_permits));
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            pricing,
            seller,
            metrics,
            access,
            clock,
            payment_permits,
            pricing_permits: Semaphore::new(cores),
            long_body_permits: Semaphore::new(cores.saturating_mul(LONG_BODIES_PER_CORE)),
            models,
            models_permits: Semaphore::new(MODELS_CALLERS_MAX),
            clocks,
            stopping,
        }
    }
}

/// Returns the routes that customers can reach.
pub fn router(api: Arc<Api>) -> Router {
    let limit = api.pricing.config().body_bytes;
    let origins = Arc::new(api.pricing.config().cors_origins.clone());
    let guarded = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .layer(DefaultBodyLimit::max(limit))
        .layer(middleware::from_fn_with_state(Arc::clone(&api), guard));
    Router::new()
        .merge(guarded)
        .route("/health", get(health))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(openapi))
        .fallback(|| async { responses::error(&Fault::of(Code::NotFound)) })
        .method_not_allowed_fallback(|| async {
            responses::error(&Fault::of(Code::MethodNotAllowed))
        })
        // This layer is around all routes, so that a page can read each refusal, too.
        .layer(middleware::from_fn_with_state(origins, cors::allow))
        .with_state(api)
}

/// Returns the writer of responses to requests that reach no route.
pub fn refusal_writer(origins: CorsOrigins) -> RefusalWriter {
    RefusalWriter::new(move |refused| {
        let mut response = responses::edge_refusal(refused.why);
        cors::add_allow_headers(&origins, refused.origin, response.headers_mut());
        response
    })
}

/// Returns the metrics route, which has its own listener.
///
/// It is separate because metrics show the revenue.
pub fn metrics_router(metrics: Arc<Metrics>) -> Router {
    let not_found = Fault::of(Code::NotFound).with_detail("this listener has only /metrics");
    let wrong_method = Fault::of(Code::MethodNotAllowed).with_detail("only GET");
    Router::new()
        .route("/metrics", openmetrics(move || metrics.text()))
        .fallback(async move || responses::error(&not_found))
        .method_not_allowed_fallback(async move || responses::error(&wrong_method))
}

/// Admits a request, or answers 429.
async fn guard(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|ConnectInfo(peer)| peer.ip());
    match api.access.admit(request.headers(), peer) {
        Ok(_caller) => next.run(request).await,
        Err(AccessRefusal::TooMany { wait_s }) => {
            responses::error(&Fault::of(Code::TooManyRequests).with_retry_after(wait_s))
        }
        // This cannot occur: the proxy has no API keys.
        Err(AccessRefusal::NoKey) => responses::error(&Fault::of(Code::TooManyRequests)),
    }
}

async fn chat(State(api): State<Arc<Api>>, headers: HeaderMap, request: Request) -> Response {
    let body = Bytes::from_request(request, &());
    let result = match with_timeout(&*api.clock, BODY_ARRIVAL_MS_MAX, body).await {
        Some(body) => answer(&api, &headers, body).await,
        None => Err(Fault::of(Code::InvalidJson).with_detail("the body did not arrive in time")),
    };
    match result {
        Ok(response) => response,
        Err(fault) => {
            api.metrics.count_chat(fault.code.text());
            responses::error(&fault)
        }
    }
}

async fn answer(
    api: &Arc<Api>,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Fault> {
    let body = body.map_err(|fault| body_fault(&fault, api.pricing.config().body_bytes))?;
    let resource = resource(api, headers);
    let Some((text, version)) = payment_header(headers)? else {
        let quote = price(api, body, resource).await?;
        api.metrics.count_chat("quoted");
        return Ok(challenge(&quote, None));
    };
    // This step precedes pricing: a paid answer is returned even if its price or its model is no longer offered.
    if let Some(order) = order_of_repeat(api, text, version, &body).await? {
        return serve(api, order, version).await;
    }
    let quote = price(api, body, resource).await?;
    let now = u64::try_from(api.clock.utc().0).unwrap_or(0) / 1_000;
    let longest_seconds = api.pricing.config().upstream_ms.div_ceil(1_000);
    let earliest_expiry =
        now.saturating_add(longest_seconds).saturating_add(PAYMENT_MARGIN_SECONDS);
    // No payment needs to last longer, and the proxy must store a payment's record until the payment expires.
    let span = earliest_expiry..=now.saturating_add(EXPIRY_AHEAD_SECONDS_MAX);
    let payment = match Payment::read(text, version, &quote.offers, &span) {
        Ok(payment) => payment,
        Err(PaymentError::Unreadable(fault)) => return Err(fault),
        Err(PaymentError::Rejected(rejection)) => {
            return Ok(reject_payment(api, &quote, &rejection));
        }
    };
    let identity = PaymentIdentity { id: payment.id, digest: payment.digest };
    serve(api, Order { quote, identity, payment: Some(payment) }, version).await
}

/// Returns the order if the payment was already used with this body and may have been charged.
async fn order_of_repeat(
    api: &Arc<Api>,
    text: &str,
    version: Version,
    body: &Bytes,
) -> Result<Option<Order>, Fault> {
    // An unreadable payment is refused later, when the price is known.
    let Ok(identity) = PaymentIdentity::read(text, version, api.pricing.terms()) else {
        return Ok(None);
    };
    let quote = unpriced_quote(body).await?;
    let known = api.seller.find_charged_repeat(identity, &quote.digest).await;
    let known = known.map_err(|fault| {
        tracing::error!(%fault, "the store failed");
        Fault::of(Code::StoreFailed)
    })?;
    let Some(record) = known else { return Ok(None) };
    let quote = match record.stage {
        // The answer is not stored, so the upstream is called again.
        Stage::Owed | Stage::Streaming => quote_for_owed_stream(api, body.clone(), record).await?,
        Stage::Taken | Stage::Answered | Stage::Paid | Stage::Broken => quote,
    };
    Ok(Some(Order { quote, identity, payment: None }))
}

/// Returns a quote without a price. Hashing a long body takes milliseconds, so it runs on a blocking thread.
async fn unpriced_quote(body: &Bytes) -> Result<Quote, Fault> {
    if body.len() <= SHORT_BODY_BYTES_MAX {
        return Ok(Quote::unpriced(body));
    }
    let body = body.clone();
    let hashed = tokio::task::spawn_blocking(move || Quote::unpriced(&body)).await;
    hashed.map_err(|_ended| Fault::of(Code::Stopping))
}

/// Sells an answer, or returns an answer that was sold before.
async fn serve(api: &Arc<Api>, order: Order, version: Version) -> Result<Response, Fault> {
    if api.stopping.is_cancelled() {
        return Err(Fault::of(Code::Stopping));
    }
    // The sale holds the permit, so the permit is not freed when the customer leaves.
    let permit = Arc::clone(&api.payment_permits).try_acquire_owned();
    let permit = permit.map_err(|_none| Fault::of(Code::Busy))?;
    let quote = order.quote.clone();
    // A separate task, so the sale continues if this request ends: the payment may be in flight.
    let seller = api.seller.clone();
    let sale = seller.deps().tasks.clone().spawn(async move {
        let outcome = seller.sell(order).await;
        drop(permit);
        outcome
    });
    let outcome = sale.await.map_err(|_ended| Fault::of(Code::Stopping))?;
    Ok(match outcome {
        SaleOutcome::Whole { head, body, delete_when_sent } => {
            let before_end = delete_when_sent.map(|id| {
                let seller = api.seller.clone();
                async move { seller.delete_sent_answer(id).await }
            });
            responses::whole_answer(head, version, body, before_end)
        }
        SaleOutcome::Stream(stream) => responses::stream_answer(stream, version),
        SaleOutcome::UpstreamRefusal(response) => responses::passthrough(response),
        SaleOutcome::PaymentRejected(rejection) => reject_payment(api, &quote, &rejection),
        SaleOutcome::Refused(refusal) => {
            api.metrics.count_chat(refusal.fault.code.text());
            responses::refusal(&refusal, version)
        }
    })
}

async fn price(api: &Arc<Api>, body: Bytes, resource: Arc<str>) -> Result<Quote, Fault> {
    if body.len() > SHORT_BODY_BYTES_MAX {
        return price_long_body(api, move |pricing| pricing.quote(&body, &resource)).await;
    }
    let request = api.pricing.parse(&body)?;
    request.vocabulary().load().await;
    api.pricing.price(request, &body, &resource)
}

/// Returns the quote of an owed stream at the terms that were paid.
async fn quote_for_owed_stream(
    api: &Arc<Api>,
    body: Bytes,
    record: Record,
) -> Result<Quote, Fault> {
    if body.len() > SHORT_BODY_BYTES_MAX {
        return price_long_body(api, move |pricing| pricing.quote_owed(&body, &record)).await;
    }
    api.pricing.vocabulary_of(&record).load().await;
    api.pricing.quote_owed(&body, &record)
}

/// Prices a long body on a blocking thread, through a bounded queue. Pricing takes milliseconds and the caller has
/// not paid yet, so it must not delay other requests.
async fn price_long_body(
    api: &Arc<Api>,
    price: impl FnOnce(&Pricing) -> Result<Quote, Fault> + Send + 'static,
) -> Result<Quote, Fault> {
    let _queued = api.long_body_permits.try_acquire().map_err(|_full| Fault::of(Code::Busy))?;
    let _permit =
        api.pricing_permits.acquire().await.map_err(|_closed| Fault::of(Code::Stopping))?;
    let api = Arc::clone(api);
    let quote = tokio::task::spawn_blocking(move || price(&api.pricing));
    quote.await.map_err(|_ended| Fault::of(Code::Stopping))?
}

fn challenge(quote: &Quote, rejection: Option<&Rejection>) -> Response {
    let (status, error) = match rejection {
        None => (
            StatusCode::PAYMENT_REQUIRED,
            "payment required: sign one of the offers in accepts, and send it with the same body"
                .to_owned(),
        ),
        // After status 412, official clients set the allowance and pay again.
        Some(rejection) if rejection.reason == "permit2_allowance_required" => (
            StatusCode::PRECONDITION_FAILED,
            format!("{}: {}", rejection.reason, rejection.message),
        ),
        Some(rejection) => {
            (StatusCode::PAYMENT_REQUIRED, format!("{}: {}", rejection.reason, rejection.message))
        }
    };
    responses::challenge(
        status,
        Challenge::new(&quote.offers, &quote.estimate, &error),
        &quote.estimate.usd,
    )
}

fn reject_payment(api: &Api, quote: &Quote, rejection: &Rejection) -> Response {
    api.metrics.count_chat("payment_refused");
    challenge(quote, Some(rejection))
}

/// Returns the payment header of a request. Rejects two headers with the same name, or one header of each version,
/// because the intended payment would be ambiguous.
fn payment_header(headers: &HeaderMap) -> Result<Option<(&str, Version)>, Fault> {
    let mut found = None;
    for (name, version) in [("payment-signature", Version::V2), ("x-payment", Version::V1)] {
        let mut lines = headers.get_all(name).iter();
        let Some(first) = lines.next() else { continue };
        if lines.next().is_some() {
            let why = format!("{name} is sent twice");
            return Err(Fault::of(Code::InvalidPaymentHeader).with_detail(why));
        }
        let text = first.to_str().map_err(|_not_ascii| {
            Fault::of(Code::InvalidPaymentHeader).with_detail(format!("{name} is not ASCII"))
        })?;
        if found.replace((text, version)).is_some() {
            let why = "payment-signature and x-payment are both sent";
            return Err(Fault::of(Code::InvalidPaymentHeader).with_detail(why));
        }
    }
    Ok(found)
}

fn body_fault(fault: &BytesRejection, most: usize) -> Fault {
    if fault.status() == StatusCode::PAYLOAD_TOO_LARGE {
        Fault::of(Code::TooLarge).with_detail(format!("a body can have at most {most} bytes"))
    } else {
        Fault::of(Code::InvalidJson).with_detail("the connection was lost")
    }
}

/// Returns the URL of the resource. It begins with the public URL, or else the request's host, or else the listening
/// address.
fn resource(api: &Api, headers: &HeaderMap) -> Arc<str> {
    const PATH: &str = "/v1/chat/completions";
    let config = api.pricing.config();
    if let Some(url) = &config.public_url {
        return format!("{url}{PATH}").into();
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let host = host.filter(|host| !host.is_empty() && host.len() <= 255 && host.bytes().all(plain));
    match host {
        Some(host) => format!("http://{host}{PATH}").into(),
        None => format!("http://{}{PATH}", config.listen).into(),
    }
}

async fn models(State(api): State<Arc<Api>>) -> Response {
    let Ok(_permit) = api.models_permits.try_acquire() else {
        return responses::error(&Fault::of(Code::Busy));
    };
    let seller = api.seller.clone();
    let fetch = || async move { seller.deps().upstream.models().await };
    match api.models.get(fetch).await {
        Ok(list) => responses::passthrough(list),
        Err(fault) => responses::error(&fault),
    }
}

async fn health(State(api): State<Arc<Api>>) -> Response {
    let networks: Vec<_> = api.pricing.config().networks.iter().map(|row| row.caip2()).collect();
    let body = json!({
        "status": "healthy", "version": env!("CARGO_PKG_VERSION"), "networks": networks,
    });
    responses::json(StatusCode::OK, body.to_string())
}

/// Returns the last comparison of our clock with others. Asks no other service, so any caller may ask.
async fn readyz(State(api): State<Arc<Api>>) -> Response {
    let (status, text) = if api.clocks.is_ready() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "wrong clock")
    };
    let body = json!({ "status": text, "checks": api.clocks.checks() });
    responses::json(status, body.to_string())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../openapi.json")).into_response()
}

#[cfg(test)]
mod tests;
