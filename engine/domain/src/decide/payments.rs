//! Payments: request, approve, deny, expire, sign.

use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::hosts::{self, HostLists};
use bursar_core::ids::RequestId;
use bursar_core::limits::PADDING_A_DAY;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_core::time::Moment;
use bursar_x402::Echo;
use bursar_x402::authorization::{Authorization, validity};
use bursar_x402::signature::Signature65;

use crate::agents::Agent;
use crate::approval::{fresh_verdict, may_be_approved, may_work};
use crate::assess::payments::{PaymentContext, Verdict, assess, check_hosts, clock_is_off};
use crate::cards;
use crate::command::{Ask, Command};
use crate::decision::{Decision, Effect, Reply, require_unlocked};
use crate::due::{expiry, expiry_if_due, renewal_if_due, renewals};
use crate::event::{Event, RequestDraft};
use crate::idempotency::{Repeat, repeat};
use crate::refusal::Refusal;
use crate::requests::{Deadline, LaneAsk, PaymentAsk, Request, Status};
use crate::state::State;

pub(super) fn ask(state: &State, command: &Command, ask: &Ask) -> Result<Decision, Refusal> {
    let agent = state.agents.get(&ask.agent).ok_or(Refusal::new(Code::AuthFailed))?;
    let commission = may_work(state, agent)?;
    // The agent server checked this already, but the wallet may have been locked since.
    require_unlocked(command)?;
    let policy = state.policy_of(agent).ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    if let Some(decision) = answer_repeat(state, command, policy, ask)? {
        return Ok(decision);
    }
    within_bounds(state, agent, command, ask)?;
    let from = state
        .wallet
        .as_ref()
        .and_then(|wallet| wallet.address(&commission.label))
        .ok_or(Refusal::new(Code::AgentNotCommissioned))?
        .address;
    let (mut events, spent) = renewal_if_due(agent, commission, &command.moment);
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
    let LaneAsk::Payment(payment) = &ask.ask;
    let verdict = assess(&PaymentContext {
        ask: payment,
        from,
        policy,
        network_enabled: state.network_enabled(payment.chain),
        trusted: command.trusted,
        clock_off: clock_is_off(&command.moment),
        max_validity_s: state.settings.max_validity_s,
        spent: spent.payment,
        reserved: queue.reserved,
        held_by_agent: queue.by_agent,
        held_in_all: queue.in_all,
    });
    let reply = Reply::Request(ask.id);
    match verdict {
        Verdict::Act => {
            let terms = terms(from, payment, &command.moment, ask.nonce)?;
            events.push(Event::PaymentAuthorized { asked, terms });
            Ok(Decision { events, effects: vec![Effect::Sign(ask.id)], reply })
        }
        Verdict::Hold(reason) => {
            let deadline = Deadline::after(&command.moment);
            events.push(Event::RequestHeld { asked, reason, deadline });
            Ok(Decision::reply(events, reply))
        }
        Verdict::Refuse(refusal) => {
            if agent.refusals.are_too_many(command.moment.utc.max(state.clock)) {
                return Ok(Decision::reply(events, Reply::Refused(refusal)));
            }
            let asked = Box::new(RequestDraft { ask: strip_refused(asked.ask), ..*asked });
            events.push(Event::RequestRefused { asked, refusal });
            Ok(Decision::reply(events, reply))
        }
    }
}

