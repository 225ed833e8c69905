//! The state machine: `state × time × input → events, actions`. Quotes and lookups have their own modules.

use bursar_core::time::Utc;
use bursar_x402::signature::{Signature65, recover};

use crate::actions::{resend, sign, trouble_change};
use crate::call::Call;
use crate::event::{Event, Outcome};
use crate::input::{Action, Input, Quote, Refusal, Rules, SendAnswer, Step};
use crate::on_lookup::LookupResult;
use crate::outbox::{ChainState, Kind, Outbox, Submission, SubmissionId, Trouble};
use crate::{on_lookup, on_quote};

/// How many open submissions an outbox accepts.
pub(crate) const OPEN_SUBMISSIONS_MAX: usize = 4096;

/// Returns the consequences of an input, and changes nothing.
///
/// The host persists the events, applies them, and then performs the actions.
///
/// # Errors
/// [`Refusal`] if the input is rejected. Results for a submission that has ended are not errors; they have no
/// consequences.
pub fn step(outbox: &Outbox, rules: &Rules, at: Utc, input: Input) -> Result<Step, Refusal> {
    match input {
        Input::Open { id, call, ceiling, until } => open(outbox, at, id, call, ceiling, until),
        Input::Cancel { id } => cancel(outbox, id),
        Input::Raise { id, quote, most } => {
            raise(outbox, rules, at, id, &CappedQuote { quote, price_max: most })
        }
        Input::Quoted(quote) => Ok(on_quote::advance(outbox, rules, at, &quote)),
        Input::Signature { id, attempt, signature } => {
            on_signature(outbox, at, id, attempt, &signature)
        }
        Input::Declined { id, attempt } => Ok(on_declined(outbox, id, attempt)),
        Input::Answered { id, answer } => Ok(on_send_answer(outbox, id, answer)),
        Input::LookedUp { id, asked, found, known, head, settled } => Ok(on_lookup::advance(
            outbox,
            rules,
            at,
            id,
            &LookupResult { attempts_asked: asked, found, known, head, settled_nonces: settled },
        )),
        Input::Tick => {
            Ok(Step { events: expire_unsigned(outbox, at), actions: tick(outbox, rules, at) })
        }
    }
}

/// Returns every pending action of an outbox, for example after it was read from disk.
///
/// The actions request authorized signatures again, broadcast signed bytes again, and query the chain for everything
/// else.
pub fn resume(outbox: &Outbox, rules: &Rules, at: Utc) -> Vec<Action> {
    let mut actions = Vec::new();
    for (id, one) in &outbox.open {
        actions.extend(sign(*id, one).filter(|_sign| !is_mined(one)));
        actions.extend(resend(*id, one, at).filter(|_send| !is_mined(one)));
    }
    actions.extend(tick(outbox, rules, at));
    actions
}

fn is_mined(one: &Submission) -> bool {
    matches!(one.chain_state, ChainState::Included(_))
}

/// Returns the actions due at each new block.
fn tick(outbox: &Outbox, rules: &Rules, at: Utc) -> Vec<Action> {
    let mut actions = Vec::new();
    let needs_quote = |one: &Submission| {
        one.nonce.is_none()
            || on_quote::needs_quote(one, rules, at)
            || on_quote::is_stuck(one, rules.patience_ms, at)
    };
    if outbox.open.values().any(needs_quote) {
        actions.push(Action::Quote);
    }
    actions.extend(outbox.open.iter().filter_map(|(id, one)| look_up(*id, one)));
    actions
}

/// Ends submissions that expired before they were signed; their nonces are free again.
fn expire_unsigned(outbox: &Outbox, at: Utc) -> Vec<Event> {
    let late = |one: &Submission| !one.is_signed() && !one.may_offer_call(at);
    let ended = outbox.open.iter().filter(|(_id, one)| late(one));
    ended.map(|(id, _one)| Event::Finished { id: *id, outcome: Outcome::Dropped }).collect()
}

fn open(
    outbox: &Outbox,
    at: Utc,
    id: SubmissionId,
    call: Call,
    ceiling: u128,
    until: Option<Utc>,
) -> Result<Step, Refusal> {
    if let Some(one) = outbox.open.get(&id) {
        let same = one.call == call && one.ceiling == ceiling && one.until == until;
        return if same { Ok(Step::default()) } else { Err(Refusal::OtherCall) };
    }
    if outbox.open.len() >= OPEN_SUBMISSIONS_MAX {
        return Err(Refusal::Full);
    }
    if until.is_some_and(|until| at >= until) {
        return Err(Refusal::Expired);
    }
    let opened = Event::Opened { id, call, ceiling, filler: false, until };
    Ok(Step { events: vec![opened], actions: vec![Action::Quote] })
}

fn cancel(outbox: &Outbox, id: SubmissionId) -> Result<Step, Refusal> {
    let one = outbox.open.get(&id).ok_or(Refusal::Unknown)?;
    if is_mined(one) {
        return Err(Refusal::TooLate);
    }
    if !one.is_signed() {
        let dropped = Event::Finished { id, outcome: Outcome::Dropped };
        return Ok(Step { events: vec![dropped], actions: Vec::new() });
    }
    let mut events = Vec::new();
    if !one.cancel {
        events.push(Event::CancelWanted { id });
        // A further offer with a pending signature request could still execute the call.
        let unsigned = one.unsigned_attempt().map(|(attempt, _tried)| attempt);
        events.extend(unsigned.map(|attempt| Event::Declined { id, attempt }));
    }
    Ok(Step { events, actions: vec![Action::Quote] })
}

