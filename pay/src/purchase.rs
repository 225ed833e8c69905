//! One purchase.
//!
//! It sends the request, reads the offer, asks the wallet for one signature, repeats the identical request with the
//! payment, and passes the response on. If the connection is lost or the server cannot answer now, it sends the same
//! payment again.

mod messages;

use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{self, Value};
use bursar_core::limits::{BODY_DEPTH_MAX, HOLD_MS, PAYMENT_HEADER_BYTES_MAX};
use bursar_core::text::quoted;
use bursar_outbound::{Client, HeaderMap, ReplyStream, StatusCode};
use bursar_tui::oneshot::Options;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::agent::now_s;
use crate::args::PayArgs;
use crate::offer::{Challenge, PriceLimit};
use crate::receipt::Receipt;
use crate::record::PurchaseRecord;
use crate::request::{NoResponse, Request};
use crate::sink::{BodyError, Sink};
use crate::wallet::{Payment, SignStatus, WaitsFor, Wallet};

/// Timeout of a connection attempt, in milliseconds.
const CONNECT_MS: u64 = 10_000;
/// Timeout for the body of an offer.
const OFFER_WAIT: Duration = Duration::from_secs(60);
/// Interval between polls of a held request.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time that is added to the life of a request, in case the wallet is restarting.
const RESTART_GRACE: Duration = Duration::from_secs(60);
/// The pause before each attempt with the payment.
const PAUSES_BEFORE_TRIES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_millis(1_500)];
/// Maximum time for which the same payment is sent again while the server reports it as in use. The payment's validity
/// may end earlier.
const IN_USE_WAIT: Duration = Duration::from_secs(600);
/// Maximum number of characters of a server's text in a message.
const SERVER_TEXT_CHARS_MAX: usize = 300;

pub(crate) struct Purchase {
    request: Request,
    client: Client,
    pub(crate) wallet: Wallet,
    limit: Option<PriceLimit>,
    wait: Option<Duration>,
    include: bool,
    quiet: bool,
    pub(crate) sink: Sink,
    pub(crate) record: PurchaseRecord,
}

impl Purchase {
    pub(crate) fn new(
        request: Request,
        wallet: Wallet,
        limit: Option<PriceLimit>,
        args: &PayArgs,
        options: &Options,
    ) -> Result<Self, Fault> {
        let client = Client::for_streaming(CONNECT_MS)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(Self {
            request,
            client,
            wallet,
            limit,
            wait: args.wait.map(|seconds| Duration::from_secs(seconds.into())),
            include: args.include,
            quiet: options.quiet,
            sink: Sink::new(options.json.is_some()),
            record: PurchaseRecord::default(),
        })
    }

    pub(crate) async fn run(&mut self) -> Result<(), Fault> {
        let mut first = self.request.send(&self.client, None).await.map_err(|why| {
            let label = self.request.target.label();
            let message = format!("{label} did not answer: {why}. Nothing was paid.");
            Fault::because(Code::ResourceUnreachable, message)
        })?;
        self.record_response(&first);
        if first.status != StatusCode::PAYMENT_REQUIRED {
            return match self.sink.pass_on_body(&mut first).await {
                Ok(()) => self.result_for_status(first.status),
                Err(error) => Err(self.incomplete_body(error)),
            };
        }
        let challenge = self.challenge(first).await?;
        self.progress(&format!("402: the server asks for {}", challenge.describe()));
        if let Some(limit) = &self.limit {
            challenge.check_limit(limit)?;
        }
        let payment = self.obtain_signature(&challenge).await?;
        // The wallet is trusted with the money, but it does not see this connection. The signed payment must
        // therefore match an offer of this server.
        let Some(price) = challenge.offer_paid_by(&payment.text) else {
            let message =
                "The wallet signed a payment that the server did not offer: it was not sent.";
            return Err(Fault::because(Code::InternalError, message));
        };
        self.progress(&format!(
            "payment {} is signed: sending the request again with it",
            self.record.id()
        ));
        self.record.signed_price = Some((price, challenge.version()));
        self.redeem(&payment).await
    }

