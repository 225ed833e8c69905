//! Requests of every lane: receiving, approving, denying, expiring. The modules of the lanes contain the differences.

use std::sync::Arc;

use bursar_core::card::HoldReason;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::limits::PADDING_BYTES_PER_DAY_MAX;

use super::intake::{Intake, Queue};
use super::unattended::exceeds_daily_limit;
use super::{loans, mandates, payments, plans, prompts, steps, trades};
use crate::agents::Agent;
use crate::approval::{FreshPrices, fresh_prices, fresh_verdict, may_be_approved, may_work};
use crate::assess::{Verdict, hold, is_full};
use crate::cards;
use crate::command::{Approval, Ask, Command, Recall, Requote};
use crate::decision::{Decision, Effect, Reply, require_unlocked};
use crate::due::{expiry, expiry_if_due, renewal_if_due, renewals, unattended_day_if_due};
use crate::event::{Event, RequestDraft};
use crate::gas;
use crate::idempotency::{Prior, Repeat, repeat};
use crate::identity::Identity;
use crate::loan_context::check_current;
use crate::plan::Quote;
use crate::refusal::Refusal;
use crate::requests::{Deadline, LaneAsk, Request, Status};
use crate::state::State;

pub(super) fn ask(state: &State, command: &Command, ask: &Ask) -> Result<Decision, Refusal> {
    let agent = state.agents.get(&ask.agent).ok_or(Refusal::new(Code::AuthFailed))?;
    let commission = may_work(state, agent)?;
    // The agent server checked this already, but the wallet may have been locked since.
    require_unlocked(command)?;
    // The agent server has no route for a lane that the edition lacks.
    if !state.edition.lanes.contains(&ask.ask.lane()) {
        return Err(Refusal::new(Code::NotFound));
    }
    let policy = state.policy_of(agent).ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    let may_get = |first: &Request| payments::check_repeat_url(&policy.payments.hosts, ask, first);
    if let Some(decision) = answer_repeat(state, command, &ask.prior, &ask.identity, may_get)? {
        return Ok(decision);
    }
    within_bounds(state, agent, command, ask)?;
    let paying = state.wallet.as_ref().and_then(|wallet| wallet.address(&commission.label));
    let paying = paying.ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    let from = paying.address;
    let (mut events, spent) = renewal_if_due(agent, commission, &command.moment);
    events.extend(unattended_day_if_due(state, &command.moment));
    let queue = Queue::now(state, agent, &command.moment);
    events.extend(queue.expired.iter().map(|id| expiry(*id, &command.moment)));
    let asked = Box::new(RequestDraft {
        id: ask.id,
        agent: agent.id.clone(),
        label: commission.label.clone(),
        from,
        identity: ask.identity.clone(),
        ask: ask.ask.clone(),
    });
    let intake = Intake { state, command, from, policy, spent, queue: &queue };
    let reply = Reply::Request(ask.id);
    match verdict(&intake, agent, ask)? {
        Verdict::Act => {
            let (event, effects) = act_on_allowed(&intake, asked, ask.nonce)?;
            events.push(event);
            Ok(Decision { events, effects, reply })
        }
        Verdict::Hold(reason) => {
            let deadline = Deadline::after(&command.moment);
            events.push(Event::RequestHeld { draft: asked, reason, deadline });
            Ok(Decision::reply(events, reply))
        }
        Verdict::Refuse(refusal) => {
            if agent.refusals.are_too_many(command.moment.utc.max(state.clock)) {
                return Ok(Decision::reply(events, Reply::Refused(refusal)));
            }
            let asked = Box::new(RequestDraft { ask: strip_refused(asked.ask), ..*asked });
            events.push(Event::RequestRefused { draft: asked, refusal });
            Ok(Decision::reply(events, reply))
        }
    }
}

