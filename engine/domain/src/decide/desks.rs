//! The operator's sends, and inputs for outboxes.

use bursar_core::codes::Code;
use bursar_submit::{Action as DeskAction, DeskKey, Input, Refusal as DeskRefusal};

use crate::command::Command;
use crate::decision::{Decision, Effect, Reply, needs_open_wallet};
use crate::desks::{self, Send};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::state::State;
use crate::tail::may_happen_locked;

/// Opens a send whose card the operator has approved.
pub(super) fn send(state: &State, command: &Command, send: &Send) -> Result<Decision, Refusal> {
    needs_open_wallet(command)?;
    if !command.trusted {
        return Err(Refusal::new(Code::JournalUntrusted));
    }
    if !state.network_enabled(send.chain) {
        return Err(Refusal::new(Code::NetworkDisabled));
    }
    let wallet = state.wallet.as_ref().ok_or(Refusal::new(Code::NoWallet))?;
    if !wallet.addresses.values().any(|known| known.address == send.from) {
        let message = format!("The address {} no longer exists: see `address list`.", send.label);
        return Err(Refusal::because(Code::NothingFound, message));
    }
    if state.desks.sends.contains_key(&send.id) {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    let open = Input::Open {
        id: send.submission(),
        call: send.call.clone(),
        ceiling: send.ceiling,
        until: None,
    };
    let mut decision = desk(state, command, &send.key(), &open)?;
    decision.events.insert(0, Event::SendOrdered(Box::new(send.clone())));
    Ok(decision)
}

/// Applies an input to an outbox.
pub(super) fn desk(
    state: &State,
    command: &Command,
    key: &DeskKey,
    input: &Input,
) -> Result<Decision, Refusal> {
    let rules = desks::rules(key).ok_or(Refusal::new(Code::InternalError))?;
    if matches!(input, Input::Cancel { .. }) {
        needs_open_wallet(command)?;
        if !command.trusted {
            return Err(Refusal::new(Code::JournalUntrusted));
        }
    }
    let at = command.moment.utc;
    let desk = state.desks.get(key);
    let step = bursar_submit::step(&desk, &rules, at, input.clone()).map_err(refusal)?;
    let open = command.unlocked && command.trusted;
    if !open && !step.events.iter().all(|event| may_happen_locked(state, key, event)) {
        // The next probe repeats it with an unlocked wallet.
        return Ok(Decision::done(Vec::new()));
    }
    let events = step.events.into_iter().map(|event| Event::Desk { key: *key, event });
    Ok(Decision {
        events: events.collect(),
        effects: step.actions.into_iter().map(|action| Effect::Desk(*key, action)).collect(),
        reply: Reply::Done,
    })
}

/// Returns the actions that an outbox needs after an engine start or an unlock.
pub(super) fn resume(state: &State, command: &Command, key: &DeskKey) -> Decision {
    let Some(rules) = desks::rules(key) else { return Decision::done(Vec::new()) };
    let may_sign = command.unlocked && command.trusted;
    let desk = state.desks.get(key);
    let actions = bursar_submit::resume(&desk, &rules, command.moment.utc);
    let due =
        actions.into_iter().filter(|action| may_sign || !matches!(action, DeskAction::Sign { .. }));
    Decision {
        events: Vec::new(),
        effects: due.map(|action| Effect::Desk(*key, action)).collect(),
        reply: Reply::Done,
    }
}

fn refusal(refusal: DeskRefusal) -> Refusal {
    match refusal {
        DeskRefusal::OtherCall => Refusal::new(Code::IdempotencyConflict),
        // Only submissions with a time limit expire, and the wallet's have none.
        DeskRefusal::Full | DeskRefusal::Expired => Refusal::new(Code::Busy),
        DeskRefusal::Unknown => Refusal::because(
            Code::AlreadyDecided,
            "This send has ended and cannot be stopped: see `address sends`.",
        ),
        DeskRefusal::TooLate => Refusal::because(
            Code::AlreadyDecided,
            "This send is in a block already and cannot be stopped: see `address sends`.",
        ),
        DeskRefusal::WrongSignature => Refusal::because(
            Code::InternalError,
            "The signer returned a signature that does not match its address and the transaction.",
        ),
    }
}