/// Answers a repeat of an earlier request. `None` if the request is new.
fn answer_repeat(
    state: &State,
    command: &Command,
    policy: &Policy,
    ask: &Ask,
) -> Result<Option<Decision>, Refusal> {
    // The hold is over but its expiry is not recorded: the repeat gets the expiry, not the hold.
    if let Some(first) = &ask.prior.same
        && let Some(expiry) = expiry_if_due(first, &command.moment)
    {
        check_repeat_url(&policy.payments.hosts, ask, first)?;
        return Ok(Some(Decision::reply(vec![expiry], Reply::Request(first.id))));
    }
    let decision = match repeat(&ask.prior, &ask.identity, &command.moment) {
        Repeat::New => return Ok(None),
        Repeat::Refuse(code) => return Err(Refusal::new(code)),
        Repeat::Same(first) => {
            check_repeat_url(&policy.payments.hosts, ask, &first)?;
            // Authorized before a crash and never signed: the same terms are signed now.
            let unsigned = matches!(first.status, Status::Authorized { signature: None, .. });
            // The record alone is not an authorization: requests that `JournalAccepted` dropped stay unsigned.
            let still_authorized = state.authorized.contains_key(&first.id);
            let sign = unsigned && still_authorized && command.trusted;
            let effects = if sign { vec![Effect::Sign(first.id)] } else { Vec::new() };
            Decision { events: Vec::new(), effects, reply: Reply::Earlier(first) }
        }
        Repeat::Settled(first) => {
            check_repeat_url(&policy.payments.hosts, ask, &first)?;
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
    let (requests, padding) = agent.usage.on(command.moment.utc.max(state.clock));
    let padding = padding.saturating_add(u64::from(ask.ask.padding()));
    if ask.bounds.today.is_some_and(|most| requests >= most)
        || (padding > PADDING_A_DAY && ask.ask.padding() > 0)
    {
        return Err(Refusal::new(Code::TooManyToday));
    }
    match ask.bounds.open {
        Some(most) if agent.open >= most && still_open(state, agent, command) >= most => {
            Err(Refusal::new(Code::TooManyOpen))
        }
        Some(_) | None => Ok(()),
    }
}

/// Counts the agent's payments that can still be redeemed. Lapsed payments leave the state only with the next entry.
fn still_open(state: &State, agent: &Agent, command: &Command) -> u32 {
    let now = command.moment.utc.max(state.clock).seconds();
    let now = u64::try_from(now).unwrap_or(0);
    let lapsed = state.lapses.iter().take_while(|(lapses_at, _id)| *lapses_at <= now);
    let own =
        lapsed.filter(|(_at, id)| state.authorized.get(id).is_some_and(|r| r.agent == agent.id));
    agent.open.saturating_sub(u32::try_from(own.count()).unwrap_or(u32::MAX))
}

pub(super) fn approve(
    state: &State,
    command: &Command,
    id: RequestId,
    shown: &str,
    nonce: [u8; 32],
    by: Client,
) -> Result<Decision, Refusal> {
    let request = held_request(state, id)?;
    if let Some(expiry) = expiry_if_due(request, &command.moment) {
        return Ok(Decision::reply(vec![expiry], Reply::Refused(Code::RequestExpired.into())));
    }
    require_unlocked(command)?;
    may_be_approved(state, request)?;
    let card = cards::card(state, request, &command.moment).ok_or(Code::CardChanged)?;
    if card.digest != shown {
        return Err(Refusal::new(Code::CardChanged));
    }
    let mut events = Vec::new();
    let (renewals, verdict) = fresh_verdict(state, &command.moment, command.trusted, request);
    events.extend(renewals);
    match verdict {
        Ok(()) => {
            let LaneAsk::Payment(payment) = &request.ask;
            let terms = terms(request.from, payment, &command.moment, nonce)?;
            events.push(Event::PaymentApproved { id, terms, by });
            Ok(Decision { events, effects: vec![Effect::Sign(id)], reply: Reply::Request(id) })
        }
        Err(refusal) => {
            events.push(Event::RequestRejected { id, refusal });
            Ok(Decision::reply(events, Reply::Request(id)))
        }
    }
}

pub(super) fn deny(
    state: &State,
    command: &Command,
    id: RequestId,
    reason: Option<&String>,
    by: Client,
) -> Result<Decision, Refusal> {
    let request = held_request(state, id)?;
    if let Some(expiry) = expiry_if_due(request, &command.moment) {
        return Ok(Decision::reply(vec![expiry], Reply::Refused(Code::RequestExpired.into())));
    }
    let told_until = Deadline::after(&command.moment);
    let event = Event::RequestDenied { id, reason: reason.cloned(), by, told_until };
    Ok(Decision::reply(vec![event], Reply::Request(id)))
}

/// Records a signature once. A repeat, or a signature for a finished request, changes nothing.
pub(super) fn signed(state: &State, id: RequestId, signature: &Signature65) -> Decision {
    let unsigned = state.authorized.get(&id).is_some_and(|request| {
        matches!(request.status, Status::Authorized { signature: None, .. })
    });
    let event = Event::PaymentSigned { id, signature: *signature };
    Decision::done(if unsigned { vec![event] } else { Vec::new() })
}

pub(super) fn tick(state: &State, command: &Command) -> Decision {
    let moment = &command.moment;
    let mut events: Vec<Event> =
        state.held.values().filter_map(|request| expiry_if_due(request, moment)).collect();
    // A locked wallet cannot spend, and no seal covers its entries. An allowance that is due renews at the next
    // unlock.
    if command.unlocked {
        events.extend(renewals(state, moment));
    }
    Decision::done(events)
}

pub(super) fn reissue(state: &State, command: &Command) -> Decision {
    let works = |request: &Request| {
        state.agents.get(&request.agent).is_some_and(|agent| may_work(state, agent).is_ok())
    };
    let unsigned = state.authorized.values().filter(|request| {
        matches!(request.status, Status::Authorized { signature: None, .. })
            && request.is_redeemable(command.moment.utc)
            && works(request)
    });
    // The authorizations in an untrusted journal may be forged.
    let effects = if command.unlocked && command.trusted {
        unsigned.map(|request| Effect::Sign(request.id)).collect()
    } else {
        Vec::new()
    };
    Decision { events: Vec::new(), effects, reply: Reply::Done }
}

/// Strips a refused request for storage: keeps only URL origins, because their length is attacker-controlled.
///
/// The echo is dropped, because nothing will be sent back.
fn strip_refused(ask: LaneAsk) -> LaneAsk {
    let LaneAsk::Payment(ask) = ask;
    LaneAsk::Payment(PaymentAsk {
        echo: Echo::none(),
        request_url: ask.request_url.as_deref().and_then(origin),
        resource_url: ask.resource_url.as_deref().and_then(origin),
        other_urls: ask.other_urls.iter().filter_map(|url| origin(url)).collect(),
        ..ask
    })
}

fn origin(url: &str) -> Option<String> {
    let host = hosts::host_of(url).ok()?;
    let (scheme, rest) = url.split_once("://")?;
    let scheme = if scheme.eq_ignore_ascii_case("http") { "http" } else { "https" };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_host, port)| port);
    let port = port.filter(|port| port.parse::<u16>().is_ok() && port.len() <= 5);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{scheme}://{host}{port}"))
}