/// Applies the policy, and the rules of all lanes, to a new request.
fn verdict(intake: &Intake<'_>, agent: &Agent, ask: &Ask) -> Result<Verdict, Refusal> {
    let Intake { state, command, from, queue, .. } = *intake;
    let verdict = match (&ask.lane_refusal, &ask.ask) {
        (Some(refusal), LaneAsk::Loan(loan)) => {
            loans::refused_verdict(intake, agent, loan, refusal)?
        }
        (Some(refusal), LaneAsk::Payment(_) | LaneAsk::Trade(_)) => {
            Verdict::Refuse(refusal.clone())
        }
        (None, LaneAsk::Payment(payment)) => payments::verdict(intake, payment),
        (None, LaneAsk::Trade(trade)) => trades::verdict(intake, trade),
        (None, LaneAsk::Loan(loan)) => loans::verdict(intake, agent, loan)?,
    };
    if verdict != Verdict::Act {
        return Ok(verdict);
    }
    let moment = &command.moment;
    let (by_agent, in_all) = (queue.count_of_agent, queue.count_in_all);
    Ok(if gas::failures_are_used_up(state, agent, &ask.ask, moment, None) {
        hold(HoldReason::FailedPlans, by_agent, in_all)
    } else if exceeds_daily_limit(state, moment, ask.ask.usd(), None) {
        hold(HoldReason::UnattendedLimit, by_agent, in_all)
    } else if state.is_on_device(from) && is_full(by_agent, in_all) {
        // A person must press a button, so the request takes a place in the queue.
        Verdict::Refuse(Refusal::new(Code::TooManyPending))
    } else {
        Verdict::Act
    })
}

/// Returns the event and the effects of a request that the policy allows.
fn act_on_allowed(
    intake: &Intake<'_>,
    asked: Box<RequestDraft>,
    nonce: [u8; 32],
) -> Result<(Event, Vec<Effect>), Refusal> {
    let Intake { state, command, from, .. } = *intake;
    let moment = &command.moment;
    Ok(match &asked.ask {
        LaneAsk::Payment(_) if state.is_on_device(from) => {
            (Event::DeviceAwaited { draft: asked, until: Deadline::after(moment) }, Vec::new())
        }
        LaneAsk::Payment(payment) => {
            let terms = payments::terms(from, payment, moment, nonce)?;
            let effects = vec![Effect::Sign(asked.id)];
            (Event::PaymentAuthorized { draft: asked, terms }, effects)
        }
        // No effect is needed: the lane finds the running plans in the published view.
        LaneAsk::Trade(_) | LaneAsk::Loan(_) => {
            let until = plans::plan_deadline(moment);
            (Event::ExecutionStarted { draft: asked, until }, Vec::new())
        }
    })
}

/// Answers a repeat of an earlier request before anything is measured. For a new request, the reply is
/// [`Reply::Done`].
pub(super) fn recall(
    state: &State,
    command: &Command,
    recall: &Recall,
) -> Result<Decision, Refusal> {
    let agent = state.agents.get(&recall.agent).ok_or(Refusal::new(Code::AuthFailed))?;
    may_work(state, agent)?;
    require_unlocked(command)?;
    let found = answer_repeat(state, command, &recall.prior, &recall.identity, |_any| Ok(()))?;
    Ok(found.unwrap_or_else(|| Decision::done(Vec::new())))
}

