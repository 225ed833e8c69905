//! The commands `requests` and `approve`.

use std::collections::BTreeSet;
use std::sync::Arc;

use bursar_control::answers::{Answer, DecidedAnswer, MORE_REQUESTS, Warning};
use bursar_control::card_text;
use bursar_control::grammar::{Approve, RequestsOrder};
use bursar_control::wire::Asking;
use bursar_core::card::{Card, HoldReason};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::limits::FRAME_BYTES_MAX;
use bursar_core::money::Usd;
use bursar_core::risk::Level;
use bursar_core::status::DecidedStatus;
use bursar_core::text;
use bursar_core::time::Moment;
use bursar_domain::cards;
use bursar_domain::command::Approval;
use bursar_domain::{Action, PaymentAsk, Request, State, Status};

use super::cards::CardContext;
use super::dialogue::Dialogue;
use super::dry_run::is_dry_run;
use super::endings::{self, explain_end};
use super::repricing::{is_another_price, requote, with_price};
use super::support::frame_budget::truncate_to_fit;
use super::support::{Done, act, describe};
use super::{device_card, device_status};
use crate::context::EngineContext;
use crate::core::ActionAnswer;
use crate::journal::read_fault;
use crate::lanes::payments::execute;

/// How many of the newest requests `--all` and a search for a decided request read.
const RECENT_REQUESTS: usize = 50;
/// How long `--retry` waits for the devices.
const RETRY_MS: u64 = 5_000;

pub(super) async fn list(
    engine: &Arc<EngineContext>,
    order: &RequestsOrder,
) -> Result<Done, Fault> {
    if order.retry && !is_dry_run() {
        retry(engine).await;
    }
    let first = pending(&engine.core.view().state, &engine.core.now());
    let context = CardContext::of(engine, &first).await;
    // The pending requests may have changed while balances were read.
    let view = engine.core.view();
    let moment = engine.core.now();
    let places = device_status::queue_statuses(engine, &view);
    let described = |request: &Arc<Request>| {
        let place = places.get(&request.id);
        let mut card = context.card(&view.state, request, &moment);
        if let (Some(card), Some(place)) = (&mut card, place) {
            let emulator = device_status::emulator(engine);
            card.device =
                device_card::device_card_of(&view.state, request, place, emulator).map(Box::new);
        }
        let largest = card.as_ref().map(|card| card.per_request_max);
        let mut answer = describe::request(request, card.map(Card::with_short_urls), &moment);
        answer.typing_threshold =
            largest.map(|largest| cards::typing_threshold(&view.state, largest).to_string());
        if let Some(place) = place {
            describe::describe_at_device(&mut answer, &view.state, request, &place.label, &moment);
        }
        answer
    };
    let shown = pending(&view.state, &moment);
    let mut requests: Vec<_> = shown.iter().map(described).collect();
    if order.all {
        let recent = engine.core.reader().latest(RECENT_REQUESTS);
        let recent = recent.map_err(|error| read_fault(&error))?;
        let shown: BTreeSet<RequestId> = shown.iter().map(|request| request.id).collect();
        let decided = recent.iter().filter(|request| !shown.contains(&request.id));
        requests.extend(decided.map(|request| describe::request(request, None, &moment)));
    }
    // The rest of the frame is for the envelope and the warnings.
    let left = truncate_to_fit(&mut requests, FRAME_BYTES_MAX.saturating_sub(FRAME_BYTES_MAX / 16));
    let mut warnings = Vec::new();
    if left > 0 {
        let message =
            format!("{left} more are not shown: decide some of these, then list them again.");
        warnings.push(Warning { code: MORE_REQUESTS.to_owned(), message });
    }
    if view.state.wallet.is_none() {
        let message = "This data folder has no wallet: is it the right one?".to_owned();
        warnings.push(Warning { code: Code::NoWallet.text().to_owned(), message });
    }
    Ok(Done { answer: Answer::Requests { requests }, warnings, secret: None })
}

/// Makes the device queue try again, and waits until a device shows a prompt or the try ends.
async fn retry(engine: &EngineContext) {
    let mut devices = engine.device_status.clone();
    let clock = &engine.ports.clock;
    let until = clock.mono_ms().saturating_add(RETRY_MS);
    let tried = engine.device_retries.start();
    let prompting = devices.wait_for(|status| status.prompting.is_some());
    // cancel-safe: all branches only wait.
    tokio::select! {
        biased;
        () = engine.stopping.cancelled() => {}
        () = tried => {}
        _shown = prompting => {}
        () = clock.sleep_until(until) => {}
    }
}