    /// Reads the offer of a 402 response.
    ///
    /// An invalid body is passed on, because it may explain what the server expects.
    async fn challenge(&mut self, answer: ReplyStream) -> Result<Challenge, Fault> {
        let not_x402 = |why: String| {
            Fault::because(
                Code::NotX402,
                format!("The server asks for a payment, but its offer is not valid: {why}."),
            )
        };
        if let Some(challenge) = Challenge::in_header(&answer.headers) {
            return challenge.map_err(|error| not_x402(error.to_string()));
        }
        let body = offer_body(answer).await.map_err(&not_x402)?;
        match Challenge::in_body(&body) {
            Ok(challenge) => Ok(challenge),
            Err(error) => {
                self.sink.pass_on_chunk(&body).await?;
                Err(not_x402(error.to_string()))
            }
        }
    }

    /// Obtains one signature: at once, or after the operator has approved the request or signed it on a device.
    async fn obtain_signature(&mut self, challenge: &Challenge) -> Result<Payment, Fault> {
        self.record.sign_requested = true;
        let payment = match self.wallet.sign(&challenge.raw, &self.request.url).await? {
            SignStatus::Signed(payment) => payment,
            SignStatus::Held(id, on) => self.wait_for_decision(id, on).await?,
            SignStatus::Refused(fault) if fault.code == Code::ExceedsPerRequestMax => {
                return Err(self.over_the_maximum(fault, challenge).await);
            }
            SignStatus::Refused(fault) => return Err(fault),
            SignStatus::Unknown(_) => return Err(Fault::new(Code::Busy)),
        };
        self.record.request = Some(payment.id);
        Ok(payment)
    }

    /// Adds price and limit to the refusal of a payment that is above the policy's maximum.
    async fn over_the_maximum(&self, fault: Fault, challenge: &Challenge) -> Fault {
        let Some(limit) = self.wallet.payment_maximum().await else { return fault };
        let message = format!(
            "The wallet refused ({}): the server asks for {}, and the policy allows {limit} USD for one payment. \
             Nothing was paid.",
            fault.code,
            challenge.describe()
        );
        Fault { message, ..fault }
    }