/// The queue at this moment. Expired holds reserve nothing, even before their expiry is recorded.
struct Queue {
    expired: Vec<RequestId>,
    /// Reserved by the agent's held requests.
    reserved: Usd,
    by_agent: usize,
    in_all: usize,
}

impl Queue {
    fn now(state: &State, agent: &Agent, moment: &Moment) -> Self {
        let mut queue =
            Self { expired: Vec::new(), reserved: agent.reserved.payment, by_agent: 0, in_all: 0 };
        for request in state.held.values() {
            let own = request.agent == agent.id;
            if expiry_if_due(request, moment).is_some() {
                queue.expired.push(request.id);
                if own {
                    queue.reserved = queue.reserved.left_after(request.ask.usd());
                }
            } else {
                queue.in_all = queue.in_all.saturating_add(1);
                queue.by_agent = queue.by_agent.saturating_add(usize::from(own));
            }
        }
        queue
    }
}

/// Applies the host lists to a repeat whose URL differs from the first.
///
/// A bearer identity does not include the URL, so a stored answer could otherwise bypass the lists.
fn check_repeat_url(hosts: &HostLists, ask: &Ask, first: &Request) -> Result<(), Refusal> {
    // A refused request keeps only the origins of its URLs, and its answer grants nothing.
    let refused = matches!(first.status, Status::Refused { .. });
    let (LaneAsk::Payment(asked), LaneAsk::Payment(answered)) = (&ask.ask, &first.ask);
    if refused || asked.request_url == answered.request_url {
        return Ok(());
    }
    check_hosts(hosts, asked.request_url.as_deref(), answered).map(|_passes_or_was_held| ())
}

fn held_request(state: &State, id: RequestId) -> Result<&Arc<Request>, Refusal> {
    if let Some(request) = state.held.get(&id) {
        return Ok(request);
    }
    let decided = state.authorized.contains_key(&id);
    Err(Refusal::new(if decided { Code::AlreadyDecided } else { Code::RequestNotFound }))
}

/// Returns the terms to sign: amount and payee of `ask`, paying address, validity.
///
/// The validity ends the requested number of seconds after `moment`, but at least 30.
fn terms(
    from: Address,
    ask: &PaymentAsk,
    moment: &Moment,
    nonce: [u8; 32],
) -> Result<Authorization, Refusal> {
    let now = u64::try_from(moment.utc.seconds()).map_err(|_before_1970| {
        Refusal::because(
            Code::InternalError,
            "This machine's clock is set before 1970: set the clock.",
        )
    })?;
    let validity = validity(ask.echo.version(), now, ask.valid_seconds)
        .map_err(|_too_far| Refusal::new(Code::InvalidX402Format))?;
    Ok(Authorization {
        from,
        to: ask.payee,
        value: ask.amount.0,
        valid_after: validity.after,
        valid_before: validity.before,
        nonce: nonce.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_keeps_only_url_origins() {
        for (url, kept) in [
            ("http://127.0.0.1:8402/large?x=1", Some("http://127.0.0.1:8402")),
            ("https://api.example/report", Some("https://api.example")),
            ("HTTPS://API.example:444", Some("https://api.example:444")),
            ("https://api.example?to=b:80", Some("https://api.example")),
            ("no url", None),
        ] {
            assert_eq!(origin(url).as_deref(), kept, "{url}");
        }
    }
}
