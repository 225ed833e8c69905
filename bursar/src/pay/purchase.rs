//! The way of one purchase: ask, read the offer, have it signed once, ask the very same again with the payment,
//! pass the answer on. A connection that is lost with the payment is tried again with the same payment.

mod words;

use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::limits::{HOLD_MS, PAYMENT_HEADER_BYTES};
use bursar_core::text::quoted;
use bursar_outbound::{Answered, Client, StatusCode};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::account::Account;
use super::offer::{Challenge, Most};
use super::receipt::Receipt;
use super::request::{Missed, Request};
use super::sink::{Broken, Sink};
use super::wallet::{Payment, Standing, Wallet};
use crate::cli::{Global, PayArgs};

/// How long a connection may take.
const CONNECT_MS: u64 = 10_000;
/// How long an offer's body may take.
const OFFER_WAIT: Duration = Duration::from_secs(60);
/// Between two looks at a request that the operator has.
const POLL: Duration = Duration::from_secs(1);
/// What a wallet that is being started again may need beyond the life of a request.
const GRACE: Duration = Duration::from_secs(60);
/// Before the first try with the payment, and before each further one.
const TRIES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_millis(1_500)];
/// Characters of a server's text in a message.
const WIDTH: usize = 300;

pub(super) struct Purchase {
    request: Request,
    client: Client,
    pub(super) wallet: Wallet,
    most: Option<Most>,
    wait: Option<Duration>,
    include: bool,
    quiet: bool,
    pub(super) sink: Sink,
    pub(super) account: Account,
}

impl Purchase {
    pub(super) fn new(
        request: Request,
        wallet: Wallet,
        most: Option<Most>,
        global: &Global,
        args: &PayArgs,
    ) -> Result<Self, Fault> {
        let client = Client::lasting(CONNECT_MS)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(Self {
            request,
            client,
            wallet,
            most,
            wait: args.wait.map(|seconds| Duration::from_secs(seconds.into())),
            include: args.include,
            quiet: global.quiet,
            sink: Sink::new(global.json),
            account: Account::default(),
        })
    }

    pub(super) async fn make(&mut self) -> Result<(), Fault> {
        let mut first = self.request.send(&self.client, None).await.map_err(|why| {
            let label = self.request.target.label();
            let message = format!("{label} gave no answer: {why}. Nothing was paid.");
            Fault::because(Code::ResourceUnreachable, message)
        })?;
        self.look_at(&first);
        if first.status != StatusCode::PAYMENT_REQUIRED {
            return match self.sink.fill(&mut first).await {
                Ok(()) => self.judge(first.status),
                Err(broken) => Err(self.broke_off(broken)),
            };
        }
        let challenge = self.challenge(first).await?;
        self.progress(&format!("402: {} is asked for", challenge.told()));
        if let Some(most) = &self.most {
            challenge.within(most)?;
        }
        let payment = self.signed(&challenge).await?;
        // The wallet is trusted with money and not with whom this connection leads to: what it signed must be
        // an offer of this very server.
        let Some(price) = challenge.paid_by(&payment.text) else {
            let message =
                "The wallet signed something that the server did not offer: it was not sent.";
            return Err(Fault::because(Code::InternalError, message));
        };
        self.progress(&format!("signed as {}: asking again with the payment", self.account.id()));
        self.account.paid = Some((price, challenge.version()));
        self.redeem(&payment).await
    }

    /// The offer of a 402 answer. A body that is none is passed on, for it may say what is wanted.
    async fn challenge(&mut self, answer: Answered) -> Result<Challenge, Fault> {
        let not_x402 = |why: String| {
            Fault::because(
                Code::NotX402,
                format!("The server wants to be paid and makes no offer: {why}."),
            )
        };
        if let Some(challenge) = Challenge::in_header(&answer.headers) {
            return challenge.map_err(|error| not_x402(error.to_string()));
        }
        let body = offer_body(answer).await.map_err(&not_x402)?;
        match Challenge::in_body(&body) {
            Ok(challenge) => Ok(challenge),
            Err(error) => {
                self.sink.take(&body).await?;
                Err(not_x402(error.to_string()))
            }
        }
    }

    /// One signature, at once or when the operator has approved.
    async fn signed(&mut self, challenge: &Challenge) -> Result<Payment, Fault> {
        self.account.asked = true;
        let payment = match self.wallet.sign(&challenge.asked, &self.request.url).await? {
            Standing::Signed(payment) => payment,
            Standing::Held(id) => self.decided(id).await?,
            Standing::Refused(fault) => return Err(fault),
            Standing::Unknown(_) => return Err(Fault::new(Code::Busy)),
        };
        self.account.request = Some(payment.id);
        Ok(payment)
    }