/// Returns the requests that wait for the operator or for a person at a device, sorted by journal entry.
///
/// The time would not sort them: several requests can have the same time, and a clock can be set back.
pub(super) fn pending(state: &State, moment: &Moment) -> Vec<Arc<Request>> {
    let held = state.held.values().filter(|request| !request.is_hold_over(moment));
    let plans = state.plans_at_device().filter(|request| request.is_running());
    let pending = held.chain(state.waiting_at(moment)).chain(plans);
    let mut pending: Vec<Arc<Request>> = pending.cloned().collect();
    pending.sort_by_key(|request| request.seq);
    pending
}

pub(super) async fn approve(
    engine: &Arc<EngineContext>,
    order: &Approve,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let agreed = order.yes || dialogue.asking() == Asking::Agreed;
    // Reads balances only for an operator who will see the card.
    let context = if dialogue.asking() == Asking::Interactive && !agreed {
        let request = find(engine, &engine.core.view().state, &order.id, ID_DIGITS_MIN)?;
        CardContext::of(engine, &[request]).await
    } else {
        CardContext::without_balances(engine)
    };
    // Read the view after the balances: by now the request may be decided, or its card may differ. Request and card
    // come from this view.
    let view = engine.core.view();
    // Without seeing the card, the operator could approve the wrong request by a short prefix.
    let shortest = if agreed && order.card.is_none() { LISTED_ID_DIGITS } else { ID_DIGITS_MIN };
    let request = find(engine, &view.state, &order.id, shortest)?;
    if !request.is_held() {
        return Err(explain_end(engine, request.id, Fault::new(Code::AlreadyDecided)));
    }
    if request.is_hold_over(&engine.core.now()) {
        // Records the expiry before reporting it: a clock set back must not make the request pending again.
        act(engine, Action::Tick).await?;
        // Another operator program may have decided the request just before its deadline.
        return Err(explain_end(engine, request.id, Fault::new(Code::RequestNotFound)));
    }
    let priced = with_price(engine, &request).await?;
    let mut card = card(engine, &view.state, &priced, &context)?;
    // Without a terminal the operator has not seen the price that was found just now.
    let found_now = request.ask.payment().is_some_and(PaymentAsk::is_unpriced);
    card.type_amount |= found_now;
    check_digest(order.card.as_deref(), &card)?;
    confirm(&card, order.confirm, agreed, dialogue).await?;
    let nonce = engine.random()?;
    let (shown, by) = (card.digest.clone(), dialogue.client());
    let quote = requote(engine, &view.state, &request, &card).await?;
    let approval = Approval { id: card.id, card_digest: shown, nonce, by, quote };
    let approved = Action::Approve(Box::new(approval));
    let outcome =
        act(engine, approved).await.map_err(|fault| explain_end(engine, card.id, fault))?;
    let ActionAnswer::Request(record) = outcome.answer else {
        return Err(Fault::new(Code::InternalError));
    };
    if let Status::Refused { refusal, .. } = &record.status {
        return Err(Fault::because(
            refusal.code,
            format!("Not approved, and the request is closed: {}", refusal.describe()),
        ));
    }
    let mut signed = false;
    for order in outcome.orders {
        signed = matches!(execute(&engine.execution, order).await, Ok(Some(_signature)));
    }
    let status = match order.wait {
        Some(wait_s) if !signed => endings::wait(engine, card.id, wait_s, dialogue).await?,
        _no_wait => approved_status(engine, &record, signed),
    };
    Ok(decided_answer(&card, status))
}

/// Checks that the digest of a card, if one was given, is that of the card now.
fn check_digest(shown: Option<&str>, card: &Card) -> Result<(), Fault> {
    match shown {
        Some(shown) if shown.len() != card.digest.len() => {
            let message =
                "--card needs the whole digest, the 64 characters in the card's row `card`.";
            Err(Fault::because(Code::BadInput, message))
        }
        Some(shown) if shown != card.digest => Err(Fault::new(Code::CardChanged)),
        Some(_) | None => Ok(()),
    }
}

/// Returns the status of a request that was just approved.
fn approved_status(engine: &EngineContext, record: &Request, signed: bool) -> DecidedStatus {
    match (signed, &record.status) {
        (true, _any) => DecidedStatus::Signed,
        (false, Status::AwaitingDevice(_)) => DecidedStatus::AwaitingDevice,
        (false, _plan) if engine.core.view().state.awaits_device_signature(record) => {
            DecidedStatus::AwaitingDevice
        }
        (false, _other) => DecidedStatus::Executing,
    }
}