/// A quote, and the highest price of a unit of gas that the host accepts, in wei.
struct CappedQuote {
    quote: Quote,
    price_max: u128,
}

fn raise(
    outbox: &Outbox,
    rules: &Rules,
    at: Utc,
    id: SubmissionId,
    capped: &CappedQuote,
) -> Result<Step, Refusal> {
    let CappedQuote { quote, price_max: most } = capped;
    let one = outbox.open.get(&id).ok_or(Refusal::Unknown)?;
    if is_mined(one) {
        return Err(Refusal::TooLate);
    }
    let offer = on_quote::raised_offer(outbox, rules, id, quote);
    if offer.is_none_or(|offer| offer.max_price() > *most) {
        return Err(Refusal::NotRaised);
    }
    on_quote::raise(outbox, rules, at, id, quote).ok_or(Refusal::NotRaised)
}

fn on_signature(
    outbox: &Outbox,
    at: Utc,
    id: SubmissionId,
    attempt: usize,
    signature: &Signature65,
) -> Result<Step, Refusal> {
    // The submission may have ended while a slow signer was asked.
    let Some(one) = outbox.open.get(&id) else { return Ok(Step::default()) };
    let Some(tried) = one.attempts.get(attempt) else { return Ok(Step::default()) };
    let Some(unsigned) = outbox.unsigned(id, attempt) else { return Ok(Step::default()) };
    if tried.declined || is_mined(one) {
        return Ok(Step::default());
    }
    if recover(tried.digest, signature) != Ok(outbox.key.signer) {
        return Err(Refusal::WrongSignature);
    }
    if tried.raw.is_none() && matches!(tried.kind, Kind::Call) && !one.may_offer_call(at) {
        // The signer took too long. These bytes are neither kept nor broadcast.
        let end = if one.is_signed() {
            Event::Declined { id, attempt }
        } else {
            Event::Finished { id, outcome: Outcome::Dropped }
        };
        return Ok(Step { events: vec![end], actions: Vec::new() });
    }
    match &tried.raw {
        // The signer was asked twice: only the bytes that were persisted first are used.
        Some(raw) => {
            let again = one.may_send(raw.hash, at);
            let again = again.then(|| Action::Send { id, raw: raw.clone() });
            Ok(Step { events: Vec::new(), actions: again.into_iter().collect() })
        }
        None => {
            let raw = unsigned.signed(signature);
            Ok(Step {
                events: vec![Event::Signed {
                    id,
                    attempt,
                    signature: *signature,
                    raw: raw.clone(),
                }],
                actions: vec![Action::Send { id, raw }],
            })
        }
    }
}

fn on_declined(outbox: &Outbox, id: SubmissionId, attempt: usize) -> Step {
    let waits = outbox.open.get(&id).filter(|one| {
        one.unsigned_attempt().is_some_and(|(unsigned, _attempt)| unsigned == attempt)
    });
    let event = waits.map(|one| {
        if one.is_signed() {
            Event::Declined { id, attempt }
        } else {
            Event::Finished { id, outcome: Outcome::Dropped }
        }
    });
    Step { events: event.into_iter().collect(), actions: Vec::new() }
}

fn on_send_answer(outbox: &Outbox, id: SubmissionId, answer: SendAnswer) -> Step {
    let Some(one) = outbox.open.get(&id).filter(|one| one.is_signed()) else {
        return Step::default();
    };
    let mut step = Step::default();
    let trouble = match answer {
        // A higher offer is impossible, whatever the node answered to the last broadcast.
        _any if matches!(one.trouble, Some(Trouble::TooExpensive | Trouble::NonceJump)) => {
            one.trouble
        }
        SendAnswer::Accepted | SendAnswer::AlreadyKnown => None,
        SendAnswer::Underpriced => Some(Trouble::Underpriced),
        SendAnswer::Unfunded => Some(Trouble::Unfunded),
        SendAnswer::Refused => Some(Trouble::Refused),
        SendAnswer::NonceTooLow | SendAnswer::Unclear => one.trouble,
    };
    if !is_mined(one) {
        step.events.extend(trouble_change(id, one, trouble));
        if trouble == Some(Trouble::Underpriced) {
            step.actions.push(Action::Quote);
        }
    }
    // No lookup here, because it would trigger an immediate rebroadcast: an endless loop if a node refuses the
    // bytes and forgets them. The next block triggers a lookup.
    step
}

/// Queries every signed attempt of a submission.
fn look_up(id: SubmissionId, one: &Submission) -> Option<Action> {
    let hashes: Vec<_> =
        one.attempts.iter().filter_map(|tried| Some(tried.raw.as_ref()?.hash)).collect();
    (!hashes.is_empty()).then_some(Action::Lookup { id, hashes })
}