/// Answers a repeat of an earlier request; `None` if the request is new.
///
/// `may_get` checks whether the agent may receive the answer of the earlier request.
fn answer_repeat(
    state: &State,
    command: &Command,
    prior: &Prior,
    identity: &Identity,
    may_get: impl Fn(&Request) -> Result<(), Refusal>,
) -> Result<Option<Decision>, Refusal> {
    // If the hold has expired but the expiry is not recorded yet, the repeat gets the expiry.
    if let Some(first) = &prior.newest
        && let Some(expiry) = expiry_if_due(first, &command.moment)
    {
        may_get(first)?;
        return Ok(Some(Decision::reply(vec![expiry], Reply::Request(first.id))));
    }
    let same = prior.newest.as_ref();
    // If the wait for a device has ended but its end is not recorded yet, the repeat gets that end too.
    if let Some(first) = same.and_then(|first| state.waiting.get(&first.id))
        && let Some(over) = prompts::wait_end_if_over(first, &command.moment)
    {
        may_get(first)?;
        return Ok(Some(Decision::reply(vec![over], Reply::Request(first.id))));
    }
    let is_open = same.is_some_and(|first| state.may_be_redeemed(&first.id, &command.moment));
    let decision = match repeat(prior, identity, &command.moment, is_open) {
        Repeat::New => return Ok(None),
        Repeat::Refuse(code) => return Err(Refusal::new(code)),
        Repeat::Same(first) => {
            may_get(&first)?;
            // A payment that was authorized before a crash but never signed is signed now, with the same terms.
            let unsigned = matches!(first.status, Status::Authorized { signature: None, .. });
            // The record alone is not an authorization: requests that `JournalAccepted` dropped stay unsigned.
            let still_authorized = state.authorized.contains_key(&first.id);
            let sign = unsigned && still_authorized && command.trusted;
            let effects = if sign { vec![Effect::Sign(first.id)] } else { Vec::new() };
            Decision { events: Vec::new(), effects, reply: Reply::Earlier(first) }
        }
        Repeat::Settled(first) => {
            may_get(&first)?;
            Decision::reply(Vec::new(), Reply::Settled(first))
        }
    };
    Ok(Some(decision))
}

/// Refuses a request over the agent's bounds.
///
/// The refusal is not recorded, because the bounds limit the number of records.
fn within_bounds(
    state: &State,
    agent: &Agent,
    command: &Command,
    ask: &Ask,
) -> Result<(), Refusal> {
    let (requests, padding) = agent.usage.counts_on(command.moment.utc.max(state.clock));
    let padding = padding.saturating_add(u64::from(ask.ask.padding()));
    if ask.bounds.requests_a_day_max.is_some_and(|most| requests >= most)
        || (padding > PADDING_BYTES_PER_DAY_MAX && ask.ask.padding() > 0)
    {
        return Err(Refusal::new(Code::TooManyToday));
    }
    match ask.bounds.open_payments_max {
        Some(most)
            if ask.ask.payment().is_some()
                && agent.open_payments >= most
                && count_redeemable(state, agent, command) >= most =>
        {
            Err(Refusal::new(Code::TooManyOpen))
        }
        Some(_) | None => Ok(()),
    }
}

/// Counts the agent's payments that can still be redeemed.
///
/// It subtracts lapsed payments, because they leave the state only with the next entry.
fn count_redeemable(state: &State, agent: &Agent, command: &Command) -> u32 {
    let now = command.moment.utc.max(state.clock).seconds();
    let now = u64::try_from(now).unwrap_or(0);
    let lapsed = state.lapses.iter().take_while(|(lapses_at, _id)| *lapses_at <= now);
    let own =
        lapsed.filter(|(_at, id)| state.authorized.get(id).is_some_and(|r| r.agent == agent.id));
    agent.open_payments.saturating_sub(u32::try_from(own.count()).unwrap_or(u32::MAX))
}

