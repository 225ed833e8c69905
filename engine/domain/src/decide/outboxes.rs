//! The operator's sends, and inputs for outboxes.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_submit::{
    Action as OutboxAction, ChainState, Input, OutboxKey, Refusal as OutboxRefusal,
};

use super::plans;
use crate::command::Command;
use crate::decision::{Decision, Effect, Reply, require_sealed};
use crate::event::Event;
use crate::outboxes::{self, Send, SendRecord};
use crate::prompts::WaitEnd;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;
use crate::unsealed_tail::may_happen_while_locked;

/// Opens a send whose card the operator has approved.
pub(super) fn send(state: &State, command: &Command, send: &Send) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    if !state.is_network_enabled(send.chain) {
        return Err(Refusal::new(Code::NetworkDisabled));
    }
    let wallet = state.wallet.as_ref().ok_or(Refusal::new(Code::NoWallet))?;
    let known = wallet.addresses.values().find(|known| known.address == send.from);
    known.ok_or_else(|| {
        let message = format!("The address {} no longer exists: see `address list`.", send.label);
        Refusal::because(Code::NothingFound, message)
    })?;
    check_revocation(state, send)?;
    check_withdrawal(state, send)?;
    if state.outboxes.sends.contains_key(&send.id) {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    let open = Input::Open {
        id: send.submission(),
        call: send.call.clone(),
        ceiling: send.gas_price_max,
        until: None,
    };
    let mut decision = apply_input(state, command, &send.key(), &open)?;
    decision.events.insert(0, Event::SendOrdered(Box::new(send.clone())));
    Ok(decision)
}

/// Refuses to revoke an allowance that a running plan of the address and network may use.
fn check_revocation(state: &State, send: &Send) -> Result<(), Refusal> {
    let Some(token) = send.revoked_token() else { return Ok(()) };
    let uses = |request: &Request| {
        request.from == send.from
            && request.ask.chain() == send.chain
            && request.ask.token_in() == Some(token)
    };
    if state.executing.values().any(|request| uses(request)) {
        let message = "A running plan uses this allowance: try again when the plan has ended.";
        return Err(Refusal::because(Code::Busy, message));
    }
    Ok(())
}

/// Refuses a second withdrawal by the operator from a position while the first is not in a block.
///
/// The second one was measured before the first one took its assets.
fn check_withdrawal(state: &State, send: &Send) -> Result<(), Refusal> {
    let Some(venue) = send.withdrawn_from() else { return Ok(()) };
    let is_same = |other: &Send| {
        (other.from, other.chain) == (send.from, send.chain)
            && other.withdrawn_from() == Some(venue)
    };
    let open = &state.outboxes.get(&send.key()).open;
    let is_waiting = |record: &&Arc<SendRecord>| {
        let one = open.get(&record.send.submission());
        record.ended.is_none()
            && !one.is_some_and(|one| matches!(one.chain_state, ChainState::Included(_)))
    };
    let mut waiting = state.outboxes.sends.values().filter(is_waiting);
    match waiting.find(|record| is_same(&record.send)) {
        Some(record) => {
            let id = record.send.id.short();
            let message = format!(
                "The withdrawal {id} from this venue is in no block yet: wait for it, or stop it with `address cancel {id}`."
            );
            Err(Refusal::because(Code::Busy, message))
        }
        None => Ok(()),
    }
}