    async fn decided(&mut self, id: RequestId) -> Result<Payment, Fault> {
        self.account.request = Some(id);
        let short = id.short();
        self.tell(&format!(
            "held: request {short} waits for the operator (bursar approve {short})"
        ));
        let longest = Duration::from_millis(HOLD_MS.unsigned_abs()).saturating_add(GRACE);
        let wait = self.wait.unwrap_or(longest).min(longest);
        let (end, mut pause) = (Instant::now() + wait, POLL);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waited = !wait.is_zero();
                let code = if waited { Code::WaitRanOut } else { Code::ApprovalRequired };
                let message = format!("Nobody has decided yet. {}", self.account.waits());
                return Err(Fault::because(code, message));
            }
            sleep(pause.min(left)).await;
            pause = POLL;
            match timeout_at(end, self.wallet.poll(id)).await {
                Ok(Standing::Signed(payment)) => return Ok(payment),
                Ok(Standing::Refused(fault)) => return Err(fault),
                Ok(Standing::Unknown(longer)) => pause = pause.max(longer),
                Ok(Standing::Held(_)) | Err(_) => {}
            }
        }
    }

    /// Asks again with the payment, and with the same one as often as the connection is lost over it, or the
    /// server cannot answer just now: one that has taken it knows it and answers as before.
    async fn redeem(&mut self, payment: &Payment) -> Result<(), Fault> {
        let mut lost = String::new();
        for (tried, pause) in (1..).zip(TRIES) {
            if !pause.is_zero() {
                self.tell(&format!("{lost}: asking again with the same payment"));
                sleep(pause).await;
            }
            // Counted before: an interrupted command must know that it may be on its way.
            self.account.sent = self.account.sent.saturating_add(1);
            let answer = match self.request.send(&self.client, Some(payment)).await {
                Ok(answer) => answer,
                Err(missed) => {
                    lost = missed.to_string();
                    match missed {
                        Missed::Unreached(_) => {
                            self.account.sent = self.account.sent.saturating_sub(1);
                            continue;
                        }
                        Missed::Lost(_) => continue,
                        Missed::Late => break,
                    }
                }
            };
            self.look_at(&answer);
            if answer.status == StatusCode::PAYMENT_REQUIRED {
                return Err(self.refused(answer).await);
            }
            // What it says is passed on once it says nothing else.
            if matches!(answer.status.as_u16(), 502..=504) && tried < TRIES.len() {
                lost = format!("HTTP {}", answer.status.as_u16());
                continue;
            }
            match self.take(answer, payment).await {
                Err(Broken::There(why)) if self.sink.begin_again() => lost = why,
                Err(broken) => return Err(self.broke_off(broken)),
                Ok(status) => return self.judge(status),
            }
        }
        let label = self.request.target.label();
        Err(if self.account.sent == 0 {
            let message = format!(
                "The payment {} was signed, and {label} could not be reached any more ({lost}): it was not sent, \
                 and runs out unused.",
                self.account.id()
            );
            Fault::because(Code::ResourceUnreachable, message)
        } else {
            let message = format!("{label} gave no whole answer: {lost}. {}", self.account.taken());
            Fault::because(Code::PaymentUnanswered, message)
        })
    }

    /// The answer to a payment: its receipt, its body, and the report to the wallet beside it.
    async fn take(
        &mut self,
        mut answer: Answered,
        payment: &Payment,
    ) -> Result<StatusCode, Broken> {
        self.receipt(&answer);
        let settled = self.account.receipt.as_ref().and_then(Receipt::settled_by);
        let settled = settled.filter(|_| self.account.reported.is_none());
        let report = async {
            match settled {
                Some(transaction) => Some(self.wallet.settled(payment.id, transaction).await),
                None => None,
            }
        };
        let (filled, reported) = tokio::join!(self.sink.fill(&mut answer), report);
        if let Some(reported) = reported {
            self.account.reported = Some(reported.is_ok());
            if let Err(why) = reported {
                let message = format!("The wallet was not told of the settlement: {why}");
                self.account.warn("NOT_REPORTED", message);
            }
        }
        filled.map(|()| answer.status)
    }

    /// 402 once more: the server's reason is told, and nothing is signed again.
    async fn refused(&mut self, answer: Answered) -> Fault {
        let receipt = Receipt::read(&answer.headers).and_then(Result::ok);
        let mut reason = receipt.as_ref().and_then(Receipt::why);
        self.account.receipt = receipt;
        let offered = Challenge::in_header(&answer.headers).and_then(Result::ok);
        let body = offer_body(answer).await.unwrap_or_default();
        let offered = offered.or_else(|| Challenge::in_body(&body).ok());
        if reason.is_none() {
            reason = offered.and_then(|offered| offered.error).map(|error| quoted(&error, WIDTH));
        }
        if let Err(fault) = self.sink.take(&body).await {
            return fault;
        }
        let reason = reason.unwrap_or_else(|| "without a reason".to_owned());
        let id = self.account.id();
        let end = if self.account.sent > 1 {
            // Perhaps because the try before had been taken.
            self.account.taken()
        } else {
            format!("The payment {id} stays signed until it runs out; nothing else was signed.")
        };
        let message = format!("The server did not accept the payment: {reason}. {end}");
        Fault::because(Code::PaymentRefused, message)
    }
}

/// The body that may hold an offer, within its bounds.
async fn offer_body(answer: Answered) -> Result<Vec<u8>, String> {
    let whole = timeout(OFFER_WAIT, answer.whole(PAYMENT_HEADER_BYTES)).await;
    whole.map_err(|_elapsed| "it does not come to an end".to_owned())?
}