pub(super) fn approve(
    state: &State,
    command: &Command,
    approval: &Approval,
) -> Result<Decision, Refusal> {
    let request = held_request(state, approval.id)?;
    if let Some(expiry) = expiry_if_due(request, &command.moment) {
        return Ok(Decision::reply(vec![expiry], Reply::Refused(Code::RequestExpired.into())));
    }
    require_unlocked(command)?;
    may_be_approved(state)?;
    let card = cards::card(state, request, &command.moment).ok_or(Code::CardChanged)?;
    if card.digest != approval.card_digest {
        return Err(Refusal::new(Code::CardChanged));
    }
    let mut events = Vec::new();
    if let (LaneAsk::Loan(loan), Some(Quote::Loan(quote))) = (&request.ask, approval.quote.plan()) {
        check_current(state, request.from, loan, quote)?;
    }
    let verdict = match fresh_prices(request, approval)? {
        FreshPrices::Known(fresh) => {
            let (renewals, verdict) =
                fresh_verdict(state, &command.moment, command.trusted, request, fresh);
            events.extend(renewals);
            verdict
        }
        FreshPrices::Missing(refusal) => Err(refusal),
    };
    let reply = Reply::Request(request.id);
    if let Err(refusal) = verdict {
        events.push(Event::RequestRejected { id: request.id, refusal });
        return Ok(Decision::reply(events, reply));
    }
    let effects = match &request.ask {
        LaneAsk::Payment(payment) => {
            let asset = match &approval.quote {
                Requote::Asset(asset) if payment.foreign().is_some() => Some(asset.clone()),
                Requote::Asset(_) | Requote::Plan(_) | Requote::Nothing | Requote::Failed(_) => {
                    None
                }
            };
            let (id, by) = (request.id, approval.by);
            if let (true, Status::Held { deadline, .. }) =
                (state.is_on_device(request.from), &request.status)
            {
                // The device gets no extra time: its wait ends when the hold would have ended.
                let until = deadline.clone();
                events.push(Event::DeviceAwaitApproved { id, by, until, asset });
                Vec::new()
            } else {
                let moment = &command.moment;
                let terms = payments::terms(request.from, payment, moment, approval.nonce)?;
                events.push(Event::PaymentApproved { id, terms, by, asset });
                vec![Effect::Sign(id)]
            }
        }
        LaneAsk::Trade(_) | LaneAsk::Loan(_) => {
            events.push(steps::approval_event(state, command, request, approval)?);
            Vec::new()
        }
    };
    Ok(Decision { events, effects, reply })
}

pub(super) fn deny(
    state: &State,
    command: &Command,
    id: RequestId,
    reason: &Option<String>,
    by: Client,
) -> Result<Decision, Refusal> {
    let reason = reason.as_ref();
    if let Some(plan) = state.executing.get(&id).filter(|plan| state.is_at_device(plan)) {
        return plans::deny(state, command, plan, reason);
    }
    // A payment that waits for its device can also be denied.
    if !state.waiting.contains_key(&id) {
        let request = held_request(state, id)?;
        if let Some(expiry) = expiry_if_due(request, &command.moment) {
            return Ok(Decision::reply(vec![expiry], Reply::Refused(Code::RequestExpired.into())));
        }
    }
    let told_until = Deadline::after(&command.moment);
    let event =
        Event::RequestDenied { id, reason: reason.cloned(), by, repeatable_until: told_until };
    Ok(Decision::reply(vec![event], Reply::Request(id)))
}

pub(super) fn tick(state: &State, command: &Command) -> Decision {
    let moment = &command.moment;
    let mut events: Vec<Event> =
        state.held.values().filter_map(|request| expiry_if_due(request, moment)).collect();
    events.extend(prompts::ended_waits(state, moment));
    // No seal covers the entries of a locked wallet, so they must not spend or release value. A renewal that is due
    // takes place at the next unlock.
    if command.unlocked {
        events.extend(renewals(state, moment));
        events.extend(unattended_day_if_due(state, moment));
        events.extend(plans::stop_overdue(state, moment));
        events.extend(prompts::lapsed_events(state, moment));
        events.extend(mandates::overdue(state, moment));
        let now = u64::try_from(moment.utc.seconds()).unwrap_or(0);
        if events.is_empty() && state.burst_lapses_at().is_some_and(|at| at <= now) {
            events.push(Event::AuthorizationsLapsed);
        }
    }
    Decision::done(events)
}

/// Strips a refused request for storage.
fn strip_refused(ask: LaneAsk) -> LaneAsk {
    match ask {
        LaneAsk::Payment(payment) => LaneAsk::Payment(payments::strip_refused(payment)),
        // Trades and loans contain no text of unbounded length.
        plan @ (LaneAsk::Trade(_) | LaneAsk::Loan(_)) => plan,
    }
}

fn held_request(state: &State, id: RequestId) -> Result<&Arc<Request>, Refusal> {
    if let Some(request) = state.held.get(&id) {
        return Ok(request);
    }
    let decided = state.authorized.contains_key(&id)
        || state.executing.contains_key(&id)
        || state.waiting.contains_key(&id);
    Err(Refusal::new(if decided { Code::AlreadyDecided } else { Code::RequestNotFound }))
}