/// Applies an input to an outbox.
pub(super) fn apply_input(
    state: &State,
    command: &Command,
    key: &OutboxKey,
    input: &Input,
) -> Result<Decision, Refusal> {
    let rules = outboxes::rules(key, state.is_on_device(key.signer))
        .ok_or(Refusal::new(Code::InternalError))?;
    if matches!(input, Input::Cancel { .. } | Input::Raise { .. }) {
        require_sealed(command)?;
    }
    let at = command.moment.utc;
    let outbox = state.outboxes.get(key);
    let open = command.unlocked && command.trusted;
    let stopped = if open { plans::stop_forbidden(state, command, key) } else { Vec::new() };
    let mut outbox = (*outbox).clone();
    for event in &stopped {
        if let Event::Outbox { event, .. } = event {
            bursar_submit::apply(&mut outbox, event);
        }
    }
    let step = bursar_submit::step(&outbox, &rules, at, input.clone())
        .map_err(|why| refusal(why, input))?;
    for event in &step.events {
        bursar_submit::apply(&mut outbox, event);
    }
    // A forbidden attempt is not signed, such as the empty transaction of a stopped agent.
    let may_follow = |action: &OutboxAction| match action {
        OutboxAction::Sign { id, .. } => !plans::is_forbidden(state, command, &outbox, *id),
        OutboxAction::Quote | OutboxAction::Send { .. } | OutboxAction::Lookup { .. } => true,
    };
    if !open && !step.events.iter().all(|event| may_happen_while_locked(state, key, event)) {
        // Nothing is recorded now: the next probe after an unlock repeats the input.
        return Ok(Decision::done(Vec::new()));
    }
    let is_refused = matches!(input, Input::Declined { .. });
    let why = if is_refused { WaitEnd::Refused } else { WaitEnd::TooLate };
    let unsigned = state.is_on_device(key.signer).then_some(why);
    let owned = with_plan_events(state, command, key, &stopped, unsigned, step.events);
    let events = stopped.into_iter().chain(owned).collect();
    Ok(Decision {
        events,
        effects: step
            .actions
            .into_iter()
            .filter(may_follow)
            .map(|action| Effect::Outbox(*key, action))
            .collect(),
        reply: Reply::Done,
    })
}

/// Adds the events of the plans that own the submissions to the events of their outbox.
///
/// The outcome of a submission and its consequence for the plan are then one commit. `stopped` are the events of the
/// same decision that stopped plans. `unsigned` is the reason why a device did not sign a dropped transaction.
fn with_plan_events(
    state: &State,
    command: &Command,
    key: &OutboxKey,
    stopped: &[Event],
    unsigned: Option<WaitEnd>,
    events: Vec<bursar_submit::Event>,
) -> Vec<Event> {
    let owned = events.into_iter().flat_map(|event| {
        let (before, after) = if let bursar_submit::Event::Finished { id, outcome } = &event {
            plans::step_finished(state, &command.moment, stopped, unsigned, (*id, *outcome))
        } else {
            (Vec::new(), Vec::new())
        };
        before.into_iter().chain([Event::Outbox { key: *key, event }]).chain(after)
    });
    owned.collect()
}

/// Returns the actions that an outbox needs after an engine start or an unlock.
pub(super) fn resume(state: &State, command: &Command, key: &OutboxKey) -> Decision {
    let Some(rules) = outboxes::rules(key, state.is_on_device(key.signer)) else {
        return Decision::done(Vec::new());
    };
    let may_sign = command.unlocked && command.trusted;
    let outbox = state.outboxes.get(key);
    let actions = bursar_submit::resume(&outbox, &rules, command.moment.utc);
    let due = actions.into_iter().filter(|action| match action {
        OutboxAction::Sign { id, .. } => {
            may_sign && !plans::is_forbidden(state, command, &outbox, *id)
        }
        OutboxAction::Quote | OutboxAction::Send { .. } | OutboxAction::Lookup { .. } => true,
    });
    Decision {
        events: Vec::new(),
        effects: due.map(|action| Effect::Outbox(*key, action)).collect(),
        reply: Reply::Done,
    }
}

fn refusal(refusal: OutboxRefusal, input: &Input) -> Refusal {
    let raises = matches!(input, Input::Raise { .. });
    match refusal {
        OutboxRefusal::Unknown | OutboxRefusal::TooLate if raises => Refusal::because(
            Code::AlreadyDecided,
            "This send has ended or is in a block already: see `address sends`.",
        ),
        OutboxRefusal::OtherCall => Refusal::new(Code::IdempotencyConflict),
        // `Expired` means that the time limit of a new call has already passed: the caller must measure again.
        OutboxRefusal::Full | OutboxRefusal::Expired => Refusal::new(Code::Busy),
        OutboxRefusal::Unknown => Refusal::because(
            Code::AlreadyDecided,
            "This send has ended and cannot be stopped: see `address sends`.",
        ),
        OutboxRefusal::TooLate => Refusal::because(
            Code::AlreadyDecided,
            "This send is in a block already and cannot be stopped: see `address sends`.",
        ),
        OutboxRefusal::NotRaised => Refusal::because(
            Code::BadInput,
            "This send cannot offer a higher gas price: it is not signed yet, or it offers the most that Bursar allows.",
        ),
        OutboxRefusal::WrongSignature => Refusal::because(
            Code::InternalError,
            "The signer returned a signature that does not match its address and the transaction.",
        ),
    }
}