/// Asks for confirmation. A large amount must be typed; otherwise a yes is enough.
async fn confirm(
    card: &Card,
    typed: Option<Usd>,
    agreed: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    let interactive = dialogue.asking() == Asking::Interactive;
    if card.type_amount {
        let given = match typed {
            Some(given) => given,
            None if interactive && !agreed => {
                let text =
                    dialogue.ask_amount(card_text::lines(card), &card.usd.to_string()).await?;
                Usd::parse(text.trim()).map_err(|error| {
                    Fault::because(Code::Declined, format!("Nothing was done: {error}."))
                })?
            }
            None => {
                let danger = card.risks.iter().find(|risk| risk.level == Level::Danger);
                let why = danger.map_or(String::new(), |risk| format!("DANGER: {}. ", risk.text));
                return Err(Fault::because(
                    Code::ConfirmationNeeded,
                    format!("{why}You must type this amount: add --confirm {}.", card.usd),
                ));
            }
        };
        let is_meant = match card.hold {
            // The price is read again for each approval, so it may differ a little.
            HoldReason::Unpriced => !is_another_price(card.usd, given),
            _fixed => given == card.usd,
        };
        if !is_meant {
            return Err(Fault::because(
                Code::Declined,
                format!("Nothing was done: the amount is {}, not {given}.", card.usd),
            ));
        }
        return Ok(());
    }
    match (agreed, interactive) {
        (true, _) => Ok(()),
        (false, true) => dialogue.confirm(card_text::lines(card), "Approve?").await,
        (false, false) => Err(Fault::because(
            Code::ConfirmationNeeded,
            "There is no terminal to ask on: check the request, then add --yes.",
        )
        .with_hint("requests")),
    }
}

pub(super) fn decided_answer(card: &Card, status: DecidedStatus) -> Done {
    Answer::Decided(DecidedAnswer {
        id: card.id.to_string(),
        lane: card.terms.lane,
        status,
        summary: card.amount.clone(),
        payee: card.terms.payee.clone(),
    })
    .into()
}

pub(super) fn card(
    engine: &EngineContext,
    state: &State,
    request: &Request,
    context: &CardContext,
) -> Result<Card, Fault> {
    let card = context.card(state, request, &engine.core.now());
    card.ok_or(Fault::new(Code::AlreadyDecided))
}

/// Minimum length of an id prefix, without dashes, for a denial, or for an approval with `--card` or a shown card.
pub(super) const ID_DIGITS_MIN: usize = 4;
/// Minimum length of an id prefix for any other approval: the length that lists show.
const LISTED_ID_DIGITS: usize = 8;

/// Finds the pending request with this id prefix.
///
/// # Errors
/// `BAD_INPUT` if the prefix is shorter than `shortest`, `AMBIGUOUS`, or `REQUEST_NOT_FOUND`. If no pending request
/// fits and exactly one other request does, the error states how that request ended.
pub(super) fn find(
    engine: &EngineContext,
    state: &State,
    prefix: &str,
    shortest: usize,
) -> Result<Arc<Request>, Fault> {
    if prefix.chars().filter(|c| *c != '-').count() < shortest {
        let message = match shortest {
            LISTED_ID_DIGITS => {
                "To approve without seeing the card, give the eight characters of the id that `requests` \
                 shows, or --card."
            }
            _few => "Give at least four characters of the id.",
        };
        return Err(Fault::because(Code::BadInput, message));
    }
    let plans = state.plans_at_device();
    let waiting = state.held.values().chain(state.waiting.values()).chain(plans);
    let fits: Vec<&Arc<Request>> =
        waiting.filter(|request| request.id.has_prefix(prefix)).collect();
    match fits.as_slice() {
        [only] => Ok(Arc::clone(only)),
        [] => {
            let unknown = Fault::because(
                Code::RequestNotFound,
                format!("No request begins with {}.", text::snippet(prefix)),
            );
            let found = engine.core.reader().by_prefix(prefix).unwrap_or_default();
            let named = prefix.parse::<RequestId>().ok();
            Err(match (named, found.as_slice()) {
                (None, []) => unknown,
                (None, [_, _, ..]) => ambiguous_prefix(found.iter().map(|request| request.id)),
                (Some(id), _) => explain_end(engine, id, unknown),
                (None, [only]) => explain_end(engine, only.id, unknown),
            })
        }
        several => Err(ambiguous_prefix(several.iter().map(|request| request.id))),
    }
}

/// Returns the error for an id prefix that fits the requests with these ids.
fn ambiguous_prefix(ids: impl Iterator<Item = RequestId>) -> Fault {
    let ids: Vec<String> = ids.map(|id| id.short()).collect();
    let ids = ids.join(", ");
    Fault::because(
        Code::Ambiguous,
        format!("Several ids begin like this: {ids}. Give more characters."),
    )
}