    async fn wait_for_decision(
        &mut self,
        id: RequestId,
        mut on: WaitsFor,
    ) -> Result<Payment, Fault> {
        self.record.request = Some(id);
        self.print_wait(id, on);
        let longest = Duration::from_millis(HOLD_MS.unsigned_abs()).saturating_add(RESTART_GRACE);
        let wait = self.wait.unwrap_or(longest).min(longest);
        let (end, mut pause) = (Instant::now() + wait, POLL_INTERVAL);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let (code, begin) = match wait.is_zero() {
                    true => (Code::ApprovalRequired, "The request is held: "),
                    false => (Code::WaitRanOut, "The time of --wait is over: "),
                };
                let what = match on {
                    WaitsFor::Approval => "the operator has not decided yet.",
                    WaitsFor::Device => "the operator has not signed it on the Ledger yet.",
                    WaitsFor::Wallet => "the wallet has not signed it yet.",
                };
                let message = format!("{begin}{what} {}", self.record.pending_text());
                return Err(Fault::because(code, message));
            }
            sleep(pause.min(left)).await;
            pause = POLL_INTERVAL;
            match timeout_at(end, self.wallet.poll(id)).await {
                Ok(SignStatus::Signed(payment)) => return Ok(payment),
                Ok(SignStatus::Refused(fault)) => return Err(fault),
                Ok(SignStatus::Unknown(longer)) => pause = pause.max(longer),
                Ok(SignStatus::Held(_id, now)) => {
                    // A signature by the wallet itself follows at once, so no message is needed.
                    if now != on && now != WaitsFor::Wallet {
                        self.print_wait(id, now);
                    }
                    on = now;
                }
                Err(_late) => {}
            }
        }
    }

    /// Repeats the request with the payment.
    ///
    /// If the connection is lost or the server cannot answer now, the same payment is sent again. A server that
    /// accepted the payment recognises it and returns the same response.
    async fn redeem(&mut self, payment: &Payment) -> Result<(), Fault> {
        let mut lost = String::new();
        let (mut tries, mut pause) = (PAUSES_BEFORE_TRIES.iter().skip(1), Duration::ZERO);
        let end = Instant::now() + payment.time_to_settle(now_s()).min(IN_USE_WAIT);
        loop {
            if !pause.is_zero() {
                self.print_line(&format!("{lost}: repeating the request with the same payment"));
                sleep(pause).await;
            }
            // The attempt counts before it is sent, because after an interruption the payment may be on its way.
            self.record.send_attempts = self.record.send_attempts.saturating_add(1);
            match self.request.send(&self.client, Some(payment)).await {
                Ok(answer) => {
                    self.record_response(&answer);
                    match self.interpret_response(answer, payment, tries.len()).await? {
                        SendOutcome::Answered(status) => return self.result_for_status(status),
                        SendOutcome::InUse { after, body } => {
                            if Instant::now() + after >= end {
                                self.sink.pass_on_chunk(&body).await?;
                                return self.result_for_status(StatusCode::CONFLICT);
                            }
                            lost = "the server is still processing this payment".to_owned();
                            pause = after;
                            // This attempt does not count as a retry, because the server has answered.
                            continue;
                        }
                        SendOutcome::Lost(why) => lost = why,
                    }
                }
                Err(failure) => {
                    lost = failure.to_string();
                    match failure {
                        NoResponse::NotSent(_) => {
                            self.record.send_attempts = self.record.send_attempts.saturating_sub(1);
                        }
                        NoResponse::Lost(_) => {}
                        NoResponse::TimedOut => break,
                    }
                }
            }
            let Some(next) = tries.next() else { break };
            pause = *next;
        }
        let label = self.request.target.label();
        Err(if self.record.send_attempts == 0 {
            let message = format!(
                "The payment {} was signed, but {label} could no longer be reached ({lost}): it was not \
                 sent, and expires unused.",
                self.record.id()
            );
            Fault::because(Code::ResourceUnreachable, message)
        } else {
            let message = format!(
                "{label} gave no complete answer: {lost}. {}",
                self.record.maybe_paid_text()
            );
            Fault::because(Code::PaymentUnanswered, message)
        })
    }

    /// Interprets a response to the payment.
    async fn interpret_response(
        &mut self,
        answer: ReplyStream,
        payment: &Payment,
        tries_left: usize,
    ) -> Result<SendOutcome, Fault> {
        match answer.status.as_u16() {
            402 => Err(self.refusal_after_payment(answer).await),
            // After the last attempt, the status is passed on as the response.
            status @ 502..=504 if tries_left > 0 => Ok(SendOutcome::Lost(format!("HTTP {status}"))),
            409 => self.handle_conflict(answer, payment).await,
            _final => self.deliver(answer, payment).await,
        }
    }

    async fn deliver(
        &mut self,
        answer: ReplyStream,
        payment: &Payment,
    ) -> Result<SendOutcome, Fault> {
        match self.pass_on_and_report(answer, payment).await {
            Err(BodyError::Connection(why)) if self.sink.discard() => Ok(SendOutcome::Lost(why)),
            Err(error) => Err(self.incomplete_body(error)),
            Ok(status) => Ok(SendOutcome::Answered(status)),
        }
    }

    /// Handles a 409: the server is still processing this payment, or refuses it.
    async fn handle_conflict(
        &mut self,
        answer: ReplyStream,
        payment: &Payment,
    ) -> Result<SendOutcome, Fault> {
        let after = retry_after(&answer.headers);
        let is_short = answer.headers.get("content-length").and_then(|value| value.to_str().ok());
        let is_short = is_short.and_then(|text| text.parse::<usize>().ok());
        // Only a short response with a length is read as a refusal. Any other response is streamed.
        if is_short.is_none_or(|bytes| bytes > PAYMENT_HEADER_BYTES_MAX) {
            return self.deliver(answer, payment).await;
        }
        let headers = answer.headers.clone();
        let body = match offer_body(answer).await {
            Ok(body) => body,
            Err(why) => return Ok(SendOutcome::Lost(why)),
        };
        if is_in_use(&body) {
            if Receipt::read(&headers).is_some() {
                self.record_receipt(&headers);
                self.pass_on_while_reporting(payment, async |_sink| ()).await;
            }
            return Ok(SendOutcome::InUse { after, body });
        }
        self.record_receipt(&headers);
        self.pass_on_while_reporting(payment, async |sink| sink.pass_on_chunk(&body).await).await?;
        Ok(SendOutcome::Answered(StatusCode::CONFLICT))
    }

    /// Handles the response to a payment: reads its receipt, passes its body on and reports to the wallet.
    async fn pass_on_and_report(
        &mut self,
        mut answer: ReplyStream,
        payment: &Payment,
    ) -> Result<StatusCode, BodyError> {
        self.record_receipt(&answer.headers);
        let filled = self
            .pass_on_while_reporting(payment, async |sink| sink.pass_on_body(&mut answer).await)
            .await;
        filled.map(|()| answer.status)
    }

    /// Passes a response on, and reports its settlement to the wallet at the same time.
    async fn pass_on_while_reporting<T>(
        &mut self,
        payment: &Payment,
        pass_on: impl AsyncFnOnce(&mut Sink) -> T,
    ) -> T {
        let settled = self.record.receipt.as_ref().and_then(Receipt::claimed_transaction);
        let settled = settled.filter(|_| self.record.report_accepted.is_none());
        let report = async {
            match settled {
                Some(transaction) => {
                    Some(self.wallet.report_settled(payment.id, transaction).await)
                }
                None => None,
            }
        };
        let (passed, reported) = tokio::join!(pass_on(&mut self.sink), report);
        if let Some(reported) = reported {
            self.record.report_accepted = Some(reported.is_ok());
            if let Err(why) = reported {
                let message = format!("The settlement could not be reported to the wallet: {why}");
                self.record.warn("NOT_REPORTED", message);
            }
        }
        passed
    }

    /// Handles a second 402: reports the server's reason, and signs nothing more.
    async fn refusal_after_payment(&mut self, answer: ReplyStream) -> Fault {
        let receipt = Receipt::read(&answer.headers).and_then(Result::ok);
        let mut reason = receipt.as_ref().and_then(Receipt::failure_reason);
        self.record.receipt = receipt;
        let offered = Challenge::in_header(&answer.headers).and_then(Result::ok);
        let body = offer_body(answer).await.unwrap_or_default();
        let offered = offered.or_else(|| Challenge::in_body(&body).ok());
        if reason.is_none() {
            reason = offered
                .and_then(|offered| offered.error)
                .map(|error| quoted(&error, SERVER_TEXT_CHARS_MAX));
        }
        if let Err(fault) = self.sink.pass_on_chunk(&body).await {
            return fault;
        }
        let reason = reason.unwrap_or_else(|| "it gave no reason".to_owned());
        let id = self.record.id();
        let end = if self.record.send_attempts > 1 {
            // The server may have accepted an earlier attempt.
            self.record.maybe_paid_text()
        } else {
            format!("The payment {id} stays valid until it expires; nothing else was signed.")
        };
        let message = format!("The server did not accept the payment: {reason}. {end}");
        Fault::because(Code::PaymentRefused, message)
    }
}

/// The outcome of sending the payment once.
enum SendOutcome {
    /// The server's final response.
    Answered(StatusCode),
    /// The server is still processing this payment: repeat it after `after`.
    InUse { after: Duration, body: Vec<u8> },
    /// There is no final response, for this reason.
    Lost(String),
}

/// Returns the server's Retry-After, limited to between 1 and 300 seconds; 2 by default.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get("retry-after").and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(2);
    Duration::from_secs(seconds.clamp(1, 300))
}

/// Returns whether a refusal reports that the payment is in use.
fn is_in_use(body: &[u8]) -> bool {
    let Ok(value) = json::parse(body, BODY_DEPTH_MAX) else { return false };
    let code = value.get("error").and_then(|error| error.get("code")).or_else(|| value.get("code"));
    code.and_then(Value::as_str) == Some("payment_in_use")
}

/// Reads a body that may contain an offer, with bounds on size and time.
async fn offer_body(answer: ReplyStream) -> Result<Vec<u8>, String> {
    let whole = timeout(OFFER_WAIT, answer.read_to_end(PAYMENT_HEADER_BYTES_MAX)).await;
    whole.map_err(|_elapsed| "it did not end within 60 seconds".to_owned())?
}
